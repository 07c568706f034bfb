//! Oracles. Each is a pure function of a run, and of the reference if it compares with one. Each documents the premise under which its
//! report is an error, and which correct controllers break the premise.

mod convergence;
mod delete_after_failed_read;
mod foreign_change_undone;
mod fresh_equals_kept;
mod history;
mod hopeless_write;
mod hot_loop;
mod idempotence;
mod invariants;
mod losses;
mod orphan;
mod own_changes;
mod ownership;
mod reference_runs;
mod same_end;
mod stale_identity;
mod stuck_deletion;
mod summary;
mod timers;
mod trap;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use serde::{Deserialize, Serialize};

use crate::analysis::{ObjectId, RunView};
use crate::finding::NotCompared;

pub use invariants::invariants_of;
pub use reference_runs::ReferenceRuns;

/// Something that judges runs.
pub trait Oracle: Debug + Send + Sync {
    /// Returns the name under which the oracle reports and is switched off: `same end`.
    fn name(&self) -> &str;

    /// Judges one run. Without a reference the run is itself the reference.
    fn judge(&self, run: &RunView<'_>, reference: Option<&ReferenceRuns>) -> Judgement;
}

/// What an oracle says about a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Whether the run had anything that the oracle looks at. "No violation" means nothing otherwise.
    pub had_subject: bool,
    /// What is wrong, in the order of the events.
    pub violations: Vec<Violation>,
    /// Why the oracle could not judge a point of the run; the first such problem. It is no violation.
    pub problem: Option<String>,
}

impl Judgement {
    /// The judgement of a run in which the oracle had nothing to judge.
    #[must_use]
    pub fn without_subject() -> Self {
        Self::default()
    }

    /// Returns a judgement with these violations.
    #[must_use]
    pub fn of(violations: Vec<Violation>) -> Self {
        Self { had_subject: true, violations, problem: None }
    }
}

/// Something that a run did wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Violation {
    /// The oracle's name.
    pub oracle: String,
    /// The resource that it happened to, "" if none.
    pub resource: String,
    /// The object's canonical key, or the key of a reconcile; "" if none.
    pub object: String,
    /// The index of the event that shows it; `None` for the end of the run.
    pub event: Option<usize>,
    /// One or two sentences.
    pub explanation: String,
    /// Whether the condition of an invariant could not be evaluated, which is another error than that it is false.
    #[serde(default, rename = "isUnevaluated", skip_serializing_if = "std::ops::Not::not")]
    pub is_unevaluated: bool,
}

impl Violation {
    fn new(oracle: &dyn Oracle, id: &ObjectId, event: Option<usize>, explanation: String) -> Self {
        Self {
            oracle: oracle.name().to_owned(),
            resource: id.resource.clone(),
            object: id.key(),
            event,
            explanation,
            is_unevaluated: false,
        }
    }

    fn of_key(oracle: &dyn Oracle, key: &str, event: Option<usize>, explanation: String) -> Self {
        Self {
            oracle: oracle.name().to_owned(),
            resource: String::new(),
            object: key.to_owned(),
            event,
            explanation,
            is_unevaluated: false,
        }
    }

    /// Whether the other violation is the same error: of the same oracle on the same resource. A condition that is false is another error than one
    /// that cannot be evaluated.
    #[must_use]
    pub fn is_same_error(&self, other: &Self) -> bool {
        self.oracle == other.oracle
            && self.resource == other.resource
            && self.is_unevaluated == other.is_unevaluated
    }
}

/// An oracle of the documentation's table.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// The name.
    pub name: &'static str,
    /// What it reports.
    pub reports: &'static str,
    /// Why no correct controller does it, and when the oracle says nothing.
    pub premise: &'static str,
}

/// The built-in oracles, in the order in which they judge.
pub const BUILT_IN: [Description; 15] = [
    trap::DESCRIPTION,
    hot_loop::DESCRIPTION,
    convergence::DESCRIPTION,
    idempotence::DESCRIPTION,
    ownership::DESCRIPTION,
    stale_identity::DESCRIPTION,
    delete_after_failed_read::DESCRIPTION,
    foreign_change_undone::DESCRIPTION,
    summary::DESCRIPTION,
    orphan::DESCRIPTION,
    same_end::DESCRIPTION,
    fresh_equals_kept::DESCRIPTION,
    hopeless_write::DESCRIPTION,
    stuck_deletion::DESCRIPTION,
    history::DESCRIPTION,
];

/// Returns the built-in oracles as lines of a Markdown table.
#[must_use]
pub fn markdown_table() -> String {
    let mut text = "| oracle | reports | premise |\n|---|---|---|\n".to_owned();
    for Description { name, reports, premise } in &BUILT_IN {
        text.push_str(&format!("| *{name}* | {reports} | {premise} |\n"));
    }
    text
}

/// A set of oracles.
#[derive(Debug)]
pub struct Oracles {
    oracles: Vec<Box<dyn Oracle>>,
    disabled: BTreeMap<String, String>,
}

