//! Workers, with versions whose guests are small modules.

use pilothouse_informer::{KeyState, Priority};
use pilothouse_model::ObjectKey;

use super::super::running::{Canary, RunningVersions};
use super::*;
use crate::config::canary_share::CanaryShare;
use crate::lifecycle::RecentErrors;
use crate::metrics::Metrics;
use crate::runtime::queue::ReconcileKey;
use crate::trace::{TraceOptions, Tracer};

fn plugin() -> PluginServices {
    let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
        Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
    });
    PluginServices::for_test("held", kube::Client::new(service, "default"))
}

#[tokio::test(start_paused = true)]
async fn a_key_that_an_aborted_worker_holds_goes_back_into_the_queue() {
    let plugin = plugin();
    let running = SharedVersions::default();
    let exclusive = running.write().await;
    let running_health = watch::Sender::new(RunningHealth::default());
    let mut workers = super::super::workers::Workers::default();
    workers
        .resize(1, |slot| run_worker(slot, Arc::clone(&running), running_health.subscribe(), plugin.clone()));
    let item = ReconcileKey { watch: "maps".into(), key: ObjectKey::new("n", "a") };
    plugin.queue.add(item.clone(), Reason::Deleted, Priority::Normal);
    while plugin.queue.snapshot().depth > 0 {
        tokio::task::yield_now().await;
    }
    // The worker has the key, and waits for the lock.
    workers.shutdown().await;
    drop(exclusive);
    let (again, reasons) = plugin.queue.get().await.expect("the key");
    assert_eq!((again.key(), reasons), (&item, vec![Reason::Deleted]));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_panics_returns_its_key_and_is_restarted() {
    let plugin = plugin();
    let pool = Version::test_pool(&plugin, "done.wat", pilothouse_plugin::InstanceLimits::default()).await;
    let mut views = crate::cache::views::Views::default();
    let view = crate::runtime::handover::tests::view(&plugin);
    views.by_name.insert("maps".into(), Box::new(view));
    let version = Arc::new(Version::for_test(pool, Arc::new(views)));
    let running: SharedVersions = Arc::new(tokio::sync::RwLock::new(Arc::clone(&version).into()));
    let running_health = watch::Sender::new(RunningHealth::new(version.health.clone(), None));
    plugin.panics.arm("worker", 2);
    let mut workers = super::super::workers::Workers::default();
    workers
        .resize(1, |slot| run_worker(slot, Arc::clone(&running), running_health.subscribe(), plugin.clone()));
    let item = ReconcileKey { watch: "maps".into(), key: ObjectKey::new("n", "a") };
    plugin.queue.add(item, Reason::Deleted, Priority::Normal);
    let started = Instant::now();
    while plugin.metrics.succeeded.get() == 0 {
        assert!(started.elapsed().as_secs() < 60, "the key is lost");
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    assert_eq!((plugin.metrics.task_panics.get(), plugin.metrics.active_workers.get()), (2, 0));
    let status = plugin.panics.status_text().expect("a problem in the status");
    assert!(
        status.contains("worker task panicked: a defect in the worker; started again in 200ms"),
        "{status}"
    );
    let lines = plugin.log.all().after(0, None);
    assert_eq!(lines.iter().filter(|line| line.message.contains("panicked")).count(), 2);
    tokio::time::advance(std::time::Duration::from_secs(180)).await;
    assert_eq!(plugin.panics.status_text(), None, "the worker has not panicked since");
    workers.shutdown().await;
}

/// A version whose only watch, of ConfigMaps, is a target.
async fn version(plugin: &PluginServices, file: &str) -> Arc<Version> {
    let pool = Version::test_pool(plugin, file, pilothouse_plugin::InstanceLimits::default()).await;
    let mut views = crate::cache::views::Views::default();
    let view = crate::runtime::handover::tests::view(plugin);
    views.by_name.insert("maps".into(), Box::new(view));
    Arc::new(Version::for_test(pool, Arc::new(views)))
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_waits_for_a_blocked_version_continues_when_a_canary_begins() {
    let plugin = plugin();
    let (stable, canary) = (version(&plugin, "done.wat").await, version(&plugin, "done.wat").await);
    stable.views.access.set_paused(true);
    let running_health = watch::Sender::new(RunningHealth::new(stable.health.clone(), None));
    let running: SharedVersions = Arc::new(tokio::sync::RwLock::new(Arc::clone(&stable).into()));
    let mut workers = super::super::workers::Workers::default();
    workers
        .resize(1, |slot| run_worker(slot, Arc::clone(&running), running_health.subscribe(), plugin.clone()));
    let item = ReconcileKey { watch: "maps".into(), key: ObjectKey::new("n", "a") };
    plugin.queue.add(item, Reason::Updated, Priority::Normal);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(plugin.queue.snapshot().depth, 1, "the worker waits");
    let health = canary.health.clone();
    let share = CanaryShare::Percent(100);
    let canary = Arc::new(Canary { version: canary, share, recent_errors: RecentErrors::default() });
    running.write().await.canary = Some(canary);
    running_health.send_replace(RunningHealth::new(stable.health.clone(), Some(health)));
    let started = Instant::now();
    while plugin.metrics.canary_succeeded.get() == 0 {
        assert!(started.elapsed().as_secs() < 60, "the worker still waits");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    workers.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_key_of_a_version_that_backs_off_waits_until_the_backoff_ends() {
    let plugin = plugin();
    let version = version(&plugin, "done.wat").await;
    let health = &version.health;
    let blocked_key_delay = || blocked_key_delay(health.blocked_for(), 0);
    assert_eq!(blocked_key_delay(), BLOCKED_KEY_DELAY);
    for _ in 0..5 {
        health.record_fault(Activity::Reconcile, None, &"it trapped");
    }
    // Each probe that fails doubles the backoff.
    for _ in 0..4 {
        health.wait_until_allowed().await;
        health.try_acquire().expect("the probe").failed(Activity::Reconcile, None, &"it trapped");
    }
    let delay = blocked_key_delay();
    assert!(delay > Duration::from_secs(10), "{delay:?}");
    tokio::time::advance(delay).await;
    let _probe = health.try_acquire().expect("the probe");
    assert_eq!(blocked_key_delay(), BLOCKED_KEY_DELAY, "nobody knows when the probe ends");
}

#[test]
fn the_delay_of_a_blocked_key_doubles_up_to_a_minute_unless_its_end_is_known() {
    let delays: Vec<_> = (0..8).map(|times| blocked_key_delay(None, times).as_secs()).collect();
    assert_eq!(delays, [1, 2, 4, 8, 16, 32, 60, 60]);
    assert_eq!(blocked_key_delay(None, u8::MAX), MAX_BLOCKED_KEY_DELAY);
    for times in [0, 9] {
        assert_eq!(blocked_key_delay(Some(Duration::from_secs(300)), times).as_secs(), 300);
        assert_eq!(blocked_key_delay(Some(Duration::ZERO), times), BLOCKED_KEY_DELAY);
    }
}

#[tokio::test(start_paused = true)]
async fn the_keys_of_a_suspended_canary_cost_no_attempts_and_are_tried_at_most_each_minute() {
    let mut plugin = plugin();
    let mut registry = prometheus_client::registry::Registry::default();
    plugin.metrics = Metrics::register(&mut registry).for_plugin(&plugin.name);
    let attempts = || {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("metrics");
        let count = text.lines().find(|line| line.contains("workqueue_queue_duration_seconds_count"));
        count.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
    };
    let (stable, canary) = (version(&plugin, "done.wat").await, version(&plugin, "done.wat").await);
    canary.views.access.set_paused(true);
    let running_health = RunningHealth::new(stable.health.clone(), Some(canary.health.clone()));
    let running_health = watch::Sender::new(running_health);
    let access = Arc::clone(&canary.views.access);
    let share = CanaryShare::Percent(100);
    let canary = Arc::new(Canary { version: canary, share, recent_errors: RecentErrors::default() });
    let versions = RunningVersions { stable: Some(stable), canary: Some(canary) };
    let running: SharedVersions = Arc::new(tokio::sync::RwLock::new(versions));
    let mut workers = super::super::workers::Workers::default();
    workers
        .resize(1, |slot| run_worker(slot, Arc::clone(&running), running_health.subscribe(), plugin.clone()));
    let item = ReconcileKey { watch: "maps".into(), key: ObjectKey::new("n", "a") };
    plugin.queue.add(item.clone(), Reason::Updated, Priority::Normal);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let before = attempts();
    assert_eq!((before, plugin.queue.snapshot().delayed), (Some(0), 1));
    let status = plugin.queue.status(&item).expect("the key waits");
    let KeyState::Delayed(delay) = status.state else { panic!("{status:?}") };
    assert!(delay <= Duration::from_secs(60), "{delay:?}");
    access.set_paused(false);
    plugin.queue.reset_retries();
    while plugin.metrics.canary_succeeded.get() == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(attempts(), Some(1), "an attempt is a reconcile");
    workers.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_guest_does_not_learn_the_reasons_that_are_withheld() {
    let plugin = plugin();
    let item = ReconcileKey { watch: "maps".into(), key: ObjectKey::new("n", "a") };
    plugin.queue.add(item, Reason::Created, Priority::Normal);
    let (item, reasons) = plugin.queue.get().await.expect("the key");
    let mut attempt = ReconcileAttempt::new(&plugin, item, reasons);
    Arc::make_mut(&mut attempt.request).attempt = 3;
    assert_eq!(seen_by_guest(&plugin, &attempt.request), attempt.request);
    plugin.withholds_reasons.store(true, Ordering::Relaxed);
    let seen = seen_by_guest(&plugin, &attempt.request);
    assert_eq!((seen.reasons.as_slice(), seen.attempt), (&[Reason::Other][..], 0));
    assert_eq!((&seen.watch, &seen.key), (&attempt.request.watch, &attempt.request.key));
    assert_eq!(attempt.request.reasons, [Reason::Created], "the host still knows them");
}

#[tokio::test(start_paused = true)]
async fn a_guest_gets_the_trace_of_a_reconcile_that_was_sampled() {
    for (ratio, traces) in [(1.0, 1), (0.0, 0)] {
        let mut plugin = plugin();
        let options = TraceOptions { ratio, slow: Duration::MAX };
        let metrics = Metrics::register(&mut Default::default());
        let (tracer, _spans) = Tracer::new(&options, &metrics, &plugin.environment);
        plugin.tracer = tracer;
        let item = ReconcileKey { watch: "maps".into(), key: ObjectKey::new("n", "a") };
        plugin.queue.add(item, Reason::Created, Priority::Normal);
        let (item, reasons) = plugin.queue.get().await.expect("the key");
        let attempt = ReconcileAttempt::new(&plugin, item, reasons);
        let extra = &attempt.request.extra;
        assert_eq!(extra.len(), traces);
        let id = attempt.trace.as_ref().expect("a trace").sampled_id();
        for ((name, value), id) in extra.iter().zip(id) {
            assert_eq!(name, "traceparent");
            assert!(value.starts_with(&format!("00-{id}-")) && value.ends_with("-01"), "{value}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_without_tracing_allocates_only_its_request() {
    let begin = async |plugin: &PluginServices| {
        let item = ReconcileKey { watch: "maps".into(), key: ObjectKey::new("n", "a") };
        plugin.queue.add(item, Reason::Created, Priority::Normal);
        let (item, reasons) = plugin.queue.get().await.expect("the key");
        let mut request = None;
        let without_spans = allocation_counter::measure(|| {
            let ReconcileKey { watch, key } = item.key().clone();
            let (attempt, event_at) = (item.attempts(), item.event_at());
            let (reasons, extra, host_context) = (Vec::new(), Vec::new(), None);
            request = Some(Arc::new(Request { watch, key, reasons, attempt, extra, event_at, host_context }));
        });
        let mut attempt = None;
        let begun = allocation_counter::measure(|| {
            attempt = Some(ReconcileAttempt::new(plugin, item, reasons));
        });
        (without_spans.count_total, begun.count_total)
    };
    let mut plugin = plugin();
    let (without_spans, off) = begin(&plugin).await;
    assert_eq!(off, without_spans);
    let options = TraceOptions { ratio: 0.0, slow: Duration::MAX };
    let metrics = Metrics::register(&mut Default::default());
    let (tracer, _spans) = Tracer::new(&options, &metrics, &plugin.environment);
    plugin.tracer = tracer;
    let (without_spans, on) = begin(&plugin).await;
    assert!(on > without_spans, "{on} allocations with a trace, {without_spans} without");
}

#[tokio::test(start_paused = true)]
async fn a_canary_that_backs_off_delays_only_its_own_keys() {
    let plugin = plugin();
    let (stable, canary) = (version(&plugin, "done.wat").await, version(&plugin, "done.wat").await);
    for _ in 0..5 {
        canary.health.record_fault(Activity::Reconcile, None, &"it trapped");
    }
    let running_health = RunningHealth::new(stable.health.clone(), Some(canary.health.clone()));
    let running_health = watch::Sender::new(running_health);
    let share = CanaryShare::Namespaces(vec!["canary".to_owned()]);
    let canary = Arc::new(Canary { version: canary, share, recent_errors: RecentErrors::default() });
    let versions = RunningVersions { stable: Some(stable), canary: Some(canary) };
    let running: SharedVersions = Arc::new(tokio::sync::RwLock::new(versions));
    let mut workers = super::super::workers::Workers::default();
    workers
        .resize(1, |slot| run_worker(slot, Arc::clone(&running), running_health.subscribe(), plugin.clone()));
    for namespace in ["canary", "n"] {
        let item = ReconcileKey { watch: "maps".into(), key: ObjectKey::new(namespace, "a") };
        plugin.queue.add(item, Reason::Updated, Priority::Normal);
    }
    while plugin.metrics.succeeded.get() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let counts = (plugin.metrics.canary_succeeded.get(), plugin.queue.snapshot().delayed);
    assert_eq!(counts, (0, 1), "the key of the canary waits");
    while plugin.metrics.succeeded.get() == 1 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(plugin.metrics.canary_succeeded.get(), 1, "the canary has recovered");
    assert_eq!(plugin.metrics.reconciles().reconciles, 1, "those of the canary are counted apart");
    workers.shutdown().await;
}
