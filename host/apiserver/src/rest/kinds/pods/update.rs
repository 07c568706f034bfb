//! Which fields an update of a Pod may change (`ValidatePodUpdate`).

use pilothouse_model::hash::HashSet;
use serde_json::Value;

use super::{gated, items};
use crate::schema::field;
use crate::status::Cause;

/// The mutable fields, as in the error message of Kubernetes.
const MUTABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                       `spec.tolerations` (only additions to existing tolerations),\
                       `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Returns what is invalid in the update of a pod from `old` to `new`.
pub(in crate::rest) fn validate_update(old: &Value, new: &Value) -> Vec<Cause> {
    let (old, new) = (&old["spec"], &new["spec"]);
    let mut causes = Vec::new();
    for list in ["containers", "initContainers"] {
        if items(&old[list]).len() != items(&new[list]).len() {
            // Kubernetes stops here, too: the checks below compare containers pairwise.
            return vec![field::forbidden(
                &format!("spec.{list}"),
                "pod updates may not add or remove containers",
            )];
        }
    }
    if !is_active_deadline_valid(old, new, &mut causes) {
        // As in Kubernetes, nothing else is checked.
        return causes;
    }
    check_tolerations(old, new, &mut causes);
    gated::check_scheduling_gates(old, new, &mut causes);
    if gated::is_gated(old) {
        gated::check_node_selector(old, new, &mut causes);
        gated::check_node_affinity(old, new, &mut causes);
    }
    let changed = changed_immutable_fields(old, new);
    if !changed.is_empty() {
        let detail = format!(
            "pod updates may not change fields other than {MUTABLE}\nchanged: {}",
            changed.join(", ")
        );
        causes.push(field::forbidden("spec", &detail));
    }
    causes
}

/// Returns the immutable fields of the specification that changed.
fn changed_immutable_fields(old: &Value, new: &Value) -> Vec<String> {
    let names = |spec: &Value| spec.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    let mut all: Vec<String> = names(old);
    let added: Vec<String> = names(new);
    all.extend(added);
    all.sort();
    all.dedup();
    let gated = gated::is_gated(old);
    all.retain(|name| match name.as_str() {
        "activeDeadlineSeconds" | "tolerations" | "schedulingGates" => false,
        // As in Kubernetes, the node of a gated pod may still be restricted.
        "nodeSelector" if gated => false,
        "affinity" if gated => gated::changes_other_affinity(&old["affinity"], &new["affinity"]),
        "terminationGracePeriodSeconds" if old[name].as_i64().is_some_and(|seconds| seconds < 0) => {
            new[name] != 1 && new[name] != old[name]
        }
        "containers" | "initContainers" => without_images(&old[name]) != without_images(&new[name]),
        _ => old[name] != new[name],
    });
    all.iter().map(|name| format!("spec.{name}")).collect()
}

/// Checks `activeDeadlineSeconds`, which may be set and decreased. Returns whether the other fields are to be checked.
fn is_active_deadline_valid(old: &Value, new: &Value, causes: &mut Vec<Cause>) -> bool {
    const PATH: &str = "spec.activeDeadlineSeconds";
    let value = &new["activeDeadlineSeconds"];
    let detail = match (old["activeDeadlineSeconds"].as_i64(), value.as_i64()) {
        (Some(_), None) => {
            causes.push(field::invalid(PATH, value, "must not update from a positive integer to nil value"));
            return true;
        }
        (_, Some(after)) if !(0..=i64::from(i32::MAX)).contains(&after) => {
            "must be between 0 and 2147483647, inclusive"
        }
        (Some(before), Some(after)) if after > before => "must be less than or equal to previous value",
        _ => return true,
    };
    causes.push(field::invalid(PATH, value, detail));
    false
}

/// Tolerations may be added, and their `tolerationSeconds` may change.
fn check_tolerations(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let without_seconds = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Some(object) = toleration.as_object_mut() {
            object.remove("tolerationSeconds");
        }
        toleration
    };
    let present: HashSet<Value> = items(&new["tolerations"]).iter().map(without_seconds).collect();
    if items(&old["tolerations"]).iter().any(|before| !present.contains(&without_seconds(before))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        causes.push(field::forbidden("spec.tolerations", detail));
    }
}

fn without_images(containers: &Value) -> Vec<Value> {
    let mut containers = items(containers).to_vec();
    for container in containers.iter_mut().filter_map(Value::as_object_mut) {
        container.remove("image");
    }
    containers
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Value {
        json!({"spec": {
            "containers": [{"name": "c", "image": "i:1"}], "activeDeadlineSeconds": 10, "nodeName": "n",
            "terminationGracePeriodSeconds": 30, "tolerations": [{"key": "a", "tolerationSeconds": 1}],
        }})
    }

    /// Returns the fields that are rejected when the field of the specification at `pointer` is set to `value`.
    fn rejected_fields(old: &Value, pointer: &str, value: Value) -> Vec<String> {
        let mut new = old.clone();
        let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
        new["spec"].pointer_mut(parent).expect("a parent")[name] = value;
        validate_update(old, &new).into_iter().map(|cause| cause.field).collect()
    }

    #[test]
    fn mutable_fields_can_change() {
        let old = pod();
        for (pointer, value) in [
            ("/activeDeadlineSeconds", json!(5)),
            ("/tolerations", json!([{"key": "b"}, {"key": "a", "tolerationSeconds": 9}])),
            ("/containers", json!([{"name": "c", "image": "i:2"}])),
        ] {
            assert_eq!(rejected_fields(&old, pointer, value), [""; 0], "{pointer}");
        }
        let mut negative = pod();
        negative["spec"]["terminationGracePeriodSeconds"] = json!(-1);
        assert_eq!(rejected_fields(&negative, "/terminationGracePeriodSeconds", json!(1)), [""; 0]);
        assert_eq!(rejected_fields(&negative, "/terminationGracePeriodSeconds", json!(2)), ["spec"]);
    }

    #[test]
    fn other_fields_cannot_change() {
        let old = pod();
        for (pointer, value, field) in [
            ("/nodeName", json!("m"), "spec"),
            ("/restartPolicy", json!("Never"), "spec"),
            ("/terminationGracePeriodSeconds", json!(1), "spec"),
            ("/containers", json!([{"name": "c", "image": "i:1", "tty": true}]), "spec"),
            ("/containers", json!([]), "spec.containers"),
            ("/initContainers", json!([{"name": "d"}]), "spec.initContainers"),
            ("/activeDeadlineSeconds", json!(11), "spec.activeDeadlineSeconds"),
            ("/activeDeadlineSeconds", json!(null), "spec.activeDeadlineSeconds"),
            ("/tolerations", json!([]), "spec.tolerations"),
            ("/schedulingGates", json!([{"name": "g"}]), "spec.schedulingGates[0].name"),
        ] {
            assert_eq!(rejected_fields(&old, pointer, value), [field], "{pointer}");
        }
    }

    #[test]
    fn invalid_deadline_ends_the_check_and_an_absent_one_does_not() {
        let old = pod();
        let mut new = pod();
        new["spec"]["nodeName"] = json!("m");
        let fields = |new: &Value| -> Vec<String> {
            validate_update(&old, new).into_iter().map(|cause| cause.field).collect()
        };
        new["spec"]["activeDeadlineSeconds"] = json!(11);
        assert_eq!(fields(&new), ["spec.activeDeadlineSeconds"]);
        new["spec"]["activeDeadlineSeconds"] = Value::Null;
        assert_eq!(fields(&new), ["spec.activeDeadlineSeconds", "spec"]);
    }

    #[test]
    fn init_containers_cannot_be_added() {
        let mut new = pod();
        new["spec"]["initContainers"] = json!([{"name": "d"}]);
        let causes = validate_update(&pod(), &new);
        assert_eq!(causes[0].message, "Forbidden: pod updates may not add or remove containers");
    }
}
