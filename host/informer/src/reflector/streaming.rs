//! Streaming lists (`WatchList`): when to request one, its initial events, and the fallback when it fails.

use std::time::Duration;

use pilothouse_model::Delta;
use tokio::time::Instant;

use super::phase::{AfterWait, InitialEvents, Phase, WatchState};
use super::state_machine::{Action, StateMachine};
use crate::decode::{DecodeError, WatchEvent};
use crate::failure::{Failure, FailureKind};

/// After this many failed streaming lists in a row, streaming pauses.
const MAX_FAILURES: u32 = 2;
/// How long streaming pauses. Some failures cost time: with a server that ignores the parameter, only the idle timeout shows
/// that the initial events do not end.
const STREAMING_PAUSE: Duration = Duration::from_secs(600);

/// Decides whether the next list is a streaming one.
#[derive(Debug)]
pub(super) struct Streaming {
    enabled: bool,
    /// Failures since the last success.
    failures: u32,
    paused_until: Option<Instant>,
}

impl Streaming {
    pub(super) fn new(enabled: bool) -> Self {
        Self { enabled, failures: 0, paused_until: None }
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.enabled && self.paused_until.is_none_or(|until| now >= until)
    }

    fn succeeded(&mut self) {
        self.failures = 0;
        self.paused_until = None;
    }

    fn failed(&mut self, now: Instant) {
        self.failures += 1;
        if self.failures >= MAX_FAILURES {
            self.paused_until = Some(now + STREAMING_PAUSE);
        }
    }
}

impl StateMachine {
    pub(super) fn initial_event(
        &mut self,
        mut initial_events: InitialEvents,
        event: WatchEvent,
        now: Instant,
        deltas: &mut Vec<Delta>,
    ) -> Action {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => initial_events.insert(object),
            WatchEvent::Deleted(object) => initial_events.remove(object.key()),
            WatchEvent::Bookmark { resource_version, initial_events_end: true } => {
                self.streaming.succeeded();
                self.replace(initial_events.items.into_iter().flatten().collect(), resource_version, deltas);
                self.phase = Phase::Watching(WatchState {
                    opened_at: Some(now),
                    progressed: true,
                    received_any: true,
                });
                return Action::Read;
            }
            // Initial events are not in version order, so a watch cannot resume from their versions.
            WatchEvent::Bookmark { .. } => {}
            WatchEvent::Error(failure) => {
                self.record_failure(failure.clone());
                return self.streaming_failed(&failure, now);
            }
        }
        if initial_events.items.len() > self.max_list_items {
            let failure = Failure::from(DecodeError::TooMany { limit: self.max_list_items });
            self.record_failure(failure.clone());
            return self.streaming_failed(&failure, now);
        }
        self.phase = Phase::Streaming(initial_events);
        Action::Read
    }

    pub(super) fn streaming_failed(&mut self, failure: &Failure, now: Instant) -> Action {
        match failure.kind {
            FailureKind::Expired | FailureKind::TooLargeResourceVersion if !self.version_unavailable => {
                self.version_unavailable = true;
                self.start_list(now)
            }
            // These failures say nothing about streaming lists; a plain list would fail in the same way.
            FailureKind::TooManyRequests => self.wait_retry_after(AfterWait::List, failure, now),
            FailureKind::ConnectionRefused => self.back_off(AfterWait::List, now),
            kind => {
                if kind == FailureKind::Rejected {
                    // A server without streaming lists is not a failure to report.
                    self.reported.error = None;
                }
                self.streaming_ended(now)
            }
        }
    }

    /// Falls back to a plain list at once after an incomplete streaming list, and discards its events.
    pub(super) fn streaming_ended(&mut self, now: Instant) -> Action {
        tracing::debug!("the streaming list was incomplete; falling back to a plain list");
        self.streaming.failed(now);
        self.plain_list()
    }
}
