//! Swaps between versions whose watches differ, with real subscriptions to a model server.

use futures::FutureExt;
use parking_lot::Mutex;
use pilothouse_informer::{InformerKey, Priority};
use pilothouse_model::{FieldSelector, LabelSelector, Projection};
use pilothouse_plugin::{InstanceLimits, Reason};

use super::*;
use crate::cache::computed::ComputedIndexes;
use crate::cache::views::model_tests::model_server::{self, ModelServer, TestWatch, key};
use crate::cache::views::{View, Views, WatchCache};
use crate::load::version::{ResolvedTrigger, WatchSubscription};
use crate::runtime::key_mapper::KeyMapper;
use crate::runtime::predicate::Predicate;
use crate::runtime::queue::ReconcileKey;

fn plugin() -> PluginServices {
    let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
        Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
    });
    PluginServices::for_test("handed", kube::Client::new(service, "n"))
}

/// A version with one target watch of the model server's objects.
pub(crate) async fn version(plugin: &PluginServices, name: &str, watched: &TestWatch) -> Version {
    let pool = Version::test_pool(plugin, "done.wat", InstanceLimits::default()).await;
    let watch: Arc<str> = name.into();
    let mut views = Views::default();
    let view = watched.view(plugin.writes.for_resource(&model_server::resource()));
    views.by_name.insert(Arc::clone(&watch), Box::new(view));
    let key = InformerKey::new(model_server::resource()).with_labels(watched.selector.clone());
    let subscribed = WatchSubscription::new(key, None, Arc::clone(&watched.subscription));
    let trigger = ResolvedTrigger {
        predicate: Predicate::compile("").expect("none"),
        suspension: Mutex::default(),
        mapper: KeyMapper::Itself,
        target_watch: Arc::clone(&watch),
    };
    let mut version = Version::for_test(pool, Arc::new(views));
    version.routes.push(WatchRoute { watch, subscribed, trigger: Some(trigger), _delivery_hold: None });
    version
}

/// A target watch with an empty cache.
pub(crate) fn view(plugin: &PluginServices) -> View {
    View {
        resource: model_server::resource(),
        label_selector: LabelSelector::everything(),
        field_selector: FieldSelector::everything(),
        projection: Projection::Full,
        subscriptions: Vec::new(),
        cache: Arc::new(WatchCache {
            namespaces: Vec::new(),
            readers: Vec::new(),
            is_selective: false,
            only_name: String::new(),
        }),
        indexes: BTreeMap::new(),
        computed: ComputedIndexes::default(),
        _index_handles: Vec::new(),
        is_target: true,
        own_writes: plugin.writes.for_resource(&model_server::resource()),
    }
}

/// Takes everything from the queue: `watch key`, with the reasons.
fn queued(plugin: &PluginServices) -> Vec<(String, Vec<Reason>)> {
    let mut queued = Vec::new();
    while let Some(Some((item, reasons))) = plugin.queue.get().now_or_never() {
        queued.push((format!("{} {}", item.key().watch, item.key().key), reasons));
    }
    queued.sort_by(|left, right| left.0.cmp(&right.0));
    queued
}

