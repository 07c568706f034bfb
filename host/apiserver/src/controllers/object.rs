//! Reads and builds parts of objects: keys, owner references, times, conditions, template hashes.

use std::time::Duration;

use jiff::Timestamp;
use pilothouse_model::LabelSelector;
use serde_json::{Value, json};

use super::kind::Kind;
use crate::clock;
use crate::meta;

/// Namespace and name; the namespace of a cluster-scoped object is "".
pub(super) type Key = (Box<str>, Box<str>);

/// Returns the key of an object.
pub(super) fn key(object: &Value) -> Key {
    (meta::text(object, "namespace").into(), meta::text(object, "name").into())
}

/// Whether the object is being deleted.
pub(super) fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// Returns the reference of an object to the owner that controls it.
pub(super) fn owner_reference(kind: Kind, owner: &Value) -> Value {
    json!({
        "apiVersion": kind.api_version(), "kind": kind.name(), "name": meta::text(owner, "name"),
        "uid": meta::text(owner, "uid"), "controller": true, "blockOwnerDeletion": true,
    })
}

/// Returns the elements of a list; none if the value is not a list.
pub(super) fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

/// Returns a number, or `default` if it is absent.
pub(super) fn number(value: &Value, default: i64) -> i64 {
    value.as_i64().unwrap_or(default)
}

/// Parses a `metav1.Time`.
pub(super) fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// Returns the time until `due`, `None` if it has passed.
pub(super) fn until(due: Timestamp, now: Timestamp) -> Option<Duration> {
    Duration::try_from(due.duration_since(now)).ok().filter(|duration| !duration.is_zero())
}

/// Returns `time` plus a number of seconds.
pub(super) fn after_seconds(time: Timestamp, seconds: i64) -> Timestamp {
    time.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

/// Formats a time like `metav1.Time`.
pub(super) fn time_text(time: Timestamp) -> String {
    clock::rfc3339_seconds(time)
}

/// Returns the selector of a workload. `None` if it is invalid, empty, or does not match the Pods of the workload's own
/// template, which would be created without end.
pub(super) fn selector(value: &Value, template: &Value) -> Option<LabelSelector> {
    let selector = LabelSelector::from_json(value).ok()?;
    (!selector.is_empty() && has_labels(template, &selector)).then_some(selector)
}

/// Whether an object's labels meet a selector.
pub(super) fn has_labels(object: &Value, selector: &LabelSelector) -> bool {
    selector.matches(|key| object["metadata"]["labels"][key].as_str())
}

/// Resolves an `IntOrString`: a number, or a percentage of `total`.
pub(super) fn int_or_percent(value: &Value, total: i64, round_up: bool) -> i64 {
    match value {
        Value::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            let product = total.saturating_mul(percent);
            if round_up { product.saturating_add(99) / 100 } else { product / 100 }
        }
        other => other.as_i64().unwrap_or(0),
    }
}

/// A condition without its times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Condition<'a> {
    pub(super) kind: &'a str,
    pub(super) status: bool,
    pub(super) reason: &'a str,
    pub(super) message: &'a str,
}

impl Condition<'_> {
    fn status_text(&self) -> &'static str {
        if self.status { "True" } else { "False" }
    }
}

/// Returns the condition of a type.
pub(super) fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    items(&status["conditions"]).iter().find(|condition| condition["type"] == kind)
}

/// Whether the condition of a type is true.
pub(super) fn is_true(status: &Value, kind: &str) -> bool {
    condition(status, kind).is_some_and(|condition| condition["status"] == "True")
}

/// Sets a condition. Its `lastTransitionTime` changes only with its status. Conditions of other types are preserved.
pub(super) fn set_condition(status: &mut Value, new: Condition<'_>, now: &str) {
    let before = condition(status, new.kind).filter(|before| before["status"] == new.status_text());
    let since = before.and_then(|before| before["lastTransitionTime"].as_str()).unwrap_or(now).to_owned();
    let mut value = json!({"type": new.kind, "status": new.status_text(), "lastTransitionTime": since});
    for (field, text) in [("reason", new.reason), ("message", new.message)] {
        if !text.is_empty() {
            value[field] = text.into();
        }
    }
    put_condition(status, value);
}

