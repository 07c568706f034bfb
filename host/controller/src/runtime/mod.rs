//! The task of one plugin: it owns the queue, the version that runs, and the one that is being loaded.
//!
//! ```text
//! directory ──Wanted──▶ PluginTask ──load──▶ Version ──swap──▶ workers
//! informers ──batches──▶    └──────dispatch──▶ queue ──keys──▶ workers ──▶ instances
//!     └──────batches──▶ observer ──▶ the pinned instance
//! ```

mod pending_version;
mod deleted_crds;
mod dispatch;
mod handle;
mod handover;
pub(crate) mod hot_loop;
mod kind_changes;
mod observer;
pub(crate) mod dedicated_instance;
pub mod predicate;
pub(crate) mod queue;
mod swap;
pub(crate) mod targets;
mod worker;
mod workers;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use pilothouse_plugin::LogLevel;
use tokio::sync::{RwLock, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::access;
use crate::directory::PluginFiles;
use crate::guest_host::GuestServices;
use crate::lifecycle::{Health, Input, Lifecycle, PluginState};
use crate::load::version::Version;
use crate::load::{LoadProblem, LoadServices, Loaded, Report, load};
use pending_version::{Arrival, Coming, Loading};
use dispatch::Dispatcher;
use handle::Watched;
pub(crate) use handle::{PluginHandle, PluginView};
pub(crate) use handover::Renamed;
use swap::{ClosedGate, Swap};
use workers::Workers;

/// How long instances wait for work before they are dropped.
const IDLE: Duration = Duration::from_secs(60);
/// How long a stopping plugin may finish what it holds; the process must be gone 10 s after SIGTERM.
const DRAIN: Duration = Duration::from_secs(8);
/// Why a plugin stops that ends with the process: nobody has to be told of that.
const SHUTDOWN: &str = "the host is shutting down";

/// What the directory says of the plugin: its files, or that they are gone.
pub(crate) type Wanted = Option<PluginFiles>;

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
    lifecycle: Lifecycle,
    /// What the workers run. They hold it for reading while they reconcile, so that a swap waits for them and they for
    /// the swap. The task itself never reads it: a reader that waits behind a swap it has to carry out would wait for
    /// ever.
    gate: Gate,
    /// The same version, for the task.
    installed: Option<Arc<Version>>,
    /// The record of that version, for the workers, who look at it before they take a key.
    health: watch::Sender<Health>,
    /// Tells of changes of the record.
    health_changes: watch::Receiver<()>,
    /// Tells of changes of its rights.
    permission_changes: watch::Receiver<access::State>,
    watched: Arc<Watched>,
    workers: Workers,
    /// What outlives this task when it panics.
    carried: Carried,
    /// The observer of the version that runs, where it has one. It holds the gate during its calls, as the workers do.
    observer: JoinSet<()>,
    /// Looks after the CRDs that it brought.
    crds: JoinSet<()>,
    /// Notices when its kinds are served in another way.
    kinds: JoinSet<String>,
    dispatcher: Dispatcher,
}

type Gate = Arc<RwLock<Option<Arc<Version>>>>;

/// What a plugin's task leaves to the one that is started after it panicked: the version goes on with its subscriptions, and
/// nothing that waits in them is lost. Cheap to clone.
#[derive(Clone, Default)]
struct Carried {
    version: Arc<Mutex<Option<Arc<Version>>>>,
    /// What observers were told of.
    memory: observer::Memory,
}

impl PluginTask {
    fn new(
        guest: GuestServices,
        lifecycle: Lifecycle,
        services: LoadServices,
        options: ReloadOptions,
        watched: Arc<Watched>,
        carried: Carried,
    ) -> Self {
        let health = Health::default();
        Self {
            guest,
            services,
            options,
            lifecycle,
            gate: Arc::default(),
            installed: None,
            health_changes: health.changes(),
            permission_changes: access::Permission::default().changes(),
            health: watch::Sender::new(health),
            watched,
            workers: Workers::default(),
            carried,
            observer: JoinSet::new(),
            crds: JoinSet::new(),
            kinds: JoinSet::new(),
            dispatcher: Dispatcher::default(),
        }
    }

