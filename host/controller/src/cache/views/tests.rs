//! What the views do with own writes, apart from reads, which `model_tests` checks.

use std::sync::Weak;
use std::sync::atomic::{AtomicUsize, Ordering};

use pilothouse_informer::{
    InformerKey, InformerOptions, InformerRegistry, KubeListWatches, SubscribeOptions, Subscription,
};
use pilothouse_model::{LabelSelector, Object};
use pilothouse_plugin::{CacheFilter, IndexCursor, IndexPage};
use serde_json::json;

use super::model_tests::model_server::{ModelServer, TestWatch, key, resource};
use super::*;
use crate::cache::own_writes::{CacheState, CacheStateReader, OwnWrite};

/// A cache that has caught up with everything, and counts how often its state is read.
#[derive(Default)]
struct CountingCache {
    reads: AtomicUsize,
}

impl CountingCache {
    fn take_count(&self) -> usize {
        self.reads.swap(0, Ordering::SeqCst)
    }
}

impl CacheStateReader for CountingCache {
    fn state(&self, _: &ObjectKey) -> Option<CacheState> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        Some(CacheState { object: None, version: u32::MAX.to_string(), listed_after: None })
    }

    fn is_selective(&self) -> bool {
        false
    }
}

fn written(name: usize, version: usize) -> Object {
    Object::from_json(format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"namespace":"n","name":"w{name}","uid":"u{name}","resourceVersion":"{version}"}}}}"#
    ))
    .expect("an object")
}

async fn one_watch() -> (TestWatch, Arc<Views>) {
    let mut views = Views::default();
    let watch = TestWatch::open("").await;
    let view = watch.view(views.writes.for_resource(&resource()));
    views.by_name.insert("maps".into(), Box::new(view));
    (watch, Arc::new(views))
}

#[tokio::test]
async fn a_watch_of_one_object_has_no_state_of_another() {
    let (_watch, views) = one_watch().await;
    let all = &views.by_name["maps"].cache;
    let one = WatchCache {
        namespaces: Vec::new(),
        readers: all.readers.clone(),
        is_selective: true,
        only_name: "b".to_owned(),
    };
    assert!(all.state(&key(1)).is_some() && all.state(&key(2)).is_some());
    assert!(one.state(&key(1)).is_some());
    assert!(one.state(&key(2)).is_none(), "no write to it is looked up");
}

#[tokio::test(start_paused = true)]
async fn a_batch_costs_its_own_size_however_many_own_writes_are_outstanding() {
    let mut costs = Vec::new();
    for outstanding in [10, 1000] {
        let (_watch, views) = one_watch().await;
        let view = &views.by_name["maps"];
        let counting = Arc::<CountingCache>::default();
        let weak: Weak<CountingCache> = Arc::downgrade(&counting);
        view.own_writes.add_cache(weak);
        for name in 0..outstanding {
            // The watch's own cache is at version 1, behind all writes.
            let object = written(name, 100 + name);
            view.own_writes.record(&object.key().clone(), OwnWrite::Object(object));
        }
        // An object of somebody else, and three that were written, one of them twice.
        let batch: Vec<_> = [outstanding + 7, 1, 2, 3, 3]
            .iter()
            .map(|name| Notification::Added { object: written(*name, 100 + name), initial: false })
            .collect();
        counting.take_count();
        views.confirm_own_writes("maps", &batch);
        costs.push(counting.take_count());
        assert_eq!(view.own_writes.entries(|_| true).len(), outstanding, "the watch's cache is still behind");
    }
    assert!(costs[0] <= 4, "{costs:?} reads for a batch with four states of own writes");
    assert_eq!(costs[0], costs[1], "the cost must not depend on writes outside of the batch");
}

#[tokio::test(start_paused = true)]
async fn pruning_removes_an_object_that_no_notification_mentions() {
    let (mut watch, views) = one_watch().await;
    let mut server = ModelServer::new(true);
    let mine = server.put(0, 0, 0);
    views.record(&WriteOutcome::Object(resource(), mine.clone()), "").await;
    let view = &views.by_name["maps"];
    view.computed.set(&mine, vec![vec!["0".to_owned()]]).expect("room");
    // Somebody else deletes the object before the watch delivers it, so there is no notification.
    server.delete(0);
    watch.deliver(&server, 2).await;
    let other = Notification::Added { object: server.put(1, 0, 0), initial: false };
    views.confirm_own_writes("maps", &[other]);
    assert_eq!(view.all_index_keys("computed", "0").expect("an index"), [], "no read sees it");
    assert_eq!((view.object(&key(0)).is_none(), view.computed.indexed_keys().len()), (true, 1));
    views.prune_own_writes();
    assert!(view.own_writes.is_empty() && view.computed.indexed_keys().is_empty(), "it is still stored");
}

