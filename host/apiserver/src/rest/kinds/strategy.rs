//! Rules of single kinds beyond their schemas, as in the registry strategies of kube-apiserver.

use k8s_openapi::ByteString;
use serde_json::{Map, Value, json};

use super::{api_services, certificates, daemon_sets, jobs, pods, services};
use crate::admission::{self, validation};
use crate::crd;
use crate::meta;
use crate::registry::Endpoint;
use crate::rest::verbs::update::UpdateTarget;
use crate::state::State;
use crate::status::{Cause, Status};

/// Namespaces that cannot be deleted.
const PERMANENT_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];

fn is(endpoint: &Endpoint, group: &str, plural: &str) -> bool {
    endpoint.resource.group == group && endpoint.resource.names.plural == plural
}

/// Whether the endpoint serves namespaces.
pub(crate) fn is_namespace(endpoint: &Endpoint) -> bool {
    is(endpoint, "", "namespaces")
}

/// Whether the endpoint serves CRDs.
pub(crate) fn is_crd(endpoint: &Endpoint) -> bool {
    is(endpoint, "apiextensions.k8s.io", "customresourcedefinitions")
}

/// Sets the fields that the kind's strategy sets on a new object, including the initial status.
pub(crate) fn prepare_create(state: &State, endpoint: &Endpoint, value: &mut Value, now: &str) {
    if is_role(endpoint) {
        remove_empty_rules(value);
    }
    if endpoint.has_status {
        let status = match (endpoint.resource.group.as_str(), endpoint.resource.names.plural.as_str()) {
            // The kubelet and test setups create a node with its status.
            ("", "nodes") => value.get("status").cloned().unwrap_or_else(|| json!({})),
            ("", "pods") => initial_pod_status(&value["spec"], now),
            ("", "namespaces") => json!({"phase": "Active"}),
            ("", "persistentvolumeclaims") => json!({"phase": "Pending"}),
            ("", "persistentvolumes") => json!({"phase": "Pending", "lastPhaseTransitionTime": now}),
            ("" | "networking.k8s.io", "services" | "ingresses") => json!({"loadBalancer": {}}),
            ("policy", _) => json!({
                "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
            }),
            ("autoscaling", _) if endpoint.version == "v1" => {
                json!({"currentReplicas": 0, "desiredReplicas": 0})
            }
            ("autoscaling", _) => json!({"currentMetrics": null, "desiredReplicas": 0}),
            ("apps", "daemonsets") => json!({
                "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
            }),
            ("apps", "statefulsets") => json!({"availableReplicas": 0, "replicas": 0}),
            ("apps", "replicasets") | ("", "replicationcontrollers") => json!({"replicas": 0}),
            _ => json!({}),
        };
        if let Value::Object(object) = value {
            match endpoint.resource.custom {
                Some(_) => drop(object.remove("status")),
                None => drop(object.insert("status".into(), status)),
            }
        }
    }
    if endpoint.resource.custom.is_some()
        && endpoint.has_status
        && let Some(schema) = &endpoint.schema
    {
        // The status that the client sent is gone, but not the default of the status.
        // Defaults that do not fit make the object too large to be stored, so they need no error of their own.
        let _ = schema.apply_defaults_keeping_null(value);
    }
    match (endpoint.resource.group.as_str(), endpoint.resource.names.plural.as_str()) {
        ("", "namespaces") => {
            add_namespace_finalizer(&mut value["spec"]);
            label_with_name(value);
        }
        ("", "pods") => {
            if value["spec"]["terminationGracePeriodSeconds"].as_i64().is_some_and(|time| time < 0) {
                value["spec"]["terminationGracePeriodSeconds"] = json!(1);
            }
            pods::merge_label_keys(value);
        }
        ("", "secrets") => encode_string_data(value),
        ("discovery.k8s.io", "endpointslices") => remove_topology(value),
        ("batch", "jobs") => jobs::generate_selector(value),
        ("apps", "daemonsets") => daemon_sets::prepare_create(value),
        (api_services::GROUP, _) => api_services::prepare_create(value, now),
        ("apiextensions.k8s.io", _) => crd::prepare(state, value, None, now),
        _ => {}
    }
}

