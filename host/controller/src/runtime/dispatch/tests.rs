use std::cell::RefCell;

use futures::FutureExt;
use pilothouse_model::Object;
use pilothouse_plugin::Reason;

use super::*;
use crate::cache::views::model_tests::model_server::{ModelServer, TestWatch};
use crate::runtime::handover::tests::version;
use crate::runtime::key_mapper::KeyMapper;

#[tokio::test(start_paused = true)]
async fn a_panic_at_one_notification_loses_no_key() {
    let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
        Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
    });
    let plugin = PluginServices::for_test("dispatched", kube::Client::new(service, "n"));
    let (mut server, mut watched) = (ModelServer::new(true), TestWatch::open("").await);
    (0..3).for_each(|name| drop(server.put(name, 0, 0)));
    watched.deliver(&server, 3).await;
    let version = version(&plugin, "maps", &watched).await;
    let mut batch = RemainingBatch::new(0, version.routes[0].subscribed.take_all());
    plugin.panics.arm("dispatch", 1);
    let route = &version.routes[0];
    assert!(queue_all(&version, route, &mut batch, &plugin, &|| false), "all are queued");
    assert_eq!((plugin.queue.snapshot().depth, plugin.metrics.task_panics.get()), (3, 1));
    let status = plugin.panics.status_text().expect("a problem in the status");
    assert!(status.contains("a defect in the dispatch"), "{status}");
}

#[tokio::test(start_paused = true)]
async fn an_initial_list_queues_the_targets_of_a_namespace_once() {
    let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
        Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
    });
    let plugin = PluginServices::for_test("namespaced", kube::Client::new(service, "n"));
    let (mut server, mut watched) = (ModelServer::new(true), TestWatch::open("").await);
    let objects: Vec<_> = (0..3).map(|name| server.put(name, 0, 0)).collect();
    watched.deliver(&server, 3).await;
    let mut version = version(&plugin, "maps", &watched).await;
    assert!(!needs_slices(&version.routes[0]), "a change of an object triggers one key");
    let trigger = version.routes[0].trigger.as_mut().expect("a trigger");
    trigger.mapper = KeyMapper::Index { index: "team".to_owned() };
    assert!(needs_slices(&version.routes[0]));
    let trigger = version.routes[0].trigger.as_mut().expect("a trigger");
    trigger.mapper = KeyMapper::Namespace;
    assert!(needs_slices(&version.routes[0]));
    for (initial, expected) in [(true, [3_usize, 0, 0]), (false, [3, 3, 3])] {
        // The numbers of keys that each notification has queued.
        let queued = RefCell::new(Vec::new());
        let take_all = || {
            let next = || plugin.queue.get().now_or_never().flatten().map(|(held, _)| held.done());
            queued.borrow_mut().push(std::iter::from_fn(next).count());
            false
        };
        let added = |object| Notification::Added { object, initial };
        let mut batch = RemainingBatch::new(0, objects.iter().cloned().map(added).collect());
        assert!(queue_all(&version, &version.routes[0], &mut batch, &plugin, &take_all));
        assert_eq!(queued.into_inner(), expected, "initial: {initial}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_at_one_initial_object_leaves_the_keys_of_its_namespace_to_the_others() {
    let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
        Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
    });
    let plugin = PluginServices::for_test("restarted", kube::Client::new(service, "n"));
    let (mut server, mut watched) = (ModelServer::new(true), TestWatch::open("").await);
    let objects: Vec<_> = (0..3).map(|name| server.put(name, 0, 0)).collect();
    watched.deliver(&server, 3).await;
    let mut version = version(&plugin, "maps", &watched).await;
    version.routes[0].trigger.as_mut().expect("a trigger").mapper = KeyMapper::Namespace;
    plugin.panics.arm("dispatch", 1);
    let added = |object| Notification::Added { object, initial: true };
    let mut batch = RemainingBatch::new(0, objects.into_iter().map(added).collect());
    assert!(queue_all(&version, &version.routes[0], &mut batch, &plugin, &|| false));
    assert_eq!((plugin.queue.snapshot().depth, plugin.metrics.task_panics.get()), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn the_keys_of_one_change_are_queued_in_parts_that_end_with_the_time_slice() {
    let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
        Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
    });
    let plugin = PluginServices::for_test("named", kube::Client::new(service, "n"));
    let watched = TestWatch::open("").await;
    let mut version = version(&plugin, "maps", &watched).await;
    version.routes[0].trigger.as_mut().expect("a trigger").mapper =
        KeyMapper::field("{.spec.refs[*]}", None, true).expect("a path");
    let route = &version.routes[0];
    assert!(needs_slices(route));
    let names: Vec<String> = (0..1_200).map(|number| format!(r#""n-{number}""#)).collect();
    let text = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p","namespace":"n"}},"spec":{{"refs":[{}]}}}}"#,
        names.join(",")
    );
    let object = Object::from_json(text).expect("an object");
    let added = || Notification::Added { object: object.clone(), initial: false };
    let mut batch = RemainingBatch::new(0, vec![added(), added()]);
    let mut depths = Vec::new();
    while !queue_all(&version, route, &mut batch, &plugin, &|| true) {
        depths.push(plugin.queue.snapshot().depth);
    }
    assert_eq!(depths, [512, 1024, 1200, 1200, 1200, 1200], "each slice queues a part");
}

