//! The admission plugin `PodResizeValidator`: a Pod is not resized beyond its Node, after `k8s.io/kubernetes/plugin/pkg/admission/podresize`.

use serde_json::Value;

use super::quota::{Amounts, requests_of_pod};
use crate::meta;
use crate::registry::Endpoint;
use crate::state::State;
use crate::status::{Cause, Status};

/// The label with the operating system of a Node.
const OS: &str = "kubernetes.io/os";

/// Checks the resize of a Pod.
///
/// # Errors
/// 403 if the Node of the Pod does not exist or lacks what the Pod requests.
pub(super) fn check(state: &State, endpoint: &Endpoint, old: &Value, new: &Value) -> Result<(), Status> {
    let node = new["spec"]["nodeName"].as_str().unwrap_or_default();
    if node.is_empty() || meta::generation(old) == meta::generation(new) {
        return Ok(());
    }
    let refused =
        |problem: &str| Status::forbidden(endpoint.resource_ref(), meta::text(new, "name"), problem);
    let registry = state.registry();
    let nodes = registry.endpoint("", "v1", "nodes");
    let Some(found) = nodes.and_then(|nodes| nodes.resource.table.get("", node)) else {
        return Err(refused(&format!("node {node:?} not found")));
    };
    let Some((problem, reason)) = problem(new, &found.value()) else { return Ok(()) };
    let mut status = refused(&problem);
    if let Some(details) = &mut status.details {
        let reason = reason.to_owned();
        details.causes.push(Cause { field: String::new(), reason, message: String::new() });
    }
    Err(status)
}

/// Returns why the Pod does not fit the Node, and the type of the cause.
fn problem(pod: &Value, node: &Value) -> Option<(String, &'static str)> {
    if let Some(os) = node["metadata"]["labels"][OS].as_str().filter(|os| *os != "linux") {
        let name = meta::text(node, "name");
        let problem = format!("pod resize is only supported on linux nodes, node {name:?} is {os:?}");
        return Some((problem, "UnsupportedPlatform"));
    }
    let (requests, allocatable) = (requests_of_pod(pod), Amounts::read(&node["status"]["allocatable"]));
    let amount = |amounts: &Amounts, name: &str| amounts.get(name).unwrap_or_default();
    let mut problems = Vec::new();
    let (requested, available) = (amount(&requests, "cpu"), amount(&allocatable, "cpu"));
    if requested.max(available) != available {
        let (requested, available) = (requested.in_thousandths(), available.in_thousandths());
        problems.push(format!("cpu, requested: {requested}, allocatable: {available}"));
    }
    let (requested, available) = (amount(&requests, "memory"), amount(&allocatable, "memory"));
    if requested.max(available) != available {
        let (requested, available) = (requested.in_units(), available.in_units());
        problems.push(format!("memory, requested: {requested}, allocatable: {available}"));
    }
    let problems = problems.join("; ");
    (!problems.is_empty())
        .then(|| (format!("node didn't have enough allocatable resources: {problems}"), "NodeCapacity"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pod_fits_its_node() {
        let pod = |cpu: &str, memory: &str| {
            let resources = json!({"requests": {"cpu": cpu, "memory": memory}});
            json!({"spec": {"containers": [{"name": "c", "resources": resources}]}})
        };
        let node = json!({"status": {"allocatable": {"cpu": "4", "memory": "1Gi"}}});
        assert_eq!(problem(&pod("4", "1Gi"), &node), None);
        let start = "node didn't have enough allocatable resources: ";
        assert_eq!(
            problem(&pod("9", "2Gi"), &node),
            Some((
                format!(
                    "{start}cpu, requested: 9000, allocatable: 4000; memory, requested: 2147483648, allocatable: 1073741824"
                ),
                "NodeCapacity"
            ))
        );
        let windows = json!({"metadata": {"name": "n", "labels": {OS: "windows"}}});
        let (text, reason) = problem(&pod("1", "1Gi"), &windows).expect("not supported");
        assert_eq!(text, "pod resize is only supported on linux nodes, node \"n\" is \"windows\"");
        assert_eq!(reason, "UnsupportedPlatform");
    }
}
