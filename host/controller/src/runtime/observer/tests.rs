//! The observer's task with a real guest, in paused time.

use std::convert::Infallible;

use kube::client::Body;
use pilothouse_informer::{
    InformerKey, InformerOptions, InformerRegistry, KubeListWatches, SubscribeOptions,
};
use pilothouse_model::ResourceType;
use pilothouse_plugin::{Engine, EngineOptions, InstanceLimits, InstancePool};
use serde_json::{Value, json};
use tokio::sync::RwLock;
use tokio::task::JoinHandle;

use super::*;
use crate::config::descriptor::Descriptor;
use crate::guest_host::GuestHost;
use crate::load::version::ObserverSubscription;
use crate::runtime::dedicated_instance::DedicatedInstance;

/// An API server with these ConfigMaps, which never change. Each contains an instruction (`wish`) for the guest `every.wat`.
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

struct Fixture {
    plugin: PluginServices,
    running: SharedVersions,
    version: Arc<Version>,
    history: DeliveryHistory,
}

async fn fixture(wishes: &[(&str, &str)]) -> Fixture {
    fixture_with(wishes, FixtureOptions::default()).await
}

#[derive(Default)]
struct FixtureOptions {
    /// Whether there is a second subscription, whose informer has ended.
    ended: bool,
    stateful: bool,
    feed: SubscribeOptions,
}

