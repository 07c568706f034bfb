//! The actors of a scenario: their definitions, and the state machines that follow them.

mod definition;
mod for_each;
mod steps;
mod tasks;

use std::sync::Arc;

pub(super) use definition::actor_of;
pub use definition::{ActorDefinition, Behaviour, Effect, ForEach, Step, StepAction};
use for_each::ForEachState;
use pilothouse_controller::stable_hash::{self, fnv1a};
use steps::StepsState;
pub use tasks::shorter_tasks;

use crate::actor::{Actor, ActorPoll, ObjectView, PollMoment, WriteOutcome};

/// The first interval after which a refused write is repeated, in virtual milliseconds. It doubles up to a minute.
const FIRST_RETRY_MS: u64 = 1000;
const MAX_RETRY_MS: u64 = 60_000;
/// How often in a row a write may be refused before the actor gives up.
const MAX_ATTEMPTS: u32 = 20;

/// An actor of a scenario in one run.
#[derive(Debug)]
pub struct ActorState {
    definition: Arc<ActorDefinition>,
    state: State,
}

#[derive(Debug)]
enum State {
    Steps(StepsState),
    ForEach(Box<ForEachState>),
}

impl ActorState {
    /// Creates the actor of a run. Its delays follow from the seed and its name.
    #[must_use]
    pub fn new(definition: Arc<ActorDefinition>, seed: u64) -> Self {
        let state = match &definition.behaviour {
            Behaviour::Steps(_) => State::Steps(StepsState::default()),
            Behaviour::ForEach(_) => State::ForEach(Box::new(ForEachState::new(mix(seed, &definition.name)))),
        };
        Self { definition, state }
    }
}

impl Actor for ActorState {
    fn name(&self) -> &str {
        &self.definition.name
    }

    fn poll(&mut self, view: &dyn ObjectView, moment: PollMoment) -> ActorPoll {
        match (&mut self.state, &self.definition.behaviour) {
            (State::Steps(state), Behaviour::Steps(steps)) => state.poll(steps, view, moment),
            (State::ForEach(state), Behaviour::ForEach(for_each)) => state.poll(for_each, view, moment),
            // `new` creates the state of the behaviour.
            _ => ActorPoll::Done,
        }
    }

    fn written(&mut self, outcome: &WriteOutcome, now_ms: u64) {
        match (&mut self.state, &self.definition.behaviour) {
            (State::Steps(state), Behaviour::Steps(steps)) => state.written(steps, outcome, now_ms),
            (State::ForEach(state), _) => state.written(outcome, now_ms),
            (State::Steps(_), Behaviour::ForEach(_)) => {}
        }
    }

    fn leave_out(&mut self, now_ms: u64) {
        match &mut self.state {
            State::Steps(state) => state.leave_out(now_ms),
            // It has no list of steps.
            State::ForEach(_) => {}
        }
    }

    fn take_next_step(&mut self) {
        match &mut self.state {
            State::Steps(state) => state.take_next_step(),
            State::ForEach(state) => state.take_next_step(),
        }
    }

    fn unfinished(&self) -> Option<String> {
        match (&self.state, &self.definition.behaviour) {
            (State::Steps(state), Behaviour::Steps(steps)) => state.unfinished(steps),
            _ => None,
        }
    }
}

/// Returns the interval before an attempt, counted from 1.
fn retry_interval(attempt: u32) -> u64 {
    FIRST_RETRY_MS.saturating_mul(1_u64 << attempt.saturating_sub(1).min(16)).min(MAX_RETRY_MS)
}

/// Returns a number that depends on all bits of the seed and the text. FNV-1a, with the finalizer of `SplitMix64`.
fn mix(seed: u64, text: &str) -> u64 {
    let mut hash = fnv1a(stable_hash::EMPTY ^ seed, text.as_bytes());
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests;
