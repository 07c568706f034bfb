//! The host's handle of a plugin's task, and the status that it shows.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use pilothouse_informer::Subscription;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::running::Canary;
use super::{DesiredFiles, PluginTask, RecoveryState, ReloadOptions};
use crate::guest_host::GuestServices;
use crate::lifecycle::{HostMemoryStatus, Lifecycle, PluginState, PluginStatus, StateChange, WaitingFor};
use crate::load::LoadServices;
use crate::load::version::{Version, WatchRoute};
use crate::rollout::CanaryStatus;

/// The host's handle of a plugin's task.
pub(crate) struct PluginHandle {
    desired_files: watch::Sender<DesiredFiles>,
    status_source: Arc<PluginStatusSource>,
    task: JoinHandle<()>,
}

/// A plugin's status and gauges.
pub(crate) struct PluginStatusSource {
    lifecycle: Lifecycle,
    pub(super) running_status: Arc<RunningVersionStatus>,
    pub(super) guest: GuestServices,
    desired_files: watch::Receiver<DesiredFiles>,
}

/// The problems of the running version that its lifecycle state does not show: watch errors and deleted or newer CRDs.
#[derive(Default)]
pub(super) struct RunningVersionStatus {
    /// The version's subscriptions, by watch. Weak, because they must end with the version.
    subscriptions: Mutex<Vec<(Arc<str>, Weak<Subscription>)>>,
    /// The version, weak for the same reason.
    version: Mutex<Weak<Version>>,
    /// The canary beside it, weak for the same reason.
    canary: Mutex<Weak<Canary>>,
    /// The deleted CRD that is the cause of the watch errors.
    crd_problem: Mutex<Option<String>>,
    /// What the current or last load waits for.
    load_waits_for: Mutex<Option<WaitingFor>>,
}

impl RunningVersionStatus {
    /// Reports on this version from now on.
    pub(super) fn set_version(&self, version: &Arc<Version>) {
        let subscription =
            |route: &WatchRoute| (Arc::clone(&route.watch), Arc::downgrade(&route.subscribed.subscription));
        *self.subscriptions.lock() = version.routes.iter().map(subscription).collect();
        *self.version.lock() = Arc::downgrade(version);
        self.set_canary(None);
        *self.crd_problem.lock() = None;
    }

    /// Reports on this canary from now on; on none for `None`.
    pub(super) fn set_canary(&self, canary: Option<&Arc<Canary>>) {
        *self.canary.lock() = canary.map(Arc::downgrade).unwrap_or_default();
    }

    /// The canary that runs; `None` without one.
    pub(super) fn canary(&self) -> Option<Arc<Canary>> {
        self.canary.lock().upgrade()
    }

    /// The version that runs; `None` while there is none.
    pub(super) fn version(&self) -> Option<Arc<Version>> {
        self.version.lock().upgrade()
    }

    /// Reports on this subscription.
    #[cfg(test)]
    pub(super) fn of_subscription(watch: &str, subscription: &Arc<Subscription>) -> Self {
        let status = Self::default();
        status.subscriptions.lock().push((watch.into(), Arc::downgrade(subscription)));
        status
    }

    /// Forgets the version, because it was stopped.
    pub(super) fn clear(&self) {
        self.subscriptions.lock().clear();
        *self.version.lock() = Weak::new();
        self.set_canary(None);
        *self.crd_problem.lock() = None;
    }

    /// The deleted CRD that is the cause of the watch errors.
    pub(super) fn crd_problem(&self) -> Option<String> {
        self.crd_problem.lock().clone()
    }

    /// Sets what the load waits for.
    pub(super) fn set_load_waits_for(&self, waiting_for: Option<WaitingFor>) {
        *self.load_waits_for.lock() = waiting_for;
    }

    /// What the current or last load waits for.
    pub(super) fn load_waits_for(&self) -> Option<WaitingFor> {
        self.load_waits_for.lock().clone()
    }

    /// Sets the CRD problem, and returns whether it changed.
    pub(super) fn set_crd_problem(&self, problem: Option<String>) -> bool {
        let mut current = self.crd_problem.lock();
        let has_changed = *current != problem;
        *current = problem;
        has_changed
    }
}

