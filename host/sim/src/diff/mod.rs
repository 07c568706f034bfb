//! Compares two versions of a plugin: both go through the same plans, and the writes and ends that differ are listed.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use crate::analysis::canonical::canonical_object;
use crate::analysis::comparison::{first_difference, short_text};
use crate::analysis::{CanonicalEnd, EndMask, ObjectId, RandomPrefixes, RunView, metadata};
use crate::plan::Plan;
use crate::run::{End, Run};
use crate::search::Executor;
use crate::{Simulator, WorldError};

/// The number of plans that are run before their results are compared.
const BATCH: usize = 32;
/// The number of differences that are listed.
const MAX_DIFFERENCES: usize = 100;

/// A difference between two versions.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// Where it shows.
    pub kind: DifferenceKind,
    /// The resource.
    pub resource: String,
    /// The canonical key of the object.
    pub object: String,
    /// What the old version does.
    pub old: String,
    /// What the new version does.
    pub new: String,
    /// In how many runs.
    pub runs: u64,
    /// The plan of the first.
    pub plan: Plan,
}

/// Where a difference shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DifferenceKind {
    /// In the writes.
    Write,
    /// In the objects at the end.
    End,
    /// In how the run ended.
    Outcome,
}

/// The comparison of two versions.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DiffReport {
    /// How many plans both went through.
    pub runs: u64,
    /// In how many of them nothing differed.
    pub equal_runs: u64,
    /// The differences, in the order in which they were found.
    pub differences: Vec<Difference>,
    /// How many further differences were left out.
    pub left_out: u64,
}

/// Runs the plans with both versions and compares.
///
/// # Errors
/// Returns an error if a world cannot be built.
pub fn compare<A: Simulator + Send, B: Simulator + Send>(
    old: &Executor<A>,
    new: &Executor<B>,
    plans: impl IntoIterator<Item = Plan>,
    mut goes_on: impl FnMut(u64) -> bool,
) -> Result<DiffReport, WorldError> {
    let mut report = DiffReport::default();
    let mut plans = plans.into_iter();
    while goes_on(report.runs) {
        let batch: Vec<_> = plans.by_ref().take(BATCH).collect();
        if batch.is_empty() {
            break;
        }
        let pairs = old.run_all(&batch, &|run| run)?.into_iter().zip(new.run_all(&batch, &|run| run)?);
        for (plan, (old, new)) in batch.into_iter().zip(pairs) {
            report.add(&plan, &old, &new);
        }
    }
    Ok(report)
}

impl DiffReport {
    fn add(&mut self, plan: &Plan, old: &Run, new: &Run) {
        self.runs += 1;
        let differences = differences(old, new);
        self.equal_runs += u64::from(differences.is_empty());
        for (kind, id, old, new) in differences {
            let same = |known: &&mut Difference| {
                known.kind == kind && known.resource == id.resource && known.object == id.key()
            };
            if let Some(known) = self.differences.iter_mut().find(same) {
                known.runs += 1;
            } else if self.differences.len() < MAX_DIFFERENCES {
                self.differences.push(Difference {
                    kind,
                    resource: id.resource.clone(),
                    object: id.key(),
                    old,
                    new,
                    runs: 1,
                    plan: plan.clone(),
                });
            } else {
                self.left_out += 1;
            }
        }
    }

    /// Returns the comparison as lines of text.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("{} runs, {} of them equal", self.runs, self.equal_runs)];
        for difference in &self.differences {
            let what = match difference.kind {
                DifferenceKind::Write => "writes of",
                DifferenceKind::End => "at the end,",
                DifferenceKind::Outcome => "the run",
            };
            let subject = format!("{what} {} {}", difference.resource, difference.object);
            lines.push(format!("DIFFERENT {} (in {} runs)", subject.trim_end(), difference.runs));
            lines.push(format!("  old: {}", difference.old));
            lines.push(format!("  new: {}", difference.new));
            let faults: Vec<_> =
                difference.plan.deviations.iter().map(crate::finding::story::describe).collect();
            let faults = if faults.is_empty() { "no fault".to_owned() } else { faults.join("; ") };
            lines.push(format!("  first seen with {faults}"));
        }
        if self.left_out > 0 {
            lines.push(format!("{} further differences are left out", self.left_out));
        }
        lines
    }
}

