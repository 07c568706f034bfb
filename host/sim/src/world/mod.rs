//! The real world: the embedded API server, the real informers and the real controller, on one thread, in virtual time.
//!
//! Each run has a server of its own, and each incarnation of the host a tokio runtime of its own with paused time. When the plan ends the
//! host's process, its runtime is dropped with all tasks in it, and the next one starts; the server and the time continue. Between host and
//! server are gates ([`gate`]), where the faults of the plan happen and where everything is recorded.

mod actors;
mod call_recorder;
mod clock;
mod driver;
mod from_scenario;
mod gate;
mod hash;
mod host;
mod http;
mod instances;
mod mirror;
mod plugins;
mod reconciles;
mod record;
mod request;
mod requeues;
mod schedule;
mod shared;
mod state;
mod views;
mod watch_body;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use pilothouse_apiserver::{ApiServer, ApiServerBuilder, Controllers, InitialObjects};
use pilothouse_controller::{CRD_FIELD_MANAGER, Metrics, ResourceLists};
use pilothouse_model::ResourceType;
use pilothouse_plugin::blocking::run_inline;
use prometheus_client::registry::Registry;
use serde_json::Value;

use crate::actor::{Actor, ActorWrite, Operation};
use crate::call_log::CallLog;
use crate::gaps;
use crate::http::HttpServices;
use crate::plan::{HistoryPlan, Plan};
use crate::run::{Author, End, Run};
use crate::scenario::actor::ActorState;
use crate::scenario::history::History;
use crate::{Simulator, WorldError};
use actors::Actors;
use clock::VirtualClock;
use driver::Outcome;
use host::Setup;
use http::Services;
use mirror::Mirror;
use schedule::Schedule;
use shared::Shared;

pub(crate) use gate::OTHER_CLIENT;
pub use plugins::{CompiledPlugins, DescribedCode, PluginFile, WorldPlugin, engine};

/// The controllers that run by default: those that every cluster has, whatever its nodes do.
const DEFAULT_CONTROLLERS: &str = "garbage-collector-controller,namespace-controller";
/// The author of the objects that exist from the start.
pub(crate) const SETUP: &str = "setup";
/// The seed of the order of hash maps.
const HASH_SEED: u64 = 33;
/// Another one, with which the same runs must be the same.
const OTHER_HASH_SEED: u64 = 0x5eed_0f0d_d0e5;
/// The resource version before the first write of a run.
const FIRST_REVISION: u64 = 1_000;

/// Fixes the order of hash maps in this process, so that equal plans give equal runs in all processes. Must be called before anything else
/// that uses the host's crates; [`engine`] calls it, too, and goes on if it is too late.
///
/// # Errors
/// If a hash map was created before.
pub fn fix_hash_order() -> Result<(), WorldError> {
    pilothouse_model::hash::set_seed(HASH_SEED).map_err(|error| WorldError(error.to_string()))
}

/// Gives hash maps another order than [`fix_hash_order`], in a process that makes the same runs again: they must not depend on it.
///
/// # Errors
/// If a hash map was created before.
pub fn fix_other_hash_order() -> Result<(), WorldError> {
    pilothouse_model::hash::set_seed(OTHER_HASH_SEED).map_err(|error| WorldError(error.to_string()))
}

/// Bounds of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorldLimits {
    /// How long nothing may happen before the world counts as at rest, in virtual milliseconds.
    pub rest_ms: u64,
    /// How long a run may take, in virtual milliseconds.
    pub virtual_ms: u64,
    /// How many events a run may have.
    pub events: usize,
}

impl Default for WorldLimits {
    fn default() -> Self {
        Self { rest_ms: 30_000, virtual_ms: 2 * 60 * 60 * 1_000, events: 5_000 }
    }
}

/// Creates the actors of a run with this seed.
pub type ActorFactory = Box<dyn Fn(u64) -> Vec<Box<dyn Actor>> + Send>;

/// Creates the HTTP services of a run; `None` if there are none.
pub type HttpFactory = Box<dyn Fn() -> Option<Box<dyn HttpServices>> + Send>;

