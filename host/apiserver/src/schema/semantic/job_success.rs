//! When an indexed Job has succeeded, and lists of indexes.

use serde_json::Value;

use super::{items, validate_non_negative};
use crate::schema::field;
use crate::status::Causes;

/// The most rules of a policy.
const MAX_RULES: usize = 20;

/// Checks the success policy of the Job specification at `path`.
pub(super) fn validate(spec: &Value, path: &str, causes: &mut Causes) {
    let (policy, at) = (&spec["successPolicy"], field::child(path, "successPolicy"));
    if policy.is_null() {
        return;
    }
    if spec["completionMode"] != "Indexed" {
        causes.push(field::invalid_shown(&at, &as_go(policy), "requires indexed completion mode"));
        return;
    }
    let (rules, at) = (items(&policy["rules"]), field::child(&at, "rules"));
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        causes.push(field::required(&at, detail));
    }
    if rules.len() > MAX_RULES {
        causes.push(field::too_many(&at, rules.len(), MAX_RULES as u64));
    }
    let completions = spec["completions"].as_i64().unwrap_or(0);
    for (index, rule) in rules.iter().enumerate() {
        validate_rule(rule, completions, &field::index(&at, index), causes);
    }
}

fn validate_rule(rule: &Value, completions: i64, at: &str, causes: &mut Causes) {
    let (indexes, count) = (&rule["succeededIndexes"], &rule["succeededCount"]);
    if indexes.is_null() && count.is_null() {
        let detail = "at least one of succeededCount or succeededIndexes must be specified";
        causes.push(field::required(at, detail));
    }
    let mut total = 0;
    if let Some(list) = indexes.as_str() {
        match count_indexes(list, completions) {
            Ok(number) => total = number,
            Err(problem) => {
                let detail = format!("error parsing succeededIndexes: {problem}");
                causes.push(field::invalid(&field::child(at, "succeededIndexes"), indexes, &detail));
            }
        }
    }
    let Some(number) = count.as_i64() else { return };
    validate_non_negative(rule, "succeededCount", at, causes);
    let path = field::child(at, "succeededCount");
    if number > completions {
        let detail =
            format!("must be less than or equal to {completions} (the number of specified completions)");
        causes.push(field::invalid(&path, count, &detail));
    }
    if indexes.is_string() && number > total {
        let detail = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        causes.push(field::invalid(&path, count, &detail));
    }
}

/// Returns how many indexes a list such as `0-2,5` has. Each is less than `completions`.
///
/// # Errors
/// Why the list is malformed.
pub(super) fn count_indexes(list: &str, completions: i64) -> Result<i64, String> {
    if list.is_empty() {
        return Ok(0);
    }
    let (mut last, mut total) = (None, 0);
    for interval in list.split(',') {
        let limits: Vec<&str> = interval.split('-').collect();
        if limits.len() > 2 {
            return Err(format!(
                "the fragment {interval:?} violates the requirement that an index interval can have at most two parts separated by '-'"
            ));
        }
        let number = |text: &str| -> Result<i64, String> {
            let number: i64 =
                text.parse().map_err(|_| format!("cannot convert string to integer for index: {text:?}"))?;
            if number >= completions { Err(format!("too large index: {text:?}")) } else { Ok(number) }
        };
        let first = number(limits[0])?;
        let end = limits.get(1).map_or(Ok(first), |text| number(text))?;
        let before = if limits.len() > 1 && first >= end { Some((first, end)) } else { None };
        let before = before.or_else(|| last.filter(|last| *last >= first).map(|last| (last, first)));
        if let Some((previous, current)) = before {
            return Err(format!("non-increasing order, previous: {previous}, current: {current}"));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// Returns the policy as messages show it.
pub(super) fn as_go(policy: &Value) -> String {
    let rules: Vec<String> = items(&policy["rules"])
        .iter()
        .map(|rule| {
            format!(
                "{{\"SucceededIndexes\":{},\"SucceededCount\":{}}}",
                rule["succeededIndexes"], rule["succeededCount"]
            )
        })
        .collect();
    format!("{{\"Rules\":[{}]}}", rules.join(","))
}