impl PluginHandle {
    /// Starts the task of a plugin whose files were found. If a task of the same name is still draining, because its file was removed a
    /// moment ago, the new task waits for its end: no key may be reconciled by both.
    pub(crate) fn start(
        guest: GuestServices,
        lifecycle: Lifecycle,
        services: LoadServices,
        options: ReloadOptions,
        shutdown: CancellationToken,
        predecessor: Option<Self>,
    ) -> Self {
        let (desired_files, receiver) = watch::channel(None);
        let running_status = Arc::<RunningVersionStatus>::default();
        let status_source = Arc::new(PluginStatusSource {
            lifecycle: lifecycle.clone(),
            running_status: Arc::clone(&running_status),
            guest: guest.clone(),
            desired_files: receiver.clone(),
        });
        let task = tokio::spawn(async move {
            if let Some(predecessor) = predecessor {
                let in_flight = predecessor.status_source.guest.queue.in_flight().clone();
                predecessor.join().await;
                // A request that the predecessor sent may still change objects, and this task does not know which keys it belongs to.
                tokio::select! {
                    biased;
                    () = shutdown.cancelled() => {}
                    () = in_flight.wait_until_idle() => {}
                }
            }
            let supervisor = guest.clone();
            let recovery = RecoveryState::default();
            let start = || -> BoxFuture<'static, ()> {
                let (lifecycle, running_status) = (lifecycle.clone(), Arc::clone(&running_status));
                let (guest, services) = (guest.clone(), services.clone());
                // This receiver has seen no value, so a task that is started again sees the files as changed.
                let (receiver, shutdown, recovery) = (receiver.clone(), shutdown.clone(), recovery.clone());
                Box::pin(async move {
                    let mut task = Box::new(PluginTask::new(
                        guest,
                        lifecycle,
                        services,
                        options,
                        running_status,
                        recovery,
                    ));
                    task.run(receiver, shutdown).await;
                })
            };
            supervisor.restart("plugin", start).await;
        });
        Self { desired_files, status_source, task }
    }

    /// Notifies the task that the files changed or were removed.
    pub(crate) fn set_desired_files(&self, files: DesiredFiles) {
        self.desired_files.send_replace(files);
    }

    /// Whether the plugin's files were removed. The task then ends, and accepts no new files.
    pub(crate) fn is_removed(&self) -> bool {
        self.desired_files.borrow().is_none()
    }

    /// Whether the task has ended and all requests that it sent have been answered. Until then the handle must be kept, so that a new plugin
    /// of the same name can [wait for it](Self::start).
    pub(crate) fn has_ended(&self) -> bool {
        self.task.is_finished() && self.status_source.guest.queue.in_flight().is_empty()
    }

    pub(crate) fn status_source(&self) -> &Arc<PluginStatusSource> {
        &self.status_source
    }

    /// Waits for the task to end, after shutdown or after its files were removed.
    pub(crate) async fn join(self) {
        // An error would be a panic outside of the supervised part.
        let _ = self.task.await;
    }
}

impl PluginStatusSource {
    /// Returns the plugin's status, with all its problems in `error`.
    pub(crate) fn status(&self) -> PluginStatus {
        let mut status = self.lifecycle.status();
        // A plugin may have several problems at a time, which begin and end independently of each other.
        let mut problems = vec![std::mem::take(&mut status.error)];
        let mut has_broken_watch = false;
        if matches!(status.state, PluginState::Running | PluginState::BackingOff) {
            // A deleted CRD is the cause of the watch errors, so it replaces them.
            let crd_problem = self.running_status.crd_problem.lock().clone();
            let watch_problem = crd_problem.or_else(|| watch_error(&self.running_status));
            has_broken_watch = watch_problem.is_some();
            problems.extend(watch_problem);
            problems.extend(self.guest.hot_loops.status_text());
        }
        problems.extend(self.guest.panics.status_text());
        problems.extend(newer_crds(&self.running_status));
        problems.extend(self.guest.rollout.status_text());
        let canary_problem = self.running_status.canary().map(|canary| canary.problem().unwrap_or_default());
        let shown = canary_problem.as_ref().filter(|problem| !problem.is_empty());
        problems.extend(shown.map(|problem| format!("the canary does no work: {problem}")));
        problems.retain(|problem| !problem.is_empty());
        status.error = problems.join("; ");
        let counters = self.guest.metrics.counters().into_iter();
        status.counters = counters.map(|(name, count)| (name.to_owned(), count)).collect::<BTreeMap<_, _>>();
        let queue = self.guest.queue.snapshot();
        (status.queue_depth, status.keys_in_backoff) = (queue.depth, queue.backing_off);
        status.host_memory = HostMemoryStatus::of(&self.guest.host_memory);
        status.compiling_since = self.guest.compile_status.since();
        let errors = &self.guest.recent_errors;
        (status.consecutive_errors, status.last_error) = (errors.in_a_row(), errors.last());
        let is_running = status.state == PluginState::Running;
        status.failing = is_running && (has_broken_watch || errors.is_failing());
        status.paused = *self.guest.paused.lock();
        let metrics = &self.guest.metrics;
        status.rollout = self.guest.rollout.status(metrics.reconciles(), metrics.canary_reconciles());
        if let Some(rollout) = &mut status.rollout {
            // A stopped plugin has no canary until it runs again.
            let canary = rollout.canary.take().zip(canary_problem);
            rollout.canary = canary.map(|(canary, error)| CanaryStatus { error, ..canary });
        }
        status.ready = is_running && !status.failing && !status.paused;
        let is_stopping = matches!(status.state, PluginState::Draining | PluginState::Stopped);
        status.removed = is_stopping && self.desired_files.borrow().is_none();
        status
    }

