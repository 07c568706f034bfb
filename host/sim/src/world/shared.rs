//! What the parts of one world share: the server, the time, and the state behind a lock.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use pilothouse_apiserver::ApiServer;
use tokio::sync::Notify;

use super::clock::VirtualClock;
use super::mirror::{Change, Mirror};
use super::schedule::Schedule;
use super::state::State;
use crate::call_log::CallLog;
use crate::run::Author;

/// The shared part of a world. Cheap to clone.
#[derive(Clone)]
pub(super) struct Shared(Arc<Inner>);

struct Inner {
    server: ApiServer,
    clock: VirtualClock,
    state: Mutex<State>,
    changed: Notify,
    steps_taken: Notify,
}

impl Shared {
    pub(super) fn new(
        server: ApiServer,
        clock: VirtualClock,
        schedule: Schedule,
        mirror: Mirror,
        max_events: usize,
        calls: Option<CallLog>,
    ) -> Self {
        let state = State::new(clock.clone(), schedule, mirror, max_events, calls);
        Self(Arc::new(Inner {
            server,
            clock,
            state: Mutex::new(state),
            changed: Notify::new(),
            steps_taken: Notify::new(),
        }))
    }

    pub(super) fn server(&self) -> &ApiServer {
        &self.0.server
    }

    pub(super) fn clock(&self) -> &VirtualClock {
        &self.0.clock
    }

    /// Locks the state. Changes that the server's controllers made meanwhile are recorded first.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.0.state.lock();
        let commits = self.0.server.take_commits();
        state.record_commits(commits, &Author::Controller);
        state
    }

    /// Never returns once the host's process has ended: what it has begun has no effect any more.
    pub(super) async fn pend_if_crashed(&self) {
        if self.lock().crash.is_some() {
            pending::<()>().await;
        }
    }

    /// Returns what the server committed since the last call, as the work of a request that was just processed.
    pub(super) fn take_commits(&self) -> Vec<Change> {
        let commits = self.0.server.take_commits();
        if commits.is_empty() {
            return Vec::new();
        }
        let mut state = self.0.state.lock();
        commits.into_iter().map(|commit| state.mirror.apply(commit)).collect()
    }

    /// Wakes the driver.
    pub(super) fn wake_driver(&self) {
        self.0.changed.notify_one();
    }

    /// Lets the requests go on that waited for steps of actors.
    pub(super) fn release_requests(&self) {
        if std::mem::take(&mut self.0.state.lock().awaits_steps) {
            self.0.steps_taken.notify_waiters();
        }
    }

    /// Waits until the driver has let actors take the steps that come before a request. Cancelling it has no effect on the steps.
    pub(super) async fn steps_taken(&self) {
        let mut taken = pin!(self.0.steps_taken.notified());
        taken.as_mut().enable();
        if self.0.state.lock().awaits_steps {
            taken.await;
        }
    }

    /// Notes that a request of a plugin is not in flight any more.
    pub(super) fn end_request(&self) {
        let mut state = self.0.state.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
    }

    /// Waits until the driver has something to do.
    pub(super) async fn woken(&self) {
        self.0.changed.notified().await;
    }
}