/// What a world consists of, beside the plugins.
pub struct WorldOptions {
    /// CRDs that exist from the start.
    pub crds: Vec<Value>,
    /// CRDs of the plugins, which a host has applied before.
    pub applied_crds: Vec<Value>,
    /// Objects that exist from the start.
    pub objects: Vec<(ResourceType, Value)>,
    /// Creates the actors.
    pub actors: ActorFactory,
    /// What an actor may do in place of its steps.
    pub histories: Vec<History>,
    /// Creates the HTTP services.
    pub http: HttpFactory,
    /// Whether the host gives its guarantees: plugins' reads show their own writes at once, and a write without an answer holds its key.
    pub guarantees: bool,
    /// The built-in controllers that run; `None` for garbage collection and namespaces.
    pub controllers: Option<Controllers>,
    /// Bounds.
    pub limits: WorldLimits,
}

impl Default for WorldOptions {
    fn default() -> Self {
        Self {
            crds: Vec::new(),
            applied_crds: Vec::new(),
            objects: Vec::new(),
            actors: Box::new(|_| Vec::new()),
            histories: Vec::new(),
            http: Box::new(|| None),
            guarantees: true,
            controllers: None,
            limits: WorldLimits::default(),
        }
    }
}

impl std::fmt::Debug for WorldOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorldOptions").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// Executes plans with the real host on the embedded API server.
pub struct World {
    plugins: CompiledPlugins,
    options: WorldOptions,
    controllers: Controllers,
    metrics: Metrics,
    /// What the hosts of all runs have discovered.
    resource_lists: ResourceLists,
    /// What the server of each run begins with.
    initial: (InitialObjects, Mirror),
}

impl World {
    /// Creates a world for these plugins.
    ///
    /// # Errors
    /// If the default list of controllers is unknown to the server, or no server can be built.
    pub fn new(plugins: CompiledPlugins, options: WorldOptions) -> Result<Self, WorldError> {
        let controllers = match &options.controllers {
            Some(controllers) => controllers.clone(),
            None => DEFAULT_CONTROLLERS
                .parse()
                .map_err(|error: pilothouse_apiserver::UnknownController| WorldError(error.to_string()))?,
        };
        let metrics = Metrics::register(&mut Registry::default());
        let server = server_builder(VirtualClock::new()).first_revision(FIRST_REVISION).seed(0).build();
        let mirror = Mirror::of_initial(server.take_commits());
        let objects = server.initial_objects();
        let objects = objects.ok_or_else(|| WorldError("the objects of a new server change".to_owned()))?;
        let resource_lists = ResourceLists::default();
        Ok(Self { plugins, options, controllers, metrics, resource_lists, initial: (objects, mirror) })
    }

    /// Runs the plan to its end, like [`Simulator::run`], and adds the calls on which the hash depends to the log. Of a log that had calls
    /// already, nothing is left if this fails.
    ///
    /// # Errors
    /// Like [`Simulator::run`].
    pub fn run_with_calls(&mut self, plan: &Plan, calls: &mut CallLog) -> Result<Run, WorldError> {
        let (run, logged) = self.execute(plan, Some(std::mem::take(calls)))?;
        *calls = logged.unwrap_or_default();
        Ok(run)
    }

    /// Creates the actors of a run. The actor of a history takes the place of the one that has its name.
    fn actors_of(&self, plan: &Plan) -> Result<Vec<Box<dyn Actor>>, WorldError> {
        let mut actors = (self.options.actors)(plan.seed);
        if let Some(HistoryPlan { index, is_shorter }) = plan.history {
            let history = self.options.histories.get(index);
            let problem = || WorldError(format!("there is no history {index}; find the error again"));
            let definition = history.ok_or_else(problem)?.way(is_shorter);
            let replaced = actors.iter().position(|actor| actor.name() == definition.name);
            let actor: Box<dyn Actor> = Box::new(ActorState::new(Arc::clone(definition), plan.seed));
            match replaced {
                Some(position) => actors[position] = actor,
                None => actors.push(actor),
            }
        }
        Ok(actors)
    }

