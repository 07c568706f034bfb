//! Finds the fields in which successive states of an object differ. Does no I/O and reads no clock.

use pilothouse_model::Object;
use serde_json::Value;

/// Metadata that every write changes, or that differs when an object is re-created.
const VOLATILE: [&str; 5] = ["resourceVersion", "managedFields", "generation", "uid", "creationTimestamp"];
/// The maximum number of fields that are reported.
const MAX_FIELDS: usize = 2;
/// How many differing fields are collected before the comparison stops.
const MAX_CANDIDATES: usize = 64;
/// The maximum length of a pointer in bytes. A change deeper in the object is reported for the enclosing field.
const MAX_POINTER_LENGTH: usize = 512;

/// Returns the object's JSON without the metadata that every write changes; `None` if the object nests too deeply for a tree.
pub(super) fn without_volatile_metadata(object: &Object) -> Option<Value> {
    let mut value: Value = serde_json::from_str(object.json()).ok()?;
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        VOLATILE.iter().for_each(|name| drop(metadata.remove(*name)));
    }
    Some(value)
}

/// Returns JSON pointers to at most two fields that differ between the last two states. If there is an earlier state, fields that have its
/// value again come first.
pub(super) fn changing_fields(states: &[Value]) -> Vec<String> {
    let [.., before, now] = states else { return Vec::new() };
    let mut found = Vec::new();
    collect(before, now, &mut String::new(), &mut found);
    if let [.., earlier, _, _] = states {
        found.sort_by_key(|pointer| earlier.pointer(pointer) != now.pointer(pointer));
    }
    found.truncate(MAX_FIELDS);
    found
}

fn collect(left: &Value, right: &Value, pointer: &mut String, found: &mut Vec<String>) {
    match (left, right) {
        _ if found.len() >= MAX_CANDIDATES || left == right => {}
        (Value::Object(left), Value::Object(right)) => {
            let added = right.keys().filter(|name| !left.contains_key(*name));
            for name in left.keys().chain(added) {
                let absent = Value::Null;
                let (left, right) = (left.get(name).unwrap_or(&absent), right.get(name).unwrap_or(&absent));
                let step = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
                collect_below(&step, left, right, pointer, found);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (position, (left, right)) in left.iter().zip(right).enumerate() {
                collect_below(&format!("/{position}"), left, right, pointer, found);
            }
        }
        _ => add(pointer, found),
    }
}

/// Collects the differences of two members or elements, to which `step` leads. If the pointer would become too long, reports the enclosing
/// field instead.
fn collect_below(step: &str, left: &Value, right: &Value, pointer: &mut String, found: &mut Vec<String>) {
    let length = pointer.len();
    if length + step.len() <= MAX_POINTER_LENGTH {
        pointer.push_str(step);
        collect(left, right, pointer, found);
        pointer.truncate(length);
    } else if left != right && found.len() < MAX_CANDIDATES {
        add(pointer, found);
    }
}

fn add(pointer: &str, found: &mut Vec<String>) {
    if found.last().is_none_or(|last| last != pointer) {
        found.push(pointer.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_return_to_an_earlier_value_come_first() {
        let state = |count: u32, mode: &str| json!({"status": {"count": count, "conditions": [{"type": "Ready", "at": count}]}, "spec": {"a/b": mode}});
        let states = [state(1, "x"), state(2, "y"), state(3, "x")];
        assert_eq!(changing_fields(&states), ["/spec/a~1b", "/status/conditions/0/at"]);
        assert_eq!(changing_fields(&states[..2]).len(), 2);
        assert!(changing_fields(&states[..1]).is_empty());
        let list = |items: &[u32]| json!({"items": items});
        assert_eq!(
            changing_fields(&[list(&[1]), list(&[1, 2])]),
            ["/items"],
            "a list that changes its length is one change"
        );
    }

    #[test]
    fn pointers_are_bounded_in_number_and_length() {
        let state = |value: usize| {
            let many: serde_json::Map<_, _> =
                (0..1000).map(|number| (format!("f{number}"), json!(value))).collect();
            let long = json!({"x".repeat(100_000): many});
            json!({"long": long, "many": many})
        };
        let mut found = Vec::new();
        collect(&state(1), &state(2), &mut String::new(), &mut found);
        assert_eq!(found.len(), MAX_CANDIDATES);
        assert_eq!(found[0], "/long", "the member's name is too long to be reported");
        assert!(found.iter().all(|pointer| pointer.len() <= MAX_POINTER_LENGTH));
    }

    #[test]
    fn escapes_and_positions_count_towards_the_length_of_a_pointer() {
        let pointer_of = |left: &Value, right: &Value| {
            let mut found = Vec::new();
            collect(left, right, &mut String::new(), &mut found);
            assert_eq!(found.len(), 1);
            found.remove(0)
        };
        // A tilde has two bytes in a pointer.
        let name = "~".repeat(MAX_POINTER_LENGTH / 2);
        let escaped = |value: u32| json!({"a": {name.clone(): value}});
        assert_eq!(pointer_of(&escaped(1), &escaped(2)), "/a");
        let nested = |value: u32| (0..MAX_POINTER_LENGTH).fold(json!(value), |inner, _| json!([inner]));
        assert_eq!(pointer_of(&nested(1), &nested(2)).len(), MAX_POINTER_LENGTH);
    }

    #[test]
    fn an_unchanged_member_with_a_long_name_is_not_reported() {
        let state = |value: u32| json!({"a": {"x".repeat(1_000): 1, "b": value}});
        assert_eq!(changing_fields(&[state(1), state(2)]), ["/a/b"]);
    }

    #[test]
    fn metadata_that_every_write_changes_is_ignored() {
        let object = |version: u32| {
            let json = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "generation": version,
                "resourceVersion": version.to_string(), "uid": version.to_string()}});
            Object::from_json(json.to_string()).expect("an object")
        };
        let state = without_volatile_metadata(&object(1));
        assert!(state.is_some() && state == without_volatile_metadata(&object(2)));
    }

    #[test]
    fn an_object_that_nests_too_deeply_has_no_state() {
        let nested = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p","resourceVersion":"1"}},"spec":{nested}}}"#
        );
        assert_eq!(without_volatile_metadata(&Object::from_json(json).expect("an object")), None);
    }
}
