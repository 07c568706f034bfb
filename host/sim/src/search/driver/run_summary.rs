//! What is kept of a run once it was judged.

use crate::Run;
use crate::analysis::{RandomPrefixes, RunView};
use crate::finding::Coverage;
use crate::oracle::{Judgement, Oracles, ReferenceRuns};
use crate::plan::Plan;
use crate::run::{End, EventKind};

/// How many runs of the budget a run uses up that does not come to rest, unless timers alone keep it busy. It ends at the limits of the world, after
/// many times as many events as other runs.
pub const COST_OF_BUSY_RUN: u64 = 10;

/// What is kept of a run.
pub(super) struct RunSummary {
    pub(super) plan: Plan,
    pub(super) hash: u64,
    pub(super) is_busy: bool,
    pub(super) judgements: Vec<(String, Judgement)>,
    pub(super) coverage: Coverage,
    pub(super) draws: u64,
}

impl RunSummary {
    pub(super) fn of(
        run: &Run,
        oracles: &Oracles,
        reference: Option<&ReferenceRuns>,
        random: &RandomPrefixes,
    ) -> Self {
        let view = RunView::new(run, random);
        let judgements: Vec<_> = oracles
            .judge(&view, reference)
            .into_iter()
            .map(|(name, judgement)| (name.to_owned(), judgement))
            .collect();
        let coverage = Coverage::of(&view, &judgements);
        let has_busy_timeout = run.events.iter().any(|event| event.kind == EventKind::BusyTimeout);
        let is_busy = run.end == End::NotAtRest && !has_busy_timeout;
        Self { plan: run.plan.clone(), hash: run.hash, is_busy, judgements, coverage, draws: run.draws }
    }
}