#[tokio::test(start_paused = true)]
async fn only_the_cached_object_itself_counts_as_cached() {
    let (mut watch, views) = one_watch().await;
    let mut server = ModelServer::new(true);
    let written = server.put(0, 0, 0);
    watch.deliver(&server, 1).await;
    let first = views.by_name["maps"].object(&key(0)).expect("it is cached");
    assert!(views.has_cached(&first) && first == written);
    assert!(!views.has_cached(&written), "the server's answer is another allocation");
    server.put(0, 1, 0);
    watch.deliver(&server, 1).await;
    let second = views.by_name["maps"].object(&key(0)).expect("it is cached");
    assert!(views.has_cached(&second) && !views.has_cached(&first), "the first is outdated");
    server.delete(0);
    watch.deliver(&server, 1).await;
    assert!(!views.has_cached(&second));
}

/// Searches `a`, `b` and `c` in parts of one object, and writes `b` after the first part. `b` has the value 1 throughout, the others have 0.
async fn search_during_a_write<T>(
    has_own_write: bool,
    part: impl Fn(&View, &IndexCursor) -> Result<IndexPage<T>, Misuse>,
) -> Vec<T> {
    let (mut watch, views) = one_watch().await;
    let mut server = ModelServer::new(true);
    (0..3).for_each(|name| drop(server.put(name, 0, u8::from(name == 1))));
    watch.deliver(&server, 3).await;
    if has_own_write {
        views.record(&WriteOutcome::Object(resource(), server.put(0, 0, 0)), "").await;
    }
    let view = &views.by_name["maps"];
    let IndexPage { mut found, mut next } = part(view, &IndexCursor::default()).expect("an index");
    views.record(&WriteOutcome::Object(resource(), server.put(1, 0, 1)), "").await;
    while let Some(cursor) = next {
        let part = part(view, &cursor).expect("an index");
        found.extend(part.found);
        next = part.next;
    }
    found
}

#[tokio::test(start_paused = true)]
async fn a_write_between_two_parts_of_a_search_hides_no_object() {
    for has_own_write in [false, true] {
        let found =
            search_during_a_write(has_own_write, |view, from| view.index_keys("team", "red", from, 1)).await;
        assert_eq!(found, [key(0), key(1), key(2)], "keys, each once");
        let found =
            search_during_a_write(has_own_write, |view, from| view.by_index("team", "red", from, 1)).await;
        let found: Vec<_> = found.iter().map(|object| object.key().clone()).collect();
        assert_eq!(found, [key(0), key(1), key(2)], "objects, each once");
        let found =
            search_during_a_write(has_own_write, |view, from| view.index_values("value", from, 1)).await;
        assert!(found.contains(&"0".to_owned()) && found.contains(&"1".to_owned()), "values: {found:?}");
    }
}

/// Returns the cache of a watch of these namespaces, each of which has two ConfigMaps.
async fn cache_of_namespaces(namespaces: &[&str]) -> (WatchCache, Vec<Subscription>) {
    let api = pilothouse_apiserver::ApiServer::builder().build();
    let client = kube::Client::new(api.service(), "default");
    let server = crate::client::ApiClient::new(client.clone());
    let put = async |path: &str, manifest: serde_json::Value| {
        let payload = crate::client::Payload::json(manifest.to_string());
        server.request(http::Method::POST, path, Some(payload)).await.expect("created");
    };
    for namespace in std::collections::BTreeSet::from_iter(namespaces) {
        let manifest = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        put("/api/v1/namespaces", manifest).await;
        for name in ["a", "b"] {
            let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
            put(&format!("/api/v1/namespaces/{namespace}/configmaps"), manifest).await;
        }
    }
    let informers = InformerRegistry::new(KubeListWatches::new(client), InformerOptions::default());
    let subscribe = |namespace: &&str| {
        let key = InformerKey::new(resource()).in_namespace(*namespace);
        informers.subscribe(key, SubscribeOptions::default()).expect("the registry is open")
    };
    let subscriptions: Vec<_> = namespaces.iter().map(subscribe).collect();
    for subscription in &subscriptions {
        while !subscription.status().synced {
            tokio::task::yield_now().await;
        }
    }
    let cache = WatchCache {
        namespaces: namespaces.iter().map(ToString::to_string).collect(),
        readers: subscriptions.iter().map(Subscription::store).collect(),
        is_selective: false,
        only_name: String::new(),
    };
    (cache, subscriptions)
}

#[tokio::test]
async fn a_page_of_several_namespaces_looks_at_a_bounded_number_of_objects() {
    let (cache, _subscriptions) = cache_of_namespaces(&["m", "b", "m", "z"]).await;
    let all = ["b/a", "b/b", "m/a", "m/b", "z/a", "z/b"];
    for step in 1..8 {
        let mut filter =
            CacheFilter { namespace: None, labels: LabelSelector::everything(), after: None, limit: None };
        let mut found = Vec::new();
        loop {
            let (objects, searched_to) = cache.page(&filter, usize::MAX, step);
            assert!(objects.len() <= step, "in steps of {step}");
            found.extend(objects.iter().map(|object| object.key().to_string()));
            let Some(searched_to) = searched_to else { break };
            assert!(filter.after.as_ref() < Some(&searched_to), "each page makes progress");
            filter.after = Some(searched_to);
        }
        // Each once, although the watch names a namespace twice.
        assert_eq!(found, all, "in steps of {step}");
    }
}
