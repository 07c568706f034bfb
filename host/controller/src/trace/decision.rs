//! Whether the spans of one reconcile are exported, which is decided at its end at the latest.
//!
//! Another reconcile that one of its writes caused may want the spans, so that its own link leads somewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

const OPEN: u8 = 0;
const WANTED: u8 = 1;
const KEPT: u8 = 2;
const DROPPED: u8 = 3;

/// The number of reconciles that are sampled because one reconcile was. One write may queue any number of keys.
const MAX_CAUSED: u32 = 16;

/// The decision about one reconcile. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Decision(Arc<State>);

#[derive(Debug)]
struct State {
    decision: AtomicU8,
    caused: AtomicU32,
}

impl Decision {
    /// Creates a decision that is open, unless the reconcile is sampled from the start.
    pub(super) fn new(is_sampled: bool) -> Self {
        let decision = AtomicU8::new(if is_sampled { WANTED } else { OPEN });
        Self(Arc::new(State { decision, caused: AtomicU32::new(0) }))
    }

    /// Keeps the spans if that is still possible. Returns whether they are or will be kept.
    pub(super) fn want(&self) -> bool {
        let result = self.0.decision.compare_exchange(OPEN, WANTED, Ordering::AcqRel, Ordering::Acquire);
        result.map_or_else(|decision| decision != DROPPED, |_| true)
    }

    /// Decides at the end of the reconcile. Returns whether the spans are exported.
    pub(super) fn settle(&self, keep: bool) -> bool {
        let decision = if keep { KEPT } else { DROPPED };
        match self.0.decision.compare_exchange(OPEN, decision, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => keep,
            Err(WANTED) => {
                self.0.decision.store(KEPT, Ordering::Release);
                true
            }
            Err(settled) => settled == KEPT,
        }
    }

    /// Drops the spans: the reconcile has no end, or the queue of the exporter has no room.
    pub(super) fn drop_spans(&self) {
        self.0.decision.store(DROPPED, Ordering::Release);
    }

    /// Whether the spans are exported; `false` as long as that is open.
    pub(super) fn is_kept(&self) -> bool {
        self.0.decision.load(Ordering::Acquire) == KEPT
    }

    /// Whether a reconcile that a write of this one caused is sampled for that reason.
    pub(super) fn samples_caused_reconcile(&self) -> bool {
        let decision = self.0.decision.load(Ordering::Acquire);
        (decision == WANTED || decision == KEPT) && self.0.caused.fetch_add(1, Ordering::Relaxed) < MAX_CAUSED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_that_another_reconcile_wants_are_kept() {
        let wanted = Decision::new(false);
        assert!(wanted.want() && !wanted.is_kept());
        assert!(wanted.settle(false) && wanted.is_kept() && wanted.want());
    }

    #[test]
    fn dropped_spans_are_not_wanted_any_more() {
        let dropped = Decision::new(false);
        assert!(!dropped.settle(false) && !dropped.want() && !dropped.settle(true));
        let kept = Decision::new(false);
        assert!(kept.settle(true) && kept.want());
        kept.drop_spans();
        assert!(!kept.want() && !kept.is_kept());
    }

    #[test]
    fn a_sampled_reconcile_samples_a_limited_number_of_others() {
        assert!(!Decision::new(false).samples_caused_reconcile());
        let sampled = Decision::new(true);
        assert_eq!((0..100).filter(|_| sampled.samples_caused_reconcile()).count(), 16);
        assert!(sampled.settle(false), "it was sampled from the start");
    }
}
