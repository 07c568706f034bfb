//! Actors: stand-ins for users and other controllers, which write to the server beside the plugin.
//!
//! The world polls an [`Actor`] after each commit, at each rest and when the time comes that the actor asked for. An
//! actor writes nothing itself: it returns one [`ActorWrite`] at a time, and the world reports its outcome before it
//! polls the actor again. Everything that an actor does follows from the objects, the time and its seed.

use std::sync::Arc;

use pilothouse_model::ResourceType;
use serde_json::Value;

/// The objects of the server, as they are stored at this moment.
pub trait ObjectView {
    /// Returns the number of commits so far. An actor whose last poll saw the same revision has nothing new to read.
    fn revision(&self) -> u64;

    /// Returns all objects of a resource in the order of namespace and name. A resource that is not served has none.
    fn list(&self, resource: &ResourceType) -> Vec<Arc<Value>>;

    /// Returns one object. `namespace` is "" for cluster-scoped objects.
    fn get(&self, resource: &ResourceType, namespace: &str, name: &str) -> Option<Arc<Value>>;
}

/// When an actor is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollMoment {
    /// Virtual milliseconds since the start.
    pub now_ms: u64,
    /// Whether the world is at rest. By default, the steps of a user are taken at rests only. After a write, the world
    /// is not at rest before it has delivered it.
    pub at_rest: bool,
}

/// What an actor wants at this moment.
#[derive(Clone, Debug, PartialEq)]
pub enum ActorPoll {
    /// The world carries out this write and reports it by [`Actor::written`] before it polls the actor again.
    Write(Box<ActorWrite>),
    /// Nothing now. The world polls again after the next commit, and as described here.
    Wait {
        /// The virtual time in milliseconds at which the actor wants to be polled again.
        until: Option<u64>,
        /// Whether the actor has a step for the next rest.
        for_rest: bool,
    },
    /// The actor has taken its last step. It is not polled again.
    Done,
    /// The actor cannot go on, for example because the server refused a step for good. It is not polled again.
    Failed(String),
}

/// One write of an actor.
#[derive(Clone, Debug, PartialEq)]
pub struct ActorWrite {
    /// The step, from 1, as [`Moment::Step`](crate::plan::Moment::Step) counts them. The writes of a stand-in that
    /// has no list of steps are counted in their order.
    pub step: u32,
    /// The resource.
    pub resource: ResourceType,
    /// The subresource, "" for the object itself.
    pub subresource: String,
    /// The namespace, "" for cluster-scoped objects.
    pub namespace: String,
    /// The name, "" for a create with `generateName`.
    pub name: String,
    /// What is done.
    pub operation: Operation,
}

/// What a write does.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Creates this object.
    Create(Value),
    /// Applies this object by server-side apply, with the actor's name as field manager and with force.
    Apply(Value),
    /// Changes the object by this merge patch.
    MergePatch(Value),
    /// Deletes the object.
    Delete {
        /// `Background`, `Foreground` or `Orphan`; `None` for the server's default.
        propagation: Option<String>,
        /// The UID that the object must have.
        uid: Option<String>,
    },
}

/// The server's answer to a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteOutcome {
    /// The HTTP status.
    pub status: u16,
    /// The message of an error's Status, "" otherwise.
    pub message: String,
}

/// Something that writes to the server beside the plugin. A pure state machine.
pub trait Actor {
    /// Returns the actor's name.
    fn name(&self) -> &str;

    /// Returns what the actor wants at this moment.
    fn poll(&mut self, view: &dyn ObjectView, moment: PollMoment) -> ActorPoll;

    /// Reports the outcome of the write that the last poll returned.
    fn written(&mut self, outcome: &WriteOutcome, now_ms: u64);

    /// Tells the actor to take its next step at the next poll rather than at its default moment: it neither waits for
    /// a rest nor for a time. Two calls concern the next two steps. It still waits for the conditions of the scenario.
    fn take_next_step(&mut self);

    /// Tells the actor that its write is not carried out, because the plan leaves the step out. The actor goes on with the next step. Each
    /// call of [`take_next_step`](Self::take_next_step) still concerns one step that is taken.
    fn leave_out(&mut self, now_ms: u64) {
        self.written(&WriteOutcome { status: 200, message: String::new() }, now_ms);
    }

    /// Describes the step that the actor still has to take, if it has a list of steps that is not finished.
    fn unfinished(&self) -> Option<String>;
}
