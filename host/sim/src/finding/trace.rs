//! Traces: files from which a finding is replayed.

use serde::{Deserialize, Serialize};

use super::divergence::{self, Divergence};
use super::{Finding, Step};
use crate::oracle::Violation;
use crate::plan::Plan;
use crate::run::Run;

/// The format of this version.
const FORMAT: &str = "pilothouse.dev/simulation-trace/v1";
/// The largest file that is read, in bytes.
pub const MAX_SIZE: usize = 16 << 20;
/// The number of events that are stored.
const MAX_EVENTS: usize = 20_000;
/// The longest description of an event, in characters.
const MAX_EVENT_TEXT: usize = 300;
/// The largest number of deviations that is accepted.
const MAX_DEVIATIONS: usize = 1_000;

/// A file that a run was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The name of the file, without its folder.
    pub file: String,
    /// Its SHA-256.
    pub digest: String,
}

/// An event of the recorded run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TracedEvent {
    /// The rolling hash after the event, in hexadecimal digits.
    hash: String,
    text: String,
}

/// A finding in a form that can be replayed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    format: String,
    /// The plugins, and the file to which a reload changes the first one.
    pub plugins: Vec<Input>,
    /// The scenario, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<Input>,
    /// The plan.
    pub plan: Plan,
    /// What it showed.
    pub violation: Violation,
    /// How.
    pub steps: Vec<Step>,
    /// How often something was drawn at random.
    #[serde(default)]
    pub draws: u64,
    events: Vec<TracedEvent>,
}

impl Trace {
    /// Returns the trace of a finding. `run` is the run of its plan.
    #[must_use]
    pub fn new(finding: &Finding, run: &Run, plugins: Vec<Input>, scenario: Option<Input>) -> Self {
        let events = run.events.iter().zip(&run.hashes).take(MAX_EVENTS).map(|(event, hash)| TracedEvent {
            hash: format!("{hash:016x}"),
            text: divergence::event_text(event).chars().take(MAX_EVENT_TEXT).collect(),
        });
        Self {
            format: FORMAT.to_owned(),
            plugins,
            scenario,
            plan: finding.plan.clone(),
            violation: finding.violation.clone(),
            steps: finding.steps.clone(),
            draws: run.draws,
            events: events.collect(),
        }
    }

    /// Returns the trace as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a value whose maps have text keys")
    }

    /// Reads a trace.
    ///
    /// # Errors
    /// Returns what is wrong, with line and column, and what to do, if the text is not a trace of this version, or is too large.
    pub fn parse(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Head {
            #[serde(default)]
            format: String,
        }
        if text.len() > MAX_SIZE {
            return Err(format!("it has more than {} MiB", MAX_SIZE >> 20));
        }
        let head: Head = serde_json::from_str(text).map_err(|error| no_trace(&error))?;
        if head.format != FORMAT {
            return Err(format!(
                "its format is {:?}, this version reads {FORMAT:?}; find the error again with this version",
                head.format.chars().take(80).collect::<String>()
            ));
        }
        let trace: Self = serde_json::from_str(text).map_err(|error| no_trace(&error))?;
        let Plan { deviations, left_out, .. } = &trace.plan;
        if deviations.len().max(left_out.len()) > MAX_DEVIATIONS || trace.events.len() > MAX_EVENTS {
            return Err(format!(
                "it has more than {MAX_DEVIATIONS} deviations or steps that are left out, or more than {MAX_EVENTS} events"
            ));
        }
        let broken = deviations
            .iter()
            .enumerate()
            .find_map(|(index, deviation)| Some((index, deviation.broken_rule()?)));
        if let Some((index, rule)) = broken {
            return Err(format!(
                "plan.deviations[{index}] is nothing that may happen on Kubernetes, {rule}; find the error again"
            ));
        }
        Ok(trace)
    }

    /// Returns the first event in which the run differs from the recorded one. A difference that shows is preferred to one of the calls that a
    /// guest made before an event. `renamed` has the plugins' names in the trace and in the run; the recorded event is shown with the name in the trace.
    #[must_use]
    pub fn divergence(&self, run: &Run, renamed: &[(String, String)]) -> Option<Divergence> {
        let recorded: Vec<_> = self
            .events
            .iter()
            .map(|event| u64::from_str_radix(&event.hash, 16).unwrap_or_default())
            .collect();
        // Of a longer run, only the beginning was stored.
        let length =
            if recorded.len() == MAX_EVENTS { MAX_EVENTS.min(run.hashes.len()) } else { run.hashes.len() };
        let index = divergence::first_difference(&recorded, &run.hashes[..length])?;
        let expected =
            |index: usize| self.events.get(index).map_or(divergence::ENDED, |event| event.text.as_str());
        let renamed_text = |index: usize| {
            renamed.iter().fold(expected(index).to_owned(), |text, (old, new)| {
                // An event begins with its time and the plugin, and the name of an Event with the plugin.
                [(" ms: ", " "), (" ms: ", ": "), ("/", ".")].iter().fold(text, |text, (start, end)| {
                    text.replacen(&format!("{start}{old}{end}"), &format!("{start}{new}{end}"), 1)
                })
            })
        };
        let found =
            |index: usize| divergence::text_at(run, index).chars().take(MAX_EVENT_TEXT).collect::<String>();
        let end = self.events.len().max(run.events.len()).min(MAX_EVENTS);
        let visible = (index..end).find(|index| renamed_text(*index) != found(*index));
        Some(match visible {
            Some(index) => Divergence { index, expected: expected(index).to_owned(), found: found(index) },
            None => Divergence {
                index,
                expected: expected(index).to_owned(),
                found: "the same, but the plugin has called the host in another way before".to_owned(),
            },
        })
    }

    /// Returns the steps of the plan that did not apply in the run, described.
    #[must_use]
    pub fn skipped(&self, run: &Run) -> Vec<String> {
        run.skipped
            .iter()
            .filter_map(|index| self.plan.deviations.get(*index))
            .map(super::story::describe)
            .collect()
    }
}

