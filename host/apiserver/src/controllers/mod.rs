//! The built-in controllers: those of kube-controller-manager that development and tests need, a scheduler, and simulated
//! kubelets.
//!
//! One task reads changes from the tables and passes them to each controller, which queues what a
//! change concerns. A key is due [`STEP`] after the change, so that no controller writes in the same instant as a client.
//! Without due keys the task sleeps. Controllers write through the same functions as requests. They run one after the other in the task;
//! those whose writes may wait for a webhook run in threads of their own ([`runner`]), so that a slow webhook delays only the controllers that call
//! it.
//!
//! A controller of the objects of one kind is a function that decides what to do for one object ([`action::Plan`]); the
//! frame in [`kind_controller`] queues, executes and retries.

mod action;
pub(crate) mod aggregation;
mod autoscaler;
mod certificates;
mod claim;
mod cluster;
mod crds;
mod cron_job;
mod daemon_set;
mod deployment;
mod disruption;
mod endpoints;
mod events;
mod feed;
mod garbage_collector;
mod job;
mod kind;
mod kind_controller;
mod kubelet;
mod namespaces;
mod node;
mod object;
mod pod;
mod pod_backoff;
mod policy_status;
mod queue;
mod quota;
mod remaining_content;
mod replica_set;
mod revision;
mod root_ca;
mod runner;
mod scheduler;
mod selection;
mod service_accounts;
mod stage;
mod stateful_set;
mod supervise;
mod ttl;
mod volume_protection;
mod volumes;
mod workload_status;

use std::sync::Arc;
use std::time::Duration;

use pilothouse_listen::Authority;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::registry::Endpoint;
use crate::state::State;
use crate::storage::StoredObject;
use feed::Feed;
use kind::Kind;
use runner::Runner;
use volumes::provisioner;

pub use selection::{Controllers, UnknownController};
pub use stage::{StageError, Stages};

/// The field manager of everything that the controllers of the controller manager write.
const MANAGER: &str = "kube-controller-manager";

/// The time between a change and the reaction of a controller. A client that writes an object and then writes back the
/// answer succeeds within it.
const STEP: Duration = Duration::from_millis(30);

/// The options of [`crate::ApiServer::run_controllers_with`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ControllerOptions {
    /// Which controllers run.
    pub controllers: Controllers,
    /// How objects change that match a stage; by default, only the simulated kubelets change Pods.
    pub stages: Stages,
    /// The CA certificate that is published in every namespace, in PEM. Without it, none is published.
    pub(crate) ca_certificate: Option<String>,
    /// The authority that signs CertificateSigningRequests. Without it, none is signed.
    pub(crate) authority: Option<Arc<Authority>>,
}

impl ControllerOptions {
    /// Sets which controllers run; all by default.
    #[must_use]
    pub fn with_controllers(self, controllers: Controllers) -> Self {
        Self { controllers, ..self }
    }

    /// Sets the stages of objects; none by default.
    #[must_use]
    pub fn with_stages(self, stages: Stages) -> Self {
        Self { stages, ..self }
    }
}

/// A change of an object.
#[derive(Clone, Copy)]
enum Change<'a> {
    /// The object was created or updated.
    Applied(&'a Arc<StoredObject>),
    /// The object was deleted.
    Deleted(&'a Arc<StoredObject>),
}

/// A change, as controllers observe it.
struct Observation<'a> {
    endpoint: &'a Arc<Endpoint>,
    /// The built-in kind; `None` for kinds that only the general controllers use.
    kind: Option<Kind>,
    change: Change<'a>,
    /// The time at which controllers react.
    due: Instant,
}

impl<'a> Observation<'a> {
    fn object(&self) -> &'a StoredObject {
        match self.change {
            Change::Applied(object) | Change::Deleted(object) => object,
        }
    }

    fn is_deletion(&self) -> bool {
        matches!(self.change, Change::Deleted(_))
    }
}

/// A controller, which observes every change, and acts on the current state when something is due.
trait Controller: Send {
    /// Queues what a change requires.
    fn observe(&mut self, observation: &Observation<'_>);

    /// Returns the time at which the next queued item is due.
    fn next_due(&self) -> Option<Instant>;

    /// Does what is due. Its writes are observed as changes in turn.
    fn run(&mut self, state: &State, now: Instant);
}

/// Returns a future that runs the selected controllers until `shutdown` is cancelled. The simulated Node and the default
/// StorageClass exist already before the future runs. If a controller panics, all of them start again ([`supervise`]).
pub(crate) fn run(
    state: Arc<State>,
    options: &ControllerOptions,
    shutdown: CancellationToken,
) -> impl Future<Output = ()> + Send + use<> {
    let takeover = crds::Takeover::new(Arc::clone(&state));
    if options.controllers.contains(node::NAME) {
        node::create_simulated_node(&state);
    }
    if options.controllers.contains(provisioner::NAME) {
        provisioner::create_default_class(&state);
    }
    let options = options.clone();
    async move {
        supervise::run(|| run_loop(&state, selection::instantiate(&options), &shutdown), &shutdown).await;
        drop(takeover);
    }
}

async fn run_loop(state: &Arc<State>, controllers: Vec<Box<dyn Controller>>, shutdown: &CancellationToken) {
    let mut feed = Feed::default();
    let mut runner = Runner::new(controllers);
    let mut changed = state.storage.subscribe();
    loop {
        changed.borrow_and_update();
        let due = Instant::now() + STEP;
        // A controller that waits for a webhook for long must not collect changes without a bound.
        let any_change = !runner.is_full()
            && feed.read(state, &mut |endpoint, change| {
                runner.observe(&Observation { endpoint, kind: Kind::of(endpoint), change, due });
            });
        runner.run(state, Instant::now());
        // There may be more to do already, but other tasks need to run, too.
        tokio::task::yield_now().await;
        if shutdown.is_cancelled() {
            return;
        }
        if any_change {
            runner.collect_finished();
            continue;
        }
        let (next_due, is_full) = (runner.next_due(), runner.is_full());
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = runner.finished() => {}
            changed = changed.changed(), if !is_full => if changed.is_err() { return },
            () = sleep_until(next_due) => {}
        }
    }
}

/// Waits until `due`, forever if there is no due time.
async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
