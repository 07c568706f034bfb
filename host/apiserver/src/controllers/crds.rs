//! Finishes the deletion of CRDs: deletes their custom resources, then the CRDs.
//!
//! It is part of the API server, as in Kubernetes, so it runs whichever controllers are selected. While no controllers run,
//! a deletion is finished at once.

use std::sync::Arc;

use tokio::time::Instant;

use super::queue::Queue;
use super::{Change, Controller, Observation};
use crate::rest::kinds::{crd_sync, strategy};
use crate::state::State;

/// Finishes the deletion of CRDs a step after it began.
#[derive(Default)]
pub(super) struct CrdFinalizer {
    terminating: Queue<Box<str>>,
}

impl Controller for CrdFinalizer {
    fn observe(&mut self, observation: &Observation<'_>) {
        if let Change::Applied(crd) = observation.change
            && crd.deleting
            && strategy::is_crd(observation.endpoint)
        {
            self.terminating.add(crd.name.clone(), observation.due);
        }
    }

    fn next_due(&self) -> Option<Instant> {
        self.terminating.next_due()
    }

    fn run(&mut self, state: &State, now: Instant) {
        for name in self.terminating.take_due(now, usize::MAX) {
            crd_sync::finalize(state, &name);
        }
    }
}

/// While it exists, requests leave the deletion of CRDs to [`CrdFinalizer`].
pub(super) struct Takeover {
    state: Arc<State>,
}

impl Takeover {
    pub(super) fn new(state: Arc<State>) -> Self {
        state.set_crds_finalized_later(true);
        Self { state }
    }
}

impl Drop for Takeover {
    fn drop(&mut self) {
        self.state.set_crds_finalized_later(false);
    }
}
