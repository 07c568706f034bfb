//! APIServices: one for each group and version that this server serves, and those that clients create.
//!
//! Like kube-apiserver, the server registers the groups of built-in kinds and of CRDs as local APIServices. It does not
//! proxy requests, so an APIService with a Service is stored but never available.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::meta;
use crate::registry::{Endpoint, Registry};
use crate::rest::verbs::update::UpdateTarget;
use crate::schema::{field, service_name_errors, subdomain_errors};
use crate::state::State;
use crate::status::Cause;

/// The API group of APIServices.
pub(crate) const GROUP: &str = "apiregistration.k8s.io";

/// The label of the APIServices that the server creates and deletes itself.
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// The priorities of the group and the version of a CRD, as in kube-apiserver.
const CUSTOM_PRIORITY: (i64, i64) = (1000, 100);

/// The priorities of the groups of built-in kinds, and of the versions in them, as in kube-apiserver.
const PRIORITIES: &[(&str, &str, i64, i64)] = &[
    ("", "v1", 18000, 1),
    ("apps", "v1", 17800, 15),
    ("events.k8s.io", "v1", 17750, 15),
    ("authentication.k8s.io", "v1", 17700, 15),
    ("authorization.k8s.io", "v1", 17600, 15),
    ("autoscaling", "v1", 17500, 15),
    ("autoscaling", "v2", 17500, 30),
    ("batch", "v1", 17400, 15),
    ("certificates.k8s.io", "v1", 17300, 15),
    ("networking.k8s.io", "v1", 17200, 15),
    ("policy", "v1", 17100, 15),
    ("rbac.authorization.k8s.io", "v1", 17000, 15),
    ("storage.k8s.io", "v1", 16800, 15),
    ("apiextensions.k8s.io", "v1", 16700, 15),
    ("admissionregistration.k8s.io", "v1", 16700, 15),
    ("scheduling.k8s.io", "v1", 16600, 15),
    ("coordination.k8s.io", "v1", 16500, 15),
    ("discovery.k8s.io", "v1", 16200, 12),
];

/// A local APIService.
struct LocalService<'r> {
    group: &'r str,
    version: &'r str,
    /// Whether CRDs define all resources of the version.
    is_custom: bool,
}

/// Whether the endpoint serves APIServices.
pub(super) fn is_api_service(endpoint: &Endpoint) -> bool {
    endpoint.group == GROUP && endpoint.resource.names.plural == "apiservices"
}

/// Creates the local APIServices that are missing, and deletes those of groups and versions that are no longer served.
pub(crate) fn sync(state: &State) {
    let registry = state.registry();
    let Some(endpoint) = registry.endpoint(GROUP, "v1", "apiservices") else { return };
    let table = &endpoint.resource.table;
    let served = served_versions(&registry);
    for (name, service) in &served {
        if table.get("", name).is_none() {
            // An APIService that a client creates at the same moment stays.
            let _ = table.create(endpoint.draft(local_service(name, service, state)));
        }
    }
    for stored in table.list(None).0 {
        if stored.labels.contains_key(MANAGED) && !served.contains_key(&*stored.name) {
            // A client that changed it at the same moment keeps it until the next change of a CRD.
            let _ = table.delete(&stored, endpoint.draft(stored.value()));
        }
    }
}

/// Returns the group versions that this server serves, by the name of their APIService. Like kube-apiserver, the server does
/// not list the group of APIServices itself.
fn served_versions(registry: &Registry) -> BTreeMap<String, LocalService<'_>> {
    let versions =
        registry.groups().iter().filter(|(group, _)| *group != GROUP).flat_map(|(group, served)| {
            served.versions.iter().map(move |version| {
                let is_custom = version.endpoints.values().all(|endpoint| endpoint.resource.custom.is_some());
                let service = LocalService { group, version: &version.version, is_custom };
                (format!("{}.{group}", version.version), service)
            })
        });
    versions.collect()
}

fn local_service(name: &str, service: &LocalService<'_>, state: &State) -> Value {
    let now = state.now();
    let LocalService { group, version, is_custom } = service;
    let known = PRIORITIES.iter().find(|row| row.0 == *group && row.1 == *version);
    let (group_priority, version_priority) = known.map_or(CUSTOM_PRIORITY, |row| (row.2, row.3));
    let mut value = json!({
        "metadata": {
            "name": name, "uid": state.identifiers.new_uid(), "creationTimestamp": now,
            "labels": {MANAGED: if *is_custom { "true" } else { "onstart" }},
        },
        "spec": {
            "group": group, "version": version, "groupPriorityMinimum": group_priority,
            "versionPriority": version_priority,
        },
    });
    // As in Kubernetes, the core group is left out.
    if group.is_empty() {
        value["spec"].as_object_mut().map(|spec| spec.remove("group"));
    }
    set_availability(&mut value, &now);
    value
}

/// Sets the condition `Available`: true for a local APIService, false for any other.
fn set_availability(value: &mut Value, now: &str) {
    let (status, reason, message) = if value["spec"]["service"].is_null() {
        ("True", "Local", "Local APIServices are always available")
    } else {
        ("False", "ProxyNotSupported", "the embedded API server does not proxy requests to other API servers")
    };
    let condition = json!({
        "type": "Available", "status": status, "lastTransitionTime": now, "reason": reason, "message": message,
    });
    value["status"] = json!({"conditions": [condition]});
}

