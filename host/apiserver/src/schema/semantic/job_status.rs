//! The status of Jobs, after `validateJobStatus` in `k8s.io/kubernetes/pkg/apis/batch/validation` and `getStatusValidationOptions` in
//! `k8s.io/kubernetes/pkg/registry/batch/job`: most rules apply only if an update changes what they are about.

use jiff::Timestamp;
use pilothouse_model::hash::HashSet;
use serde_json::Value;

use super::{has, items, text, validate_non_negative};
use crate::go;
use crate::schema::field;
use crate::status::Causes;

const CONDITIONS: &str = "status.conditions";
const COMPLETION_TIME: &str = "status.completionTime";
const COMPLETED: &str = "status.completedIndexes";
const FAILED: &str = "status.failedIndexes";

/// Checks the status of an updated Job.
pub(super) fn validate(new: &Value, old: &Value, causes: &mut Causes) {
    let update = Update { spec: &new["spec"], new: &new["status"], old: &old["status"] };
    for name in ["active", "succeeded", "failed", "ready", "terminating"] {
        validate_non_negative(update.new, name, "status", causes);
    }
    validate_uncounted(&update.new["uncountedTerminatedPods"], causes);
    update.validate_end(causes);
    update.validate_indexes(causes);
    update.validate_counts(causes);
    update.validate_success(causes);
    update.validate_transition(causes);
}

/// Checks the UIDs of Pods that ended and are not counted yet.
fn validate_uncounted(uncounted: &Value, causes: &mut Causes) {
    let mut seen = HashSet::default();
    for list in ["succeeded", "failed"] {
        let at = field::child("status.uncountedTerminatedPods", list);
        for (index, uid) in items(&uncounted[list]).iter().enumerate() {
            let at = field::index(&at, index);
            match uid.as_str().unwrap_or_default() {
                "" => causes.push(field::invalid(&at, uid, "must not be empty")),
                text if !seen.insert(text) => causes.push(field::duplicate(&at, uid)),
                _ => {}
            }
        }
    }
}

/// An update of the status of a Job.
struct Update<'a> {
    spec: &'a Value,
    new: &'a Value,
    old: &'a Value,
}

