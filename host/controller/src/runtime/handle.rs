//! What the host keeps of a plugin's task, and what is shown of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use pilothouse_informer::Subscription;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Carried, PluginTask, ReloadOptions, Wanted};
use crate::guest_host::GuestServices;
use crate::lifecycle::{HostMemoryStatus, Lifecycle, PluginState, PluginStatus};
use crate::load::LoadServices;
use crate::load::version::{Route, Version};

/// What the host keeps of a plugin's task.
pub(crate) struct PluginHandle {
    wanted: watch::Sender<Wanted>,
    view: Arc<PluginView>,
    task: JoinHandle<()>,
}

/// What is shown of a plugin.
pub(crate) struct PluginView {
    lifecycle: Lifecycle,
    watched: Arc<Watched>,
    guest: GuestServices,
}

/// What may be in the way of the version that runs.
#[derive(Default)]
pub(super) struct Watched {
    /// Its subscriptions, by watch: only to look at, so they are not kept alive from here.
    subscriptions: Mutex<Vec<(Arc<str>, Weak<Subscription>)>>,
    /// The version itself, in the same way.
    version: Mutex<Weak<Version>>,
    /// What is known of the cause, where the watches alone do not say it.
    complaint: Mutex<Option<String>>,
}

impl Watched {
    /// From now on it is this version's.
    pub(super) fn install(&self, version: &Arc<Version>) {
        let subscription =
            |route: &Route| (Arc::clone(&route.watch), Arc::downgrade(&route.subscribed.subscription));
        *self.subscriptions.lock() = version.routes.iter().map(subscription).collect();
        *self.version.lock() = Arc::downgrade(version);
        *self.complaint.lock() = None;
    }

    pub(super) fn clear(&self) {
        self.subscriptions.lock().clear();
        *self.version.lock() = Weak::new();
        *self.complaint.lock() = None;
    }

    /// Answers whether it is another complaint than before.
    pub(super) fn complain(&self, complaint: Option<String>) -> bool {
        let mut known = self.complaint.lock();
        let is_new = *known != complaint;
        *known = complaint;
        is_new
    }
}

impl PluginHandle {
    /// Starts the task of a plugin whose files were seen. Where a task of the same name is still draining, because its
    /// file was removed a moment ago, the new one waits for its end: no key may be reconciled by both.
    pub(crate) fn start(
        guest: GuestServices,
        lifecycle: Lifecycle,
        services: LoadServices,
        options: ReloadOptions,
        shutdown: CancellationToken,
        predecessor: Option<Self>,
    ) -> Self {
        let (wanted, receiver) = watch::channel(None);
        let watched = Arc::<Watched>::default();
        let view =
            PluginView { lifecycle: lifecycle.clone(), watched: Arc::clone(&watched), guest: guest.clone() };
        let view = Arc::new(view);
        let task = tokio::spawn(async move {
            if let Some(predecessor) = predecessor {
                let in_flight = predecessor.view.guest.queue.in_flight().clone();
                predecessor.join().await;
                // What it sent may still change objects whose keys would be taken for new here.
                tokio::select! {
                    () = in_flight.landed() => {}
                    () = shutdown.cancelled() => {}
                }
            }
            let supervisor = guest.clone();
            let carried = Carried::default();
            let start = || -> BoxFuture<'static, ()> {
                let (lifecycle, watched) = (lifecycle.clone(), Arc::clone(&watched));
                let (guest, services) = (guest.clone(), services.clone());
                // The receiver itself has seen nothing: a task that is started again looks at the files anew.
                let (receiver, shutdown, carried) = (receiver.clone(), shutdown.clone(), carried.clone());
                Box::pin(async move {
                    let mut task =
                        Box::new(PluginTask::new(guest, lifecycle, services, options, watched, carried));
                    task.run(receiver, shutdown).await;
                })
            };
            supervisor.restart("plugin", start).await;
        });
        Self { wanted, view, task }
    }

    /// Tells the task that the files changed or are gone.
    pub(crate) fn want(&self, wanted: Wanted) {
        self.wanted.send_replace(wanted);
    }

    /// Whether the task was last told that its files are gone: it ends, and takes no new ones.
    pub(crate) fn is_unwanted(&self) -> bool {
        self.wanted.borrow().is_none()
    }

    /// Whether nothing of it goes on after that: its task has ended, and what it sent was answered. Until then the handle
    /// must be kept, so that a plugin of the same name can [wait for it](Self::start).
    pub(crate) fn has_ended(&self) -> bool {
        self.task.is_finished() && self.view.guest.queue.in_flight().is_empty()
    }

    pub(crate) fn view(&self) -> &Arc<PluginView> {
        &self.view
    }

    /// Waits for the task to end, after shutdown or after its files are gone.
    pub(crate) async fn join(self) {
        // An error would be a panic outside of what is supervised.
        let _ = self.task.await;
    }
}