/// Sets the status of a new APIService.
pub(super) fn prepare_create(value: &mut Value, now: &str) {
    if value["spec"].is_object() {
        set_availability(value, now);
    }
}

/// Updates the status if the APIService became local, or is no longer. Returns what is invalid.
pub(super) fn prepare_update(target: UpdateTarget, old: &Value, new: &mut Value, now: &str) -> Vec<Cause> {
    if target == UpdateTarget::Status {
        return status_causes(new);
    }
    if new["spec"].is_object() && old["spec"]["service"].is_null() != new["spec"]["service"].is_null() {
        set_availability(new, now);
    }
    causes(new)
}

/// Returns what is invalid in an APIService, after `k8s.io/kube-aggregator/pkg/apis/apiregistration/validation`.
pub(super) fn causes(value: &Value) -> Vec<Cause> {
    let spec = &value["spec"];
    let text = |name: &str| spec[name].as_str().unwrap_or_default();
    let (group, version) = (text("group"), text("version"));
    let mut causes = Vec::new();
    let required = format!("{version}.{group}");
    if meta::text(value, "name") != required {
        let detail = format!("must be `spec.version+\".\"+spec.group`: {required:?}");
        causes.push(field::invalid("metadata.name", &value["metadata"]["name"], &detail));
    }
    if group.is_empty() && version != "v1" {
        let detail = "only v1 may have an empty group and it better be legacy kube";
        causes.push(field::required("spec.group", detail));
    }
    if !group.is_empty() {
        let errors = subdomain_errors(group).into_iter();
        causes.extend(errors.map(|error| field::invalid("spec.group", &group.into(), &error)));
    }
    let errors = service_name_errors(version).into_iter();
    causes.extend(errors.map(|error| field::invalid("spec.version", &version.into(), &error)));
    for (name, limit) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
        let priority = spec[name].as_i64().unwrap_or_default();
        if priority <= 0 || priority > limit {
            let detail = format!("must be positive and less than {limit}");
            causes.push(field::invalid(&field::child("spec", name), &priority.into(), &detail));
        }
    }
    causes.extend(service_causes(spec));
    causes
}

/// Returns what is invalid in the fields that say how to reach the Service.
fn service_causes(spec: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let bundle = spec["caBundle"].as_str().unwrap_or_default();
    let is_insecure = spec["insecureSkipTLSVerify"] == true;
    let insecure = |detail: &str| field::invalid("spec.insecureSkipTLSVerify", &is_insecure.into(), detail);
    if spec["service"].is_null() {
        if !bundle.is_empty() {
            let detail = "local APIServices may not have a caBundle";
            causes.push(field::invalid("spec.caBundle", &format!("{} bytes", bundle.len()).into(), detail));
        }
        if is_insecure {
            causes.push(insecure("local APIServices may not have insecureSkipTLSVerify"));
        }
        return causes;
    }
    for name in ["namespace", "name"] {
        if spec["service"][name].as_str().unwrap_or_default().is_empty() {
            causes.push(field::required(&format!("spec.service.{name}"), ""));
        }
    }
    if is_insecure && !bundle.is_empty() {
        causes.push(insecure("may not be true if caBundle is present"));
    }
    causes
}

fn status_causes(value: &Value) -> Vec<Cause> {
    let conditions = value["status"]["conditions"].as_array().into_iter().flatten().enumerate();
    let allowed = ["False", "True", "Unknown"];
    let unknown = conditions.filter(|(_, condition)| {
        condition["status"].as_str().is_none_or(|status| !allowed.contains(&status))
    });
    let cause = |(index, condition): (usize, &Value)| {
        let path = field::child(&field::index("status.conditions", index), "status");
        field::not_supported(&path, &condition["status"], &allowed)
    };
    unknown.map(cause).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(spec: &Value) -> Value {
        json!({"metadata": {"name": "v1beta1.metrics.k8s.io"}, "spec": spec})
    }

    #[test]
    fn only_local_api_services_are_available() {
        let mut local = service(&json!({}));
        prepare_create(&mut local, "t");
        assert_eq!(local["status"]["conditions"][0]["status"], "True");
        let mut remote = service(&json!({"service": {"namespace": "a", "name": "b"}}));
        prepare_create(&mut remote, "t");
        assert_eq!(remote["status"]["conditions"][0]["reason"], "ProxyNotSupported");
    }

    #[test]
    fn name_priorities_and_service_are_validated() {
        let good = json!({
            "group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "insecureSkipTLSVerify": true, "service": {"namespace": "kube-system", "name": "metrics-server"},
        });
        assert!(causes(&service(&good)).is_empty());
        let mut bad = good;
        bad["group"] = "other.example.com".into();
        bad["versionPriority"] = json!(1001);
        bad["service"]["name"] = "".into();
        let causes = causes(&service(&bad));
        let fields: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(fields, ["metadata.name", "spec.versionPriority", "spec.service.name"]);
    }
}
