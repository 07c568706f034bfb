//! The overlay over caches whose state a test sets.

use pilothouse_model::Object;

use super::*;
use crate::cache::views::model_tests::model_server;

/// A cache whose state a test sets.
#[derive(Default)]
struct FakeCache {
    state: Mutex<Option<CacheState>>,
    is_selective: bool,
}

impl CacheStateReader for FakeCache {
    fn state(&self, _: &ObjectKey) -> Option<CacheState> {
        self.state.lock().clone()
    }

    fn is_selective(&self) -> bool {
        self.is_selective
    }
}

impl FakeCache {
    fn new(object: Option<&Object>, version: &str) -> Arc<Self> {
        let cache = Arc::new(Self::default());
        cache.set(object, version);
        cache
    }

    fn set(&self, object: Option<&Object>, version: &str) {
        let state = CacheState { object: object.cloned(), version: version.into(), listed_after: None };
        *self.state.lock() = Some(state);
    }
}

fn key() -> ObjectKey {
    ObjectKey::cluster("p")
}

fn object(uid: &str, version: &str) -> Object {
    Object::from_json(format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p","uid":"{uid}","resourceVersion":"{version}"}}}}"#
    ))
    .expect("an object")
}

fn deleted(uid: &str) -> OwnWrite {
    OwnWrite::Deleted { uid: uid.into(), uid_before: String::new() }
}

fn overlay(cache: &Arc<FakeCache>) -> OwnWrites {
    let writes = OwnWrites::default();
    let cache: Weak<FakeCache> = Arc::downgrade(cache);
    writes.add_cache(cache);
    writes
}

/// Reads the object and returns its resource version, then prunes the overlay.
fn read(writes: &OwnWrites, cache: &FakeCache) -> Option<String> {
    let state = cache.state(&key()).expect("covered");
    let object = match writes.get(&key()) {
        Some(entry) => match entry.read(state) {
            ReadResult::Cached(object) => object,
            ReadResult::Written(object) => Some(object),
        },
        None => state.object,
    };
    writes.prune();
    object.map(|object| object.resource_version().to_owned())
}

#[tokio::test]
async fn a_write_is_read_until_the_cache_has_caught_up() {
    let cache = FakeCache::new(Some(&object("u", "9")), "9");
    let writes = overlay(&cache);
    writes.record(&key(), OwnWrite::Object(object("u", "10")));
    assert_eq!(read(&writes, &cache).as_deref(), Some("10"));
    assert!(!writes.is_empty());
    cache.set(Some(&object("u", "10")), "10");
    assert_eq!(read(&writes, &cache).as_deref(), Some("10"));
    assert!(writes.is_empty());
}

#[tokio::test]
async fn a_cache_before_its_first_list_is_behind_every_write() {
    let cache = FakeCache::new(None, "");
    let writes = overlay(&cache);
    writes.record(&key(), OwnWrite::Object(object("u", "10")));
    assert_eq!(read(&writes, &cache).as_deref(), Some("10"));
    assert!(!writes.is_empty());
}

#[tokio::test]
async fn an_entry_is_kept_until_every_cache_has_caught_up_or_was_dropped() {
    let (fast, slow) = (FakeCache::new(None, "9"), FakeCache::new(None, "9"));
    let writes = overlay(&fast);
    let weak: Weak<FakeCache> = Arc::downgrade(&slow);
    writes.add_cache(weak);
    writes.record(&key(), OwnWrite::Object(object("u", "10")));
    fast.set(Some(&object("u", "10")), "10");
    assert_eq!(read(&writes, &fast).as_deref(), Some("10"));
    assert_eq!(read(&writes, &slow).as_deref(), Some("10"), "this cache is still behind");
    drop(slow);
    writes.prune();
    assert!(writes.is_empty());
}

#[tokio::test]
async fn a_write_that_the_watch_has_delivered_before_the_answer_leaves_no_entry() {
    let cache = FakeCache::new(Some(&object("u", "12")), "12");
    let writes = overlay(&cache);
    writes.record(&key(), OwnWrite::Object(object("u", "10")));
    assert!(writes.is_empty());
}

#[tokio::test]
async fn a_later_cached_state_is_read_even_if_the_cache_version_is_behind() {
    let cache = FakeCache::new(Some(&object("u", "11")), "9");
    let writes = overlay(&cache);
    writes.record(&key(), OwnWrite::Object(object("u", "10")));
    assert_eq!(read(&writes, &cache).as_deref(), Some("11"));
}

#[tokio::test]
async fn a_deletion_hides_its_uid_and_earlier_objects_but_not_later_ones() {
    let cache = FakeCache::new(Some(&object("u", "9")), "9");
    let writes = overlay(&cache);
    writes.record(&key(), deleted("u"));
    assert_eq!(read(&writes, &cache), None);
    cache.set(Some(&object("older", "8")), "8");
    assert_eq!(read(&writes, &cache), None);
    cache.set(Some(&object("v", "11")), "11");
    assert_eq!(read(&writes, &cache).as_deref(), Some("11"));
    assert!(writes.is_empty());
}

