//! The resources of Pods and their containers, which `/resize` changes (`ValidatePodResize`).

use serde_json::{Map, Value};

use super::{is_same, items};
use crate::rest::kinds::strategy::qos_class;
use crate::schema::field;
use crate::status::Cause;

/// The lists of containers whose resources can change.
const LISTS: [&str; 2] = ["containers", "initContainers"];
/// The resources that can change.
const MUTABLE: [&str; 2] = ["cpu", "memory"];
/// The annotation of the Pods that a kubelet reads from files.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Copies what a resize may change: the resources of the Pod and of its containers. Containers that were added, removed, renamed or moved are copied
/// as they are, because the validation refuses them.
pub(in crate::rest) fn copy_resources(from: &Value, to: &mut Value) {
    let count = |pod: &Value| LISTS.map(|list| items(&pod["spec"][list]).len());
    if count(from) != count(to) {
        to["spec"] = from["spec"].clone();
        return;
    }
    for list in LISTS {
        let (sources, targets) = (items(&from["spec"][list]), items(&to["spec"][list]));
        if targets.is_empty() {
            continue;
        }
        let has_same_names =
            sources.iter().zip(targets).all(|(source, target)| source["name"] == target["name"]);
        if !has_same_names {
            to["spec"][list] = from["spec"][list].clone();
            continue;
        }
        let targets = to["spec"].get_mut(list).and_then(Value::as_array_mut);
        for (source, target) in sources.iter().zip(targets.into_iter().flatten()) {
            copy_member(source, target, "resources");
            copy_member(source, target, "resizePolicy");
        }
    }
    copy_member(&from["spec"], &mut to["spec"], "resources");
}

fn copy_member(from: &Value, to: &mut Value, name: &str) {
    let Some(to) = to.as_object_mut() else { return };
    match from.get(name) {
        Some(value) => drop(to.insert(name.to_owned(), value.clone())),
        None => drop(to.remove(name)),
    }
}

/// Returns what is invalid in a resize of a Pod.
pub(in crate::rest) fn validate_resize(old: &Value, new: &Value) -> Vec<Cause> {
    let refused = |problem: &str| {
        let cause = field::forbidden("", problem);
        // kube-apiserver prints the empty path in this way.
        vec![Cause { field: "[]".to_owned(), ..cause }]
    };
    if !old["metadata"]["annotations"][MIRROR].is_null() {
        return refused("static pods cannot be resized");
    }
    let (old_spec, spec) = (&old["spec"], &new["spec"]);
    if old_spec["os"]["name"] == "windows" {
        return refused("windows pods cannot be resized");
    }
    let mut causes = Vec::new();
    let class = old["status"]["qosClass"].as_str().filter(|class| !class.is_empty());
    if class.unwrap_or_else(|| qos_class(old_spec)) != qos_class(spec) {
        // As in Kubernetes, the class that is shown is the old one.
        let detail = "Pod QOS Class may not change as a result of resizing";
        causes.push(field::invalid("spec", &class.unwrap_or_default().into(), detail));
    }
    check_pod_level(&old_spec["resources"], &spec["resources"], &mut causes);
    let before = causes.len();
    LISTS.iter().for_each(|list| check_order(list, old_spec, spec, &mut causes));
    if causes.len() > before {
        // The checks below compare containers pairwise.
        return causes;
    }
    for list in ["initContainers", "containers"] {
        let path = field::child("spec", list);
        for (index, (before, after)) in items(&old_spec[list]).iter().zip(items(&spec[list])).enumerate() {
            let path = field::child(&field::index(&path, index), "resources");
            check_removed((&before["resources"], &after["resources"]), &path, "resource", &mut causes);
        }
    }
    for (before, after) in items(&old_spec["containers"]).iter().zip(items(&spec["containers"])) {
        if changes_more(before, after) {
            causes.push(field::forbidden("spec", "only cpu and memory resources are mutable"));
        }
    }
    let pairs = items(&old_spec["initContainers"]).iter().zip(items(&spec["initContainers"]));
    for (index, (before, after)) in pairs.enumerate() {
        check_init_container(index, before, after, &mut causes);
    }
    causes
}

/// Checks the resources of the Pod as a whole.
fn check_pod_level(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let has_amounts =
        |resources: &Value| ["requests", "limits"].iter().any(|of| !is_same(&resources[of], &Value::Null));
    if !has_amounts(old) && !has_amounts(new) {
        return;
    }
    const PATH: &str = "spec.resources";
    if old.is_object() && !new.is_object() {
        causes.push(field::forbidden(PATH, "pod-level resources cannot be removed"));
        return;
    }
    if old.is_object() {
        check_removed((old, new), PATH, "pod-level resource", causes);
    }
    let is_changed = ["requests", "limits", "claims"].iter().any(|of| match *of {
        "claims" => !is_same(&old[of], &new[of]),
        of => immutable_amounts(&old[of]) != immutable_amounts(&new[of]),
    });
    if is_changed {
        causes.push(field::forbidden("spec", "only cpu and memory resources are mutable at pod-level"));
    }
}

/// Checks that containers are neither added, removed, renamed nor moved.
fn check_order(list: &str, old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let path = field::child("spec", list);
    let (before, after) = (items(&old[list]), items(&new[list]));
    if before.len() != after.len() {
        causes.push(field::forbidden(&path, &format!("{list} may not be added or removed on resize")));
        return;
    }
    for (index, (before, after)) in before.iter().zip(after).enumerate() {
        if before["name"] != after["name"] {
            let path = field::child(&field::index(&path, index), "name");
            causes
                .push(field::forbidden(&path, &format!("{list} may not be renamed or reordered on resize")));
        }
    }
}

