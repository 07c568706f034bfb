//! Finds the fields in which successive states of an object differ. Pure.

use pilothouse_model::Object;
use serde_json::Value;

/// Metadata that every write changes, or that differs when an object is re-created.
const VOLATILE: [&str; 5] = ["resourceVersion", "managedFields", "generation", "uid", "creationTimestamp"];
/// The maximum number of fields that are reported.
const MAX_FIELDS: usize = 2;
/// The maximum number of fields that the reported ones are chosen from.
const MAX_CANDIDATES: usize = 64;
/// The maximum length of a pointer in bytes. A change further down is reported as one of the field around it.
const MAX_POINTER_LENGTH: usize = 512;

/// Returns the object's JSON without the metadata that every write changes.
pub(super) fn without_volatile_metadata(object: &Object) -> Value {
    let mut value = object.to_value();
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        VOLATILE.iter().for_each(|name| drop(metadata.remove(*name)));
    }
    value
}

/// Returns JSON pointers to at most two fields that differ between the last two states. If there is a state before those, fields that have
/// returned to its value come first.
pub(super) fn changing_fields(states: &[Value]) -> Vec<String> {
    let [.., before, now] = states else { return Vec::new() };
    let mut found = Vec::new();
    collect(before, now, &mut String::new(), &mut found);
    if let [.., first, _, _] = states {
        found.sort_by_key(|pointer| first.pointer(pointer) != now.pointer(pointer));
    }
    found.truncate(MAX_FIELDS);
    found
}

fn collect(left: &Value, right: &Value, pointer: &mut String, found: &mut Vec<String>) {
    let length = pointer.len();
    match (left, right) {
        _ if found.len() >= MAX_CANDIDATES || left == right => {}
        (Value::Object(left), Value::Object(right)) => {
            let added = right.keys().filter(|name| !left.contains_key(*name));
            for name in left.keys().chain(added) {
                if length + name.len() > MAX_POINTER_LENGTH {
                    add(pointer, found);
                    continue;
                }
                pointer.push('/');
                pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
                let absent = Value::Null;
                let (left, right) = (left.get(name).unwrap_or(&absent), right.get(name).unwrap_or(&absent));
                collect(left, right, pointer, found);
                pointer.truncate(length);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (position, (left, right)) in left.iter().zip(right).enumerate() {
                pointer.push_str(&format!("/{position}"));
                collect(left, right, pointer, found);
                pointer.truncate(length);
            }
        }
        _ => add(pointer, found),
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
    fn metadata_that_every_write_changes_is_ignored() {
        let object = |version: u32| {
            let json = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "generation": version,
                "resourceVersion": version.to_string(), "uid": version.to_string()}});
            Object::from_json(json.to_string()).expect("an object")
        };
        assert_eq!(without_volatile_metadata(&object(1)), without_volatile_metadata(&object(2)));
    }
}
