//! Which situations a search has created. "Nothing found" means nothing without it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::analysis::RunView;
use crate::oracle::Judgement;
use crate::plan::{Fault, Moment};
use crate::run::{EventKind, RequestEvent, Run};
use crate::search::points::{host_of, is_write_method};

/// The situations of one or many runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Coverage {
    /// The plugin's writes, `create deployments.apps`, and its HTTP requests that change something, `POST example.com`.
    pub writes: BTreeMap<String, WriteCoverage>,
    /// For each watched resource, the writes that the plugin sent while its view was late or old.
    pub late_watches: BTreeMap<String, BTreeSet<String>>,
    /// The oracles.
    pub oracles: BTreeMap<String, OracleCoverage>,
    /// How many runs restarted or reloaded at rest.
    pub fresh_starts: u64,
    /// How many deviations took effect, and how many were skipped because their moment never came.
    pub deviations: u64,
    /// See `deviations`.
    pub skipped: u64,
    /// What a cluster does with the objects of the runs, and the simulation does not.
    #[serde(default)]
    pub not_simulated: BTreeSet<String>,
}

/// What happened at one kind of write, as the numbers of different occurrences.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteCoverage {
    /// The largest number of such writes in one run.
    pub occurrences: u64,
    /// Before which of them the host ended.
    pub crashed_before: BTreeSet<u32>,
    /// After which of them the host ended.
    pub crashed_after: BTreeSet<u32>,
    /// Which answers were lost.
    pub answer_lost: BTreeSet<u32>,
    /// Which were refused.
    pub refused: BTreeSet<u32>,
    /// Before which another client wrote the object.
    pub interfered: BTreeSet<u32>,
}

