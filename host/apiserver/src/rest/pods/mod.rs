//! Pods: the subresources that need a running container, and the changes that an update may make, after
//! `ValidatePodUpdate` in `k8s.io/kubernetes/pkg/apis/core/validation`.

use pilothouse_model::hash::{HashMap, HashSet};
use serde_json::Value;

use super::strategy::qos_class;
use crate::registry::Endpoint;
use crate::schema::field;
use crate::status::{Cause, Status};

/// The mutable fields, as in the error message of Kubernetes.
const MUTABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                       `spec.tolerations` (only additions to existing tolerations),\
                       `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// The field of the ephemeral containers.
const EPHEMERAL: &str = "ephemeralContainers";

/// The subresources that a kubelet serves.
const CONTAINER_SUBRESOURCES: [&str; 4] = ["log", "exec", "attach", "portforward"];

/// Errors for a subresource that needs a running container. The code is 400, as in Kubernetes for a pod without a running
/// container: the pod exists, so 404 would be wrong.
pub(crate) fn reject_container_subresource(
    endpoint: &Endpoint,
    key: (&str, &str),
    subresource: &str,
) -> Result<(), Status> {
    if !endpoint.is_core("pods") || !CONTAINER_SUBRESOURCES.contains(&subresource) {
        return Ok(());
    }
    let (namespace, name) = key;
    if endpoint.resource.table.get(namespace, name).is_none() {
        return Err(Status::not_found(endpoint.resource_ref(), name));
    }
    Err(Status::bad_request(format!(
        "the embedded API server runs no containers: pods/{subresource} isn't available; use a cluster with nodes for it"
    )))
}

/// Returns what is invalid in the update of a pod from `old` to `new`.
pub(crate) fn validate_update(old: &Value, new: &Value) -> Vec<Cause> {
    let (old, new) = (&old["spec"], &new["spec"]);
    let mut causes = Vec::new();
    for (list, what) in [("containers", "containers"), ("initContainers", "init containers")] {
        if items(&old[list]).len() != items(&new[list]).len() {
            let detail = format!("pod updates may not add or remove {what}");
            // Kubernetes stops here, too: the checks below compare containers pairwise.
            return vec![field::forbidden(&format!("spec.{list}"), &detail)];
        }
    }
    check_active_deadline(old, new, &mut causes);
    check_tolerations(old, new, &mut causes);
    check_scheduling_gates(old, new, &mut causes);
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

/// Copies the ephemeral containers, which `/ephemeralcontainers` changes and nothing else.
pub(super) fn copy_ephemeral_containers(from: &Value, to: &mut Value) {
    let Some(spec) = to["spec"].as_object_mut() else { return };
    match from["spec"].get(EPHEMERAL) {
        Some(list) => drop(spec.insert(EPHEMERAL.to_owned(), list.clone())),
        None => drop(spec.remove(EPHEMERAL)),
    }
}

/// Copies the resources of containers by name, which `/resize` changes and nothing else.
pub(super) fn copy_resources(from: &Value, to: &mut Value) {
    for list in ["containers", "initContainers"] {
        let targets = to["spec"].get_mut(list).and_then(Value::as_array_mut);
        for target in targets.into_iter().flatten() {
            let source = items(&from["spec"][list]).iter().find(|source| source["name"] == target["name"]);
            for field in ["resources", "resizePolicy"] {
                if let Some(value) = source.and_then(|source| source.get(field)) {
                    target[field] = value.clone();
                }
            }
        }
    }
}

/// Returns what is invalid in an update of a pod's ephemeral containers: they can only be added.
pub(super) fn validate_ephemeral_containers(old: &Value, new: &Value) -> Vec<Cause> {
    const PATH: &str = "spec.ephemeralContainers";
    let (before, after) = (items(&old["spec"][EPHEMERAL]), items(&new["spec"][EPHEMERAL]));
    let mut causes = Vec::new();
    // In reverse, so that the first one of equal names counts.
    let by_name: HashMap<&str, &Value> =
        after.iter().rev().filter_map(|other| Some((other["name"].as_str()?, other))).collect();
    for container in before {
        let name = container["name"].as_str().unwrap_or_default();
        let problem = match by_name.get(name) {
            None => "removed",
            Some(other) if *other != container => "changed",
            Some(_) => continue,
        };
        let detail = format!("existing ephemeral containers {name:?} may not be {problem}\n");
        causes.push(field::forbidden(PATH, &detail));
    }
    let mut names: HashSet<&str> = ["containers", "initContainers"]
        .iter()
        .flat_map(|list| items(&new["spec"][list]))
        .filter_map(|container| container["name"].as_str())
        .collect();
    for (index, container) in after.iter().enumerate() {
        let at = field::child(&field::index(PATH, index), "name");
        let name = container["name"].as_str().unwrap_or_default();
        if name.is_empty() {
            causes.push(field::required(&at, ""));
        } else if !names.insert(name) {
            causes.push(field::duplicate(&at, &container["name"]));
        }
    }
    causes
}

/// Returns what is invalid in a resize of a pod: its quality-of-service class cannot change.
pub(super) fn validate_resize(old: &Value, new: &Value) -> Vec<Cause> {
    let (before, after) = (qos_class(&old["spec"]), qos_class(&new["spec"]));
    let detail = "Pod QOS Class may not change as a result of resizing";
    if before == after { Vec::new() } else { vec![field::invalid("spec", &Value::from(after), detail)] }
}

/// Returns the immutable fields of the specification that changed.
fn changed_immutable_fields(old: &Value, new: &Value) -> Vec<String> {
    let names = |spec: &Value| spec.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    let mut all: Vec<String> = names(old);
    let added: Vec<String> = names(new);
    all.extend(added);
    all.sort();
    all.dedup();
    let gated = !items(&old["schedulingGates"]).is_empty();
    all.retain(|name| match name.as_str() {
        "activeDeadlineSeconds" | "tolerations" | "schedulingGates" => false,
        // As in Kubernetes, the node of a gated pod may still be restricted.
        "nodeSelector" | "affinity" if gated => false,
        "terminationGracePeriodSeconds" if old[name].as_i64().is_some_and(|seconds| seconds < 0) => {
            new[name] != 1 && new[name] != old[name]
        }
        "containers" | "initContainers" => without_images(&old[name]) != without_images(&new[name]),
        _ => old[name] != new[name],
    });
    all.iter().map(|name| format!("spec.{name}")).collect()
}

/// `activeDeadlineSeconds` may be set and decreased.
fn check_active_deadline(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
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

/// Scheduling gates may only be removed.
fn check_scheduling_gates(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let before: HashSet<&Value> = items(&old["schedulingGates"]).iter().collect();
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
            ("/schedulingGates", json!([{"name": "g"}]), "spec.schedulingGates[0]"),
        ] {
            assert_eq!(rejected_fields(&old, pointer, value), [field], "{pointer}");
        }
    }

    #[test]
    fn ephemeral_containers_can_only_be_added() {
        let with = |list: Value| {
            let mut changed = pod();
            copy_ephemeral_containers(
                &json!({"spec": {"ephemeralContainers": list, "nodeName": "m"}}),
                &mut changed,
            );
            changed
        };
        let one = with(json!([{"name": "debug", "image": "i"}]));
        assert_eq!(one["spec"]["nodeName"], "n");
        let messages = |old: &Value, new: &Value| -> Vec<String> {
            validate_ephemeral_containers(old, new).into_iter().map(|cause| cause.message).collect()
        };
        assert_eq!(messages(&pod(), &one), [""; 0]);
        let removed = "Forbidden: existing ephemeral containers \"debug\" may not be removed\n";
        assert_eq!(messages(&one, &with(json!([]))), [removed]);
        let changed = with(json!([{"name": "debug", "image": "j"}]));
        assert!(messages(&one, &changed)[0].contains("may not be changed"));
        assert_eq!(messages(&pod(), &with(json!([{"name": "c"}]))), ["Duplicate value: \"c\""]);
    }

    #[test]
    fn resize_changes_resources_only_and_keeps_the_class() {
        let resources = json!({"requests": {"cpu": "2"}});
        let mut old = pod();
        old["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
        let mut new = old.clone();
        let wish = json!({"spec": {"containers": [{"name": "c", "image": "other", "resources": resources}]}});
        copy_resources(&wish, &mut new);
        assert_eq!(
            new["spec"]["containers"][0],
            json!({"name": "c", "image": "i:1", "resources": resources})
        );
        assert!(validate_resize(&old, &new).is_empty());
        new["spec"]["containers"][0]["resources"] = json!({});
        assert_eq!(validate_resize(&old, &new)[0].field, "spec");
    }

    #[test]
    fn gated_pod_can_change_its_node_selector_and_lose_gates() {
        let mut old = pod();
        old["spec"]["schedulingGates"] = json!([{"name": "g"}]);
        assert_eq!(rejected_fields(&old, "/schedulingGates", json!([])), [""; 0]);
        assert_eq!(rejected_fields(&old, "/nodeSelector", json!({"disk": "ssd"})), [""; 0]);
        assert_eq!(rejected_fields(&pod(), "/nodeSelector", json!({"disk": "ssd"})), ["spec"]);
    }
}
