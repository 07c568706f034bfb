//! Managed fields of writes through `/scale`.

use serde_json::json;

use super::*;

const PATH: &str = "spec.size";

fn owners_of_size(object: &Value) -> Vec<&str> {
    let entries = object["metadata"]["managedFields"].as_array().map_or(&[][..], Vec::as_slice);
    let owners = entries.iter().filter(|entry| !entry["fieldsV1"]["f:spec"]["f:size"].is_null());
    owners.filter_map(|entry| entry["manager"].as_str()).collect()
}

/// Returns the object after `scaler` has set its replicas through `/scale`.
fn scaled(old: &Value, size: u32) -> Value {
    let mut new = old.clone();
    new["spec"]["size"] = json!(size);
    track_scale_update(old, &mut new, &Writer { subresource: "scale", ..writer("scaler") }, PATH);
    new
}

#[test]
fn who_scales_becomes_the_only_owner_of_the_replicas() {
    let old = apply_as("a", None, json!({"size": 1, "color": "red"})).expect("no conflict");
    let new = scaled(&old, 2);
    assert_eq!(owners_of_size(&new), ["scaler"]);
    assert_eq!(owned(&new, "a"), json!({"f:spec": {"f:color": {}}}));
    assert_eq!(owners_of_size(&scaled(&old, 1)), ["a"], "nothing changed");
    assert_eq!(owners_of_size(&scaled(&new, 0)), [""; 0], "nobody owns 0 replicas");
}

#[test]
fn nobody_becomes_a_manager_if_nobody_owned_the_replicas() {
    let old = apply_as("a", None, json!({"color": "red"})).expect("no conflict");
    let new = scaled(&old, 2);
    assert_eq!(new["metadata"]["managedFields"], old["metadata"]["managedFields"]);
}