/// Checks that no request and no limit is removed.
fn check_removed((old, new): (&Value, &Value), path: &str, what: &str, causes: &mut Vec<Cause>) {
    for of in ["requests", "limits"] {
        if old[of].as_object().into_iter().flatten().any(|(name, _)| new[of].get(name).is_none()) {
            let detail = format!("{what} {of} cannot be removed");
            causes.push(field::forbidden(&field::child(path, of), &detail));
        }
    }
}

fn check_init_container(index: usize, before: &Value, after: &Value, causes: &mut Vec<Cause>) {
    let path = field::index("spec.initContainers", index);
    if changes_more(before, after) {
        let detail = "only cpu and memory resources for init or sidecar containers are mutable";
        causes.push(field::forbidden(&path, detail));
    }
    if before == after || after["restartPolicy"] == "Always" {
        return;
    }
    let policies = items(&after["resizePolicy"]);
    for _ in policies.iter().filter(|policy| policy["restartPolicy"] == "RestartContainer") {
        let detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
        causes.push(field::forbidden(&path, detail));
    }
}

/// Whether a container differs in more than its amounts of the resources that can change.
fn changes_more(before: &Value, after: &Value) -> bool {
    let without_resources = |container: &Value| {
        let mut container = container.clone();
        if let Some(container) = container.as_object_mut() {
            container.remove("resources");
        }
        container
    };
    let (old, new) = (&before["resources"], &after["resources"]);
    ["requests", "limits"].iter().any(|of| immutable_amounts(&old[of]) != immutable_amounts(&new[of]))
        || !is_same(&old["claims"], &new["claims"])
        || without_resources(before) != without_resources(after)
}

/// Returns the amounts that cannot change.
fn immutable_amounts(list: &Value) -> Map<String, Value> {
    let mut list = list.as_object().cloned().unwrap_or_default();
    MUTABLE.iter().for_each(|name| drop(list.remove(*name)));
    list
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Value {
        json!({
            "spec": {
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}, {"name": "d"}],
                "initContainers": [{"name": "e", "resources": {"limits": {"cpu": "1"}}}],
                "nodeName": "n",
            },
            "status": {"qosClass": "Burstable"},
        })
    }

    /// Returns what is refused when the field at `pointer` of the specification is set to `value`.
    fn refused(pointer: &str, value: Value) -> Vec<String> {
        let (old, mut sent) = (pod(), pod());
        let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
        let parent = sent["spec"].pointer_mut(parent).expect("a parent");
        match name.parse::<usize>() {
            Ok(index) => parent[index] = value,
            Err(_) => parent[name] = value,
        }
        let mut new = old.clone();
        copy_resources(&sent, &mut new);
        let causes = validate_resize(&old, &new);
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn resize_changes_resources_only() {
        let mut sent = pod();
        sent["spec"]["nodeName"] = json!("m");
        sent["spec"]["containers"][0] =
            json!({"name": "c", "image": "j", "resources": {"requests": {"cpu": "2"}}});
        let mut new = pod();
        copy_resources(&sent, &mut new);
        let mut expected = pod();
        expected["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("2");
        assert_eq!(new, expected);
        assert!(validate_resize(&pod(), &new).is_empty());
        assert_eq!(refused("/resources", json!({"requests": {"cpu": "3"}})), [""; 0]);
    }

    #[test]
    fn containers_stay_as_they_are() {
        let order =
            "spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize";
        assert_eq!(refused("/containers/0", json!({"name": "x"})), [order]);
        let count = "spec.containers: Forbidden: containers may not be added or removed on resize";
        assert!(refused("/containers", json!([{"name": "c"}])).contains(&count.to_owned()));
        let count = "spec.initContainers: Forbidden: initContainers may not be added or removed on resize";
        assert!(refused("/initContainers", json!([])).contains(&count.to_owned()));
        let policy = json!([{"resourceName": "cpu", "restartPolicy": "NotRequired"}]);
        let other = "spec: Forbidden: only cpu and memory resources are mutable";
        assert_eq!(refused("/containers/0/resizePolicy", policy), [other]);
    }

    #[test]
    fn amounts_are_not_removed_and_only_some_change() {
        let requests =
            "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed";
        assert_eq!(refused("/containers/0/resources", json!({"limits": {"cpu": "1"}})), [requests]);
        let limits = "spec.initContainers[0].resources.limits: Forbidden: resource limits cannot be removed";
        assert_eq!(refused("/initContainers/0/resources", json!({"requests": {"cpu": "1"}})), [limits]);
        let disk = json!({"limits": {"cpu": "1", "example.com/disk": "1"}});
        let other = "spec.initContainers[0]: Forbidden: only cpu and memory resources for init or sidecar containers are mutable";
        assert_eq!(refused("/initContainers/0/resources", disk), [other]);
        let pod_level = "spec: Forbidden: only cpu and memory resources are mutable at pod-level";
        let disk = json!({"requests": {"cpu": "1", "hugepages-2Mi": "2Mi"}});
        assert_eq!(refused("/resources", disk), [pod_level]);
    }

    #[test]
    fn class_cannot_change() {
        let detail = "Pod QOS Class may not change as a result of resizing";
        let all = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}});
        assert_eq!(refused("/resources", all), [format!("spec: Invalid value: \"Burstable\": {detail}")]);
    }

    #[test]
    fn mirror_pods_cannot_be_resized() {
        let mut old = pod();
        old["metadata"]["annotations"][MIRROR] = json!("x");
        let causes = validate_resize(&old, &pod());
        assert_eq!((causes[0].field.as_str(), causes.len()), ("[]", 1));
    }
}
