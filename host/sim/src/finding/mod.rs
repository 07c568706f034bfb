//! Findings: what is reported, as a story, as JSON, and as a trace that can be replayed.

pub mod coverage;
pub mod divergence;
mod failing_keys;
mod not_compared;
pub mod story;
pub mod trace;

use std::collections::BTreeSet;

use serde::Serialize;

use crate::oracle::Violation;
use crate::plan::Plan;
use crate::rules::RuleId;
use crate::search::Strategy;

pub use coverage::Coverage;
pub use failing_keys::FailingKey;
pub(crate) use failing_keys::failing_keys;
pub use not_compared::NotCompared;
pub use story::Step;

/// An error of the plugin, with the smallest plan found that shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Which finding of the search, from 1.
    pub number: usize,
    /// The strategy that found it.
    pub strategy: Strategy,
    /// How many runs had been made.
    pub runs: u64,
    /// The shrunk plan.
    pub plan: Plan,
    /// What is wrong in the shrunk plan's run.
    pub violation: Violation,
    /// The steps of the story before shrinking; `None` if the finding was not shrunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps_before: Option<usize>,
    /// The story.
    pub steps: Vec<Step>,
    /// The rules that allow the faults.
    pub rules: BTreeSet<RuleId>,
    /// The hash of the shrunk plan's run.
    #[serde(serialize_with = "as_hexadecimal")]
    pub hash: u64,
    /// How often something was drawn at random in that run.
    pub draws: u64,
}

fn as_hexadecimal<S: serde::Serializer>(hash: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{hash:016x}"))
}

/// What a search has found, and where it has looked.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The master seed.
    #[serde(serialize_with = "as_hexadecimal")]
    pub seed: u64,
    /// The findings, in the order in which they were found.
    pub findings: Vec<Finding>,
    /// How many runs were made, without those for shrinking.
    pub runs: u64,
    /// How many of them differed from all earlier ones.
    pub distinct_runs: u64,
    /// How many runs were made for shrinking.
    pub shrinking_runs: u64,
    /// How many runs each strategy made.
    pub strategies: Vec<(Strategy, u64)>,
    /// Why the search ended.
    pub stopped: Stop,
    /// Why actors did not take all their steps in the run without faults, one text for each such actor.
    pub unfinished_actors: Vec<String>,
    /// The keys whose reconciles failed several times in a row in the run without faults.
    pub failing_keys: Vec<FailingKey>,
    /// What *same end* does not compare, because it differs between two runs without faults and with different seeds.
    pub not_compared: BTreeSet<NotCompared>,
    /// The situations.
    pub coverage: Coverage,
    /// The hash over the hashes of all runs in order: two searches with the same seed have the same.
    #[serde(serialize_with = "as_hexadecimal")]
    pub hash: u64,
    /// How often something was drawn at random in all runs.
    pub draws: u64,
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Stop {
    /// The strategies have no further plan.
    Exhausted,
    /// The budget is used up.
    Budget,
    /// The largest number of findings was reached.
    Findings,
    /// It was interrupted.
    Interrupted,
}

impl Finding {
    /// Returns the story as lines of text. `replay` is the command that replays the trace, if it was saved.
    #[must_use]
    pub fn lines(&self, replay: Option<&str>) -> Vec<String> {
        let faults = self.plan.deviations.len();
        let mut lines = vec![format!(
            "FOUND {}{}   seed {:#x}, strategy {}, {}, {}{}",
            self.violation.oracle,
            story::subject(&self.violation),
            self.plan.seed,
            self.strategy.name(),
            self.length(),
            counted(faults, "fault"),
            left_out(&self.plan)
        )];
        lines.extend(story::align(&self.steps));
        let rules: Vec<_> = self.rules.iter().map(|id| format!("{id} ({})", id.rule().short)).collect();
        let possible = match rules.as_slice() {
            [] if self.violation.is_unevaluated => {
                "Needs no fault: the condition may be wrong, and not the plugin.".to_owned()
            }
            [] => "Needs no fault.".to_owned(),
            [rule] => format!("Possible on Kubernetes: rule {rule}."),
            [rules @ .., last] => format!("Possible on Kubernetes: rules {} and {last}.", rules.join(", ")),
        };
        lines.push(match replay {
            Some(command) => format!("{possible} Replay: {command}"),
            None => possible,
        });
        lines
    }

