//! The canonical form of an object. UIDs, versions, times and generated names are replaced, so that the objects of two runs that differ in
//! nothing else are equal.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::{INTERFERENCE_ANNOTATION, Names};
use crate::run::RequestEvent;

/// The members of `metadata` that the server sets anew for each object.
const VOLATILE_METADATA: [&str; 7] = [
    "managedFields",
    "resourceVersion",
    "uid",
    "creationTimestamp",
    "generation",
    "selfLink",
    "deletionGracePeriodSeconds",
];
/// The member of a status that says which spec it is about, and what stands for its value.
const OBSERVED_GENERATION: &str = "observedGeneration";
const GENERATION: &str = "<generation>";
/// Numbers in this range are taken for seconds since 1970, and a thousand times larger ones for milliseconds.
pub(super) const EPOCH_SECONDS: std::ops::RangeInclusive<u64> = 1_000_000_000..=4_000_000_000;
/// Numbers in this range, if they have eight digits in a name, are taken for minutes since 1970: CronJobs name their Jobs so.
const EPOCH_MINUTES: std::ops::RangeInclusive<u64> = 20_000_000..=60_000_000;
/// How deep values are compared. Kubernetes accepts less.
pub(super) const MAX_DEPTH: usize = 200;

/// Returns the canonical form of an object.
#[must_use]
pub fn canonical_object(object: &Value, names: &Names) -> Value {
    let Value::Object(members) = object else { return canonical(object, names, 0) };
    let mut value = canonical_members(members, names, 0, &[]);
    if let Some(Value::Object(metadata)) = members.get("metadata") {
        // Most of an object's metadata are its managed fields, so what is left out is not brought into canonical form before.
        let mut metadata = canonical_members(metadata, names, 1, &VOLATILE_METADATA);
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.remove(INTERFERENCE_ANNOTATION);
        }
        let is_empty = |member: &Value| member.as_object().is_some_and(Map::is_empty);
        metadata.retain(|name, member| name != "annotations" || !is_empty(member));
        value.insert("metadata".to_owned(), Value::Object(metadata));
    }
    if let Some(Value::Object(status)) = value.get_mut("status")
        && let Some(observed) = observed_generation(object)
    {
        status.insert(OBSERVED_GENERATION.to_owned(), Value::from(observed));
    }
    Value::Object(value)
}

/// Returns how the generation in the object's status relates to its own. The numbers depend on how often the spec was changed, but whether the
/// status is about the latest spec does not. `None` if the object lacks either number. Elsewhere in an object, such a number may be about another object.
fn observed_generation(object: &Value) -> Option<&'static str> {
    let observed = object["status"][OBSERVED_GENERATION].as_i64()?;
    Some(match observed.cmp(&object["metadata"]["generation"].as_i64()?) {
        Ordering::Less => "<an older generation>",
        Ordering::Equal => GENERATION,
        Ordering::Greater => "<a later generation>",
    })
}

/// Whether a name contains a number that is probably a time: seconds, milliseconds or minutes since 1970. How many objects of such names there are
/// depends on how long a run takes.
#[must_use]
pub fn names_a_time(name: &str) -> bool {
    let numbers = name.split(|character: char| !character.is_ascii_digit());
    numbers.filter_map(|digits| digits.parse::<u64>().ok()).any(|number| {
        EPOCH_SECONDS.contains(&number)
            || EPOCH_SECONDS.contains(&(number / 1000))
            || EPOCH_MINUTES.contains(&number)
    })
}

/// Whether a write changed nothing in an object that exists but times and what the server sets.
#[must_use]
pub fn changes_only_times(write: &RequestEvent) -> bool {
    let names = Names::default();
    match (&write.before, &write.after) {
        (Some(before), Some(after)) => canonical_object(before, &names) == canonical_object(after, &names),
        _ => false,
    }
}

fn canonical(value: &Value, names: &Names, depth: usize) -> Value {
    match value {
        _ if depth > MAX_DEPTH => Value::Null,
        Value::String(text) if is_time(text) => Value::from("<time>"),
        Value::String(text) => Value::from(names.replace(text)),
        Value::Array(items) => items.iter().map(|item| canonical(item, names, depth + 1)).collect(),
        Value::Object(members) => Value::Object(canonical_members(members, names, depth, &[])),
        value => value.clone(),
    }
}

/// Returns the canonical form of the members, without those in `left_out`. At depth 0, `metadata` is left out, too.
fn canonical_members(
    members: &Map<String, Value>,
    names: &Names,
    depth: usize,
    left_out: &[&str],
) -> Map<String, Value> {
    let is_left_out = |name: &str, member: &Value| {
        left_out.contains(&name) || (depth == 0 && name == "metadata" && member.is_object())
    };
    members
        .iter()
        .filter(|(name, member)| !is_left_out(name, member))
        .map(|(name, member)| {
            let mut canonical = match name.as_str() {
                OBSERVED_GENERATION => Value::from(GENERATION),
                _ => canonical(member, names, depth + 1),
            };
            if matches!(name.as_str(), "finalizers" | "ownerReferences" | "conditions")
                && let Value::Array(items) = &mut canonical
            {
                items.sort_by_cached_key(Value::to_string);
            }
            (names.replace(name), canonical)
        })
        .collect()
}

/// Whether the text is a time in the format of RFC 3339.
pub(crate) fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let has = |index: usize, byte: u8| bytes.get(index) == Some(&byte);
    (20..=40).contains(&bytes.len())
        && [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')].iter().all(|(index, byte)| has(*index, *byte))
        && (has(10, b'T') || has(10, b' '))
        && bytes[..4].iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_number_of_seconds_or_minutes_names_a_time() {
        for (name, expected) in [
            ("report-1767226052", true),
            ("report-1767226052123", true),
            ("report-29453760", true),
            ("report-2945", false),
            ("web-7d9c5", false),
            ("report-99999999999999999999999", false),
        ] {
            assert_eq!(names_a_time(name), expected, "{name}");
        }
    }
}