impl Update<'_> {
    fn is(&self, condition: &str) -> bool {
        is_true(self.new, condition)
    }

    fn is_finished(&self) -> bool {
        self.is("Complete") || self.is("Failed")
    }

    fn changes_condition(&self, condition: &str) -> bool {
        self.is(condition) != is_true(self.old, condition)
    }

    fn changes_finished(&self) -> bool {
        self.is_finished() != (is_true(self.old, "Complete") || is_true(self.old, "Failed"))
    }

    fn changes(&self, name: &str) -> bool {
        self.new[name] != self.old[name]
    }

    /// Checks the conditions and times of a Job that ends.
    fn validate_end(&self, causes: &mut Causes) {
        let mut refuse = |detail: &str| causes.push(field::invalid_omitted(CONDITIONS, detail));
        let changes_complete = self.changes_condition("Complete");
        let is_complete = self.is("Complete");
        if (changes_complete || self.changes_condition("Failed")) && is_complete && self.is("Failed") {
            refuse("cannot set Complete=True and Failed=true conditions");
        }
        let changes_target = changes_complete || self.changes_condition("FailureTarget");
        if changes_target && is_complete && self.is("FailureTarget") {
            refuse("cannot set Complete=True and FailureTarget=true conditions");
        }
        let (start, end) = (&self.new["startTime"], &self.new["completionTime"]);
        if changes_complete || self.changes("completionTime") {
            if !end.is_null() && !is_complete {
                let detail = "cannot set completionTime when there is no Complete=True condition";
                causes.push(field::invalid(COMPLETION_TIME, end, detail));
            }
            if end.is_null() && is_complete {
                causes.push(field::required(COMPLETION_TIME, "completionTime is required for Complete jobs"));
            }
        }
        let changes_times = self.changes("startTime") || self.changes("completionTime");
        if changes_times && time(end).zip(time(start)).is_some_and(|(end, start)| end < start) {
            causes.push(field::invalid(COMPLETION_TIME, end, "must be equal to or after `startTime`"));
        }
        let mut refuse = |detail: &str| causes.push(field::invalid_omitted(CONDITIONS, detail));
        let changes_failed = self.changes_condition("Failed") || self.changes("failedIndexes");
        if changes_failed && self.is("Failed") && !self.is("FailureTarget") {
            refuse("cannot set Failed=True condition without the FailureTarget=true condition");
        }
        let changes_success = changes_complete || self.changes_condition("SuccessCriteriaMet");
        if changes_success && is_complete && !self.is("SuccessCriteriaMet") {
            refuse("cannot set Complete=True condition without the SuccessCriteriaMet=true condition");
        }
        self.validate_finished(causes);
    }

    /// Checks what a finished Job may not have.
    fn validate_finished(&self, causes: &mut Causes) {
        if !self.is_finished() {
            return;
        }
        let changes = |name: &str| self.changes_finished() || self.changes(name);
        if changes("active") && count(self.new, "active") > 0 {
            let detail = "active>0 is invalid for finished job";
            causes.push(field::invalid("status.active", &self.new["active"], detail));
        }
        let runs_nothing = self.spec["suspend"] == true && self.spec["completions"] == 0;
        if changes("startTime") && !runs_nothing && !has(self.new, "startTime") {
            causes.push(field::required("status.startTime", "startTime is required for finished job"));
        }
        let uncounted = &self.new["uncountedTerminatedPods"];
        let lists = ["succeeded", "failed"].map(|list| &uncounted[list]);
        if changes("uncountedTerminatedPods") && lists.iter().any(|list| !items(list).is_empty()) {
            let [succeeded, failed] = lists;
            let shown = format!("{{\"Succeeded\":{succeeded},\"Failed\":{failed}}}");
            let detail = "must be empty for finished job";
            causes.push(field::invalid_shown("status.uncountedTerminatedPods", &shown, detail));
        }
    }

    fn validate_indexes(&self, causes: &mut Causes) {
        let completions = self.spec["completions"].as_i64();
        let (completed, failed) = (text(self.new, "completedIndexes"), text(self.new, "failedIndexes"));
        let changes_completed = text(self.old, "completedIndexes") != completed;
        let (changes_failed, has_failed) = (self.changes("failedIndexes"), has(self.new, "failedIndexes"));
        let has_limit = has(self.spec, "backoffLimitPerIndex");
        let mut refuse =
            |path: &str, value: &str, detail: &str| causes.push(field::invalid(path, &value.into(), detail));
        if let Some(Err(problem)) =
            completions.filter(|_| changes_completed).map(|completions| parse(completed, completions))
        {
            refuse(COMPLETED, completed, &format!("error parsing completedIndexes: {problem}"));
        }
        let checked = completions.filter(|_| changes_failed && has_limit && has_failed);
        if let Some(Err(problem)) = checked.map(|completions| parse(failed, completions)) {
            refuse(FAILED, failed, &format!("error parsing failedIndexes: {problem}"));
        }
        if changes_completed && !completed.is_empty() && text(self.spec, "completionMode") != "Indexed" {
            refuse(
                COMPLETED,
                completed,
                "cannot set non-empty completedIndexes when non-indexed completion mode",
            );
        }
        if changes_failed && has_failed && !has_limit {
            refuse(FAILED, failed, "cannot set non-null failedIndexes when backoffLimitPerIndex is null");
        }
        if let Some(completions) = completions
            && has_failed
            && (changes_failed || changes_completed)
            && let Some(index) = overlap(completed, failed, completions)
        {
            let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
            refuse(FAILED, failed, &detail);
        }
    }

    fn validate_counts(&self, causes: &mut Causes) {
        let changes_terminating = self.changes_finished() || self.changes("terminating");
        if changes_terminating && self.is_finished() && count(self.new, "terminating") > 0 {
            let detail = "terminating>0 is invalid for finished job";
            causes.push(field::invalid("status.terminating", &self.new["terminating"], detail));
        }
        let changes_pods = self.changes("ready") || count(self.new, "active") != count(self.old, "active");
        if changes_pods && count(self.new, "ready") > count(self.new, "active") && has(self.new, "ready") {
            let detail = "cannot set more ready pods than active";
            causes.push(field::invalid("status.ready", &self.new["ready"], detail));
        }
    }

    /// Checks the condition `SuccessCriteriaMet`.
    fn validate_success(&self, causes: &mut Causes) {
        let mut refuse = |detail: &str| causes.push(field::invalid_omitted(CONDITIONS, detail));
        if self.is("SuccessCriteriaMet") {
            if self.is("Failed") {
                refuse("cannot set SuccessCriteriaMet=True and Failed=true conditions");
            }
            if self.is("FailureTarget") {
                refuse("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions");
            }
        } else if has(self.spec, "successPolicy") && self.is("Complete") {
            refuse("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True");
        }
    }

    /// Checks what may not change.
    fn validate_transition(&self, causes: &mut Causes) {
        for condition in ["Failed", "Complete", "FailureTarget"] {
            if is_true(self.old, condition) && !self.is(condition) {
                let detail = format!("cannot disable the terminal {condition}=True condition");
                causes.push(field::invalid_omitted(CONDITIONS, &detail));
            }
        }
        let scales = text(self.spec, "completionMode") == "Indexed"
            && self.spec["completions"] == self.spec["parallelism"];
        for name in ["failed", "succeeded"] {
            if count(self.new, name) < count(self.old, name) && !(scales && name == "succeeded") {
                let value = count(self.new, name).into();
                let detail = format!("cannot decrease the {name} counter");
                causes.push(field::invalid(&field::child("status", name), &value, &detail));
            }
        }
        let has_both = |name: &str| has(self.new, name) && has(self.old, name);
        if has_both("completionTime") && self.changes("completionTime") {
            let end = &self.new["completionTime"];
            causes.push(field::invalid(COMPLETION_TIME, end, "field is immutable"));
        }
        let resumes = is_true(self.old, "Suspended") && has_condition(self.new, "Suspended", "False");
        let is_fixed = has(self.old, "startTime") && self.spec["suspend"] != true && !resumes;
        if is_fixed && self.changes("startTime") {
            let detail = "field is immutable for unsuspended job once set";
            causes.push(field::invalid("status.startTime", &self.new["startTime"], detail));
        }
        let mut refuse = |detail: &str| causes.push(field::invalid_omitted(CONDITIONS, detail));
        match (is_true(self.old, "SuccessCriteriaMet"), self.is("SuccessCriteriaMet")) {
            (true, false) => refuse("cannot disable the SuccessCriteriaMet=True condition"),
            (false, true) if is_true(self.old, "Complete") => {
                refuse("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions");
            }
            _ => {}
        }
    }
}

