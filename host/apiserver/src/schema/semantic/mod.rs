//! Validation that schemas cannot express (rules between fields, the syntax of names) of the built-in kinds.
//!
//! It follows `k8s.io/apimachinery/pkg/api/validation` and `k8s.io/kubernetes/pkg/apis/*/validation`, in the order of the causes, too.

mod autoscaling;
mod autoscaling_metrics;
mod claim;
mod config;
mod container;
mod container_resources;
mod container_restart;
mod container_volumes;
mod csi;
mod device_status;
mod devices;
mod endpoints;
mod environment;
mod ephemeral;
mod events;
mod flow_control;
mod ingress_class;
mod ip;
mod job_policies;
mod job_status;
mod job_success;
mod lifecycle;
mod limits;
mod metadata;
mod network;
mod node;
mod persistent_volume;
mod pod;
mod pod_annotations;
mod pod_host;
mod pod_resources;
mod pod_scheduling;
mod pod_status;
mod policy_status;
mod probe;
mod quota;
mod resource_slice;
mod runtime;
mod security;
mod service;
mod service_addresses;
mod service_ranges;
mod service_traffic;
mod stateful_set;
mod status;
mod volume;
mod volume_source;
mod volume_vendors;
mod workload;

use serde_json::Value;

use super::builtin::BuiltinKind;
use super::{field, names, quantity, rbac};
use crate::status::Causes;

pub(crate) use metadata::labels_and_annotations_causes;
pub(super) use metadata::{validate_embedded_metadata, validate_metadata};

/// Returns what is wrong with an object of a built-in kind beyond its schema and metadata. `old` is the stored object on
/// updates.
pub(super) fn validate(kind: BuiltinKind, new: &Value, old: Option<&Value>) -> Causes {
    let mut causes = Causes::default();
    let out = &mut causes;
    let spec = new.get("spec").unwrap_or(&Value::Null);
    match (kind.group, kind.kind) {
        ("", "ConfigMap") => config::validate_config_map(new, old, out),
        ("", "Secret") => config::validate_secret(new, old, out),
        ("", "Pod") => {
            pod_annotations::validate(&new["metadata"]["annotations"], spec, "metadata.annotations", out);
            pod::validate_spec(spec, "spec", out);
            pod::validate_tokens(spec, out);
            if old.is_none() {
                pod::validate_new(spec, out);
                pod_annotations::validate_profiles(&new["metadata"]["annotations"], spec, "spec", out);
            }
        }
        ("", "Service") => service::validate(new, old, out),
        ("", "PodTemplate") => workload::validate_template(&new["template"], "template", out),
        ("", "ReplicationController") => workload::validate_replication_controller(spec, out),
        ("", "Endpoints") => endpoints::validate_endpoints(new, out),
        ("", "Event") => events::validate_event(new, out),
        ("events.k8s.io", "Event") => events::validate_events_v1(new, old, out),
        ("", "Node") => node::validate(new, old, out),
        ("", "LimitRange") => limits::validate_limit_range(spec, out),
        ("", "ResourceQuota") => quota::validate_quota(spec, old, out),
        ("", "PersistentVolume") => persistent_volume::validate(spec, old, out),
        ("", "PersistentVolumeClaim") => claim::validate(new, old, out),
        ("apps", "Deployment") => workload::validate_deployment(spec, old, out),
        ("apps", "ReplicaSet") => workload::validate_replica_set(spec, old, out),
        ("apps", "StatefulSet") => workload::validate_stateful_set(spec, old, out),
        ("apps", "DaemonSet") => workload::validate_daemon_set(spec, old, out),
        ("batch", "Job") => workload::validate_job(new, old, out),
        ("batch", "CronJob") => workload::validate_cron_job(new, old, out),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaling::validate_autoscaler(spec, old, out),
        ("policy", "PodDisruptionBudget") => autoscaling::validate_budget(spec, out),
        ("scheduling.k8s.io", "PriorityClass") => autoscaling::validate_priority_class(new, old, out),
        ("networking.k8s.io", "Ingress") => network::validate_ingress(new, old, out),
        ("networking.k8s.io", "IngressClass") => ingress_class::validate(spec, old, out),
        ("networking.k8s.io", "NetworkPolicy") => network::validate_policy(spec, out),
        ("discovery.k8s.io", "EndpointSlice") => endpoints::validate_slice(new, old, out),
        ("coordination.k8s.io", "Lease") => events::validate_lease(spec, out),
        ("node.k8s.io", "RuntimeClass") => runtime::validate_class(new, old, out),
        ("", "Namespace") => config::validate_finalizers(spec, old.is_none(), out),
        ("apps", "ControllerRevision") => config::validate_revision(new, out),
        ("networking.k8s.io", "IPAddress") => service_ranges::validate_address(spec, out),
        ("networking.k8s.io", "ServiceCIDR") => service_ranges::validate_range(spec, old, out),
        ("storage.k8s.io", "CSIDriver") => csi::validate_driver(spec, old, out),
        ("storage.k8s.io", "CSINode") => csi::validate_node(spec, old, out),
        ("storage.k8s.io", "VolumeAttachment") => csi::validate_attachment(new, old, out),
        ("storage.k8s.io", "StorageClass") => volume::validate_storage_class(new, old, out),
        ("resource.k8s.io", "ResourceSlice") => resource_slice::validate(spec, old, out),
        ("resource.k8s.io", name) => devices::validate(name, spec, old, out),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => {
            flow_control::validate_schema(new, out);
        }
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => {
            flow_control::validate_level(new, out);
        }
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => {
            causes.extend(rbac::validate_role(new, kind.kind == "ClusterRole"));
        }
        ("rbac.authorization.k8s.io", name) => {
            causes.extend(rbac::validate_binding(new, old, name == "ClusterRoleBinding"));
        }
        _ => {}
    }
    if let Some(old) = old.filter(|old| old.get("status") != new.get("status")) {
        status::validate(kind, new, old, &mut causes);
    }
    causes
}