type Found = (DifferenceKind, ObjectId, String, String);

/// Returns what differs between the runs of one plan.
fn differences(old: &Run, new: &Run) -> Vec<Found> {
    let random = RandomPrefixes::between(old, new);
    let (old_view, new_view) = (RunView::new(old, &random), RunView::new(new, &random));
    let mut found: Vec<Found> = Vec::new();
    let (old_writes, new_writes) = (writes(&old_view), writes(&new_view));
    let versions = [&old_view, &new_view].map(written_versions);
    let ids: BTreeSet<_> = old_writes.keys().chain(new_writes.keys()).collect();
    for id in ids {
        let empty = Vec::new();
        let (left, right) = (old_writes.get(id).unwrap_or(&empty), new_writes.get(id).unwrap_or(&empty));
        let count = left.len().max(right.len());
        let first = (0..count).find_map(|index| {
            write_difference(left.get(index), right.get(index), [&versions[0], &versions[1]])
        });
        found.extend(first.map(|(old, new)| (DifferenceKind::Write, id.clone(), old, new)));
    }
    if old.end == End::AtRest && new.end == End::AtRest {
        let ends = [&old_view, &new_view].map(RunView::canonical_end);
        found.extend(end_differences(&ends[0], &ends[1]));
    } else if old.end != new.end {
        let nothing = ObjectId { resource: String::new(), namespace: String::new(), name: String::new() };
        let text = |end: &End| match end {
            End::AtRest => "comes to rest".to_owned(),
            End::NotAtRest => "does not come to rest".to_owned(),
            End::PluginStopped(why) => format!("the plugin stops: {why}"),
        };
        found.push((DifferenceKind::Outcome, nothing, text(&old.end), text(&new.end)));
    }
    found
}

/// Returns the first difference of each object.
fn end_differences(old: &CanonicalEnd, new: &CanonicalEnd) -> Vec<Found> {
    let mut first = BTreeMap::new();
    for difference in old.differences(new, &EndMask::default()) {
        first.entry(difference.id.clone()).or_insert(difference);
    }
    let found = first.into_values().map(|difference| {
        let at =
            if difference.pointer.is_empty() { String::new() } else { format!(" at {}", difference.pointer) };
        let text = |value: &str| format!("{value}{at}");
        (DifferenceKind::End, difference.id, text(&difference.expected), text(&difference.found))
    });
    found.collect()
}

/// A write of the plugin that had an effect.
struct Write {
    /// The verb and the resource.
    request: String,
    /// The object after it, in canonical form; `None` if it is gone.
    after: Option<Value>,
}

impl Write {
    fn text(&self) -> String {
        match &self.after {
            Some(after) => format!("{}: {}", self.request, short_text(after)),
            None => self.request.clone(),
        }
    }
}

/// Returns the plugin's writes of each object, in order. Writes without effect do not count.
fn writes(view: &RunView<'_>) -> BTreeMap<ObjectId, Vec<Write>> {
    let mut writes: BTreeMap<ObjectId, Vec<Write>> = BTreeMap::new();
    for (_, request) in view.effective_writes() {
        let after = request.after.as_ref().map(|after| canonical_object(after, &view.names));
        let write = Write { request: format!("{} {}", request.verb, request.resource_path()), after };
        writes.entry(view.names.canonical_id(&request.object_id())).or_default().push(write);
    }
    writes
}

/// Returns the resource versions of all objects that were written, which a plugin may copy into other objects.
fn written_versions(view: &RunView<'_>) -> BTreeSet<String> {
    let written = view.requests().filter_map(|(_, _, request)| request.after.as_deref());
    written.filter_map(|after| metadata(after, "resourceVersion").map(str::to_owned)).collect()
}

