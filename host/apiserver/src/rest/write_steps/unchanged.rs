//! Finds out whether an update changes an object.

use serde_json::{Map, Value};

/// Whether an update changes nothing and is therefore not written. Times in the managed fields do not count.
pub(in crate::rest) fn is_unchanged(old: &Value, new: &Value) -> bool {
    if old == new {
        return true;
    }
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return false };
    is_same_except(old, new, "metadata", |old, new| {
        let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return false };
        is_same_except(old, new, "managedFields", have_same_managers)
    })
}

/// Whether two objects have the same members, of which `is_same` compares those of this name.
fn is_same_except(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    name: &str,
    is_same: impl Fn(&Value, &Value) -> bool,
) -> bool {
    old.len() == new.len()
        && old.iter().zip(new).all(|((key, old), (other, new))| {
            key == other && (old == new || (key == name && is_same(old, new)))
        })
}

/// Whether managed fields are the same except for their times, which decide their order, too.
fn have_same_managers(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_array(), new.as_array()) else { return false };
    let sorted = |entries: &[Value]| {
        let mut entries: Vec<String> = entries.iter().map(without_time).collect();
        entries.sort_unstable();
        entries
    };
    old.len() == new.len() && sorted(old) == sorted(new)
}

/// Returns an entry of managed fields as JSON, without its time.
fn without_time(entry: &Value) -> String {
    let mut entry = entry.clone();
    if let Some(members) = entry.as_object_mut() {
        members.remove("time");
    }
    entry.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn many_managers_are_not_compared_with_each_other() {
        // 10^9 comparisons would take minutes.
        let entries: Vec<Value> = (0..50_000).map(|index| json!({"manager": index.to_string()})).collect();
        let reversed: Vec<Value> = entries.iter().rev().cloned().collect();
        assert!(have_same_managers(&entries.into(), &reversed.into()));
    }

    #[test]
    fn managed_fields_times_alone_are_not_a_change() {
        let with = |time: &str, labels: Value| json!({"metadata": {"labels": labels, "managedFields": [{"time": time}]}});
        assert!(is_unchanged(&with("a", json!({})), &with("b", json!({}))));
        assert!(!is_unchanged(&with("a", json!({})), &with("b", json!({"x": "y"}))));
        let two = |first: &str, second: &str| {
            let entry = |manager: &str| json!({"manager": manager, "time": first});
            json!({"metadata": {"managedFields": [entry(first), entry(second)]}})
        };
        assert!(is_unchanged(&two("x", "y"), &two("x", "y")));
        assert!(!is_unchanged(&two("x", "y"), &two("x", "z")));
        assert!(!is_unchanged(&two("x", "y"), &json!({"metadata": {}})), "the managers are cleared");
    }

    #[test]
    fn the_order_of_managers_is_no_change() {
        let of = |managers: [(&str, &str); 2]| {
            let entries = managers.map(|(manager, time)| json!({"manager": manager, "time": time}));
            json!({"metadata": {"managedFields": entries}})
        };
        assert!(is_unchanged(&of([("x", "1"), ("y", "2")]), &of([("y", "2"), ("x", "3")])));
    }
}
