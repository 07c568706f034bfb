//! Pods: what only a running container could answer, and what an update may change in the specification, after `ValidatePodUpdate` in
//! `k8s.io/kubernetes/pkg/apis/core/validation`.

use serde_json::Value;

use crate::registry::Endpoint;
use crate::schema::field;
use crate::status::{Cause, Status};

const MUTABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                       `spec.tolerations` (only additions to existing tolerations),\
                       `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// The subresources that a kubelet answers.
const OF_CONTAINERS: [&str; 4] = ["log", "exec", "attach", "portforward"];

/// Refuses what only a running container could answer. As where Kubernetes finds no running container, that is a bad
/// request: the pod is there, so 404 would be wrong.
pub(crate) fn refuse_container(
    endpoint: &Endpoint,
    key: (&str, &str),
    subresource: &str,
) -> Result<(), Status> {
    if !endpoint.is_core("pods") || !OF_CONTAINERS.contains(&subresource) {
        return Ok(());
    }
    let (namespace, name) = key;
    if endpoint.resource.table.get(namespace, name).is_none() {
        return Err(Status::not_found(endpoint.about(), name));
    }
    Err(Status::bad_request(format!(
        "the embedded API server runs no containers: pods/{subresource} isn't available; use a cluster with nodes for it"
    )))
}

/// What is wrong with the change of a pod from `old` to `new`.
pub(crate) fn changes(old: &Value, new: &Value) -> Vec<Cause> {
    let (old, new) = (&old["spec"], &new["spec"]);
    let mut causes = Vec::new();
    for (list, what) in [("containers", "containers"), ("initContainers", "init containers")] {
        if items(&old[list]).len() != items(&new[list]).len() {
            let detail = format!("pod updates may not add or remove {what}");
            // Kubernetes, too, stops here: the rest compares containers one by one.
            return vec![field::forbidden(&format!("spec.{list}"), &detail)];
        }
    }
    deadline(old, new, &mut causes);
    tolerations(old, new, &mut causes);
    gates(old, new, &mut causes);
    let changed = immutable_changes(old, new);
    if !changed.is_empty() {
        let detail = format!(
            "pod updates may not change fields other than {MUTABLE}\nchanged: {}",
            changed.join(", ")
        );
        causes.push(field::forbidden("spec", &detail));
    }
    causes
}

/// The fields of the specification that changed and may not.
fn immutable_changes(old: &Value, new: &Value) -> Vec<String> {
    let names = |spec: &Value| spec.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    let mut all: Vec<String> = names(old);
    let added: Vec<String> = names(new);
    all.extend(added);
    all.sort();
    all.dedup();
    let gated = !items(&old["schedulingGates"]).is_empty();
    all.retain(|name| match name.as_str() {
        "activeDeadlineSeconds" | "tolerations" | "schedulingGates" => false,
        // Whoever holds a pod back may still say where it is to run.
        "nodeSelector" | "affinity" if gated => false,
        "terminationGracePeriodSeconds" if old[name].as_i64().is_some_and(|seconds| seconds < 0) => {
            new[name] != 1 && new[name] != old[name]
        }
        "containers" | "initContainers" => without_images(&old[name]) != without_images(&new[name]),
        _ => old[name] != new[name],
    });
    all.iter().map(|name| format!("spec.{name}")).collect()
}

/// A deadline may be set, and come nearer.
fn deadline(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    const PATH: &str = "spec.activeDeadlineSeconds";
    let value = &new["activeDeadlineSeconds"];
    match (old["activeDeadlineSeconds"].as_i64(), value.as_i64()) {
        (Some(_), None) => {
            causes.push(field::invalid(PATH, value, "must not update from a positive integer to nil value"));
        }
        (Some(before), Some(after)) if after > before => {
            causes.push(field::invalid(PATH, value, "must be less than or equal to previous value"));
        }
        _ => {}
    }
}

/// Tolerations may come, and last longer or shorter.
fn tolerations(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let timeless = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Some(object) = toleration.as_object_mut() {
            object.remove("tolerationSeconds");
        }
        toleration
    };
    let present: Vec<Value> = items(&new["tolerations"]).iter().map(timeless).collect();
    if items(&old["tolerations"]).iter().any(|before| !present.contains(&timeless(before))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        causes.push(field::forbidden("spec.tolerations", detail));
    }
}

/// Scheduling gates may go.
fn gates(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let before = items(&old["schedulingGates"]);
    for (index, gate) in items(&new["schedulingGates"]).iter().enumerate() {
        if !before.contains(gate) {
            let path = field::index("spec.schedulingGates", index);
            causes.push(field::forbidden(&path, "only deletion is allowed, but found new scheduling gate"));
        }
    }
}

fn without_images(containers: &Value) -> Vec<Value> {
    let mut containers = items(containers).to_vec();
    for container in containers.iter_mut().filter_map(Value::as_object_mut) {
        container.remove("image");
    }
    containers
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
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

    /// The fields that are refused when the member of the specification at `pointer` gets a value.
    fn refused(old: &Value, pointer: &str, value: Value) -> Vec<String> {
        let mut new = old.clone();
        let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
        new["spec"].pointer_mut(parent).expect("a place")[name] = value;
        changes(old, &new).into_iter().map(|cause| cause.field).collect()
    }

    #[test]
    fn what_kubernetes_lets_change_may_change() {
        let old = pod();
        for (pointer, value) in [
            ("/activeDeadlineSeconds", json!(5)),
            ("/tolerations", json!([{"key": "b"}, {"key": "a", "tolerationSeconds": 9}])),
            ("/containers", json!([{"name": "c", "image": "i:2"}])),
        ] {
            assert_eq!(refused(&old, pointer, value), [""; 0], "{pointer}");
        }
        let mut negative = pod();
        negative["spec"]["terminationGracePeriodSeconds"] = json!(-1);
        assert_eq!(refused(&negative, "/terminationGracePeriodSeconds", json!(1)), [""; 0]);
        assert_eq!(refused(&negative, "/terminationGracePeriodSeconds", json!(2)), ["spec"]);
    }

    #[test]
    fn everything_else_may_not() {
        let old = pod();
        for (pointer, value, at) in [
            ("/nodeName", json!("m"), "spec"),
            ("/restartPolicy", json!("Never"), "spec"),
            ("/terminationGracePeriodSeconds", json!(1), "spec"),
            ("/containers", json!([{"name": "c", "image": "i:1", "tty": true}]), "spec"),
            ("/containers", json!([]), "spec.containers"),
            ("/initContainers", json!([{"name": "d"}]), "spec.initContainers"),
            ("/activeDeadlineSeconds", json!(11), "spec.activeDeadlineSeconds"),
            ("/activeDeadlineSeconds", json!(null), "spec.activeDeadlineSeconds"),
            ("/tolerations", json!([]), "spec.tolerations"),
            ("/schedulingGates", json!([{"name": "g"}]), "spec.schedulingGates[0]"),
        ] {
            assert_eq!(refused(&old, pointer, value), [at], "{pointer}");
        }
    }

    #[test]
    fn a_pod_behind_a_gate_may_be_directed_and_let_go() {
        let mut old = pod();
        old["spec"]["schedulingGates"] = json!([{"name": "g"}]);
        assert_eq!(refused(&old, "/schedulingGates", json!([])), [""; 0]);
        assert_eq!(refused(&old, "/nodeSelector", json!({"disk": "ssd"})), [""; 0]);
        assert_eq!(refused(&pod(), "/nodeSelector", json!({"disk": "ssd"})), ["spec"]);
    }
}