#[tokio::test(start_paused = true)]
async fn a_deletion_in_the_backlog_of_a_dropped_subscription_is_queued() {
    let (plugin, mut server) = (plugin(), ModelServer::new(true));
    let (mut wide, mut narrow) = (TestWatch::open("").await, TestWatch::open("team=red").await);
    server.put(0, 0, 0);
    server.put(1, 0, 0);
    wide.deliver(&server, 2).await;
    let old = version(&plugin, "maps", &wide).await;
    assert_eq!(old.routes[0].subscribed.take_all().len(), 2, "both were dispatched");
    server.delete(1);
    wide.deliver(&server, 1).await;
    narrow.deliver(&server, 3).await;
    let new = version(&plugin, "maps", &narrow).await;
    hand_over(&[&old], &new, &plugin);
    assert_eq!(queued(&plugin), [("maps n/b".to_owned(), vec![Reason::Deleted])]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_the_new_selector_excludes_is_queued_as_deleted() {
    let (plugin, mut server) = (plugin(), ModelServer::new(true));
    let (mut wide, mut narrow) = (TestWatch::open("").await, TestWatch::open("team=red").await);
    server.put(0, 0, 0);
    server.put(1, 1, 0);
    wide.deliver(&server, 2).await;
    narrow.deliver(&server, 2).await;
    let old = version(&plugin, "maps", &wide).await;
    let _dispatched = old.routes[0].subscribed.take_all();
    let new = version(&plugin, "maps", &narrow).await;
    hand_over(&[&old], &new, &plugin);
    assert_eq!(
        queued(&plugin),
        [("maps n/b".to_owned(), vec![Reason::Deleted])],
        "the object is in team blue"
    );
}

#[tokio::test(start_paused = true)]
async fn a_deletion_right_after_the_swap_does_not_cancel_out_with_a_pending_addition() {
    let (plugin, mut server) = (plugin(), ModelServer::new(true));
    let (mut wide, mut narrow) = (TestWatch::open("").await, TestWatch::open("team=red").await);
    server.put(0, 0, 0);
    wide.deliver(&server, 1).await;
    narrow.deliver(&server, 1).await;
    let (old, new) = (version(&plugin, "maps", &wide).await, version(&plugin, "maps", &narrow).await);
    let _dispatched = old.routes[0].subscribed.take_all();
    hand_over(&[&old], &new, &plugin);
    server.delete(0);
    narrow.deliver(&server, 1).await;
    let (subscribed, views) = (&new.routes[0].subscribed, &new.views);
    let first = subscribed.next_batch(views, "maps").await.expect("open");
    assert!(matches!(&first[..], [Notification::Added { .. }]), "{first:?}");
    let second = subscribed.next_batch(views, "maps").await.expect("open");
    assert!(
        matches!(&second[..], [Notification::Deleted { last, .. }] if *last.key() == key(0)),
        "{second:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_both_versions_share_keeps_its_backlog() {
    let (plugin, mut server) = (plugin(), ModelServer::new(true));
    let mut watched = TestWatch::open("").await;
    server.put(0, 0, 0);
    watched.deliver(&server, 1).await;
    let old = version(&plugin, "before", &watched).await;
    let mut new = Version::for_test(old.pool.clone(), Arc::default());
    let WatchRoute { subscribed, .. } = &old.routes[0];
    new.routes.push(WatchRoute {
        watch: "after".into(),
        subscribed: subscribed.clone(),
        trigger: None,
        _delivery_hold: None,
    });
    hand_over(&[&old], &new, &plugin);
    assert_eq!(queued(&plugin), []);
    assert_eq!(subscribed.take_all().len(), 1, "the backlog is for the new version to dispatch");
}

#[tokio::test(start_paused = true)]
async fn keys_of_a_renamed_target_watch_are_reconciled_under_the_new_name() {
    let plugin = plugin();
    let watched = TestWatch::open("").await;
    let first = version(&plugin, "one", &watched).await;
    let mut views = Views::default();
    views.by_name.insert("two".into(), Box::new(view(&plugin)));
    let second = Version::for_test(first.pool.clone(), Arc::new(views));
    hand_over(&[&first], &second, &plugin);
    let mut views = Views::default();
    views.by_name.insert("three".into(), Box::new(view(&plugin)));
    let third = Version::for_test(first.pool.clone(), Arc::new(views));
    hand_over(&[&second], &third, &plugin);
    let three: Vec<Arc<str>> = vec!["three".into()];
    let renamed = third.renamed_watches.lock().clone();
    assert_eq!(renamed, RenamedWatches::from([("one".into(), three.clone()), ("two".into(), three)]));
    let last = Version::for_test(first.pool.clone(), Arc::default());
    hand_over(&[&third], &last, &plugin);
    assert_eq!(
        last.renamed_watches.lock().get("one"),
        Some(&Vec::new()),
        "no target watch of the resource is left"
    );
}

#[tokio::test(start_paused = true)]
async fn a_worker_requeues_a_key_under_the_new_name_of_its_watch() {
    let plugin = plugin();
    let watched = TestWatch::open("").await;
    let version = version(&plugin, "new", &watched).await;
    version.renamed_watches.lock().insert("old".into(), vec!["new".into()]);
    let item = ReconcileKey { watch: "old".into(), key: key(0) };
    plugin.queue.add(item.clone(), Reason::Deleted, Priority::Normal);
    let (held, reasons) = plugin.queue.get().await.expect("the key");
    super::super::worker::requeue_renamed(&plugin, held, reasons, &version);
    assert_eq!(queued(&plugin), [("new n/a".to_owned(), vec![Reason::Deleted])]);
    plugin.queue.add(ReconcileKey { watch: "gone".into(), ..item }, Reason::Deleted, Priority::Normal);
    let (held, reasons) = plugin.queue.get().await.expect("the key");
    super::super::worker::requeue_renamed(&plugin, held, reasons, &version);
    assert_eq!(queued(&plugin), []);
}

#[tokio::test(start_paused = true)]
async fn a_canary_that_ends_or_is_replaced_leaves_its_backlog_and_deletes_nothing() {
    let (plugin, mut server) = (plugin(), ModelServer::new(true));
    let (mut first, mut second) = (TestWatch::open("").await, TestWatch::open("").await);
    server.put(0, 0, 0);
    server.put(1, 0, 0);
    first.deliver(&server, 2).await;
    second.deliver(&server, 2).await;
    let stable = version(&plugin, "maps", &first).await;
    let canary = version(&plugin, "maps", &second).await;
    let _dispatched = (stable.routes[0].subscribed.take_all(), canary.routes[0].subscribed.take_all());
    server.delete(1);
    second.deliver(&server, 1).await;
    // The canary ends.
    hand_over(&[&stable, &canary], &stable, &plugin);
    let deleted = [("maps n/b".to_owned(), vec![Reason::Deleted])];
    assert_eq!(queued(&plugin), deleted, "only what the canary's subscription had not delivered yet");
    // A version that takes over the subscription of the first replaces both.
    first.deliver(&server, 1).await;
    let new = version(&plugin, "maps", &first).await;
    hand_over(&[&stable, &canary], &new, &plugin);
    assert_eq!(queued(&plugin), [], "the new version's subscription has the deletion in its backlog");
}

#[tokio::test(start_paused = true)]
async fn the_initial_objects_of_a_canary_are_taken_and_later_changes_stay() {
    let (plugin, mut server) = (plugin(), ModelServer::new(true));
    let mut watched = TestWatch::open("").await;
    let initial = Notification::Added { object: server.put(0, 0, 0), initial: true };
    let later = Notification::Added { object: server.put(1, 0, 0), initial: false };
    watched.deliver(&server, 2).await;
    let canary = version(&plugin, "maps", &watched).await;
    let subscribed = &canary.routes[0].subscribed;
    let _pending = subscribed.take_all();
    *subscribed.taken.lock() = Some(vec![initial, later]);
    let taken = subscribed.take_initial();
    assert!(
        matches!(&taken[..], [Notification::Added { object, initial: true }] if *object.key() == key(0)),
        "{taken:?}"
    );
    server.delete(0);
    watched.deliver(&server, 1).await;
    let changes = subscribed.take_all();
    assert!(
        matches!(
            &changes[..],
            [Notification::Added { object, initial: false }, Notification::Deleted { last, .. }]
                if (object.key(), last.key()) == (&key(1), &key(0))
        ),
        "{changes:?}"
    );
}
