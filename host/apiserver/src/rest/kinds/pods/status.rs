//! The fields of a Pod's status that an update without them keeps (`podStatusStrategy`).

use std::collections::VecDeque;

use pilothouse_model::hash::HashMap;
use serde_json::Value;

use super::items;

/// Copies the class of the old status, and the generations that it observed, unless the new one has them.
pub(in crate::rest) fn keep_fields(old: &Value, new: &mut Value) {
    let (before, after) = (&old["status"], &mut new["status"]);
    if !after.is_object() && before["qosClass"].is_null() && before["observedGeneration"].is_null() {
        return;
    }
    if after["qosClass"].as_str().is_none_or(str::is_empty) && before["qosClass"].is_string() {
        after["qosClass"] = before["qosClass"].clone();
    }
    keep_generation(&before["observedGeneration"], after);
    let mut generations: HashMap<&str, VecDeque<&Value>> = HashMap::default();
    for condition in items(&before["conditions"]) {
        let kind = condition["type"].as_str().unwrap_or_default();
        generations.entry(kind).or_default().push_back(&condition["observedGeneration"]);
    }
    for condition in after.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        let kind = condition["type"].as_str().unwrap_or_default();
        // As in Kubernetes, there may be several conditions of a type.
        let known = generations.get_mut(kind).and_then(VecDeque::pop_front);
        keep_generation(known.unwrap_or(&Value::Null), condition);
    }
}

fn keep_generation(before: &Value, after: &mut Value) {
    const FIELD: &str = "observedGeneration";
    if after.is_object() && after[FIELD].as_i64().unwrap_or(0) == 0 && before.as_i64().unwrap_or(0) != 0 {
        after[FIELD] = before.clone();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn status_keeps_its_class_and_what_it_observed() {
        let old = json!({"status": {
            "phase": "Pending", "qosClass": "Burstable", "observedGeneration": 3,
            "conditions": [{"type": "A", "observedGeneration": 2}, {"type": "A", "observedGeneration": 1}],
        }});
        let mut new = json!({"status": {
            "phase": "Running",
            "conditions": [{"type": "A"}, {"type": "A", "observedGeneration": 5}, {"type": "B"}],
        }});
        keep_fields(&old, &mut new);
        let conditions = json!([
            {"type": "A", "observedGeneration": 2}, {"type": "A", "observedGeneration": 5}, {"type": "B"},
        ]);
        assert_eq!(
            new["status"],
            json!({"phase": "Running", "qosClass": "Burstable", "observedGeneration": 3, "conditions": conditions})
        );
        let mut none = json!({"status": null});
        keep_fields(&json!({"status": {}}), &mut none);
        assert_eq!(none, json!({"status": null}));
    }
}