    /// Returns the number of steps, and what it was before shrinking.
    fn length(&self) -> String {
        let steps = self.steps.len();
        self.steps_before
            .map_or_else(|| counted(steps, "step"), |before| format!("shrunk {before} → {steps} steps"))
    }
}

/// Returns the number with the noun in its form for that number.
fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Returns the note about the steps of actors that shrinking left out.
fn left_out(plan: &Plan) -> String {
    match plan.left_out.len() {
        0 => String::new(),
        1 => ", without 1 step of an actor".to_owned(),
        steps => format!(", without {steps} steps of actors"),
    }
}

impl Report {
    /// Returns the lines about what the scenario may not have meant.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        let silent = (self.runs > 0 && self.coverage.writes.is_empty()).then(|| {
            "note: no plugin wrote anything in any run; check that its selectors and predicates match the objects, and that a step \
             changes something that it reacts to; a plugin that sends HTTP requests needs a scenario with the services that answer (`http`)"
                .to_owned()
        });
        let actors = self.unfinished_actors.iter().map(|text| format!("note: without faults, {text}"));
        let keys = self.failing_keys.iter().map(|key| format!("note: without faults, {key}"));
        actors.chain(keys).chain(not_compared::note(&self.not_compared)).chain(silent)
    }

    /// Returns the last lines of the text output: the numbers and the situations.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let strategies: Vec<_> =
            self.strategies.iter().map(|(strategy, runs)| format!("{} {runs}", strategy.name())).collect();
        let stopped = match self.stopped {
            Stop::Exhausted => "no plan left",
            Stop::Budget => "budget used up",
            Stop::Findings => "too many findings",
            Stop::Interrupted => "interrupted",
        };
        let mut lines = vec![format!(
            "{} in {} runs ({} different; {}), {stopped}; seed {:#x}, hash {:016x}, {} random draws",
            counted(self.findings.len(), "finding"),
            self.runs,
            self.distinct_runs,
            strategies.join(", "),
            self.seed,
            self.hash,
            self.draws
        )];
        lines.extend(self.notes());
        lines.extend(self.coverage.lines());
        lines
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::coverage::WriteCoverage;
    use super::*;
    use crate::testing::id;

    #[test]
    fn notes_name_what_did_not_work_and_what_is_not_compared() {
        let mut report = Report {
            seed: 1,
            findings: Vec::new(),
            runs: 3,
            distinct_runs: 3,
            shrinking_runs: 0,
            strategies: Vec::new(),
            stopped: Stop::Exhausted,
            unfinished_actors: vec!["the actor user has not taken its step 2 (line 9)".to_owned()],
            failing_keys: vec![FailingKey {
                plugin: "zoo".to_owned(),
                watch: "foos".to_owned(),
                key: "shop/a".to_owned(),
                error: "denied".to_owned(),
            }],
            not_compared: [NotCompared::new(&id("configmaps", "shop/a"), "/data/token")].into(),
            coverage: Coverage::default(),
            hash: 0,
            draws: 0,
        };
        let notes: Vec<_> = report.notes().collect();
        assert_eq!(notes[0], "note: without faults, the actor user has not taken its step 2 (line 9)");
        assert!(
            notes[1].starts_with("note: without faults, zoo fails again and again for shop/a"),
            "{notes:?}"
        );
        assert!(notes[2].starts_with("note: same end does not compare"), "{notes:?}");
        assert!(notes[3].starts_with("note: no plugin wrote anything in any run"), "{notes:?}");
        assert!(report.lines().iter().any(|line| *line == notes[3]), "the text output has them");
        report.coverage.writes.insert("create configmaps".to_owned(), WriteCoverage::default());
        assert_eq!(report.notes().count(), 3);
        let json = serde_json::to_value(&report).expect("JSON");
        assert_eq!(json["unfinishedActors"], json!(["the actor user has not taken its step 2 (line 9)"]));
        let key = json!({"plugin": "zoo", "watch": "foos", "key": "shop/a", "error": "denied"});
        assert_eq!(json["failingKeys"], json!([key]));
        let field = json!({"resource": "configmaps", "object": "shop/a", "pointer": "/data/token"});
        assert_eq!(json["notCompared"], json!([field]));
    }
}