    /// Runs the plan to its end, and adds its calls to the log, if there is one.
    fn execute(&mut self, plan: &Plan, calls: Option<CallLog>) -> Result<(Run, Option<CallLog>), WorldError> {
        let _inline = run_inline();
        let clock = VirtualClock::new();
        let (objects, mirror) = self.initial.clone();
        let server = server_builder(clock.clone()).initial_objects(objects).seed(plan.seed).build();
        let schedule = Schedule::new(plan.deviations.clone());
        let shared = Shared::new(server, clock, schedule, mirror, self.options.limits.events, calls);
        let mut actors = Actors::new(self.actors_of(plan)?, &plan.left_out);
        let http = Services::new(shared.clone(), (self.options.http)());
        let setup = Setup {
            http: &http,
            engine: &self.plugins.engine,
            metrics: &self.metrics,
            resource_lists: &self.resource_lists,
            plugins: &self.plugins.plugins,
            controllers: &self.controllers,
            limits: self.options.limits,
            guarantees: self.options.guarantees,
            seed: plan.seed,
        };
        let end = loop {
            let runtime = runtime()?;
            let outcome = runtime.block_on(async {
                shared.clock().resume();
                let is_first = shared.lock().host == 0;
                if is_first {
                    set_up(&shared, &self.options).await?;
                }
                shared.lock().begin_host();
                let outcome = driver::run(&setup, &shared, &mut actors).await;
                shared.clock().pause();
                // What the ending tasks still do is no part of the run.
                shared.lock().crash.get_or_insert_default();
                outcome
            });
            // The host's process ends here, with everything in it.
            drop(runtime);
            match outcome? {
                Outcome::Crashed => {}
                Outcome::Ended(end) => break end,
            }
        };
        let run = finish(&shared, plan, end, actors, &self.controllers);
        let calls = shared.lock().calls.take();
        Ok((run, calls))
    }
}

impl Simulator for World {
    fn run(&mut self, plan: &Plan) -> Result<Run, WorldError> {
        self.execute(plan, None).map(|(run, _)| run)
    }
}

/// Returns the builder of a run's server.
fn server_builder(clock: VirtualClock) -> ApiServerBuilder {
    ApiServer::builder().clock(clock).webhooks(false).storage_protection(false).record_commits(true)
}

/// Returns the runtime of one host.
fn runtime() -> Result<tokio::runtime::Runtime, WorldError> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(|error| WorldError(format!("cannot start a tokio runtime: {error}")))
}

/// Creates the objects that exist from the start.
async fn set_up(shared: &Shared, options: &WorldOptions) -> Result<(), WorldError> {
    let crd = ResourceType {
        group: "apiextensions.k8s.io".to_owned(),
        version: "v1".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
        plural: "customresourcedefinitions".to_owned(),
        namespaced: false,
    };
    let applied = options.applied_crds.iter().map(|object| (&crd, object, true));
    let crds = options.crds.iter().map(|object| (&crd, object, false));
    let objects = options.objects.iter().map(|(resource, object)| (resource, object, false));
    for (resource, object, is_applied) in applied.chain(crds).chain(objects) {
        let metadata = &object["metadata"];
        let namespace = metadata["namespace"].as_str().unwrap_or("default");
        let write = ActorWrite {
            step: 0,
            resource: resource.clone(),
            subresource: String::new(),
            namespace: if resource.namespaced { namespace.to_owned() } else { String::new() },
            name: metadata["name"].as_str().unwrap_or_default().to_owned(),
            operation: if is_applied {
                Operation::Apply(object.clone())
            } else {
                Operation::Create(object.clone())
            },
        };
        let author = Author::Actor(if is_applied { CRD_FIELD_MANAGER } else { SETUP }.to_owned());
        let outcome = actors::send(shared, author, None, &write).await;
        if outcome.status >= 300 {
            let (kind, name) = (&resource.kind, &write.name);
            return Err(WorldError(format!("the {kind} {name} cannot be created: {}", outcome.message)));
        }
    }
    Ok(())
}

fn finish(shared: &Shared, plan: &Plan, end: End, actors: Actors, controllers: &Controllers) -> Run {
    let mut state = shared.lock();
    let draws = state.record_draws(shared.server().random_draws());
    Run {
        draws,
        unfinished: actors.unfinished(),
        steps: actors.into_taken(),
        not_simulated: gaps::touched(&state.events, |name| controllers.contains(name)),
        plan: plan.clone(),
        events: std::mem::take(&mut state.events),
        end,
        objects: std::mem::take(&mut state.mirror).into_objects(),
        skipped: state.schedule.skipped(),
        hash: state.hash.value(),
        hashes: std::mem::take(&mut state.hashes),
    }
}