/// Removes the labels of endpoints, which requests of the version v1 cannot set.
fn remove_topology(slice: &mut Value) {
    let endpoints = slice.get_mut("endpoints").and_then(Value::as_array_mut);
    for endpoint in endpoints.into_iter().flatten().filter_map(Value::as_object_mut) {
        endpoint.remove("deprecatedTopology");
    }
}

/// Adds the finalizer that the controller of Namespaces removes.
fn add_namespace_finalizer(spec: &mut Value) {
    let mut finalizers = spec["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == "kubernetes") {
        finalizers.push("kubernetes".into());
    }
    spec["finalizers"] = finalizers.into();
}

fn initial_pod_status(spec: &Value, now: &str) -> Value {
    let mut status = json!({"phase": "Pending", "qosClass": qos_class(spec)});
    let conditions = pods::initial_conditions(spec, now);
    if !conditions.is_null() {
        status["conditions"] = conditions;
    }
    status
}

/// Sets the fields that the kind's strategy sets on an update. Returns what is invalid.
pub(crate) fn prepare_update(
    state: &State,
    endpoint: &Endpoint,
    target: UpdateTarget,
    old: &Value,
    new: &mut Value,
) -> Vec<Cause> {
    match (endpoint.resource.group.as_str(), endpoint.resource.names.plural.as_str()) {
        ("", "namespaces") => {
            if target == UpdateTarget::Object {
                new["spec"] = old["spec"].clone();
            }
            // A default in Kubernetes, which every write sets.
            label_with_name(new);
        }
        ("", "pods") if target == UpdateTarget::Object => {
            return pods::validate_update(old, new);
        }
        ("", "pods") if target == UpdateTarget::EphemeralContainers => {
            return pods::validate_ephemeral_containers(old, new);
        }
        ("", "pods") if target == UpdateTarget::Resize => return pods::validate_resize(old, new),
        ("", "pods") if target == UpdateTarget::Status => pods::keep_status_fields(old, new),
        ("", "secrets") => encode_string_data(new),
        ("", "persistentvolumes") if target == UpdateTarget::Status => {
            set_phase_transition_time(old, new, &state.now());
        }
        ("", "services") if target == UpdateTarget::Object => {
            return services::prepare_update(state, endpoint, old, new);
        }
        ("apiextensions.k8s.io", _) if target == UpdateTarget::Object => {
            crd::prepare(state, new, Some(old), &state.now());
            return crd::validate(new, Some(old));
        }
        (api_services::GROUP, _) => {
            return api_services::prepare_update(target, old, new, &state.now());
        }
        (certificates::GROUP, _) => {
            return certificates::prepare_update(target, old, new, &state.now());
        }
        (admission::GROUP, _) if target == UpdateTarget::Object => return validate_admission(new, endpoint),
        _ => {}
    }
    Vec::new()
}

/// Sets the fields that an update of a kind sets after the managed fields were recorded, because no client owns them.
pub(crate) fn finish_update(
    state: &State,
    endpoint: &Endpoint,
    target: UpdateTarget,
    old: &Value,
    new: &mut Value,
) {
    if endpoint.is_core("services") && target == UpdateTarget::Object {
        services::finish_update(state, endpoint, old, new);
    }
    if daemon_sets::is_daemon_set(endpoint) {
        daemon_sets::finish_update(old, new);
    }
    if is_role(endpoint) {
        remove_empty_rules(new);
    }
}

/// Whether the endpoint serves Roles or ClusterRoles.
pub(crate) fn is_role(endpoint: &Endpoint) -> bool {
    endpoint.resource.group == "rbac.authorization.k8s.io"
        && matches!(endpoint.resource.names.plural.as_str(), "roles" | "clusterroles")
}

/// Sets the rules that Go writes for a role without any.
pub(crate) fn complete_rules(role: &mut Value) {
    if role["rules"].is_null() {
        role["rules"] = Value::Null;
    }
}

/// Replaces an empty list of rules by null, as which Kubernetes stores it.
fn remove_empty_rules(role: &mut Value) {
    if role["rules"].as_array().is_some_and(Vec::is_empty) {
        role["rules"] = Value::Null;
    }
}