/// How often an oracle judged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OracleCoverage {
    /// In how many runs it had something to judge.
    pub judged: u64,
    /// Why it is switched off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<String>,
    /// In how many runs an evaluation of its condition failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: u64,
    /// Why, in one of these runs: the first text in alphabetical order, so that the order of the runs does not matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Coverage {
    /// Returns the situations of one run.
    #[must_use]
    pub fn of(run: &RunView<'_>, judgements: &[(String, Judgement)]) -> Self {
        let mut coverage = Self {
            skipped: run.run.skipped.len() as u64,
            not_simulated: run.run.not_simulated.iter().map(|gap| (*gap).to_owned()).collect(),
            ..Self::default()
        };
        for (_, _, request) in
            run.requests().filter(|(_, _, request)| request.is_by_plugin() && request.is_write())
        {
            coverage.writes.entry(write_name(request)).or_default().occurrences += 1;
        }
        for event in &run.run.events {
            if let EventKind::Http { method, url, .. } = &event.kind
                && is_write_method(method)
            {
                let name = format!("{method} {}", host_of(url));
                coverage.writes.entry(name).or_default().occurrences += 1;
            }
        }
        for (index, deviation) in &run.deviations {
            coverage.deviations += 1;
            match &deviation.at {
                Moment::Request { verb, resource, occurrence } => {
                    coverage.add_request_fault(&format!("{verb} {resource}"), *occurrence, &deviation.fault);
                }
                Moment::Http { method, host, occurrence } => {
                    coverage.add_request_fault(&format!("{method} {host}"), *occurrence, &deviation.fault);
                }
                _ => {}
            }
            if matches!(deviation.at, Moment::Rest { .. })
                && matches!(&deviation.fault, Fault::Reload | Fault::Restart { .. })
            {
                coverage.fresh_starts += 1;
            }
            coverage.add_late_writes(run.run, *index, &deviation.at, &deviation.fault);
        }
        for (name, judgement) in judgements {
            let oracle = coverage.oracles.entry(name.clone()).or_default();
            oracle.judged += u64::from(judgement.had_subject);
            oracle.failed += u64::from(judgement.problem.is_some());
            oracle.problem.clone_from(&judgement.problem);
        }
        coverage
    }

    fn add_request_fault(&mut self, write: &str, occurrence: u32, fault: &Fault) {
        let Some(coverage) = self.writes.get_mut(write) else { return };
        let set = match fault {
            Fault::CrashBefore => &mut coverage.crashed_before,
            Fault::CrashAfter => &mut coverage.crashed_after,
            Fault::LoseAnswer => &mut coverage.answer_lost,
            Fault::Refuse(_) => &mut coverage.refused,
            Fault::Interfere => &mut coverage.interfered,
            _ => return,
        };
        set.insert(occurrence);
    }

    /// Adds the writes that the plugin sent while a watch was late because of the fault.
    fn add_late_writes(&mut self, run: &Run, start: usize, at: &Moment, fault: &Fault) {
        let (resources, delay) = match (at, fault) {
            (Moment::Event { resource, .. }, Fault::HoldWatch(delay) | Fault::DropWatch(delay)) => {
                (vec![resource.clone()], *delay)
            }
            (_, Fault::Restart { past }) => (past.iter().map(|(resource, _)| resource.clone()).collect(), 0),
            _ => return,
        };
        let until = run.events[start].time.saturating_add(delay);
        for event in run.events[start..].iter().take_while(|event| event.time <= until) {
            if let EventKind::Request(request) = &event.kind
                && request.is_by_plugin()
                && request.is_write()
            {
                for resource in &resources {
                    self.late_watches.entry(resource.clone()).or_default().insert(write_name(request));
                }
            }
        }
    }

    /// Adds the situations of other runs.
    pub fn merge(&mut self, other: Self) {
        for (write, coverage) in other.writes {
            let own = self.writes.entry(write).or_default();
            own.occurrences = own.occurrences.max(coverage.occurrences);
            own.crashed_before.extend(coverage.crashed_before);
            own.crashed_after.extend(coverage.crashed_after);
            own.answer_lost.extend(coverage.answer_lost);
            own.refused.extend(coverage.refused);
            own.interfered.extend(coverage.interfered);
        }
        for (resource, writes) in other.late_watches {
            self.late_watches.entry(resource).or_default().extend(writes);
        }
        for (oracle, coverage) in other.oracles {
            let own = self.oracles.entry(oracle).or_default();
            own.judged += coverage.judged;
            own.disabled = own.disabled.take().or(coverage.disabled);
            own.failed += coverage.failed;
            own.problem = own.problem.take().into_iter().chain(coverage.problem).min();
        }
        self.fresh_starts += other.fresh_starts;
        self.deviations += other.deviations;
        self.skipped += other.skipped;
        self.not_simulated.extend(other.not_simulated);
    }

    /// Returns the coverage as lines of text.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec!["situations:".to_owned()];
        for (write, coverage) in &self.writes {
            lines.push(format!(
                "  {write}: {} in a run; crashed before {}, after {}; answer lost {}; refused {}; interfered {}",
                coverage.occurrences,
                coverage.crashed_before.len(),
                coverage.crashed_after.len(),
                coverage.answer_lost.len(),
                coverage.refused.len(),
                coverage.interfered.len()
            ));
        }
        for (resource, writes) in &self.late_watches {
            let writes: Vec<_> = writes.iter().map(String::as_str).collect();
            lines.push(format!("  view of {resource} late or old over: {}", writes.join(", ")));
        }
        lines.push(format!("  restarted or reloaded at rest: {} times", self.fresh_starts));
        let judged = self.oracles.iter().filter(|(_, coverage)| coverage.judged > 0);
        let judged: Vec<_> = judged.map(|(name, coverage)| format!("{name} {}", coverage.judged)).collect();
        lines.push(format!("  oracles that judged, in runs: {}", list(&judged)));
        lines.push(format!("  oracles that had nothing to judge: {}", list(&self.silent_oracles())));
        for (name, coverage) in &self.oracles {
            if let Some(reason) = &coverage.disabled {
                lines.push(format!("  oracle {name} is off: {reason}"));
            }
            if let Some(problem) = &coverage.problem {
                let runs = if coverage.failed == 1 { "run" } else { "runs" };
                lines.push(format!(
                    "  {name} could not be evaluated in {} {runs}: {problem}",
                    coverage.failed
                ));
            }
        }
        lines.extend(self.not_simulated.iter().map(|gap| format!("not simulated: {gap}")));
        lines
    }

    /// Returns the coverage in two lines, for commands that print one line for a search.
    #[must_use]
    pub fn summary(&self) -> [String; 2] {
        let sum = |count: &dyn Fn(&WriteCoverage) -> u64| self.writes.values().map(count).sum::<u64>();
        let writes = sum(&|write| write.occurrences);
        let before = sum(&|write| write.crashed_before.len() as u64);
        let after = sum(&|write| write.crashed_after.len() as u64);
        let late = |(resource, writes): (&String, &BTreeSet<String>)| {
            let kinds = if writes.len() == 1 { "kind" } else { "kinds" };
            format!("{resource} (over {} {kinds} of writes)", writes.len())
        };
        let late: Vec<_> = self.late_watches.iter().map(late).collect();
        [
            format!(
                "crashed before {before} and after {after} of {writes} writes; watches late or old: {}",
                list(&late)
            ),
            format!("oracles that had nothing to judge: {}", list(&self.silent_oracles())),
        ]
    }

    /// Returns the oracles that are switched on and had nothing to judge.
    fn silent_oracles(&self) -> Vec<String> {
        let silent =
            self.oracles.iter().filter(|(_, coverage)| coverage.judged == 0 && coverage.disabled.is_none());
        silent.map(|(name, _)| name.clone()).collect()
    }
}