/// Replaces the condition of the same type, or appends it.
pub(super) fn put_condition(status: &mut Value, condition: Value) {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    match conditions.iter_mut().find(|known| known["type"] == condition["type"]) {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}

/// Removes the condition of a type, and the list if it was the last one.
pub(super) fn remove_condition(status: &mut Value, kind: &str) {
    let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) else { return };
    conditions.retain(|condition| condition["type"] != kind);
    if conditions.is_empty()
        && let Some(status) = status.as_object_mut()
    {
        status.remove("conditions");
    }
}

/// Sets a counter, or removes it if it is 0, as Go's `omitempty` does.
pub(super) fn set_counter(status: &mut Value, name: &str, count: i64) {
    if count == 0 {
        if let Some(status) = status.as_object_mut() {
            status.remove(name);
        }
    } else {
        status[name] = count.into();
    }
}

/// Returns the hash of a Pod template as label values and names contain it: a number in the alphabet of
/// `k8s.io/apimachinery/pkg/util/rand`. The number itself differs from that of Kubernetes, which hashes Go's
/// representation of the template.
pub(super) fn template_hash(template: &Value, collisions: i64) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let hash = fnv1a(hash_value(0x811c_9dc5, template), &collisions.to_le_bytes());
    hash.to_string().bytes().map(|digit| char::from(LETTERS[usize::from(digit) % LETTERS.len()])).collect()
}

/// Returns the hash FNV-1a with a value added, independently of the order of members.
fn hash_value(hash: u32, value: &Value) -> u32 {
    let add = |hash: u32, text: &str| fnv1a(fnv1a(hash, text.as_bytes()), &[0]);
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| name.as_str());
            members.into_iter().fold(add(hash, "{"), |hash, (name, value)| {
                hash_value(hash_value(hash, &Value::String(name.clone())), value)
            })
        }
        Value::Array(items) => items.iter().fold(add(hash, "["), hash_value),
        other => add(hash, &other.to_string()),
    }
}

/// Returns the hash FNV-1a with bytes added.
fn fnv1a(hash: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_rounded_as_asked() {
        assert_eq!(int_or_percent(&json!("25%"), 10, true), 3);
        assert_eq!(int_or_percent(&json!("25%"), 10, false), 2);
        assert_eq!(int_or_percent(&json!(4), 10, false), 4);
        assert_eq!(int_or_percent(&json!("100%"), i64::MAX, true), i64::MAX / 100);
    }

    #[test]
    fn selector_has_to_match_the_template() {
        let template = json!({"metadata": {"labels": {"a": "b"}}});
        assert!(selector(&json!({"matchLabels": {"a": "b"}}), &template).is_some());
        for other in [json!({}), json!({"matchLabels": {"a": "c"}}), json!({"matchLabels": 1})] {
            assert_eq!(selector(&other, &template), None, "{other}");
        }
    }

    #[test]
    fn template_hash_depends_on_content_and_collisions_only() {
        let a = json!({"a": 1, "b": [1, {"c": "d"}]});
        let same = json!({"b": [1, {"c": "d"}], "a": 1});
        assert_eq!(template_hash(&a, 0), template_hash(&same, 0));
        assert_ne!(template_hash(&a, 0), template_hash(&a, 1));
        assert_ne!(template_hash(&a, 0), template_hash(&json!({"a": 1, "b": [1, {"c": "e"}]}), 0));
    }

    #[test]
    fn condition_keeps_its_transition_time_until_its_status_changes() {
        let mut status = json!({"conditions": [{"type": "Other"}]});
        let ready = Condition { kind: "Ready", status: true, reason: "", message: "m" };
        set_condition(&mut status, ready, "t1");
        set_condition(&mut status, Condition { reason: "r", ..ready }, "t2");
        let found = condition(&status, "Ready").expect("set");
        assert_eq!((&found["lastTransitionTime"], &found["reason"]), (&json!("t1"), &json!("r")));
        set_condition(&mut status, Condition { status: false, ..ready }, "t3");
        assert_eq!(condition(&status, "Ready").expect("set")["lastTransitionTime"], "t3");
        remove_condition(&mut status, "Ready");
        assert_eq!(status, json!({"conditions": [{"type": "Other"}]}));
    }
}