fn no_trace(error: &serde_json::Error) -> String {
    format!("line {}: it is no trace: {error}; find the error again with `pilothouse sim`", error.line())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Deviation, Fault, Moment};
    use crate::search::Strategy;
    use crate::testing::RunBuilder;

    fn run(key: &str) -> Run {
        let mut run = RunBuilder::new();
        let at = Moment::Request { verb: "create".to_owned(), resource: "pods".to_owned(), occurrence: 1 };
        run.deviate(at, Fault::Restart { past: vec![("pods".to_owned(), 2)] });
        run.start(key);
        run.finish()
    }

    fn trace() -> Trace {
        let run = run("a");
        let violation = Violation {
            oracle: "trap".to_owned(),
            resource: String::new(),
            object: "a".to_owned(),
            event: Some(2),
            explanation: "it trapped".to_owned(),
            is_unevaluated: false,
        };
        let finding = Finding {
            number: 1,
            strategy: Strategy::Plans,
            runs: 7,
            plan: run.plan.clone(),
            violation,
            steps_before: Some(9),
            steps: Vec::new(),
            rules: std::collections::BTreeSet::new(),
            hash: run.hash,
            draws: run.draws,
        };
        let plugin = Input { file: "zoo.wasm".to_owned(), digest: "00".to_owned() };
        Trace::new(&finding, &run, vec![plugin], None)
    }

    #[test]
    fn a_trace_is_read_as_it_was_written() {
        let trace = trace();
        assert_eq!(Trace::parse(&trace.to_json()), Ok(trace));
    }

    #[test]
    fn a_trace_has_the_steps_that_were_left_out() {
        let mut trace = trace();
        assert!(!trace.to_json().contains("left_out"));
        trace.plan.left_out.push(crate::plan::ActorStep { actor: "user".to_owned(), step: 3 });
        assert_eq!(Trace::parse(&trace.to_json()), Ok(trace));
    }

    #[test]
    fn the_step_that_diverges_first_is_named() {
        assert_eq!(trace().divergence(&run("a"), &[]), None);
        let divergence = trace().divergence(&run("b"), &[]).expect("different");
        assert_eq!(divergence.index, 2);
        assert!(divergence.expected.contains("reconcile a") && divergence.found.contains("reconcile b"));
    }

    #[test]
    fn a_difference_that_shows_is_preferred() {
        let mut trace = trace();
        trace.events[0].hash = "0".repeat(16);
        let visible = trace.divergence(&run("b"), &[]).expect("different");
        assert_eq!(visible.index, 2);
        let hidden = trace.divergence(&run("a"), &[]).expect("different");
        assert_eq!(hidden.index, 0);
        assert!(hidden.found.contains("has called the host in another way"), "{hidden:?}");
        let (name, other) = ("plugin".to_owned(), "other".to_owned());
        let event = &mut trace.events[2].text;
        *event = event.replace("plugin ", "other ");
        assert_eq!(trace.divergence(&run("a"), &[]).expect("different").index, 2);
        let renamed = [(other, name)];
        assert_eq!(trace.divergence(&run("a"), &renamed).expect("different").index, 0);
        let divergence = trace.divergence(&run("b"), &renamed).expect("different");
        assert!(divergence.expected.contains(" ms: other starts"), "the old version did it: {divergence:?}");
        assert!(divergence.found.contains(" ms: plugin starts"), "{divergence:?}");
    }

    #[test]
    fn a_fault_that_no_rule_allows_is_refused() {
        let at = Moment::Request { verb: "create".to_owned(), resource: "pods".to_owned(), occurrence: 1 };
        let faults = [
            (Fault::Refuse(429), ""),
            (Fault::Refuse(409), "W1"),
            (Fault::DelayRequest(60_000), ""),
            (Fault::DelayRequest(3_600_000), "W4"),
        ];
        for (fault, rule) in faults {
            let mut trace = trace();
            trace.plan.deviations.push(Deviation { at: at.clone(), fault });
            match Trace::parse(&trace.to_json()) {
                Ok(parsed) => assert_eq!((parsed, ""), (trace, rule)),
                Err(error) => assert!(
                    error.contains("plan.deviations[1]") && error.contains(&format!("rule {rule}:")),
                    "{error}"
                ),
            }
        }
    }

    #[test]
    fn other_formats_are_refused_with_a_remedy() {
        let other = trace().to_json().replace("trace/v1", "trace/v2");
        assert!(Trace::parse(&other).expect_err("another version").contains("find the error again"));
        let error = Trace::parse("{\n\"format\":").expect_err("no object");
        assert!(
            error.starts_with("line 2: it is no trace: ") && error.contains("find the error again"),
            "{error}"
        );
        let unknown = trace().to_json().replacen("\"plan\"", "\"plans\"", 1);
        assert!(Trace::parse(&unknown).expect_err("an unknown field").contains("plans"));
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(Trace::parse(&deep).is_err());
    }
}
