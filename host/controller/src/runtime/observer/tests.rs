//! The observer's task with a real guest, in paused time.

use std::convert::Infallible;

use kube::client::Body;
use pilothouse_informer::{
    InformerKey, InformerOptions, InformerRegistry, KubeListWatches, SubscribeOptions,
};
use pilothouse_model::ResourceType;
use pilothouse_plugin::{Engine, EngineOptions, InstancePool, Limits};
use serde_json::{Value, json};
use tokio::sync::RwLock;
use tokio::task::JoinHandle;

use super::*;
use crate::config::descriptor::Descriptor;
use crate::guest_host::GuestHost;
use crate::load::version::Feed;
use crate::runtime::pinned::Pinned;

/// An API server with these ConfigMaps, each with a wish for `every.wat`, and no change ever.
fn server(wishes: &[(&str, &str)]) -> kube::Client {
    let item = |(name, wish): &(&str, &str)| json!({"metadata": {"name": name, "namespace": "n", "resourceVersion": "1"}, "data": {"wish": wish}});
    let items: Vec<Value> = wishes.iter().map(item).collect();
    let list = json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": items});
    let list = list.to_string();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let list = list.clone().into_bytes();
        async move {
            if is_watch {
                std::future::pending::<()>().await;
            }
            Ok::<_, Infallible>(http::Response::new(Body::from(list)))
        }
    });
    kube::Client::new(service, "default")
}

struct Stage {
    guest: GuestServices,
    gate: Gate,
    version: Arc<Version>,
    memory: Memory,
}

async fn stage(wishes: &[(&str, &str)]) -> Stage {
    stage_with(wishes, Setting::default()).await
}

/// What is not as usual.
#[derive(Default)]
struct Setting {
    /// There is a second feed, whose informer has ended.
    ended: bool,
    stateful: bool,
    feed: SubscribeOptions,
}

