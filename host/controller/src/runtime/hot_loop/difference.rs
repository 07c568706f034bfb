//! What differs between successive states of an object. Pure.

use pilothouse_model::Object;
use serde_json::Value;

/// What every write changes, and what another object of the same name has otherwise.
const IGNORED: [&str; 5] = ["resourceVersion", "managedFields", "generation", "uid", "creationTimestamp"];
/// Pointers that are named.
const NAMED: usize = 2;

/// An object without what every write changes.
pub(super) fn essence(object: &Object) -> Value {
    let mut value = object.to_value();
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        IGNORED.iter().for_each(|name| drop(metadata.remove(*name)));
    }
    value
}

/// JSON pointers to up to two fields that differ. Where there is a third state, the newest, those come first that it has
/// as the first had them.
pub(super) fn flipping(states: &[Value]) -> Vec<String> {
    let [.., before, now] = states else { return Vec::new() };
    let mut found = Vec::new();
    collect(before, now, &mut String::new(), &mut found);
    if let [.., first, _, _] = states {
        found.sort_by_key(|pointer| first.pointer(pointer) != now.pointer(pointer));
    }
    found.truncate(NAMED);
    found
}

fn collect(left: &Value, right: &Value, pointer: &mut String, found: &mut Vec<String>) {
    let length = pointer.len();
    match (left, right) {
        _ if left == right => {}
        (Value::Object(left), Value::Object(right)) => {
            let added = right.keys().filter(|name| !left.contains_key(*name));
            for name in left.keys().chain(added) {
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
        _ => found.push(pointer.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_fields_that_come_back_are_named_first() {
        let state = |count: u32, mode: &str| json!({"status": {"count": count, "conditions": [{"type": "Ready", "at": count}]}, "spec": {"a/b": mode}});
        let states = [state(1, "x"), state(2, "y"), state(3, "x")];
        assert_eq!(flipping(&states), ["/spec/a~1b", "/status/conditions/0/at"]);
        assert_eq!(flipping(&states[..2]).len(), 2);
        assert!(flipping(&states[..1]).is_empty());
        let list = |items: &[u32]| json!({"items": items});
        assert_eq!(
            flipping(&[list(&[1]), list(&[1, 2])]),
            ["/items"],
            "a list of another length is one change"
        );
    }

    #[test]
    fn what_every_write_changes_is_no_difference() {
        let object = |version: u32| {
            let json = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "generation": version,
                "resourceVersion": version.to_string(), "uid": version.to_string()}});
            Object::from_json(json.to_string()).expect("an object")
        };
        assert_eq!(essence(&object(1)), essence(&object(2)));
    }
}
