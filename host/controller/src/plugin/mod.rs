//! The task of one plugin: it owns the queue, the version that runs, and the one that is being loaded.
//!
//! ```text
//! directory ──Wanted──▶ PluginTask ──load──▶ Version ──swap──▶ workers
//! informers ──batches──▶    └──────dispatch──▶ queue ──keys──▶ workers ──▶ instances
//!     └──────batches──▶ observer ──▶ the pinned instance
//! ```

mod dispatch;
mod observer;
mod worker;

use std::collections::BTreeMap;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_informer::Subscription;
use tokio::sync::{OwnedRwLockWriteGuard, RwLock, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::directory::PluginFiles;
use crate::guest_host::GuestServices;
use crate::load::{LoadProblem, LoadServices, Loaded, Report, load};
use crate::name::PluginName;
use crate::state::{Life, PluginState, PluginStatus};
use crate::version::Version;
use dispatch::Dispatcher;

/// How long instances wait for work before they are dropped.
const IDLE: Duration = Duration::from_secs(60);
/// How long a stopping plugin may finish what it holds; the process must be gone 10 s after SIGTERM.
const DRAIN: Duration = Duration::from_secs(8);

/// What the directory says of the plugin: its files, or that they are gone.
pub(crate) type Wanted = Option<PluginFiles>;

/// What the host keeps of a plugin's task.
pub(crate) struct PluginHandle {
    wanted: watch::Sender<Wanted>,
    view: PluginView,
    task: JoinHandle<()>,
}

/// What is shown of a plugin.
#[derive(Clone)]
pub(crate) struct PluginView {
    name: PluginName,
    life: Arc<Mutex<Life>>,
    watched: Watched,
    guest: GuestServices,
}

/// The subscriptions of the version that runs, by watch: only to look at, so they are not kept alive from here.
type Watched = Arc<Mutex<Vec<(Arc<str>, Weak<Subscription>)>>>;

/// How reloads behave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReloadOptions {
    /// Whether a swap queues every object of the target watches again. Off only in tests, which would otherwise not
    /// see a key that was lost.
    pub(crate) requeue_all: bool,
}

struct PluginTask {
    guest: GuestServices,
    services: LoadServices,
    options: ReloadOptions,
    life: Arc<Mutex<Life>>,
    /// What the workers run. They hold it for reading while they reconcile, so that a swap waits for them and they for
    /// the swap. The task itself never reads it: a reader that waits behind a swap it has to carry out would wait for
    /// ever.
    gate: Gate,
    /// The same version, for the task.
    installed: Option<Arc<Version>>,
    watched: Watched,
    workers: JoinSet<()>,
    /// The observer of the version that runs, where it has one. It holds the gate during its calls, as the workers do.
    observer: JoinSet<()>,
    dispatcher: Dispatcher,
}

type Gate = Arc<RwLock<Option<Arc<Version>>>>;

/// The gate while no worker is inside a reconcile.
type ClosedGate = OwnedRwLockWriteGuard<Option<Arc<Version>>>;

/// A version that waits for the workers to finish what they hold. Meanwhile the task goes on dispatching, because
/// nothing upstream of the queue may wait for a guest.
struct Swap {
    version: Version,
    gate: Pin<Box<dyn Future<Output = ClosedGate> + Send>>,
}

/// What is on its way to being installed.
#[derive(Default)]
struct Coming {
    loading: Option<Loading>,
    swap: Option<Swap>,
}

enum Arrival {
    Loaded(Result<Loaded, LoadProblem>),
    /// No worker is inside a reconcile any more.
    Drained(Box<Version>, ClosedGate),
}

type Loading = JoinHandle<Result<Loaded, LoadProblem>>;