impl PluginView {
    pub(crate) fn status(&self) -> PluginStatus {
        let mut status = self.lifecycle.status();
        // A plugin may have several troubles at a time, and the end of one says nothing of the others.
        let mut problems = vec![std::mem::take(&mut status.error)];
        if matches!(status.state, PluginState::Running | PluginState::BackingOff) {
            // A complaint knows the cause of what the watches tell.
            let complaint = self.watched.complaint.lock().clone();
            problems.extend(complaint.or_else(|| trouble(&self.watched)));
            problems.extend(self.guest.hot_loops.trouble());
        }
        problems.extend(self.guest.panics.trouble());
        problems.extend(newer_crds(&self.watched));
        problems.retain(|problem| !problem.is_empty());
        status.error = problems.join("; ");
        let counters = self.guest.metrics.counters().into_iter();
        status.counters = counters.map(|(name, count)| (name.to_owned(), count)).collect::<BTreeMap<_, _>>();
        status.queue_depth = self.guest.queue.snapshot().depth;
        status.host_memory = HostMemoryStatus::of(&self.guest.host_memory);
        status
    }

    /// Brings the gauges up to date; called when metrics are read.
    pub(crate) fn observe_queue(&self) {
        let snapshot = self.guest.queue.snapshot();
        let metrics = &self.guest.metrics;
        metrics.queue_depth.set(i64::try_from(snapshot.depth).unwrap_or(i64::MAX));
        metrics.unfinished_work.set(snapshot.unfinished_work.as_secs_f64());
        metrics.longest_running.set(snapshot.longest_running.as_secs_f64());
        metrics.observe_host_memory(&self.guest.host_memory);
    }
}

/// What keeps a watch of the running version from watching: a right that was taken away, a server that is away.
pub(super) fn trouble(watched: &Watched) -> Option<String> {
    watched.subscriptions.lock().iter().find_map(|(watch, subscription)| {
        let error = subscription.upgrade()?.status().error?;
        Some(format!("watch {watch:?}: {error}"))
    })
}