impl Oracles {
    /// Returns the built-in oracles.
    #[must_use]
    pub fn built_in() -> Self {
        Self {
            oracles: vec![
                Box::new(trap::Trap),
                Box::new(hot_loop::HotLoop),
                Box::new(convergence::Convergence),
                Box::new(idempotence::Idempotence),
                Box::new(ownership::Ownership),
                Box::new(stale_identity::StaleIdentity),
                Box::new(delete_after_failed_read::DeleteAfterFailedRead),
                Box::new(foreign_change_undone::ForeignChangeUndone),
                Box::new(summary::Summary),
                Box::new(orphan::Orphan),
                Box::new(same_end::SameEnd),
                Box::new(fresh_equals_kept::FreshEqualsKept),
                Box::new(hopeless_write::HopelessWrite),
                Box::new(stuck_deletion::StuckDeletion),
                Box::new(history::History),
            ],
            disabled: BTreeMap::new(),
        }
    }

    /// Adds an oracle, for example an invariant of a scenario.
    pub fn add(&mut self, oracle: Box<dyn Oracle>) {
        self.oracles.push(oracle);
    }

    /// Switches an oracle off. The reason is printed with the coverage.
    ///
    /// # Errors
    /// Returns an error if there is no such oracle, or if the reason is empty.
    pub fn disable(&mut self, name: &str, reason: &str) -> Result<(), String> {
        if !self.oracles.iter().any(|oracle| oracle.name() == name) {
            return Err(format!("there is no oracle {name:?}; there are {}", self.names().join(", ")));
        }
        if reason.trim().is_empty() {
            return Err(format!("the oracle {name:?} is switched off without a reason; give one"));
        }
        self.disabled.insert(name.to_owned(), reason.to_owned());
        Ok(())
    }

    /// Returns the names of all oracles.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        self.oracles.iter().map(|oracle| oracle.name()).collect()
    }

    /// Returns the oracles that are switched off, and the reasons.
    #[must_use]
    pub fn disabled(&self) -> &BTreeMap<String, String> {
        &self.disabled
    }

    /// Returns what *same end* leaves out in comparisons with this reference; nothing if it is switched off.
    pub(crate) fn not_compared(&self, reference: &ReferenceRuns) -> BTreeSet<NotCompared> {
        let is_on = !self.disabled.contains_key(same_end::DESCRIPTION.name);
        reference.not_compared().filter(|_| is_on).collect()
    }

    /// Judges a run by all oracles that are not switched off. Returns each with its name. The runs of a history are judged by *history*: their
    /// steps are made for it. If users create objects of one name in two Namespaces, *hot loop* judges them, too: such objects have nothing to fight for.
    #[must_use]
    pub fn judge(&self, run: &RunView<'_>, reference: Option<&ReferenceRuns>) -> Vec<(&str, Judgement)> {
        let is_history = run.run.plan.history.is_some();
        let has_namesakes = is_history && run.has_namesakes();
        let judges = |name: &str| match name {
            _ if name == history::DESCRIPTION.name => is_history,
            _ if name == hot_loop::DESCRIPTION.name => !is_history || has_namesakes,
            _ => !is_history,
        };
        self.oracles
            .iter()
            .filter(|oracle| judges(oracle.name()))
            .filter(|oracle| !self.disabled.contains_key(oracle.name()))
            .map(|oracle| (oracle.name(), oracle.judge(run, reference)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_built_in_oracle_is_described_once() {
        let described: Vec<_> = BUILT_IN.iter().map(|description| description.name).collect();
        assert_eq!(Oracles::built_in().names(), described);
    }

    /// A run of a history in which the keys of two objects write the same object in turn. The second object has this key.
    fn fight(second: &str) -> crate::Run {
        let mut run = crate::testing::RunBuilder::new();
        run.rest();
        for key in ["default/a", second] {
            run.actor("user", "create", "foos.example.com", key, Some(serde_json::json!({})));
        }
        for round in 0..12 {
            for key in ["default/a", second] {
                run.start_for(key, "updated");
                run.write(
                    "patch",
                    "clusterroles",
                    "a",
                    Some(serde_json::json!({"of": key, "first": round == 0})),
                );
                run.end(crate::run::ReconcileResult::Ok);
            }
        }
        let mut run = run.finish();
        run.plan.history = Some(crate::plan::HistoryPlan { index: 0, is_shorter: false });
        run
    }

    #[test]
    fn namesakes_that_fight_for_an_object_are_a_hot_loop_in_a_history() {
        let reported = |second: &str| {
            let (run, random) = (fight(second), crate::analysis::RandomPrefixes::default());
            let oracles = Oracles::built_in();
            let judged = oracles.judge(&RunView::new(&run, &random), None).into_iter();
            let found = judged.filter(|(_, judgement)| !judgement.violations.is_empty());
            found.map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(reported("another/a"), ["hot loop"]);
        assert_eq!(reported("default/b"), [] as [&str; 0], "both may want the same by right");
    }

    #[test]
    fn an_oracle_is_switched_off_with_a_reason_only() {
        let mut oracles = Oracles::built_in();
        assert!(oracles.disable("nothing", "because").expect_err("unknown").contains("same end"));
        assert!(oracles.disable("trap", " ").expect_err("no reason").contains("without a reason"));
        oracles.disable("trap", "the plugin traps on purpose").expect("known");
        let run = crate::testing::RunBuilder::new().finish();
        let view = RunView::new(&run, &crate::analysis::RandomPrefixes::default());
        assert!(oracles.judge(&view, None).iter().all(|(name, _)| *name != "trap"));
    }
}