async fn fixture_with(wishes: &[(&str, &str)], options: FixtureOptions) -> Fixture {
    let FixtureOptions { ended, stateful, feed } = options;
    let client = server(wishes);
    let plugin = PluginServices::for_test("watcher", client.clone());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin/tests/guests/every.wat");
    let engine = Engine::new(EngineOptions::default()).expect("an engine");
    let code = engine.load(wat::parse_file(path).expect("a guest")).await.expect("a plugin");
    let host = Arc::new(GuestHost::for_describe(plugin.clone(), "{}".into()));
    let pool = InstancePool::new(code, host, InstanceLimits::default());
    let options = InformerOptions::default().with_streaming_list(false);
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
    // The cache is synced before the subscription is added, as in production, so that the subscription receives all objects in one batch.
    let first = subscribe(SubscribeOptions::default()).expect("open");
    while !first.status().synced {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let descriptor = json!({
        "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "stateful": stateful,
        "watches": [{"name": "maps", "apiVersion": "v1", "kind": "ConfigMap", "notify": true}]
    });
    let mut observer_subscriptions =
        vec![ObserverSubscription { watch: "maps".into(), subscription: subscribe(feed).expect("open") }];
    if ended {
        let other = others.subscribe(InformerKey::new(maps.clone()), SubscribeOptions::default());
        observer_subscriptions
            .insert(0, ObserverSubscription { watch: "gone".into(), subscription: other.expect("open") });
        others.stop().await;
    }
    let version = Version {
        descriptor: Descriptor::parse(&descriptor.to_string()).expect("a descriptor"),
        dedicated_instance: DedicatedInstance::new(pool.clone(), true),
        observer_subscriptions,
        ..Version::for_test(pool, Arc::default())
    };
    let version = Arc::new(version);
    Fixture {
        plugin,
        running: Arc::new(RwLock::new(Arc::clone(&version).into())),
        version,
        history: DeliveryHistory::default(),
    }
}

impl Fixture {
    fn start(&self) -> JoinHandle<()> {
        tokio::spawn(observe(
            Arc::clone(&self.running),
            Arc::clone(&self.version),
            self.plugin.clone(),
            self.history.clone(),
        ))
    }

    /// The guest's own log lines, one per notification that it received.
    fn received(&self) -> Vec<String> {
        let lines = self.plugin.log.all().after(0, None).into_iter();
        lines.filter(|line| line.level == "info").map(|line| line.message).collect()
    }

    async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(600);
        while !condition(self) {
            assert!(Instant::now() < deadline, "waited in vain for {what}: {:#?}", self.received());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_fails_five_times_is_split_and_the_failing_notification_is_parked() {
    let fixture = fixture(&[("bad", "trap"), ("good", "fine")]).await;
    let task = fixture.start();
    fixture.until("the good one", |fixture| fixture.received().contains(&"initial good".to_owned())).await;
    let mut expected = vec!["initial bad"; 10];
    expected.push("initial good");
    assert_eq!(
        fixture.received(),
        expected,
        "the batch five times, its first event five times, the other one"
    );
    let metrics = &fixture.plugin.metrics;
    assert_eq!((metrics.parked.get(), metrics.observe_errors.get()), (1, 10));
    fixture.until("its count", |fixture| fixture.plugin.metrics.observed.get() == 1).await;
    assert!(!task.is_finished());
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_keeps_trapping_backs_off_and_recovers() {
    let fixture = fixture(&[("bad", "trap"), ("good", "fine")]).await;
    let task = fixture.start();
    let backs_off = |fixture: &Fixture| fixture.version.health.backing_off().is_some();
    fixture.until("it to back off", backs_off).await;
    assert_eq!(
        fixture.received(),
        ["initial bad"; 5],
        "the number of faults in a row before a plugin backs off"
    );
    let waits = fixture.version.health.backing_off().expect("it backs off");
    assert!(waits.until > Instant::now() && waits.to_string().contains("unreachable"), "{waits}");
    assert!(fixture.version.health.try_acquire().is_none(), "no worker may call a guest either");
    fixture.until("the good one", |fixture| fixture.received().contains(&"initial good".to_owned())).await;
    fixture.until("its recovery", |fixture| !backs_off(fixture)).await;
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_does_not_end_the_others() {
    let fixture =
        fixture_with(&[("good", "fine")], FixtureOptions { ended: true, ..FixtureOptions::default() }).await;
    let task = fixture.start();
    let is_reported = |fixture: &Fixture| {
        fixture
            .plugin
            .log
            .all()
            .after(0, None)
            .iter()
            .any(|line| line.message.contains("its informer has ended"))
    };
    fixture.until("the log line", is_reported).await;
    fixture.until("the other watch", |fixture| fixture.received() == ["initial good"]).await;
    fixture
        .version
        .dedicated_instance
        .subscribe_caught_up()
        .wait_for(|caught_up| *caught_up)
        .await
        .expect("it is there");
    assert!(!task.is_finished());
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_version_that_was_replaced_delivers_nothing() {
    let fixture = fixture(&[("good", "fine")]).await;
    let mut exclusive = Arc::clone(&fixture.running).write_owned().await;
    let task = fixture.start();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(fixture.received(), Vec::<String>::new(), "nothing is delivered during a swap");
    exclusive.stable.take();
    drop(exclusive);
    task.await.expect("it ends by itself");
    assert_eq!(fixture.received(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_instance_does_not_reconcile_until_its_observer_has_caught_up() {
    let fixture = fixture(&[("good", "fine")]).await;
    let request = pilothouse_plugin::Request {
        watch: "maps".into(),
        key: pilothouse_model::ObjectKey::new("n", "good"),
        reasons: Vec::new(),
        attempt: 0,
        extra: Vec::new(),
        event_at: None,
        host_context: None,
    };
    let request = Arc::new(request);
    assert!(fixture.version.dedicated_instance.reconcile(&request).await.is_none());
    let mut caught_up = fixture.version.dedicated_instance.subscribe_caught_up();
    let task = fixture.start();
    caught_up.wait_for(|caught_up| *caught_up).await.expect("the version is there");
    assert_eq!(fixture.received(), ["initial good"]);
    // The host of this guest has no cache, so the reconcile traps, and the instance is lost.
    assert!(
        fixture.version.dedicated_instance.reconcile(&request).await.is_some_and(|outcome| outcome.is_err())
    );
    caught_up.wait_for(|caught_up| *caught_up).await.expect("the version is there");
    assert_eq!(fixture.received(), ["initial good", "initial good"], "the next instance receives it, too");
    task.abort();
}

/// A subscription that resyncs every five minutes, between which nothing happens.
fn with_resync(stateful: bool) -> FixtureOptions {
    let feed = SubscribeOptions::default().with_resync(Duration::from_secs(300));
    FixtureOptions { stateful, feed, ..FixtureOptions::default() }
}

#[tokio::test(start_paused = true)]
async fn an_idle_instance_is_dropped_and_the_next_receives_everything() {
    let fixture = fixture_with(&[("good", "fine")], with_resync(false)).await;
    let task = fixture.start();
    let mut caught_up = fixture.version.dedicated_instance.subscribe_caught_up();
    caught_up.wait_for(|caught_up| *caught_up).await.expect("the version is there");
    let started = Instant::now();
    caught_up.wait_for(|caught_up| !*caught_up).await.expect("the version is there");
    assert!(started.elapsed() < Duration::from_secs(200), "it was dropped long before the next change");
    fixture.until("the resync", |fixture| fixture.received().len() > 2).await;
    assert_eq!(fixture.received()[..3], ["initial good", "initial good", "resync good"]);
    assert_eq!(fixture.plugin.metrics.observe_errors.get(), 0);
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn an_observer_without_objects_has_no_instance_unless_it_is_stateful() {
    for stateful in [false, true] {
        let fixture = fixture_with(&[], FixtureOptions { stateful, ..FixtureOptions::default() }).await;
        let task = fixture.start();
        sleep(Duration::from_secs(30)).await;
        // Only an existing instance can have caught up.
        assert_eq!(*fixture.version.dedicated_instance.subscribe_caught_up().borrow(), stateful);
        task.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn the_idle_instance_of_a_stateful_plugin_is_kept() {
    let fixture = fixture_with(&[("good", "fine")], with_resync(true)).await;
    let task = fixture.start();
    fixture.until("the resync", |fixture| fixture.received().len() > 1).await;
    assert_eq!(fixture.received()[..2], ["initial good", "resync good"]);
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_delivered_while_a_permission_is_missing() {
    let fixture = fixture(&[("good", "fine")]).await;
    let access = &fixture.version.views.access;
    access.set_operator_suspension(Some(crate::lifecycle::WaitingFor::ValidSidecar("not now".to_owned())));
    let task = fixture.start();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(fixture.received(), Vec::<String>::new());
    access.set_operator_suspension(None);
    fixture.until("the object", |fixture| fixture.received() == ["initial good"]).await;
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_delivered_while_the_plugin_is_paused() {
    let fixture = fixture(&[("good", "fine")]).await;
    let access = &fixture.version.views.access;
    access.set_paused(true);
    let task = fixture.start();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(fixture.received(), Vec::<String>::new());
    access.set_paused(false);
    fixture.until("the object", |fixture| fixture.received() == ["initial good"]).await;
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn the_next_version_receives_deletions_of_objects_that_only_the_previous_one_received() {
    let before = fixture(&[("good", "fine"), ("other", "fine")]).await;
    let task = before.start();
    before.until("both objects", |fixture| fixture.plugin.metrics.observed.get() == 2).await;
    task.abort();
    assert!(task.await.is_err());
    // The object was deleted while no observer ran.
    let mut after = fixture(&[("good", "fine")]).await;
    after.history = before.history.clone();
    let task = after.start();
    after
        .until("the deletion of the other object", |fixture| fixture.plugin.metrics.observed.get() == 2)
        .await;
    assert_eq!(after.received(), ["initial good", "deleted other"]);
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_restarted_observer_replays_the_objects_that_were_delivered() {
    let fixture = fixture(&[("good", "fine")]).await;
    let task = fixture.start();
    fixture.until("the object", |fixture| fixture.plugin.metrics.observed.get() == 1).await;
    task.abort();
    assert!(task.await.is_err());
    let task = fixture.start();
    fixture
        .version
        .dedicated_instance
        .subscribe_caught_up()
        .wait_for(|caught_up| *caught_up)
        .await
        .expect("it is there");
    fixture.until("the object once more", |fixture| fixture.plugin.metrics.observed.get() == 2).await;
    assert_eq!(fixture.received(), ["initial good", "initial good"]);
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_is_restarted_and_loses_nothing() {
    let fixture = fixture(&[("good", "fine"), ("other", "fine")]).await;
    fixture.plugin.panics.arm("observer", 3);
    let (plugin, history) = (fixture.plugin.clone(), fixture.history.clone());
    let (running, version) = (Arc::clone(&fixture.running), Arc::clone(&fixture.version));
    let task = tokio::spawn(async move {
        let observe = || -> futures::future::BoxFuture<'static, ()> {
            Box::pin(observe(Arc::clone(&running), Arc::clone(&version), plugin.clone(), history.clone()))
        };
        plugin.restart("observer", observe).await;
    });
    fixture.until("both objects", |fixture| fixture.plugin.metrics.observed.get() == 2).await;
    assert_eq!(fixture.received(), ["initial good", "initial other"]);
    assert_eq!(fixture.plugin.metrics.task_panics.get(), 3);
    task.abort();
}