/// CRDs that are not those of the version that runs, because nothing reverts what a newer one applied.
fn newer_crds(watched: &Watched) -> Option<String> {
    let version = watched.version.lock().upgrade()?;
    let newer = version.newer_crds.lock();
    (!newer.is_empty())
        .then(|| format!("the CRD {} is that of a newer version, and is not reverted", newer.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::Input;

    fn view() -> Arc<PluginView> {
        let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
            Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
        });
        let guest = GuestServices::for_test("shown", kube::Client::new(service, "default"));
        let lifecycle =
            Lifecycle::begin(guest.name.clone(), "default", Arc::clone(&guest.metrics), guest.events.clone());
        Arc::new(PluginView { lifecycle, watched: Arc::default(), guest })
    }

    #[tokio::test(start_paused = true)]
    async fn a_plugin_goes_on_until_what_it_sent_was_answered() {
        let view = view();
        let key = pilothouse_model::ObjectKey::cluster("a");
        let sent =
            view.guest.queue.in_flight().begin(&crate::runtime::queue::Item { watch: "maps".into(), key });
        let handle = PluginHandle { wanted: watch::channel(None).0, view, task: tokio::spawn(async {}) };
        while !handle.task.is_finished() {
            tokio::task::yield_now().await;
        }
        assert!(!handle.has_ended(), "it would be forgotten with its request under way");
        drop(sent);
        assert!(handle.has_ended());
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_file_hides_no_trouble_of_the_version_that_runs() {
        let view = view();
        let step = |state| Input::Step { load: view.lifecycle.load(), state, waiting_for: "" };
        view.lifecycle.apply(&step(PluginState::Describing));
        view.lifecycle.apply(&Input::Installed { version: "1", digest: "d" });
        assert_eq!(view.status().error, "");
        view.watched.complain(Some("the CRD is gone".to_owned()));
        assert_eq!(view.status().error, "the CRD is gone");
        view.lifecycle.apply(&Input::Found);
        view.lifecycle.apply(&Input::Refused { problem: "the file is torn" });
        let error = view.status().error;
        assert!(error.contains("the file is torn") && error.ends_with("; the CRD is gone"), "{error}");
        view.lifecycle.apply(&Input::Faulty { problem: "it trapped", wait: std::time::Duration::ZERO });
        let status = view.status();
        assert_eq!(status.state, PluginState::BackingOff);
        assert!(status.error.ends_with("; the CRD is gone"), "{}", status.error);
        view.watched.complain(None);
        assert!(!view.status().error.contains("CRD"));
        assert!(view.status().error.contains("the file is torn"), "it is still refused");
    }

    #[tokio::test]
    async fn a_plugin_whose_task_panics_goes_on_with_the_version_that_ran() {
        let folder = tempfile::tempdir().expect("a folder");
        let wat = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin/tests/guests/index.wat");
        std::fs::write(folder.path().join("index.wasm"), wat::parse_file(wat).expect("a guest"))
            .expect("written");
        let scan = crate::directory::scan(folder.path()).expect("a directory");
        let files = scan.plugins.into_values().next().expect("a plugin");
        let api = pilothouse_apiserver::ApiServer::builder().build();
        let client = kube::Client::new(api.service(), "default");
        let guest = GuestServices::for_test("index", client.clone());
        let server = crate::client::Server::new(client.clone());
        let options = pilothouse_informer::InformerOptions::default();
        let list_watches = pilothouse_informer::KubeListWatches::new(client);
        let services = LoadServices {
            engine: pilothouse_plugin::Engine::new(Default::default()).expect("an engine"),
            discovery: crate::client::Discovery::new(server.clone()),
            server,
            informers: pilothouse_informer::InformerRegistry::new(list_watches, options),
            grant_crds: false,
            grants: crate::config::sidecar::GrantMode::Declared,
            review_every: std::time::Duration::from_secs(30),
            tls: crate::outgoing::Tls::default(),
            ahead: crate::load::ahead::Ahead::default(),
        };
        let lifecycle =
            Lifecycle::begin(guest.name.clone(), "default", Arc::clone(&guest.metrics), guest.events.clone());
        let (options, shutdown) = (ReloadOptions { requeue_all: false }, CancellationToken::new());
        let handle = PluginHandle::start(guest.clone(), lifecycle, services, options, shutdown.clone(), None);
        handle.want(Some(files.clone()));
        let until = async |is_so: &dyn Fn() -> bool| {
            while !is_so() {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        };
        until(&|| handle.view().status().state == PluginState::Running).await;
        guest.panics.arm("plugin", 1);
        handle.want(Some(files));
        until(&|| guest.metrics.task_panics.get() == 1).await;
        let reconciled = guest.metrics.succeeded.get();
        let key = pilothouse_model::ObjectKey::new("default", "a");
        let item = crate::runtime::queue::Item { watch: "configmaps".into(), key };
        let (reason, priority) = (pilothouse_plugin::Reason::Other, pilothouse_informer::Priority::Normal);
        until(&|| {
            guest.queue.add(item.clone(), reason, priority);
            guest.metrics.succeeded.get() > reconciled + 1
        })
        .await;
        let status = handle.view().status();
        assert_eq!((status.state, status.generation), (PluginState::Running, 1), "it was not loaded again");
        assert!(status.error.contains("plugin task panicked: a defect in the plugin"), "{}", status.error);
        shutdown.cancel();
        handle.join().await;
    }
}
