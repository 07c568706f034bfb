use pilothouse_model::Object;

use super::*;

/// A cache that is what a test says.
#[derive(Default)]
struct Told {
    look: Mutex<Option<Look>>,
    is_selective: bool,
}

impl Cache for Told {
    fn look(&self, _: &ObjectKey) -> Option<Look> {
        self.look.lock().clone()
    }

    fn is_selective(&self) -> bool {
        self.is_selective
    }
}

impl Told {
    fn new(object: Option<&Object>, seen: &str) -> Arc<Self> {
        let told = Arc::new(Self::default());
        told.tell(object, seen);
        told
    }

    fn tell(&self, object: Option<&Object>, seen: &str) {
        *self.look.lock() = Some(Look { object: object.cloned(), seen: seen.into(), listed_after: None });
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
    OwnWrite::Deleted { uid: uid.into(), before: String::new() }
}

fn overlay(cache: &Arc<Told>) -> OwnWrites {
    let writes = OwnWrites::default();
    let cache: Weak<Told> = Arc::downgrade(cache);
    writes.serve(cache);
    writes
}

/// What a read sees: the version, after what is past was forgotten.
fn seen(writes: &OwnWrites, cache: &Told) -> Option<String> {
    let look = cache.look(&key()).expect("covered");
    let seen = match writes.get(&key()) {
        Some(entry) => match entry.seen(look) {
            Seen::Cached(object) => object,
            Seen::Written(object) => Some(object),
        },
        None => look.object,
    };
    writes.prune();
    seen.map(|object| object.resource_version().to_owned())
}

#[tokio::test]
async fn a_write_is_seen_until_the_cache_has_caught_up() {
    let cache = Told::new(Some(&object("u", "9")), "9");
    let writes = overlay(&cache);
    writes.record(&key(), OwnWrite::Object(object("u", "10")));
    assert_eq!(seen(&writes, &cache).as_deref(), Some("10"));
    assert!(!writes.is_empty());
    cache.tell(Some(&object("u", "10")), "10");
    assert_eq!(seen(&writes, &cache).as_deref(), Some("10"));
    assert!(writes.is_empty());
}

#[tokio::test]
async fn a_cache_that_has_seen_nothing_yet_is_behind_every_write() {
    let cache = Told::new(None, "");
    let writes = overlay(&cache);
    writes.record(&key(), OwnWrite::Object(object("u", "10")));
    assert_eq!(seen(&writes, &cache).as_deref(), Some("10"));
    assert!(!writes.is_empty());
}

#[tokio::test]
async fn an_entry_stays_until_every_cache_is_past_it_and_dropped_ones_do_not_count() {
    let (fast, slow) = (Told::new(None, "9"), Told::new(None, "9"));
    let writes = overlay(&fast);
    let weak: Weak<Told> = Arc::downgrade(&slow);
    writes.serve(weak);
    writes.record(&key(), OwnWrite::Object(object("u", "10")));
    fast.tell(Some(&object("u", "10")), "10");
    assert_eq!(seen(&writes, &fast).as_deref(), Some("10"));
    assert_eq!(seen(&writes, &slow).as_deref(), Some("10"), "this cache is still behind");
    drop(slow);
    writes.prune();
    assert!(writes.is_empty());
}

#[tokio::test]
async fn a_watch_that_is_faster_than_the_answer_leaves_nothing_behind() {
    let cache = Told::new(Some(&object("u", "12")), "12");
    let writes = overlay(&cache);
    writes.record(&key(), OwnWrite::Object(object("u", "10")));
    assert!(writes.is_empty());
}

#[tokio::test]
async fn a_later_state_in_the_cache_beats_the_write_before_its_version_is_told() {
    let cache = Told::new(Some(&object("u", "11")), "9");
    let writes = overlay(&cache);
    writes.record(&key(), OwnWrite::Object(object("u", "10")));
    assert_eq!(seen(&writes, &cache).as_deref(), Some("11"));
}

#[tokio::test]
async fn a_delete_hides_its_uid_and_what_came_before_but_not_what_comes_after() {
    let cache = Told::new(Some(&object("u", "9")), "9");
    let writes = overlay(&cache);
    writes.record(&key(), deleted("u"));
    assert_eq!(seen(&writes, &cache), None);
    cache.tell(Some(&object("older", "8")), "8");
    assert_eq!(seen(&writes, &cache), None);
    cache.tell(Some(&object("v", "11")), "11");
    assert_eq!(seen(&writes, &cache).as_deref(), Some("11"));
    assert!(writes.is_empty());
}

#[tokio::test]
async fn an_object_that_was_made_and_deleted_before_the_watch_told_of_it_never_shows() {
    let cache = Told::new(None, "9");
    let writes = overlay(&cache);
    writes.record(&key(), OwnWrite::Object(object("u", "10")));
    writes.record(&key(), deleted("u"));
    assert_eq!(seen(&writes, &cache), None);
    cache.tell(Some(&object("u", "10")), "10");
    assert_eq!(seen(&writes, &cache), None, "its beginning has come, its end has not");
    cache.tell(None, "11");
    assert_eq!(seen(&writes, &cache), None);
    assert!(writes.is_empty());
}

#[tokio::test(start_paused = true)]
async fn where_objects_come_and_go_by_selectors_a_deletion_is_remembered_for_a_while() {
    let cache = Arc::new(Told { is_selective: true, ..Told::default() });
    cache.tell(Some(&object("u", "5")), "5");
    let writes = overlay(&cache);
    writes.record(&key(), deleted("u"));
    cache.tell(None, "6");
    assert_eq!(seen(&writes, &cache), None, "it has left the watch");
    cache.tell(Some(&object("u", "7")), "7");
    assert_eq!(seen(&writes, &cache), None, "and come again, before its end");
    tokio::time::advance(FORGET * 2).await;
    writes.prune();
    assert!(!writes.is_empty(), "the cache still shows it");
    cache.tell(None, "8");
    writes.prune();
    assert!(writes.is_empty());
}

#[tokio::test]
async fn answers_that_come_in_another_order_end_in_the_same_state() {
    let cache = Told::new(None, "5");
    let writes = overlay(&cache);
    writes.record(&key(), OwnWrite::Object(object("u", "10")));
    writes.record(&key(), OwnWrite::Object(object("u", "8")));
    assert_eq!(seen(&writes, &cache).as_deref(), Some("10"));
    writes.record(&key(), deleted("u"));
    writes.record(&key(), OwnWrite::Object(object("u", "11")));
    assert_eq!(seen(&writes, &cache), None, "it is gone all the same");
    writes.record(&key(), OwnWrite::Object(object("v", "13")));
    cache.tell(Some(&object("u", "11")), "11");
    writes.record(&key(), deleted("u"));
    assert_eq!(seen(&writes, &cache).as_deref(), Some("13"), "the deletion was of the one before");
}

#[tokio::test(start_paused = true)]
async fn versions_without_an_order_wait_for_that_very_version_the_end_of_the_uid_or_a_list() {
    let (old, new) = (object("u", "a"), object("u", "b"));
    let updated = Notification::Updated { old: new.clone(), new: object("u", "c") };
    let ended = Notification::Deleted { last: object("u", "d"), final_state_unknown: false };
    for told in [updated, ended] {
        let cache = Told::new(Some(&old), "a");
        let writes = overlay(&cache);
        writes.record(&key(), OwnWrite::Object(new.clone()));
        assert_eq!(seen(&writes, &cache).as_deref(), Some("b"));
        writes.hear(&*cache, &[told]);
        writes.prune();
        assert!(writes.is_empty());
    }
    let cache = Told::new(Some(&old), "a");
    let writes = overlay(&cache);
    writes.record(&key(), OwnWrite::Object(new));
    let begun = Instant::now() + Duration::from_secs(1);
    *cache.look.lock() = Some(Look { object: None, seen: "z".into(), listed_after: Some(begun) });
    assert_eq!(seen(&writes, &cache), None, "a list that began after the write does not have it");
    assert!(writes.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_versions_begin_again_takes_the_writes_to_the_old_one_away() {
    for write in [OwnWrite::Object(object("u", "100")), deleted("u")] {
        let cache = Told::new(Some(&object("u", "99")), "99");
        let writes = overlay(&cache);
        writes.record(&key(), write);
        let listed_after = Some(Instant::now() - Duration::from_secs(1));
        *cache.look.lock() = Some(Look { object: Some(object("v", "3")), seen: "4".into(), listed_after });
        assert_eq!(seen(&writes, &cache).as_deref(), Some("3"));
        assert!(writes.is_empty());
    }
}

#[tokio::test]
async fn writes_are_charged_until_they_are_forgotten() {
    let memory = HostMemory::default();
    let cache = Told::new(Some(&object("u", "9")), "9");
    let writes = OwnWrites::new(memory.clone());
    let told: Weak<Told> = Arc::downgrade(&cache);
    writes.serve(told);
    writes.record(&key(), OwnWrite::Object(object("u", "10")));
    let one = memory.used_by(HostMemoryKind::OwnWrites);
    assert!(one > object("u", "10").memory_size());
    writes.record(&key(), OwnWrite::Object(object("u", "11")));
    assert_eq!(memory.used(), one, "the later write is in the place of the earlier");
    writes.record(&key(), deleted("u"));
    assert!(memory.used() > 0 && memory.used() < one);
    writes.record(&key(), OwnWrite::Object(object("v", "12")));
    cache.tell(Some(&object("v", "12")), "12");
    writes.prune();
    assert_eq!((memory.used(), writes.is_empty()), (0, true));
    writes.record(&key(), OwnWrite::Object(object("v", "13")));
    assert!(memory.used() > 0);
    drop(writes);
    assert_eq!(memory.used(), 0);
}