fn has_condition(status: &Value, kind: &str, value: &str) -> bool {
    let mut conditions = items(&status["conditions"]).iter();
    conditions.any(|condition| text(condition, "type") == kind && text(condition, "status") == value)
}

fn is_true(status: &Value, kind: &str) -> bool {
    has_condition(status, kind, "True")
}

fn count(status: &Value, name: &str) -> i64 {
    status[name].as_i64().unwrap_or(0)
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// Parses indexes such as `1,3-5`, which are less than `completions` and increase. Returns the first and the last index of each interval.
fn parse(text: &str, completions: i64) -> Result<Vec<(i64, i64)>, String> {
    let mut intervals: Vec<(i64, i64)> = Vec::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, last) = parse_interval(part, completions)?;
        if let Some((_, previous)) = intervals.last().filter(|(_, previous)| *previous >= first) {
            return Err(format!("non-increasing order, previous: {previous}, current: {first}"));
        }
        intervals.push((first, last));
    }
    Ok(intervals)
}

fn parse_interval(part: &str, completions: i64) -> Result<(i64, i64), String> {
    let index = |text: &str| {
        let shown = go::quoted(text);
        let index: i64 =
            text.parse().map_err(|_| format!("cannot convert string to integer for index: {shown}"))?;
        if index >= completions { Err(format!("too large index: {shown}")) } else { Ok(index) }
    };
    let limits: Vec<&str> = part.split('-').collect();
    match limits[..] {
        [only] => index(only).map(|only| (only, only)),
        [first, last] => {
            let (first, last) = (index(first)?, index(last)?);
            if first >= last {
                return Err(format!("non-increasing order, previous: {first}, current: {last}"));
            }
            Ok((first, last))
        }
        _ => Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
            go::quoted(part)
        )),
    }
}