/// Checks that the number `port` of the object at `at` is one that a port can have.
fn validate_port_number(object: &Value, name: &str, at: &str, causes: &mut Causes) {
    if let Some(number) = object.get(name).filter(|number| number.is_i64())
        && !(1..=65535).contains(&number.as_i64().unwrap_or_default())
    {
        causes.push(field::invalid(&field::child(at, name), number, PORT_RANGE));
    }
}

const PORT_RANGE: &str = "must be between 1 and 65535, inclusive";
const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
const IP_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// Checks a port that is a number or the name of one.
fn validate_port_number_or_name(object: &Value, name: &str, at: &str, causes: &mut Causes) {
    match object.get(name) {
        Some(Value::String(text)) => {
            push_invalid(causes, &field::child(at, name), text, names::port_name_errors(text));
        }
        _ => validate_port_number(object, name, at, causes),
    }
}

fn validate_non_negative(spec: &Value, name: &str, path: &str, causes: &mut Causes) {
    if let Some(value) = spec.get(name).filter(|value| value.as_i64().is_some_and(|number| number < 0)) {
        causes.push(field::invalid(&field::child(path, name), value, NOT_NEGATIVE));
    }
}

/// Checks that a text is one of the supported values. An empty one is reported as missing, an absent one is not checked.
fn validate_one_of(object: &Value, name: &str, at: &str, supported: &[&str], causes: &mut Causes) {
    let Some(value) = object.get(name).filter(|value| !value.is_null()) else { return };
    let path = field::child(at, name);
    match value.as_str() {
        Some("") => causes.push(field::required(&path, "")),
        Some(text) if supported.contains(&text) => {}
        _ => causes.push(field::not_supported(&path, value, supported)),
    }
}

/// Checks a whole number of at least 0 or a percentage.
fn validate_amount(object: &Value, name: &str, at: &str, causes: &mut Causes) {
    match object.get(name) {
        Some(Value::String(text)) if percentage(text).is_none() => {
            let detail = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
                          '93%', regex used for validation is '[0-9]+%')";
            causes.push(field::invalid(&field::child(at, name), &Value::from(&**text), detail));
        }
        _ => validate_non_negative(object, name, at, causes),
    }
}

/// Checks that a percentage is at most 100%.
fn validate_at_most_all(object: &Value, name: &str, at: &str, causes: &mut Causes) {
    let value = &object[name];
    if value.as_str().and_then(percentage).is_some_and(|percent| percent > 100) {
        causes.push(field::invalid(&field::child(at, name), value, "must not be greater than 100%"));
    }
}

/// Returns the number of a percentage such as `25%`.
fn percentage(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('%').filter(|digits| !digits.is_empty())?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // A number that does not fit is more than 100, too.
    Some(digits.parse().unwrap_or(u64::MAX))
}

/// Checks the labels and requirements of a label selector.
pub(crate) fn validate_label_selector(selector: &Value, at: &str, causes: &mut Causes) {
    metadata::validate_labels(selector.get("matchLabels"), &field::child(at, "matchLabels"), causes);
    let at = field::child(at, "matchExpressions");
    for (index, requirement) in items(&selector["matchExpressions"]).iter().enumerate() {
        let at = field::index(&at, index);
        let values = items(&requirement["values"]);
        match text(requirement, "operator") {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                causes.push(field::required(&field::child(&at, "values"), detail));
            }
            "In" | "NotIn" => {}
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                causes.push(field::forbidden(&field::child(&at, "values"), detail));
            }
            "Exists" | "DoesNotExist" => {}
            other => {
                let detail = "not a valid selector operator";
                causes.push(field::invalid(&field::child(&at, "operator"), &Value::from(other), detail));
            }
        }
        let key = text(requirement, "key");
        push_invalid(causes, &field::child(&at, "key"), key, names::qualified_name_errors(key));
        for (index, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            let at = field::index(&field::child(&at, "values"), index);
            push_invalid(causes, &at, value, names::label_value_errors(value));
        }
    }
}

fn push_invalid(causes: &mut Causes, path: &str, value: &str, errors: Vec<String>) {
    causes.extend(errors.into_iter().map(|detail| field::invalid(path, &Value::from(value), &detail)));
}

fn entries(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

/// Returns the items of a list, none if the value is none.
fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

/// Returns a text member, "" if it is absent.
fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a member is present.
fn has(object: &Value, name: &str) -> bool {
    object.get(name).is_some_and(|value| !value.is_null())
}
