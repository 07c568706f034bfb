//! An actor that takes steps in their order.

use super::super::program::{ValueCache, ViewValues, now_value};
use super::{MAX_ATTEMPTS, Step, StepAction, retry_interval};
use crate::actor::{ActorPoll, ActorWrite, ObjectView, Operation, PollMoment, WriteOutcome};

/// Statuses after which a write is repeated: the object is not there yet, is there still, or the server is busy.
const RETRIED: [u16; 3] = [404, 409, 429];
/// How often in a row a write may be refused before a step is skipped that need not succeed. An object that is being deleted is gone by then.
const MAX_TRIES: u32 = 6;
/// How often a condition that depends on the time is evaluated, in virtual milliseconds.
const CLOCK_INTERVAL_MS: u64 = 1000;

/// Which step is next, and what it waits for.
#[derive(Debug, Default)]
pub(super) struct StepsState {
    /// The index of the next step.
    next: usize,
    /// When the next step became the next one.
    since: u64,
    /// How many of the next writes do not wait for their default moment, because the plan says so.
    hurried: u32,
    /// Whether the step before was a sleep.
    has_slept: bool,
    /// How often the write of the next step was refused.
    attempts: u32,
    retry_at: Option<u64>,
    /// Whether the world carries out the write of the next step.
    is_writing: bool,
    failure: Option<String>,
    cache: ValueCache,
}

impl StepsState {
    pub(super) fn poll(&mut self, steps: &[Step], view: &dyn ObjectView, moment: PollMoment) -> ActorPoll {
        loop {
            if let Some(failure) = &self.failure {
                return ActorPoll::Failed(failure.clone());
            }
            let Some(step) = steps.get(self.next) else { return ActorPoll::Done };
            let waiting = match &step.action {
                StepAction::Wait(condition) => {
                    let uses_now = condition.uses("now");
                    let now = if uses_now { vec![("now", now_value(moment.now_ms))] } else { Vec::new() };
                    // What a condition reads may not exist yet, which is an error in CEL.
                    if condition.holds(now, &ViewValues { view, cache: &self.cache }) == Ok(true) {
                        None
                    } else {
                        let until = uses_now.then_some(moment.now_ms + CLOCK_INTERVAL_MS);
                        Some(ActorPoll::Wait { until, for_rest: false })
                    }
                }
                StepAction::Sleep(duration) => {
                    // No plan makes it shorter: what the plugin does meanwhile belongs to its task.
                    let end = self.since.saturating_add(*duration);
                    (moment.now_ms < end).then_some(ActorPoll::Wait { until: Some(end), for_rest: false })
                }
                StepAction::Write(write) | StepAction::Try(write) => {
                    Some(self.write(moment, || Some(ActorWrite { step: self.number(), ..(**write).clone() })))
                        .map(|poll| self.sent(poll))
                }
                StepAction::Generated(generated) if generated.awaits_rest() && !moment.at_rest => {
                    Some(ActorPoll::Wait { until: None, for_rest: true })
                }
                StepAction::Generated(generated) => {
                    match self.write(moment, || generated.write(view, self.number(), moment.now_ms)) {
                        ActorPoll::Done => None,
                        poll => Some(self.sent(poll)),
                    }
                }
            };
            match waiting {
                Some(poll) => return poll,
                None => self.advance(matches!(step.action, StepAction::Sleep(_)), moment.now_ms),
            }
        }
    }

    /// Returns the write if this is its moment; `Done` if there is nothing to write.
    fn write(&self, moment: PollMoment, write: impl FnOnce() -> Option<ActorWrite>) -> ActorPoll {
        if let Some(at) = self.retry_at.filter(|at| moment.now_ms < *at) {
            return ActorPoll::Wait { until: Some(at), for_rest: false };
        }
        let is_due = moment.at_rest || self.hurried > 0 || self.has_slept || self.retry_at.is_some();
        if !is_due {
            return ActorPoll::Wait { until: None, for_rest: true };
        }
        write().map_or(ActorPoll::Done, |write| ActorPoll::Write(Box::new(write)))
    }

    fn sent(&mut self, poll: ActorPoll) -> ActorPoll {
        self.is_writing = matches!(poll, ActorPoll::Write(_));
        poll
    }

    pub(super) fn written(&mut self, steps: &[Step], outcome: &WriteOutcome, now_ms: u64) {
        let Some(step) = steps.get(self.next).filter(|_| self.is_writing) else { return };
        self.is_writing = false;
        let is_delete = match &step.action {
            StepAction::Write(write) | StepAction::Try(write) => {
                matches!(write.operation, Operation::Delete { .. })
            }
            StepAction::Generated(generated) => generated.is_delete(),
            StepAction::Wait(_) | StepAction::Sleep(_) => false,
        };
        let is_tried = matches!(step.action, StepAction::Try(_) | StepAction::Generated(_));
        let status = outcome.status;
        if (200..300).contains(&status) || is_delete && status == 404 {
            self.hurried = self.hurried.saturating_sub(1);
            self.advance(false, now_ms);
            return;
        }
        self.attempts += 1;
        let is_retried = RETRIED.contains(&status) || status >= 500;
        let max_attempts = match is_tried {
            // The object is gone, and nobody creates it again.
            true if status == 404 => 1,
            true => MAX_TRIES,
            false => MAX_ATTEMPTS,
        };
        if is_retried && self.attempts < max_attempts {
            self.retry_at = Some(now_ms + retry_interval(self.attempts));
        } else if is_tried {
            self.hurried = self.hurried.saturating_sub(1);
            self.advance(false, now_ms);
        } else {
            self.failure = Some(format!(
                "step {} ({}) failed {} times, at last with {status}: {}",
                self.number(),
                step.title,
                self.attempts,
                outcome.message
            ));
        }
    }

    /// Goes on to the step after the next one. If the plan hurries the next one, it hurries the one after it instead.
    pub(super) fn leave_out(&mut self, now_ms: u64) {
        self.is_writing = false;
        self.advance(false, now_ms);
    }

    pub(super) fn take_next_step(&mut self) {
        self.hurried = self.hurried.saturating_add(1);
    }

    pub(super) fn unfinished(&self, steps: &[Step]) -> Option<String> {
        steps.get(self.next).map(|step| format!("step {} ({})", self.number(), step.title))
    }

    fn advance(&mut self, has_slept: bool, now_ms: u64) {
        self.next += 1;
        self.since = now_ms;
        self.has_slept = has_slept;
        self.attempts = 0;
        self.retry_at = None;
    }

    /// Returns the number of the next step, from 1.
    fn number(&self) -> u32 {
        u32::try_from(self.next + 1).unwrap_or(u32::MAX)
    }
}