#[tokio::test]
async fn an_object_that_was_created_and_deleted_before_the_watch_delivered_it_is_never_read() {
    let cache = FakeCache::new(None, "9");
    let writes = overlay(&cache);
    writes.record(&key(), OwnWrite::Object(object("u", "10")));
    writes.record(&key(), deleted("u"));
    assert_eq!(read(&writes, &cache), None);
    cache.set(Some(&object("u", "10")), "10");
    assert_eq!(read(&writes, &cache), None, "the creation is delivered, the deletion is not");
    cache.set(None, "11");
    assert_eq!(read(&writes, &cache), None);
    assert!(writes.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_watch_with_selectors_remembers_a_deletion_for_the_retention_time() {
    let cache = Arc::new(FakeCache { is_selective: true, ..FakeCache::default() });
    cache.set(Some(&object("u", "5")), "5");
    let writes = overlay(&cache);
    writes.record(&key(), deleted("u"));
    cache.set(None, "6");
    assert_eq!(read(&writes, &cache), None, "the object has left the watch");
    cache.set(Some(&object("u", "7")), "7");
    assert_eq!(read(&writes, &cache), None, "the object has entered the watch again before its deletion");
    tokio::time::advance(RETENTION * 2).await;
    writes.prune();
    assert!(!writes.is_empty(), "the cache still shows it");
    cache.set(None, "8");
    writes.prune();
    assert!(writes.is_empty());
}

#[tokio::test]
async fn answers_in_any_order_lead_to_the_same_state() {
    let cache = FakeCache::new(None, "5");
    let writes = overlay(&cache);
    writes.record(&key(), OwnWrite::Object(object("u", "10")));
    writes.record(&key(), OwnWrite::Object(object("u", "8")));
    assert_eq!(read(&writes, &cache).as_deref(), Some("10"));
    writes.record(&key(), deleted("u"));
    writes.record(&key(), OwnWrite::Object(object("u", "11")));
    assert_eq!(read(&writes, &cache), None, "the object stays deleted");
    writes.record(&key(), OwnWrite::Object(object("v", "13")));
    cache.set(Some(&object("u", "11")), "11");
    writes.record(&key(), deleted("u"));
    assert_eq!(read(&writes, &cache).as_deref(), Some("13"), "the deletion was that of the earlier object");
}

#[tokio::test(start_paused = true)]
async fn without_an_order_of_versions_a_write_is_kept_until_it_is_delivered_deleted_or_listed() {
    let (old, new) = (object("u", "a"), object("u", "b"));
    let updated = Notification::Updated { old: new.clone(), new: object("u", "c") };
    let deleted = Notification::Deleted { last: object("u", "d"), final_state_unknown: false };
    for notification in [updated, deleted] {
        let cache = FakeCache::new(Some(&old), "a");
        let writes = overlay(&cache);
        writes.record(&key(), OwnWrite::Object(new.clone()));
        assert_eq!(read(&writes, &cache).as_deref(), Some("b"));
        writes.confirm(&*cache, &[notification]);
        writes.prune();
        assert!(writes.is_empty());
    }
    let cache = FakeCache::new(Some(&old), "a");
    let writes = overlay(&cache);
    writes.record(&key(), OwnWrite::Object(new));
    let begun = Instant::now() + Duration::from_secs(1);
    *cache.state.lock() = Some(CacheState { object: None, version: "z".into(), listed_after: Some(begun) });
    assert_eq!(read(&writes, &cache), None, "a list that began after the write does not have it");
    assert!(writes.is_empty());
}

#[tokio::test(start_paused = true)]
async fn writes_are_forgotten_when_the_servers_resource_versions_start_again() {
    for write in [OwnWrite::Object(object("u", "100")), deleted("u")] {
        let cache = FakeCache::new(Some(&object("u", "99")), "99");
        let writes = overlay(&cache);
        writes.record(&key(), write);
        let listed_after = Some(Instant::now() - Duration::from_secs(1));
        *cache.state.lock() =
            Some(CacheState { object: Some(object("v", "3")), version: "4".into(), listed_after });
        assert_eq!(read(&writes, &cache).as_deref(), Some("3"));
        assert!(writes.is_empty());
    }
}

#[tokio::test]
async fn writes_are_charged_until_they_are_forgotten() {
    let memory = HostMemory::default();
    let cache = FakeCache::new(Some(&object("u", "9")), "9");
    let writes = OwnWrites::new(memory.clone());
    let weak: Weak<FakeCache> = Arc::downgrade(&cache);
    writes.add_cache(weak);
    writes.record(&key(), OwnWrite::Object(object("u", "10")));
    let one = memory.used_by(HostMemoryKind::OwnWrites);
    assert!(one > object("u", "10").memory_size());
    writes.record(&key(), OwnWrite::Object(object("u", "11")));
    assert_eq!(memory.used(), one, "the later write replaces the earlier one");
    writes.record(&key(), deleted("u"));
    assert!(memory.used() > 0 && memory.used() < one);
    writes.record(&key(), OwnWrite::Object(object("v", "12")));
    cache.set(Some(&object("v", "12")), "12");
    writes.prune();
    assert_eq!((memory.used(), writes.is_empty()), (0, true));
    writes.record(&key(), OwnWrite::Object(object("v", "13")));
    assert!(memory.used() > 0);
    drop(writes);
    assert_eq!(memory.used(), 0);
}

#[test]
fn the_writes_of_a_canary_use_its_views_and_after_its_end_those_of_the_other_version() {
    let writes = PluginWrites::default();
    let canary = writes.for_canary();
    let [of_stable, of_canary] = [0; 2].map(|_| Arc::new(Views::default()));
    assert!(canary.views().is_none());
    writes.set_views(&of_stable);
    canary.set_views(&of_canary);
    let is_views = |found: Option<Arc<Views>>, expected: &Arc<Views>| {
        found.is_some_and(|found| Arc::ptr_eq(&found, expected))
    };
    assert!(is_views(writes.views(), &of_stable) && is_views(canary.views(), &of_canary));
    drop(of_canary);
    assert!(is_views(canary.views(), &of_stable));
    let resource = model_server::resource();
    assert!(Arc::ptr_eq(&writes.for_resource(&resource), &canary.for_resource(&resource)), "one overlay");
}
