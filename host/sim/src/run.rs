//! What happened in one run.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::plan::{ActorStep, Deviation, Plan};

/// How long the watches of a resource whose first list came from the past deliver nothing, in virtual milliseconds: the server that answered
/// is behind the others for that long.
pub const PAST_LAG: u64 = 10_000;

/// How long the host waits at the most before it lists again after a watch has ended, in virtual milliseconds: the reflector's longest backoff.
pub const RELIST_BACKOFF: u64 = 30_000;

/// The result of one run. Equal plans give equal runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The plan.
    pub plan: Plan,
    /// All events, in order.
    pub events: Vec<Event>,
    /// How the run ended.
    pub end: End,
    /// All objects on the server at the end, as stored, in the order of resource, namespace and name.
    pub objects: Vec<StoredObject>,
    /// Indexes into the plan's deviations whose moment never came.
    pub skipped: Vec<usize>,
    /// The rolling hash over every call of the guest and its answer, every request, every delivery and every commit, and at last `draws`.
    pub hash: u64,
    /// The rolling hash's value after each event, to find the first that differs between two runs.
    pub hashes: Vec<u64>,
    /// How often the server, the host and the guests have drawn something at random.
    pub draws: u64,
    /// The steps of actors that have a list of steps, in the order in which they were taken.
    pub steps: Vec<ActorStep>,
    /// Why actors have not taken all their steps, one text for each such actor.
    pub unfinished: Vec<String>,
    /// What the world does not simulate, although something in it depends on that.
    pub not_simulated: BTreeSet<&'static str>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// At rest: after the last step and the last fault, nothing happened for the rest period, or plugins changed nothing but times in objects.
    AtRest,
    /// The plugin was still working when the budget of virtual time or of events was used up, or never came to rest.
    NotAtRest,
    /// The plugin could not run any more: its version was refused, for example.
    PluginStopped(String),
}

/// An object of the server.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredObject {
    /// The resource as `plural.group`.
    pub resource: String,
    /// The namespace, "" for cluster-scoped objects.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The object.
    pub object: Arc<Value>,
    /// Whether the server began with the object, and nobody has changed it.
    pub is_initial: bool,
}

/// One event of a run.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Event {
    /// Virtual milliseconds since the start.
    pub time: u64,
    /// Which incarnation of the host's process runs, from 1. A restart increases it.
    pub host: u32,
    /// What happened.
    pub kind: EventKind,
}

/// Who did something.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Author {
    /// The plugin of this name.
    Plugin(String),
    /// An actor of the scenario.
    Actor(String),
    /// A built-in controller of the server.
    Controller,
    /// The host itself, on behalf of no reconcile: Events, and the CRDs of plugins.
    Host,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum EventKind {
    /// The host started; `past` lists resources whose first list was answered from the past.
    HostStarted {
        /// Resources (`plural.group`) and how many of their changes the first list did not contain.
        past: Vec<(String, u32)>,
    },
    /// The host's process ended.
    HostEnded,
    /// The plugin was reloaded.
    Reloaded,
    /// A reconcile began.
    ReconcileStarted {
        /// Identifies the reconcile within the run.
        reconcile: u64,
        /// The plugin's name.
        plugin: String,
        /// The target watch.
        watch: String,
        /// The key, `namespace/name` or `name`.
        key: String,
        /// The reasons, in the notation of the contract: `created`, `retry`.
        reasons: Vec<String>,
        /// How many times in a row the key has failed.
        attempt: u32,
        /// Whether the host has replaced the instance, because it was idle or had failed: its memory is empty. `false` for the first one of a
        /// process or version, and for one beside others.
        is_replacement: bool,
    },
    /// A reconcile ended.
    ReconcileEnded {
        /// The reconcile.
        reconcile: u64,
        /// `ok`, `requeue`, or the error or fault.
        result: ReconcileResult,
    },
    /// A request reached the server, or was refused on the way.
    Request(Box<RequestEvent>),
    /// A watch of the host delivered a change.
    Delivered {
        /// The resource as `plural.group`.
        resource: String,
        /// `ADDED`, `MODIFIED`, `DELETED`; `LISTED` for an object of a list.
        change: String,
        /// The key.
        key: String,
        /// The object's UID.
        uid: String,
        /// The object's resource version.
        version: u64,
    },
    /// An HTTP request of the plugin to a stand-in of the scenario.
    Http {
        /// The reconcile that sent it, if any.
        reconcile: Option<u64>,
        /// The method.
        method: String,
        /// The URL.
        url: String,
        /// The status; `None` if no answer arrived.
        status: Option<u16>,
    },
    /// The state of the scenario's HTTP services changed. The first event of this kind describes the state at the start.
    HttpState {
        /// A map from the name of each service to its state.
        state: Value,
    },
    /// A deviation of the plan took effect.
    Deviated {
        /// Its index in the plan.
        index: usize,
        /// A copy.
        deviation: Deviation,
    },
    /// The world is at rest.
    Rest {
        /// Which rest, from 1.
        occurrence: u32,
    },
    /// The steps and faults are over; from here on the plugin must come to rest.
    FaultsOver,
    /// Plugins alone have kept the world busy for minutes. It goes on as if it were at rest.
    BusyTimeout,
}

/// The result of a reconcile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReconcileResult {
    /// The plugin is done with the key.
    Ok,
    /// The plugin wants the key again after this many milliseconds.
    Requeue(u64),
    /// The plugin returned an error.
    Error(String),
    /// The guest trapped, ran out of time, or was stopped.
    Fault(String),
    /// The host ended meanwhile.
    Abandoned,
}

/// A request, and what it did.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct RequestEvent {
    /// Who sent it.
    pub author: Author,
    /// Which step of the actor it is, from 1, if an actor with a list of steps sent it.
    pub step: Option<u32>,
    /// The reconcile that sent it, if any.
    pub reconcile: Option<u64>,
    /// The verb, in the notation of RBAC.
    pub verb: String,
    /// The resource as `plural.group`, without the subresource.
    pub resource: String,
    /// The subresource, "" for none.
    pub subresource: String,
    /// The namespace, "" for none.
    pub namespace: String,
    /// The object's name; for a create the name that the server gave, "" for lists.
    pub name: String,
    /// The body, if there is one and it is JSON.
    pub body: Option<Value>,
    /// The HTTP status with which the server answered; `None` if the request did not reach it.
    pub status: Option<u16>,
    /// The `reason` of an error's Status, "" otherwise.
    pub reason: String,
    /// Whether the sender received the answer.
    pub answered: bool,
    /// The object before a write that changed something; `None` if there was none.
    pub before: Option<Arc<Value>>,
    /// The object after a write; `None` if it is gone.
    pub after: Option<Arc<Value>>,
    /// Whether the write changed the stored state. `false` for reads, errors and writes without effect.
    pub changed: bool,
    /// For a destructive write of a plugin: the UID under which the host's cache knew the object, if it did.
    pub cached_uid: Option<String>,
}
