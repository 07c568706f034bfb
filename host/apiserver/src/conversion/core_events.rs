//! Events are stored as core/v1 and also served as events.k8s.io/v1.

use serde_json::{Map, Value, json};

/// The name of a field in core/v1, and its name in events.k8s.io/v1.
const RENAMED: [(&str, &str); 6] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];
const CONTROLLER: (&str, &str) = ("reportingComponent", "reportingController");

/// Converts an Event from core/v1 to events.k8s.io/v1.
pub(crate) fn to_events_v1(event: &mut Value) {
    let Some(object) = event.as_object_mut() else { return };
    for (core, events) in RENAMED.iter().chain([&CONTROLLER]) {
        rename(object, core, events);
    }
    if let Some(series) = object.get_mut("series").and_then(Value::as_object_mut) {
        series.entry("count").or_insert(json!(0));
    }
    // Go omits these there if they are empty, and writes those always.
    for name in ["reportingController", "reportingInstance"] {
        if object.get(name).is_some_and(|value| value == "") {
            object.remove(name);
        }
    }
    for name in ["eventTime", "deprecatedFirstTimestamp", "deprecatedLastTimestamp"] {
        object.entry(name).or_insert(Value::Null);
    }
    object.entry("deprecatedSource").or_insert_with(|| json!({}));
}

/// Converts an Event from events.k8s.io/v1 to core/v1.
pub(crate) fn to_core(event: &mut Value) {
    let Some(object) = event.as_object_mut() else { return };
    for (core, events) in RENAMED.iter().chain([&CONTROLLER]) {
        rename(object, events, core);
    }
    // Go writes these there even if they are empty.
    for name in ["eventTime", "firstTimestamp", "lastTimestamp"] {
        object.entry(name).or_insert(Value::Null);
    }
    object.entry("source").or_insert_with(|| json!({}));
}

fn rename(object: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = object.remove(from) {
        object.insert(to.into(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converting_to_events_v1_and_back_preserves_the_event() {
        let core = json!({
            "involvedObject": {"kind": "Pod"}, "message": "m", "source": {"component": "c"}, "count": 2,
            "reportingComponent": "c", "reason": "r", "eventTime": null, "firstTimestamp": null, "lastTimestamp": null,
        });
        let mut event = core.clone();
        to_events_v1(&mut event);
        assert_eq!((&event["note"], &event["regarding"]["kind"]), (&json!("m"), &json!("Pod")));
        assert_eq!((&event["deprecatedCount"], &event["reportingController"]), (&json!(2), &json!("c")));
        to_core(&mut event);
        assert_eq!(event, core);
        let mut new = json!({"regarding": {"kind": "Pod"}, "eventTime": "2024-01-01T00:00:00Z"});
        to_core(&mut new);
        let expected = json!({
            "involvedObject": {"kind": "Pod"}, "eventTime": "2024-01-01T00:00:00Z", "firstTimestamp": null,
            "lastTimestamp": null, "source": {},
        });
        assert_eq!(new, expected);
    }
}