async fn stage_with(wishes: &[(&str, &str)], setting: Setting) -> Stage {
    let Setting { ended, stateful, feed } = setting;
    let client = server(wishes);
    let guest = GuestServices::for_test("watcher", client.clone());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin/tests/guests/every.wat");
    let engine = Engine::new(EngineOptions::default()).expect("an engine");
    let code = engine.load(wat::parse_file(path).expect("a guest")).await.expect("a plugin");
    let host = Arc::new(GuestHost::for_describe(guest.clone(), "{}".into()));
    let pool = InstancePool::new(code, host, Limits::default());
    let options = InformerOptions { streaming_list: false, ..InformerOptions::default() };
    let others = InformerRegistry::new(KubeListWatches::new(client.clone()), options.clone());
    let informers = InformerRegistry::new(KubeListWatches::new(client), options);
    let maps = ResourceType {
        group: String::new(),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        plural: "configmaps".into(),
        namespaced: true,
    };
    let subscribe = |options| informers.subscribe(InformerKey::new(maps.clone()), options);
    // As a version's view does, this one sees to it that the feed is told of all at once.
    let first = subscribe(SubscribeOptions::default()).expect("open");
    while !first.status().synced {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let descriptor = json!({
        "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "stateful": stateful,
        "watches": [{"name": "maps", "apiVersion": "v1", "kind": "ConfigMap", "notify": true}]
    });
    let mut feeds = vec![Feed { watch: "maps".into(), subscription: subscribe(feed).expect("open") }];
    if ended {
        let other = others.subscribe(InformerKey::new(maps.clone()), SubscribeOptions::default());
        feeds.insert(0, Feed { watch: "gone".into(), subscription: other.expect("open") });
        others.stop().await;
    }
    let version = Version {
        descriptor: Descriptor::parse(&descriptor.to_string()).expect("a descriptor"),
        pinned: Pinned::new(pool.clone(), true),
        feeds,
        ..Version::for_test(pool, Arc::default())
    };
    let version = Arc::new(version);
    Stage {
        guest,
        gate: Arc::new(RwLock::new(Some(Arc::clone(&version)))),
        version,
        memory: Memory::default(),
    }
}

impl Stage {
    fn start(&self) -> JoinHandle<()> {
        tokio::spawn(observe(
            Arc::clone(&self.gate),
            Arc::clone(&self.version),
            self.guest.clone(),
            self.memory.clone(),
        ))
    }

    /// What the guest itself said.
    fn told(&self) -> Vec<String> {
        let lines = self.guest.log.all().after(0, None).into_iter();
        lines.filter(|line| line.level == "info").map(|line| line.message).collect()
    }

    async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(600);
        while !is_so(self) {
            assert!(Instant::now() < deadline, "waited in vain for {what}: {:#?}", self.told());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn b38_a_batch_is_tried_five_times_then_each_event_and_the_breaking_one_is_parked() {
    let stage = stage(&[("bad", "trap"), ("good", "fine")]).await;
    let task = stage.start();
    stage.until("the good one", |stage| stage.told().contains(&"initial good".to_owned())).await;
    let mut expected = vec!["initial bad"; 10];
    expected.push("initial good");
    assert_eq!(stage.told(), expected, "the batch five times, its first event five times, the other one");
    let metrics = &stage.guest.metrics;
    assert_eq!((metrics.parked.get(), metrics.observe_errors.get()), (1, 10));
    stage.until("its count", |stage| stage.guest.metrics.observed.get() == 1).await;
    assert!(!task.is_finished());
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_keeps_trapping_backs_off_and_recovers() {
    let stage = stage(&[("bad", "trap"), ("good", "fine")]).await;
    let task = stage.start();
    let backs_off = |stage: &Stage| stage.version.health.backing_off().is_some();
    stage.until("it to back off", backs_off).await;
    assert_eq!(stage.told(), ["initial bad"; 5], "as many as a plugin may fail in a row");
    let waits = stage.version.health.backing_off().expect("it backs off");
    assert!(waits.until > Instant::now() && waits.to_string().contains("unreachable"), "{waits}");
    assert!(stage.version.health.enter().is_none(), "no worker is let in either");
    stage.until("the good one", |stage| stage.told().contains(&"initial good".to_owned())).await;
    stage.until("its recovery", |stage| !backs_off(stage)).await;
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_does_not_end_the_others() {
    let stage = stage_with(&[("good", "fine")], Setting { ended: true, ..Setting::default() }).await;
    let task = stage.start();
    let complained = |stage: &Stage| {
        stage
            .guest
            .log
            .all()
            .after(0, None)
            .iter()
            .any(|line| line.message.contains("its informer has ended"))
    };
    stage.until("the complaint", complained).await;
    stage.until("the other watch", |stage| stage.told() == ["initial good"]).await;
    stage.version.pinned.caught_up().wait_for(|caught_up| *caught_up).await.expect("it is there");
    assert!(!task.is_finished());
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_told_while_the_gate_is_closed_and_nothing_by_a_version_that_was_swapped_out() {
    let stage = stage(&[("good", "fine")]).await;
    let mut closed = Arc::clone(&stage.gate).write_owned().await;
    let task = stage.start();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(stage.told(), Vec::<String>::new());
    closed.take();
    drop(closed);
    task.await.expect("it ends by itself");
    assert_eq!(stage.told(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_has_not_been_told_of_everything_does_not_reconcile() {
    let stage = stage(&[("good", "fine")]).await;
    let request = pilothouse_plugin::Request {
        watch: "maps".into(),
        key: pilothouse_model::ObjectKey::new("n", "good"),
        reasons: Vec::new(),
        attempt: 0,
        extra: Vec::new(),
    };
    let request = Arc::new(request);
    assert!(stage.version.pinned.reconcile(&request).await.is_none());
    let mut caught_up = stage.version.pinned.caught_up();
    let task = stage.start();
    caught_up.wait_for(|caught_up| *caught_up).await.expect("the version is there");
    assert_eq!(stage.told(), ["initial good"]);
    // This guest's host has no cache behind it, so the reconcile that is let through traps: the instance is lost.
    assert!(stage.version.pinned.reconcile(&request).await.is_some_and(|outcome| outcome.is_err()));
    caught_up.wait_for(|caught_up| *caught_up).await.expect("the version is there");
    assert_eq!(stage.told(), ["initial good", "initial good"], "the next instance is told, too");
    task.abort();
}

/// Five minutes of nothing, then every object is told again.
fn calm(stateful: bool) -> Setting {
    let feed = SubscribeOptions { resync: Some(Duration::from_secs(300)), ..SubscribeOptions::default() };
    Setting { stateful, feed, ..Setting::default() }
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_observes_nothing_goes_and_the_next_is_told_everything() {
    let stage = stage_with(&[("good", "fine")], calm(false)).await;
    let task = stage.start();
    let mut caught_up = stage.version.pinned.caught_up();
    caught_up.wait_for(|caught_up| *caught_up).await.expect("the version is there");
    let started = Instant::now();
    caught_up.wait_for(|caught_up| !*caught_up).await.expect("the version is there");
    assert!(started.elapsed() < Duration::from_secs(200), "it went long before the next change");
    stage.until("the resync", |stage| stage.told().len() > 2).await;
    assert_eq!(stage.told()[..3], ["initial good", "initial good", "resync good"]);
    assert_eq!(stage.guest.metrics.observe_errors.get(), 0);
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_was_told_of_nothing_has_no_instance_unless_it_is_stateful() {
    for stateful in [false, true] {
        let stage = stage_with(&[], Setting { stateful, ..Setting::default() }).await;
        let task = stage.start();
        sleep(Duration::from_secs(30)).await;
        // An instance that is there has caught up with nothing.
        assert_eq!(*stage.version.pinned.caught_up().borrow(), stateful);
        task.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn the_instance_of_a_stateful_plugin_stays() {
    let stage = stage_with(&[("good", "fine")], calm(true)).await;
    let task = stage.start();
    stage.until("the resync", |stage| stage.told().len() > 1).await;
    assert_eq!(stage.told()[..2], ["initial good", "resync good"]);
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_told_while_a_right_is_missing() {
    let stage = stage(&[("good", "fine")]).await;
    let permission = &stage.version.views.permission;
    permission.set_operator(Some("not now".to_owned()));
    let task = stage.start();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(stage.told(), Vec::<String>::new());
    permission.set_operator(None);
    stage.until("what there is", |stage| stage.told() == ["initial good"]).await;
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn the_next_version_is_told_of_the_end_of_objects_that_only_the_one_before_was_told_of() {
    let before = stage(&[("good", "fine"), ("other", "fine")]).await;
    let task = before.start();
    before.until("both objects", |stage| stage.guest.metrics.observed.get() == 2).await;
    task.abort();
    assert!(task.await.is_err());
    // The object was deleted while nobody observed.
    let mut after = stage(&[("good", "fine")]).await;
    after.memory = before.memory.clone();
    let task = after.start();
    after.until("the end of the other", |stage| stage.guest.metrics.observed.get() == 2).await;
    assert_eq!(after.told(), ["initial good", "deleted other"]);
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_is_started_again_goes_on_with_what_it_was_told() {
    let stage = stage(&[("good", "fine")]).await;
    let task = stage.start();
    stage.until("the object", |stage| stage.guest.metrics.observed.get() == 1).await;
    task.abort();
    assert!(task.await.is_err());
    let task = stage.start();
    stage.version.pinned.caught_up().wait_for(|caught_up| *caught_up).await.expect("it is there");
    stage.until("the object once more", |stage| stage.guest.metrics.observed.get() == 2).await;
    assert_eq!(stage.told(), ["initial good", "initial good"]);
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_is_started_again_and_loses_nothing() {
    let stage = stage(&[("good", "fine"), ("other", "fine")]).await;
    stage.guest.panics.arm("observer", 3);
    let (guest, memory) = (stage.guest.clone(), stage.memory.clone());
    let (gate, version) = (Arc::clone(&stage.gate), Arc::clone(&stage.version));
    let task = tokio::spawn(async move {
        let observe = || -> futures::future::BoxFuture<'static, ()> {
            Box::pin(observe(Arc::clone(&gate), Arc::clone(&version), guest.clone(), memory.clone()))
        };
        guest.restart("observer", observe).await;
    });
    stage.until("both objects", |stage| stage.guest.metrics.observed.get() == 2).await;
    assert_eq!(stage.told(), ["initial good", "initial other"]);
    assert_eq!(stage.guest.metrics.task_panics.get(), 3);
    task.abort();
}