/// Sets the time at which the phase of a PersistentVolume changed, unless the client did.
fn set_phase_transition_time(old: &Value, new: &mut Value, now: &str) {
    const TIME: &str = "lastPhaseTransitionTime";
    let (before, after) = (&old["status"], &new["status"]);
    if before["phase"] == after["phase"] {
        if after[TIME].is_null() && !before[TIME].is_null() {
            new["status"][TIME] = before[TIME].clone();
        }
    } else if after[TIME].is_null() || after[TIME] == before[TIME] {
        new["status"][TIME] = now.into();
    }
}

/// Returns the fields of the metadata that an update of the status keeps, because the status strategy of the kind resets them. `None` for all, as
/// for custom resources and flow control.
pub(crate) fn metadata_kept_by_status(endpoint: &Endpoint) -> Option<&'static [&'static str]> {
    Some(match (endpoint.resource.group.as_str(), endpoint.resource.names.plural.as_str()) {
        _ if endpoint.resource.custom.is_some() => return None,
        ("flowcontrol.apiserver.k8s.io", _) => return None,
        ("apps", "deployments") => &["labels"],
        ("", "pods") => &["ownerReferences"],
        ("storage.k8s.io" | "admissionregistration.k8s.io" | "resource.k8s.io", _)
        | ("apiregistration.k8s.io", "apiservices")
        | ("networking.k8s.io", "servicecidrs") => {
            &["labels", "annotations", "finalizers", "ownerReferences"]
        }
        _ => &[],
    })
}

/// Returns the metadata after an update of the status.
pub(crate) fn metadata_of_status_update(endpoint: &Endpoint, old: &Value, new: &Value) -> Value {
    let Some(kept) = metadata_kept_by_status(endpoint) else { return old["metadata"].clone() };
    let mut metadata = new["metadata"].clone();
    for field in kept.iter().chain(&["managedFields"]) {
        match (metadata.as_object_mut(), old["metadata"].get(*field)) {
            (Some(metadata), Some(value)) => drop(metadata.insert((*field).to_owned(), value.clone())),
            (Some(metadata), None) => drop(metadata.remove(*field)),
            (None, _) => {}
        }
    }
    metadata
}

/// Returns what is invalid in a new object beyond its schema.
pub(crate) fn validate_create(state: &State, value: &Value, endpoint: &Endpoint) -> Vec<Cause> {
    if is_crd(endpoint) {
        crd::validate(value, None)
    } else if endpoint.is_core("services") {
        services::validate(state, endpoint, value, None)
    } else if certificates::is_signing_request(endpoint) {
        certificates::request_causes(value)
    } else if api_services::is_api_service(endpoint) {
        api_services::causes(value)
    } else {
        validate_admission(value, endpoint)
    }
}

/// Returns what is invalid in a webhook configuration, a policy or a binding.
fn validate_admission(value: &Value, endpoint: &Endpoint) -> Vec<Cause> {
    validation::validate(&endpoint.resource.group, &endpoint.resource.names.plural, value)
}

/// Errors with 403 for objects that cannot be deleted.
pub(crate) fn check_deletable(endpoint: &Endpoint, name: &str) -> Result<(), Status> {
    if is_namespace(endpoint) && PERMANENT_NAMESPACES.contains(&name) {
        return Err(Status::forbidden(endpoint.resource_ref(), name, "this namespace may not be deleted"));
    }
    Ok(())
}