impl PluginHandle {
    /// Starts the task of a plugin whose files were seen. Where a task of the same name is still draining, because its
    /// file was removed a moment ago, the new one waits for its end: no key may be reconciled by both.
    pub(crate) fn start(
        guest: GuestServices,
        services: LoadServices,
        options: ReloadOptions,
        shutdown: CancellationToken,
        predecessor: Option<Self>,
    ) -> Self {
        let life = Arc::new(Mutex::new(Life::found()));
        let (wanted, receiver) = watch::channel(None);
        let watched = Watched::default();
        let view = PluginView {
            name: guest.name.clone(),
            life: Arc::clone(&life),
            watched: Arc::clone(&watched),
            guest: guest.clone(),
        };
        let task = PluginTask {
            guest,
            services,
            options,
            life,
            gate: Arc::default(),
            installed: None,
            watched,
            workers: JoinSet::new(),
            observer: JoinSet::new(),
            dispatcher: Dispatcher::default(),
        };
        let task = tokio::spawn(async move {
            if let Some(predecessor) = predecessor {
                predecessor.join().await;
            }
            task.run(receiver, shutdown).await;
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

    pub(crate) fn view(&self) -> &PluginView {
        &self.view
    }

    /// Waits for the task to end, after shutdown or after its files are gone.
    pub(crate) async fn join(self) {
        // A task that panicked has said so already.
        let _ = self.task.await;
    }
}

impl PluginView {
    pub(crate) fn status(&self) -> PluginStatus {
        let mut life = self.life.lock().clone();
        if life.state == PluginState::Running && life.error.is_empty() {
            life.error = self.trouble().unwrap_or_default();
        }
        let counters: BTreeMap<_, _> =
            self.guest.metrics.counters().into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
        PluginStatus {
            name: self.name.to_string(),
            version: life.version,
            state: life.state,
            generation: life.generation,
            error: life.error,
            digest: life.digest,
            queue_depth: self.guest.queue.snapshot().depth,
            counters,
        }
    }

    /// What keeps a watch of the running version from watching: a right that was taken away, a server that is away.
    fn trouble(&self) -> Option<String> {
        self.watched.lock().iter().find_map(|(watch, subscription)| {
            let error = subscription.upgrade()?.status().error?;
            Some(format!("watch {watch:?}: {error}"))
        })
    }

    /// Brings the gauges up to date; called when metrics are read.
    pub(crate) fn observe_queue(&self) {
        let snapshot = self.guest.queue.snapshot();
        let metrics = &self.guest.metrics;
        metrics.queue_depth.set(i64::try_from(snapshot.depth).unwrap_or(i64::MAX));
        metrics.unfinished_work.set(snapshot.unfinished_work.as_secs_f64());
        metrics.longest_running.set(snapshot.longest_running.as_secs_f64());
    }
}

impl PluginTask {
    async fn run(mut self, mut wanted: watch::Receiver<Wanted>, shutdown: CancellationToken) {
        let mut coming = Coming::default();
        let mut housekeeping = interval(IDLE / 2);
        housekeeping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {
                    coming.abandon();
                    return self.stop("the host is shutting down").await;
                }
                changed = wanted.changed() => {
                    coming.abandon();
                    let files = wanted.borrow_and_update().clone();
                    match files {
                        Some(files) if changed.is_ok() => coming.loading = Some(self.start_loading(files)),
                        _ => return self.stop("its file was removed").await,
                    }
                }
                arrival = coming.next() => match arrival {
                    Arrival::Loaded(outcome) => coming.swap = self.take(outcome).await,
                    Arrival::Drained(version, gate) => self.swap(*version, gate).await,
                },
                () = self.dispatcher.next(&self.guest) => {}
                _ = housekeeping.tick() => self.drop_idle_instances(),
            }
        }
    }

    fn start_loading(&self, files: PluginFiles) -> Loading {
        let (life, name) = (Arc::clone(&self.life), self.guest.name.clone());
        let report: Report = Arc::new(move |state, waiting_for| {
            let mut life = life.lock();
            let before = life.clone();
            life.step(state, waiting_for);
            if *life != before && state == PluginState::Waiting {
                tracing::info!(plugin = %name, "waiting: {waiting_for}");
            }
        });
        tokio::spawn(load(self.services.clone(), self.guest.clone(), files, self.installed.clone(), report))
    }

    /// Acts on the end of a load; a version that is ready to run becomes a swap.
    async fn take(&mut self, outcome: Result<Loaded, LoadProblem>) -> Option<Swap> {
        let name = &self.guest.name;
        match outcome {
            Ok(Loaded::Version(version)) => {
                let (gate, views) = (Arc::clone(&self.gate), Arc::clone(&version.views));
                let gate = Box::pin(async move {
                    let gate = gate.write_owned().await;
                    // The version that runs has been told of changes since the new one's indexes were made.
                    views.index_all().await;
                    gate
                });
                return Some(Swap { version: *version, gate });
            }
            Ok(Loaded::Unchanged) => self.life.lock().unchanged(),
            Ok(Loaded::Disabled) => {
                tracing::info!(plugin = %name, "its sidecar says enabled: false; it does not run");
                self.uninstall().await;
                self.life.lock().stopped("its sidecar says enabled: false");
            }
            Err(problem) => {
                self.guest.metrics.refused.inc();
                self.life.lock().refused(&problem.to_string());
                let goes_on = if self.installed.is_some() { "; the version that runs goes on" } else { "" };
                tracing::error!(plugin = %name, "not loaded: {problem}{goes_on}");
            }
        }
        None
    }

    /// Puts a version in the place of the one that runs. The workers have finished what they held, and take nothing new
    /// until the gate is dropped. The queue is not touched.
    async fn swap(&mut self, version: Version, mut gate: ClosedGate) {
        let version = Arc::new(version);
        if let Some(old) = gate.take() {
            old.fence.lower();
        }
        // It is in no call while the gate is closed.
        self.observer.shutdown().await;
        self.dispatcher.install(Arc::clone(&version));
        if self.options.requeue_all && self.installed.is_some() {
            dispatch::requeue_all(&version, &self.guest);
        }
        *gate = Some(Arc::clone(&version));
        drop(gate);
        self.installed = Some(Arc::clone(&version));
        *self.watched.lock() = version
            .routes
            .iter()
            .map(|route| (Arc::clone(&route.watch), Arc::downgrade(&route.subscribed.subscription)))
            .collect();
        self.match_workers(version.workers).await;
        if !version.feeds.is_empty() {
            let (gate, guest) = (Arc::clone(&self.gate), self.guest.clone());
            self.observer.spawn(observer::observe(gate, Arc::clone(&version), guest));
        }
        self.guest.metrics.loaded.inc();
        self.guest.metrics.max_concurrent.set(i64::try_from(version.workers).unwrap_or(i64::MAX));
        let generation = {
            let mut life = self.life.lock();
            life.installed(&version.descriptor.version, &version.digest);
            life.generation
        };
        tracing::info!(
            plugin = %self.guest.name,
            version = version.descriptor.version,
            generation,
            "running; watches {}",
            version.watching()
        );
    }

    /// Starts or ends workers until there are as many as the version wants. One that is ended lets go of its key
    /// first.
    async fn match_workers(&mut self, wanted: usize) {
        while self.workers.try_join_next().is_some() {}
        if self.workers.len() > wanted {
            // No worker is inside a reconcile while this is held, so none is cut in the middle.
            let _gate = self.gate.write().await;
            self.workers.shutdown().await;
        }
        while self.workers.len() < wanted {
            self.workers.spawn(worker::work(Arc::clone(&self.gate), self.guest.clone()));
        }
    }

    fn drop_idle_instances(&self) {
        if let Some(version) = self.installed.as_ref().filter(|version| !version.descriptor.stateful) {
            let dropped = version.pool.drop_idle(IDLE);
            if dropped > 0 {
                tracing::debug!(plugin = %self.guest.name, dropped, "idle instances dropped");
            }
        }
    }

    /// Takes the running version away, waiting for the workers to finish what they hold, up to [`DRAIN`].
    async fn uninstall(&mut self) {
        self.life.lock().draining();
        if timeout_at(Instant::now() + DRAIN, self.gate.write()).await.map(|mut gate| gate.take()).is_err() {
            tracing::warn!(
                plugin = %self.guest.name,
                "still reconciling {} s after it should have stopped; it is cut off",
                DRAIN.as_secs()
            );
        }
        if let Some(version) = self.installed.take() {
            version.fence.lower();
        }
        self.workers.shutdown().await;
        self.observer.shutdown().await;
        *self.gate.write().await = None;
        self.dispatcher.clear();
        self.watched.lock().clear();
    }

    async fn stop(&mut self, why: &str) {
        self.uninstall().await;
        self.guest.queue.shutdown();
        self.guest.guest_metrics.forget(&self.guest.name);
        self.life.lock().stopped(why);
        tracing::info!(plugin = %self.guest.name, "stopped: {why}");
    }
}

impl Coming {
    /// Gives up what is on its way: the files have changed again, or nothing is wanted any more.
    fn abandon(&mut self) {
        if let Some(loading) = self.loading.take() {
            loading.abort();
        }
        self.swap = None;
    }

    /// What comes next; never, while nothing is on its way. Cancellation safe.
    async fn next(&mut self) -> Arrival {
        if let Some(loading) = &mut self.loading {
            let outcome = loading.await;
            self.loading = None;
            return Arrival::Loaded(
                outcome.unwrap_or_else(|error| Err(LoadProblem::Internal(error.to_string()))),
            );
        }
        let Some(swap) = &mut self.swap else { return pending().await };
        let gate = swap.gate.as_mut().await;
        match self.swap.take() {
            Some(swap) => Arrival::Drained(Box::new(swap.version), gate),
            None => pending().await,
        }
    }
}