/// Returns the first index that is both completed and failed. Malformed intervals have none.
fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    let intervals = |text: &str| -> Vec<(i64, i64)> {
        text.split(',').filter_map(|part| parse_interval(part, completions).ok()).collect()
    };
    let (completed, failed) = (intervals(completed), intervals(failed));
    let (mut completed, mut failed) = (completed.iter().peekable(), failed.iter().peekable());
    while let (Some((first, last)), Some((other_first, other_last))) = (completed.peek(), failed.peek()) {
        if first <= other_last && other_first <= last {
            return Some(*first.max(other_first));
        }
        let skipped = if first <= other_first { &mut completed } else { &mut failed };
        skipped.next();
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn indexes_increase_and_are_less_than_the_completions() {
        assert_eq!(parse("", 5), Ok(Vec::new()));
        assert_eq!(parse("0,2-4", 5), Ok(vec![(0, 0), (2, 4)]));
        let problems = [
            ("0-5", "too large index: \"5\""),
            ("1,1", "non-increasing order, previous: 1, current: 1"),
            ("3-2", "non-increasing order, previous: 3, current: 2"),
            ("x", "cannot convert string to integer for index: \"x\""),
        ];
        for (text, problem) in problems {
            assert_eq!(parse(text, 5), Err(problem.to_owned()));
        }
    }

    #[test]
    fn completed_and_failed_indexes_do_not_overlap() {
        assert_eq!(overlap("0-2,4", "3,5", 9), None);
        assert_eq!(overlap("0-2,4-6", "3,5", 9), Some(5));
        assert_eq!(overlap("x,1", "1", 9), Some(1));
        assert_eq!(overlap("", "1", 9), None);
    }

    #[test]
    fn finished_job_stays_finished() {
        let spec = json!({"completions": 1, "parallelism": 1});
        let conditions = json!([
            {"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"},
        ]);
        let [start, end] = ["2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"];
        let done =
            json!({"conditions": conditions, "startTime": start, "completionTime": end, "succeeded": 1});
        let problems = |status: Value| -> Vec<String> {
            let mut causes = Causes::default();
            let old = json!({"spec": spec, "status": done});
            validate(&json!({"spec": spec, "status": status}), &old, &mut causes);
            causes.iter().map(|cause| cause.message.clone()).collect()
        };
        assert_eq!(problems(done.clone()), [""; 0]);
        let later =
            json!({"conditions": conditions, "startTime": start, "completionTime": "2026-01-01T00:00:02Z"});
        assert_eq!(
            problems(later),
            [
                "Invalid value: 0: cannot decrease the succeeded counter",
                "Invalid value: \"2026-01-01T00:00:02Z\": field is immutable",
            ]
        );
        let restarted = problems(json!({"succeeded": 1, "startTime": start}));
        assert_eq!(
            restarted,
            [
                "Invalid value: cannot disable the terminal Complete=True condition",
                "Invalid value: cannot disable the SuccessCriteriaMet=True condition",
            ]
        );
    }
}