/// Returns what either version does, if their writes differ.
fn write_difference(
    old: Option<&Write>,
    new: Option<&Write>,
    versions: [&BTreeSet<String>; 2],
) -> Option<(String, String)> {
    if let (Some(old), Some(new)) = (old, new)
        && old.request == new.request
    {
        match (&old.after, &new.after) {
            (None, None) => return None,
            (Some(left), Some(right)) => {
                let (pointer, left, right) = first_difference(left, right, versions)?;
                let text = |value: String| format!("{}: {value} at {pointer}", old.request);
                return Some((text(left), text(right)));
            }
            _ => {}
        }
    }
    let text = |write: Option<&Write>| write.map_or_else(|| "no further write".to_owned(), Write::text);
    Some((text(old), text(new)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::RunBuilder;

    /// A version that creates a ConfigMap of this size, and one more if asked to.
    struct Version {
        size: u32,
        has_more: bool,
    }

    impl Simulator for Version {
        fn run(&mut self, plan: &Plan) -> Result<Run, WorldError> {
            let mut run = RunBuilder::new();
            run.seed(plan.seed);
            run.start("a/x");
            run.write("create", "configmaps", "a/x", Some(json!({"size": self.size})));
            if self.has_more {
                run.write("create", "secrets", "a/y", Some(json!({})));
            }
            Ok(run.finish())
        }
    }

    /// A version that creates a Deployment with so many replicas, and then sets three.
    struct Scaler {
        replicas: u32,
    }

    impl Simulator for Scaler {
        fn run(&mut self, plan: &Plan) -> Result<Run, WorldError> {
            let deployment = |replicas: u32| {
                let long =
                    "a label that is longer than what is shown of a whole object in one line of a report";
                json!({"metadata": {"labels": {"description": long}}, "spec": {"replicas": replicas}})
            };
            let mut run = RunBuilder::new();
            run.seed(plan.seed);
            run.start("a/x");
            run.write("create", "deployments.apps", "a/x", Some(deployment(self.replicas)));
            run.write("update", "deployments.apps", "a/x", Some(deployment(3)));
            Ok(run.finish())
        }
    }

    #[test]
    fn a_difference_far_behind_in_an_intermediate_write_is_found() {
        let executor = |replicas| Executor::new(vec![Scaler { replicas }]);
        let plans = || (0..2).map(|seed| Plan::new(seed, Vec::new()));
        let report = compare(&executor(1), &executor(30), plans(), |_| true).expect("a world");
        let [difference] = report.differences.as_slice() else { panic!("{:?}", report.differences) };
        assert_eq!(
            (difference.old.as_str(), difference.new.as_str()),
            ("create deployments.apps: 1 at /spec/replicas", "create deployments.apps: 30 at /spec/replicas")
        );
        let report = compare(&executor(2), &executor(2), plans(), |_| true).expect("a world");
        assert_eq!(report.equal_runs, 2);
    }

    fn report(size: u32, has_more: bool) -> DiffReport {
        let old = Executor::new(vec![Version { size: 1, has_more: false }]);
        let new = Executor::new(vec![Version { size, has_more }]);
        let plans = (0..3).map(|seed| Plan::new(seed, Vec::new()));
        compare(&old, &new, plans, |_| true).expect("a world")
    }

    #[test]
    fn equal_versions_have_no_differences() {
        let report = report(1, false);
        assert_eq!((report.runs, report.equal_runs, report.differences.len()), (3, 3, 0));
    }

    #[test]
    fn each_object_is_listed_once_with_both_sides() {
        let report = report(2, true);
        let kinds: Vec<_> = report
            .differences
            .iter()
            .map(|difference| (difference.kind, difference.resource.as_str(), difference.runs))
            .collect();
        assert_eq!(
            kinds,
            [
                (DifferenceKind::Write, "configmaps", 3),
                (DifferenceKind::Write, "secrets", 3),
                (DifferenceKind::End, "configmaps", 3),
                (DifferenceKind::End, "secrets", 3),
            ]
        );
        let text = report.lines().join("\n");
        assert!(
            text.contains(
                "DIFFERENT at the end, configmaps a/x (in 3 runs)\n  old: 1 at /size\n  new: 2 at /size"
            ),
            "{text}"
        );
    }
}