    /// The last changes of the plugin's state, the oldest first.
    pub(super) fn history(&self) -> Vec<StateChange> {
        self.lifecycle.history()
    }

    /// Updates the gauges; called when metrics are scraped.
    pub(crate) fn update_gauges(&self) {
        let snapshot = self.guest.queue.snapshot();
        let metrics = &self.guest.metrics;
        metrics.queue_depth.set(i64::try_from(snapshot.depth).unwrap_or(i64::MAX));
        metrics.unfinished_work.set(snapshot.unfinished_work.as_secs_f64());
        metrics.longest_running.set(snapshot.longest_running.as_secs_f64());
        metrics.observe_host_memory(&self.guest.host_memory);
    }
}

/// Returns the error of the first watch of the running version that fails: a permission that was revoked, an unreachable server.
pub(super) fn watch_error(running_status: &RunningVersionStatus) -> Option<String> {
    running_status.subscriptions.lock().iter().find_map(|(watch, subscription)| {
        let error = subscription.upgrade()?.status().error?;
        Some(format!("watch {watch:?}: {error}"))
    })
}

/// Describes the CRDs that a newer version applied before it failed to run. They are not reverted to those of the running version.
fn newer_crds(running_status: &RunningVersionStatus) -> Option<String> {
    let version = running_status.version()?;
    let newer = version.newer_crds.lock();
    (!newer.is_empty())
        .then(|| format!("the CRD {} is that of a newer version, and is not reverted", newer.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::PluginFiles;
    use crate::lifecycle::Input;

    fn status_source() -> Arc<PluginStatusSource> {
        let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
            Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
        });
        let guest = GuestServices::for_test("shown", kube::Client::new(service, "default"));
        let lifecycle = Lifecycle::begin(
            guest.name.clone(),
            "default",
            Arc::clone(&guest.metrics),
            guest.events.clone(),
            Default::default(),
        );
        let desired_files = watch::channel(None).1;
        Arc::new(PluginStatusSource { lifecycle, running_status: Arc::default(), guest, desired_files })
    }

    #[tokio::test(start_paused = true)]
    async fn a_running_plugin_whose_calls_all_fail_is_failing_and_not_ready() {
        let status_source = status_source();
        let step = |state| Input::Step { load: status_source.lifecycle.load(), state, waiting_for: "" };
        assert!(!status_source.status().ready, "it is only found yet");
        status_source.lifecycle.apply(&step(PluginState::Describing));
        status_source.lifecycle.apply(&Input::Installed { version: "1", digest: "d" });
        assert_eq!((status_source.status().ready, status_source.status().failing), (true, false));
        let item = crate::runtime::queue::Item {
            watch: "maps".into(),
            key: pilothouse_model::ObjectKey::new("shop", "a"),
        };
        let (reason, priority) = (pilothouse_plugin::Reason::Other, pilothouse_informer::Priority::Normal);
        status_source.guest.queue.add(item, reason, priority);
        for _ in 0..3 {
            let (mut held, reasons) = status_source.guest.queue.get().await.expect("the key");
            assert!(status_source.guest.queue.retry(&mut held, &reasons).is_some());
            status_source.guest.recent_errors.record_error("maps", "shop/a", &"401: Unauthorized");
        }
        let status = status_source.status();
        assert_eq!(status.state, PluginState::Running, "the state is public and stays");
        assert_eq!((status.ready, status.failing, status.consecutive_errors), (false, true, 3));
        assert_eq!(
            (status.keys_in_backoff, status.last_error.map(|last| last.key)),
            (1, Some("shop/a".into()))
        );
        status_source.guest.recent_errors.record_success();
        status_source.running_status.set_crd_problem(Some("the CRD is gone".to_owned()));
        assert_eq!(
            (status_source.status().ready, status_source.status().failing),
            (false, true),
            "a watch does not work"
        );
        status_source.running_status.set_crd_problem(None);
        assert!(status_source.status().ready);
    }

    #[tokio::test(start_paused = true)]
    async fn a_compilation_is_shown_while_a_version_runs() {
        let status_source = status_source();
        let step = |state| Input::Step { load: status_source.lifecycle.load(), state, waiting_for: "" };
        status_source.lifecycle.apply(&step(PluginState::Describing));
        status_source.lifecycle.apply(&Input::Installed { version: "1", digest: "d" });
        assert_eq!(status_source.status().compiling_since, None);
        let compiling = status_source.guest.compile_status.begin(jiff::Timestamp::UNIX_EPOCH);
        let status = status_source.status();
        assert_eq!(status.compiling_since.as_deref(), Some("1970-01-01T00:00:00Z"));
        assert_eq!((status.state, status.ready), (PluginState::Running, true), "the running version works");
        drop(compiling);
        assert_eq!(status_source.status().compiling_since, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_plugin_that_stops_is_removed_only_if_its_file_was() {
        let status_source = status_source();
        status_source.lifecycle.apply(&Input::Draining);
        assert!(status_source.status().removed);
        let files = watch::channel(Some(PluginFiles::for_test())).1;
        let status_source = PluginStatusSource {
            lifecycle: status_source.lifecycle.clone(),
            running_status: Arc::default(),
            guest: status_source.guest.clone(),
            desired_files: files,
        };
        status_source
            .lifecycle
            .apply(&Input::Stopped { why: "its sidecar says enabled: false", with_host: false });
        assert_eq!(
            (status_source.status().state, status_source.status().removed),
            (PluginState::Stopped, false)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_plugin_has_not_ended_until_its_requests_are_answered() {
        let status_source = status_source();
        let key = pilothouse_model::ObjectKey::cluster("a");
        let request = status_source
            .guest
            .queue
            .in_flight()
            .begin(&crate::runtime::queue::Item { watch: "maps".into(), key });
        let desired_files = watch::channel(None).0;
        let handle = PluginHandle { desired_files, status_source, task: tokio::spawn(async {}) };
        while !handle.task.is_finished() {
            tokio::task::yield_now().await;
        }
        assert!(!handle.has_ended(), "the plugin must be kept while its request is under way");
        drop(request);
        assert!(handle.has_ended());
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_file_does_not_hide_problems_of_the_running_version() {
        let status_source = status_source();
        let step = |state| Input::Step { load: status_source.lifecycle.load(), state, waiting_for: "" };
        status_source.lifecycle.apply(&step(PluginState::Describing));
        status_source.lifecycle.apply(&Input::Installed { version: "1", digest: "d" });
        assert_eq!(status_source.status().error, "");
        status_source.running_status.set_crd_problem(Some("the CRD is gone".to_owned()));
        assert_eq!(status_source.status().error, "the CRD is gone");
        status_source.lifecycle.apply(&Input::Found);
        status_source.lifecycle.apply(&Input::Refused { problem: "the file is torn" });
        let error = status_source.status().error;
        assert!(error.contains("the file is torn") && error.ends_with("; the CRD is gone"), "{error}");
        status_source
            .lifecycle
            .apply(&Input::Faulty { problem: "it trapped", wait: std::time::Duration::ZERO });
        let status = status_source.status();
        assert_eq!(status.state, PluginState::BackingOff);
        assert!(status.error.ends_with("; the CRD is gone"), "{}", status.error);
        status_source.running_status.set_crd_problem(None);
        assert!(!status_source.status().error.contains("CRD"));
        assert!(status_source.status().error.contains("the file is torn"), "the file is still refused");
    }

    /// A running plugin that reconciles ConfigMaps.
    struct RunningPlugin {
        handle: PluginHandle,
        guest: GuestServices,
        files: PluginFiles,
        shutdown: CancellationToken,
        _folder: tempfile::TempDir,
    }

    impl RunningPlugin {
        async fn start() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let wat = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin/tests/guests/index.wat");
            std::fs::write(folder.path().join("index.wasm"), wat::parse_file(wat).expect("a guest"))
                .expect("written");
            let scan = crate::directory::scan(folder.path()).expect("a directory");
            let files = scan.plugins.into_values().next().expect("a plugin");
            let api = pilothouse_apiserver::ApiServer::builder().build();
            let client = kube::Client::new(api.service(), "default");
            let guest = GuestServices::for_test("index", client.clone());
            let services = LoadServices::for_test(client);
            let (metrics, events) = (Arc::clone(&guest.metrics), guest.events.clone());
            let lifecycle =
                Lifecycle::begin(guest.name.clone(), "default", metrics, events, Default::default());
            let (options, shutdown) = (ReloadOptions { requeue_all: false }, CancellationToken::new());
            let handle =
                PluginHandle::start(guest.clone(), lifecycle, services, options, shutdown.clone(), None);
            handle.set_desired_files(Some(files.clone()));
            until(&|| handle.status_source().status().state == PluginState::Running).await;
            Self { handle, guest, files, shutdown, _folder: folder }
        }

        async fn stop(self) {
            self.shutdown.cancel();
            self.handle.join().await;
        }
    }

    async fn until(condition: &dyn Fn() -> bool) {
        while !condition() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }

    fn config_map(name: &str) -> crate::runtime::queue::Item {
        let key = pilothouse_model::ObjectKey::new("default", name);
        crate::runtime::queue::Item { watch: "configmaps".into(), key }
    }

    #[tokio::test]
    async fn a_plugin_whose_task_panics_continues_with_the_same_version() {
        let plugin = RunningPlugin::start().await;
        let (handle, guest) = (&plugin.handle, &plugin.guest);
        guest.panics.arm("plugin", 1);
        handle.set_desired_files(Some(plugin.files.clone()));
        until(&|| guest.metrics.task_panics.get() == 1).await;
        let reconciled = guest.metrics.succeeded.get();
        let (reason, priority) = (pilothouse_plugin::Reason::Other, pilothouse_informer::Priority::Normal);
        until(&|| {
            guest.queue.add(config_map("a"), reason, priority);
            guest.metrics.succeeded.get() > reconciled + 1
        })
        .await;
        let status = handle.status_source().status();
        assert_eq!(
            (status.state, status.generation),
            (PluginState::Running, 1),
            "the files were not loaded again"
        );
        assert!(status.error.contains("plugin task panicked: a defect in the plugin"), "{}", status.error);
        plugin.stop().await;
    }

    #[tokio::test]
    async fn a_paused_plugin_keeps_its_keys_until_it_is_resumed() {
        let plugin = RunningPlugin::start().await;
        let (status_source, guest) = (plugin.handle.status_source(), &plugin.guest);
        let is_idle = || {
            let queue = guest.queue.snapshot();
            queue.depth + queue.delayed + queue.processing == 0
        };
        until(&is_idle).await;
        status_source.set_paused(true);
        assert_eq!((status_source.status().paused, status_source.status().ready), (true, false));
        let reconciled = guest.metrics.succeeded.get();
        let (reason, priority) = (pilothouse_plugin::Reason::Other, pilothouse_informer::Priority::Normal);
        guest.queue.add(config_map("a"), reason, priority);
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(guest.metrics.succeeded.get(), reconciled);
        let keys = status_source.keys(10);
        assert_eq!((keys.pending, keys.keys[0].key.as_str()), (1, "default/a"));
        status_source.set_paused(false);
        until(&|| guest.metrics.succeeded.get() > reconciled).await;
        assert!(status_source.status().ready);
        plugin.stop().await;
    }

    #[tokio::test]
    async fn a_key_is_requeued_only_if_it_is_cached_or_pending() {
        use crate::runtime::ControlError;
        let plugin = RunningPlugin::start().await;
        let (status_source, guest) = (plugin.handle.status_source(), &plugin.guest);
        let unknown = status_source.requeue(None, "default/none").expect_err("no such object");
        assert!(matches!(unknown, ControlError::UnknownKey { .. }), "{unknown}");
        let wrong = status_source.requeue(Some("nothing"), "default/none").expect_err("no such watch");
        assert!(wrong.to_string().contains("configmaps"), "{wrong}");
        assert!(matches!(status_source.requeue(None, "none"), Err(ControlError::Key { .. })));
        status_source.set_paused(true);
        guest.queue.add_after(
            config_map("gone"),
            std::time::Duration::from_secs(3600),
            pilothouse_plugin::Reason::Deleted,
        );
        let watch = status_source.requeue(None, "default/gone").expect("it is pending");
        assert_eq!(&*watch, "configmaps");
        assert_eq!(guest.queue.snapshot().delayed, 0, "it is ready at once");
        plugin.stop().await;
        let stopped = self::status_source().requeue(None, "default/gone");
        assert!(matches!(stopped, Err(ControlError::NotRunning { .. })));
    }
}