fn list(items: &[String]) -> String {
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}

fn write_name(request: &RequestEvent) -> String {
    format!("{} {}", request.verb, request.resource_path())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::analysis::RandomPrefixes;
    use crate::testing::RunBuilder;

    #[test]
    fn evaluations_that_fail_are_counted_in_any_order_of_the_runs() {
        let of = |problem: &str| {
            let judgement = Judgement { problem: Some(problem.to_owned()), ..Judgement::default() };
            let run = RunBuilder::new().finish();
            Coverage::of(&RunView::new(&run, &RandomPrefixes::default()), &[("ready".to_owned(), judgement)])
        };
        let [mut one, mut other] = [of("a"), of("b")];
        one.merge(of("b"));
        other.merge(of("a"));
        assert_eq!(one, other);
        let text = one.lines().join("\n");
        assert!(text.contains("  ready could not be evaluated in 2 runs: a"), "{text}");
        let judged = Coverage::of(
            &RunView::new(&RunBuilder::new().finish(), &RandomPrefixes::default()),
            &[("ready".to_owned(), Judgement::of(Vec::new()))],
        );
        assert!(!serde_json::to_string(&judged).expect("JSON").contains("failed"));
    }

    #[test]
    fn http_requests_that_change_something_are_counted_by_method_and_host() {
        let mut run = RunBuilder::new();
        let at = Moment::Http { method: "POST".to_owned(), host: "cloud".to_owned(), occurrence: 2 };
        for method in ["POST", "GET", "POST"] {
            let url = "https://cloud/a".to_owned();
            run.push(EventKind::Http { reconcile: None, method: method.to_owned(), url, status: Some(200) });
        }
        run.deviate(at, Fault::LoseAnswer);
        let coverage = Coverage::of(&RunView::new(&run.finish(), &RandomPrefixes::default()), &[]);
        let expected = WriteCoverage { occurrences: 2, answer_lost: [2].into(), ..WriteCoverage::default() };
        assert_eq!(coverage.writes, [("POST cloud".to_owned(), expected)].into());
    }

    #[test]
    fn crashes_and_late_views_are_counted_by_write() {
        let mut run = RunBuilder::new();
        run.start("a/x");
        let event = Moment::Event { resource: "foos.example.com".to_owned(), occurrence: 1 };
        run.deviate(event, Fault::HoldWatch(1000));
        run.write("create", "configmaps", "a/x", Some(json!({})));
        let first =
            Moment::Request { verb: "create".to_owned(), resource: "configmaps".to_owned(), occurrence: 1 };
        run.deviate(first, Fault::CrashAfter);
        run.at(2000);
        run.write("delete", "configmaps", "a/x", None);
        let mut run = run.finish();
        run.not_simulated.insert("ResourceQuota: not enforced");
        let view = RunView::new(&run, &RandomPrefixes::default());
        let judgements = [("trap".to_owned(), Judgement::of(Vec::new()))];
        let mut coverage = Coverage::of(&view, &judgements);
        coverage.merge(coverage.clone());
        assert_eq!(coverage.writes["create configmaps"].crashed_after.len(), 1);
        assert_eq!(coverage.late_watches["foos.example.com"].len(), 1);
        assert_eq!(coverage.oracles["trap"].judged, 2);
        let text = coverage.lines().join("\n");
        assert!(text.contains("create configmaps: 1 in a run; crashed before 0, after 1"), "{text}");
        assert!(text.ends_with("\nnot simulated: ResourceQuota: not enforced"), "{text}");
        let json = serde_json::to_value(&coverage).expect("JSON");
        assert_eq!(json["notSimulated"], json!(["ResourceQuota: not enforced"]));
        assert!(text.contains("view of foos.example.com late or old over: create configmaps"), "{text}");
        let silent = ("orphan".to_owned(), OracleCoverage::default());
        let disabled = OracleCoverage { disabled: Some("why".to_owned()), ..OracleCoverage::default() };
        coverage.oracles.extend([silent, ("summary".to_owned(), disabled)]);
        assert_eq!(
            coverage.summary(),
            [
                "crashed before 0 and after 1 of 2 writes; watches late or old: foos.example.com (over 1 kind of writes)",
                "oracles that had nothing to judge: orphan",
            ]
        );
        let json = serde_json::to_string(&coverage).expect("JSON");
        assert_eq!(serde_json::from_str::<Coverage>(&json).expect("a coverage"), coverage);
    }
}