#[tokio::test(start_paused = true)]
async fn a_predicate_over_its_cost_limit_is_suspended_and_admits_every_change() {
    let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
        Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
    });
    let plugin = PluginServices::for_test("costly", kube::Client::new(service, "n"));
    let watched = TestWatch::open("").await;
    let mut version = version(&plugin, "maps", &watched).await;
    let all: String = (0..9).map(|level| format!("[0,1,2,3,4,5,6,7,8,9].all(v{level}, ")).collect();
    let costly = format!("event == 'created' || !({all}true{})", ")".repeat(9));
    version.routes[0].trigger.as_mut().expect("a trigger").predicate =
        crate::runtime::predicate::Predicate::compile(&costly).expect("a predicate");
    let route = &version.routes[0];
    let mut server = ModelServer::new(true);
    let mut changes = |count: usize| {
        for name in 0..count {
            let object = server.put(name % 3, 0, 0);
            let notification = Notification::Added { object, initial: false };
            queue(&version, route, &notification, Instant::now(), &plugin);
        }
        plugin.metrics.predicate_errors.get()
    };
    assert_eq!(changes(5), 5);
    assert_eq!(changes(100), 5, "it is not evaluated");
    assert_eq!(plugin.queue.snapshot().depth, 3, "all are admitted");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(changes(100), 6, "once, to see whether it still costs too much");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(changes(1), 6, "the suspension doubles");
}

#[tokio::test(start_paused = true)]
async fn requeue_named_queues_the_chosen_keys_without_an_object() {
    let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
        Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
    });
    let plugin = PluginServices::for_test("named", kube::Client::new(service, "n"));
    let (mut server, mut watched) = (ModelServer::new(true), TestWatch::open("").await);
    // Their labels are "red", "blue" and none.
    (0..3).for_each(|number| drop(server.put(number, number, 0)));
    watched.deliver(&server, 3).await;
    let mut version = version(&plugin, "maps", &watched).await;
    let _dispatched = version.routes[0].subscribed.take_all();
    requeue_named(&version, &plugin, |_| true);
    assert_eq!(plugin.queue.snapshot().depth, 0, "the objects themselves are not named");
    let trigger = version.routes[0].trigger.as_mut().expect("a trigger");
    trigger.mapper = KeyMapper::Label { key: "team".to_owned(), namespaced: true };
    requeue_named(&version, &plugin, |key| key.name() != "blue");
    let (held, reasons) = plugin.queue.get().now_or_never().flatten().expect("a key");
    assert_eq!((held.key().key.as_str(), &reasons[..]), ("n/red", &[Reason::Startup][..]));
    assert_eq!(plugin.queue.snapshot().depth, 0);
}