    async fn run(&mut self, mut wanted: watch::Receiver<Wanted>, shutdown: CancellationToken) {
        let mut coming = Coming::default();
        let carried = self.carried.version.lock().clone();
        if let Some(version) = carried {
            // The task before panicked. Its workers are at their end, and hold another gate.
            let gate = ClosedGate::close(Arc::clone(&self.gate)).await;
            Box::pin(self.put_to_work(version, gate)).await;
        }
        let mut housekeeping = interval(IDLE / 2);
        housekeeping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {
                    coming.abandon();
                    return Box::pin(self.stop(SHUTDOWN)).await;
                }
                changed = wanted.changed() => {
                    self.guest.panics.point("plugin");
                    coming.abandon();
                    let files = wanted.borrow_and_update().clone();
                    match files {
                        Some(files) if changed.is_ok() => self.start_loading(&mut coming, files, &Input::Found),
                        _ => return Box::pin(self.stop("its file was removed")).await,
                    }
                }
                arrival = coming.next() => match arrival {
                    // In boxes of their own: they come rarely, and the task is there for as long as the plugin.
                    Arrival::Loaded(files, outcome) => Box::pin(self.take(&mut coming, files, outcome)).await,
                    Arrival::Ready(version, gate) => Box::pin(self.swap(version, gate)).await,
                    Arrival::Paused => {}
                    Arrival::Again(files) => self.start_loading(&mut coming, files, &Input::Again),
                },
                () = self.workers.lacking() => self.match_workers(self.workers.wanted()),
                Ok(()) = self.health_changes.changed() => self.look_at_health(),
                Ok(()) = self.permission_changes.changed() => self.look_at_health(),
                Some(Ok(what)) = self.kinds.join_next(), if !self.kinds.is_empty() => {
                    let files = wanted.borrow().clone();
                    self.load_for_kinds(&mut coming, files, &what);
                }
                () = self.dispatcher.next(&self.guest), if !coming.pauses_dispatch() => {}
                _ = housekeeping.tick() => {
                    self.drop_idle_instances();
                    self.lifecycle.look();
                    self.guest.log.settle();
                }
            }
        }
    }

    /// Loads the files of the version that runs again, because its kinds are not those that it was loaded with.
    fn load_for_kinds(&self, coming: &mut Coming, files: Option<PluginFiles>, what: &str) {
        let (Some(version), Some(files)) = (&self.installed, files) else { return };
        tracing::warn!(plugin = %self.guest.name, "loaded again: {what}");
        version.is_outdated.store(true, Ordering::Relaxed);
        coming.abandon();
        self.start_loading(coming, files, &Input::Found);
    }

    fn start_loading(&self, coming: &mut Coming, files: PluginFiles, why: &Input<'_>) {
        self.lifecycle.apply(why);
        let (lifecycle, log, load_number) =
            (self.lifecycle.clone(), self.guest.log.clone(), self.lifecycle.load());
        let report: Report = Arc::new(move |state, waiting_for| {
            let before = lifecycle.error();
            lifecycle.apply(&Input::Step { load: load_number, state, waiting_for });
            if state == PluginState::Waiting && lifecycle.error() != before {
                log.state(LogLevel::Info, format_args!("waiting: {waiting_for}"));
            }
        });
        let (services, guest) = (self.services.clone(), self.guest.clone());
        // Here and not in the load, which may go on for a moment after it was given up.
        let turn = guest.operator.begin();
        let loading: Loading =
            tokio::spawn(load(services, guest, turn, files.clone(), self.installed.clone(), report));
        coming.load(files, loading);
    }

    /// Acts on the end of a load; a version that is ready to run becomes a swap.
    async fn take(&mut self, coming: &mut Coming, files: PluginFiles, outcome: Result<Loaded, LoadProblem>) {
        let log = self.guest.log.clone();
        match outcome {
            Ok(Loaded::Version(version)) => {
                coming.swap(Swap::new(files, *version, Arc::clone(&self.gate)));
            }
            Ok(Loaded::Unchanged) => {
                self.lifecycle.apply(&Input::Unchanged);
            }
            Ok(Loaded::Disabled) => {
                log.state(LogLevel::Info, format_args!("its sidecar says enabled: false; it does not run"));
                self.uninstall().await;
                let why = "its sidecar says enabled: false";
                self.lifecycle.apply(&Input::Stopped { why, with_host: false });
            }
            Err(problem) => {
                self.guest.metrics.refused.inc();
                if let Some(installed) = &self.installed {
                    // It was raised for the version that does not come.
                    self.guest.host_memory.set_limit(installed.host_memory);
                }
                let goes_on = if self.installed.is_some() { "; the version that runs goes on" } else { "" };
                let text = problem.to_string();
                if problem.may_pass() {
                    let wait = coming.postpone(files);
                    self.lifecycle.apply(&Input::Postponed { problem: &text, wait });
                    let again = format_args!("tried again in {wait:.1?}{goes_on}");
                    log.state(LogLevel::Warn, format_args!("not loaded, {again}: {text}"));
                } else {
                    self.lifecycle.apply(&Input::Refused { problem: &text });
                    log.state(LogLevel::Error, format_args!("not loaded{goes_on}: {text}"));
                }
            }
        }
    }

    /// Puts a version in the place of the one that runs. The workers have finished what they held, and take nothing new
    /// until the gate is open. The queue is not touched.
    async fn swap(&mut self, version: Box<Version>, gate: ClosedGate) {
        let version = Arc::<Version>::from(version);
        self.put_to_work(Arc::clone(&version), gate).await;
        self.guest.metrics.loaded.inc();
        self.lifecycle
            .apply(&Input::Installed { version: &version.descriptor.version, digest: &version.digest });
        let (number, generation) = (&version.descriptor.version, self.lifecycle.generation());
        let watching = version.watching();
        let text = format_args!("running version {number:?}, generation {generation}; watches {watching}");
        self.guest.log.state(LogLevel::Info, text);
        // Its indexes may have failed before it ran.
        self.look_at_health();
    }

    async fn put_to_work(&mut self, version: Arc<Version>, gate: ClosedGate) {
        // It is in no call while the gate is closed.
        self.observer.shutdown().await;
        self.guest.host_memory.set_limit(version.host_memory);
        self.dispatcher.install(Arc::clone(&version), &self.guest);
        if let Some(old) = &self.installed {
            handover::hand_over(old, &version, &self.guest);
        }
        if self.options.requeue_all && self.installed.is_some() {
            dispatch::requeue_all(&version, &self.guest);
        }
        gate.install(Arc::clone(&version));
        self.installed = Some(Arc::clone(&version));
        *self.carried.version.lock() = Some(Arc::clone(&version));
        self.health_changes = version.health.changes();
        self.permission_changes = version.views.permission.changes();
        self.health.send_replace(version.health.clone());
        self.watched.install(&version);
        self.match_workers(version.workers);
        self.guest.metrics.max_concurrent.set(i64::try_from(version.workers).unwrap_or(i64::MAX));
        if !version.feeds.is_empty() {
            let (gate, guest, memory) =
                (Arc::clone(&self.gate), self.guest.clone(), self.carried.memory.clone());
            let version = Arc::clone(&version);
            self.observer.spawn(async move {
                let observe = || -> BoxFuture<'static, ()> {
                    let (gate, version) = (Arc::clone(&gate), Arc::clone(&version));
                    Box::pin(observer::observe(gate, version, guest.clone(), memory.clone()))
                };
                guest.restart("observer", observe).await;
            });
        } else {
            self.carried.memory.clear();
        }
        self.kinds.abort_all();
        self.kinds.spawn(kind_changes::changed(self.services.discovery.clone(), Arc::clone(&version)));
        self.crds.abort_all();
        if !version.descriptor.crds.is_empty() {
            let (services, watched) = (self.services.clone(), Arc::clone(&self.watched));
            let (version, lifecycle, guest) =
                (Arc::clone(&version), self.lifecycle.clone(), self.guest.clone());
            self.crds.spawn(async move {
                let keep = || -> BoxFuture<'static, ()> {
                    let (version, watched) = (Arc::clone(&version), Arc::clone(&watched));
                    let (operator, log) = (guest.operator.clone(), guest.log.clone());
                    Box::pin(deleted_crds::keep(services.clone(), version, operator, watched, lifecycle.clone(), log))
                };
                guest.restart("CRDs", keep).await;
            });
        }
    }

    /// Takes in whether the version that runs lacks a right or backs off.
    fn look_at_health(&self) {
        let Some(version) = &self.installed else { return };
        if let Some(why) = version.views.permission.why() {
            self.lifecycle.apply(&Input::Withheld { why: &why });
            return;
        }
        self.lifecycle.apply(&Input::Allowed);
        let log = &self.guest.log;
        match version.health.backing_off() {
            Some(backing_off) => {
                let wait = backing_off.until.saturating_duration_since(Instant::now());
                let problem = backing_off.to_string();
                self.lifecycle.apply(&Input::Faulty { problem: &problem, wait });
                if !wait.is_zero() {
                    log.state(
                        LogLevel::Warn,
                        format_args!("backing off, tried again in {wait:.1?}: {problem}"),
                    );
                }
            }
            None => {
                if self.lifecycle.apply(&Input::Recovered) {
                    log.state(LogLevel::Info, format_args!("running again after faults"));
                }
            }
        }
    }

    /// Starts workers until there are as many as the version wants. Those that are too many end after the key that they
    /// hold.
    fn match_workers(&mut self, wanted: usize) {
        let (gate, health, guest) = (&self.gate, &self.health, &self.guest);
        self.workers
            .set(wanted, |place| worker::work(place, Arc::clone(gate), health.subscribe(), guest.clone()));
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
        // It is draining already where this task was started again in the middle of this.
        if self.lifecycle.status().state != PluginState::Draining {
            self.lifecycle.apply(&Input::Draining);
        }
        if timeout_at(Instant::now() + DRAIN, self.gate.write()).await.map(|mut gate| gate.take()).is_err() {
            let seconds = DRAIN.as_secs();
            let text =
                format_args!("still reconciling {seconds} s after it should have stopped; it is cut off");
            self.guest.log.state(LogLevel::Warn, text);
        }
        self.carried.version.lock().take();
        if let Some(version) = self.installed.take() {
            version.retire();
        }
        self.workers.shutdown().await;
        self.observer.shutdown().await;
        self.crds.shutdown().await;
        self.kinds.shutdown().await;
        *self.gate.write().await = None;
        self.dispatcher.clear();
        self.watched.clear();
    }

    async fn stop(&mut self, why: &str) {
        self.uninstall().await;
        self.guest.queue.shutdown();
        self.guest.forget();
        self.lifecycle.apply(&Input::Stopped { why, with_host: why == SHUTDOWN });
        self.guest.log.settle();
        self.guest.log.state(LogLevel::Info, format_args!("stopped: {why}"));
    }
}