/// Returns the grace period of a deletion in seconds. Only pods have one, and only while a kubelet may run them.
pub(crate) fn grace_period(endpoint: &Endpoint, value: &Value, requested: Option<i64>) -> i64 {
    if !is(endpoint, "", "pods") {
        return 0;
    }
    let scheduled = value["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let ended = matches!(value["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if !scheduled || ended {
        return 0;
    }
    requested.or_else(|| value["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(30).max(0)
}

/// Sets the further fields that change when a deletion begins.
pub(crate) fn mark_deleting(state: &State, endpoint: &Endpoint, value: &mut Value) {
    if is_namespace(endpoint) {
        value["status"]["phase"] = json!("Terminating");
    } else if is_crd(endpoint) {
        crd::mark_deleting(state, value);
    }
}

/// Gives a Namespace the label with its name, unless that is still to be generated. This is a default in Kubernetes, so the client owns it.
pub(in crate::rest) fn label_named(namespace: &mut Value) {
    if !meta::text(namespace, "name").is_empty() {
        label_with_name(namespace);
    }
}

fn label_with_name(namespace: &mut Value) {
    let name = meta::text(namespace, "name").to_owned();
    let labels = meta::metadata_mut(namespace).entry("labels").or_insert_with(|| Value::Object(Map::new()));
    labels["kubernetes.io/metadata.name"] = name.into();
}

/// Moves `stringData` to `data`.
fn encode_string_data(secret: &mut Value) {
    let Some(plain) = secret.as_object_mut().and_then(|secret| secret.remove("stringData")) else { return };
    for (key, text) in plain.as_object().into_iter().flatten() {
        let bytes = ByteString(text.as_str().unwrap_or_default().as_bytes().to_vec());
        secret["data"][key] = serde_json::to_value(bytes).unwrap_or_default();
    }
}

/// Returns the quality-of-service class of a Pod: `Guaranteed` if every container's limits equal its requests, `BestEffort` if
/// there are none, else `Burstable`. The resources of the Pod as a whole replace those of its containers.
pub(in crate::rest) fn qos_class(spec: &Value) -> &'static str {
    let containers: Vec<&Value> = if spec["resources"].is_object() {
        vec![&spec["resources"]]
    } else {
        ["containers", "initContainers"]
            .iter()
            .flat_map(|list| spec[list].as_array().into_iter().flatten())
            .map(|container| &container["resources"])
            .collect()
    };
    let amount =
        |resources: &Value, side: &str, name: &str| resources[side][name].as_str().map(str::to_owned);
    let any = |resources: &&&Value| {
        ["requests", "limits"]
            .iter()
            .any(|side| ["cpu", "memory"].iter().any(|name| !resources[side][name].is_null()))
    };
    if !containers.iter().any(|resources| any(&resources)) {
        return "BestEffort";
    }
    let guaranteed = containers.iter().all(|resources| {
        ["cpu", "memory"].iter().all(|name| {
            let limit = amount(resources, "limits", name);
            limit.is_some()
                && amount(resources, "requests", name).is_none_or(|request| Some(request) == limit)
        })
    });
    if guaranteed { "Guaranteed" } else { "Burstable" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_data_is_encoded_into_data() {
        let mut secret = json!({"stringData": {"a": "hello"}, "data": {"b": "eA=="}});
        encode_string_data(&mut secret);
        assert_eq!(secret, json!({"data": {"a": "aGVsbG8=", "b": "eA=="}}));
    }

    #[test]
    fn phase_of_a_volume_has_the_time_of_its_change() {
        let old = json!({"status": {"phase": "Pending", "lastPhaseTransitionTime": "t1"}});
        let changed = |status: Value| {
            let mut new = json!({"status": status});
            set_phase_transition_time(&old, &mut new, "t2");
            new["status"]["lastPhaseTransitionTime"].clone()
        };
        assert_eq!(changed(json!({"phase": "Pending"})), "t1");
        assert_eq!(changed(json!({"phase": "Available", "lastPhaseTransitionTime": "t1"})), "t2");
        assert_eq!(changed(json!({"phase": "Available"})), "t2");
        assert_eq!(changed(json!({"phase": "Available", "lastPhaseTransitionTime": "t3"})), "t3");
    }

    #[test]
    fn qos_class_depends_on_requests_and_limits() {
        let pod = |resources: Value| json!({"containers": [{"resources": resources}]});
        assert_eq!(qos_class(&pod(json!({}))), "BestEffort");
        assert_eq!(qos_class(&pod(json!({"requests": {"cpu": "1"}}))), "Burstable");
        assert_eq!(qos_class(&pod(json!({"limits": {"cpu": "1", "memory": "1Gi"}}))), "Guaranteed");
        let whole = json!({"containers": [{}], "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}});
        assert_eq!(qos_class(&whole), "Guaranteed");
    }
}
