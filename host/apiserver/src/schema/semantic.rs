//! Validation that schemas cannot express (rules between fields, the syntax of names) for the most common built-in
//! kinds.
//!
//! It follows `k8s.io/apimachinery/pkg/api/validation` and `k8s.io/kubernetes/pkg/apis/*/validation`.

use pilothouse_model::LabelSelector;
use serde_json::{Map, Value};

use super::builtin::BuiltinKind;
use super::{cron, field, names, rbac};
use crate::status::Cause;

const TOTAL_ANNOTATION_BYTES: u64 = 256 * 1024;
const MAX_DATA_BYTES: u64 = 1024 * 1024;

/// Returns what is wrong with the metadata of an object, whose `generateName` must have been resolved.
pub(super) fn validate_metadata(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let Some(meta) = object.get("metadata").and_then(Value::as_object) else {
        return vec![field::required("metadata.name", "name or generateName is required")];
    };
    let name = meta.get("name").and_then(Value::as_str).unwrap_or_default();
    if name.is_empty() {
        causes.push(field::required("metadata.name", "name or generateName is required"));
    } else {
        let (kind, version) = (text(object, "/kind"), text(object, "/apiVersion"));
        let errors = match (version.split_once('/').map_or("", |(group, _)| group), kind) {
            ("rbac.authorization.k8s.io" | "certificates.k8s.io" | "apiregistration.k8s.io", _) => {
                names::path_segment_errors(name)
            }
            ("", "Service") => names::service_name_errors(name),
            ("", "Namespace") => names::label_errors(name),
            _ => names::subdomain_errors(name),
        };
        push_invalid(&mut causes, "metadata.name", name, errors);
    }
    validate_labels_and_annotations(meta, "metadata", &mut causes);
    for (index, owner) in
        meta.get("ownerReferences").and_then(Value::as_array).into_iter().flatten().enumerate()
    {
        let at = field::index("metadata.ownerReferences", index);
        for (name, detail) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if owner.get(name).and_then(Value::as_str).unwrap_or_default().is_empty() {
                causes.push(field::invalid(&field::child(&at, name), &Value::from(""), detail));
            }
        }
    }
    for finalizer in
        meta.get("finalizers").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    {
        let errors = names::qualified_name_errors(finalizer);
        push_invalid(&mut causes, "metadata.finalizers", finalizer, errors);
    }
    causes
}

/// Returns what is wrong with the labels and annotations of an object's metadata.
pub(crate) fn labels_and_annotations_causes(meta: &Map<String, Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    validate_labels_and_annotations(meta, "metadata", &mut causes);
    causes
}

fn validate_labels_and_annotations(meta: &Map<String, Value>, path: &str, causes: &mut Vec<Cause>) {
    let at = field::child(path, "labels");
    for (key, value) in entries(meta.get("labels")) {
        push_invalid(causes, &at, key, names::qualified_name_errors(key));
        let value = value.as_str().unwrap_or_default();
        push_invalid(causes, &at, value, names::label_value_errors(value));
    }
    let at = field::child(path, "annotations");
    let mut size = 0;
    for (key, value) in entries(meta.get("annotations")) {
        push_invalid(causes, &at, key, names::qualified_name_errors(&key.to_lowercase()));
        size += key.len() as u64 + value.as_str().unwrap_or_default().len() as u64;
    }
    if size > TOTAL_ANNOTATION_BYTES {
        causes.push(field::too_long(&at, TOTAL_ANNOTATION_BYTES));
    }
}

/// Returns what is wrong with an object of a built-in kind beyond its schema and metadata. `old` is the stored object on
/// updates.
pub(super) fn validate(kind: BuiltinKind, new: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let spec = new.get("spec").unwrap_or(&Value::Null);
    match (kind.group, kind.kind) {
        ("", "ConfigMap") => validate_config_map(new, old, &mut causes),
        ("", "Secret") => validate_secret(new, old, &mut causes),
        ("", "Pod") => validate_pod_spec(spec, "spec", &mut causes),
        ("", "Service") => validate_service_spec(spec, &mut causes),
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") => {
            validate_workload_spec(kind, spec, old, &mut causes);
        }
        ("batch", "Job") => validate_job_spec(spec, "spec", &mut causes),
        ("batch", "CronJob") => {
            let template = spec.pointer("/jobTemplate/spec").unwrap_or(&Value::Null);
            validate_job_spec(template, "spec.jobTemplate.spec", &mut causes);
            let before = old.map_or("", |old| text(old, "/spec/schedule"));
            validate_schedule(text(spec, "/schedule"), before, &mut causes);
        }
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => {
            causes.extend(rbac::validate_role(new, kind.kind == "ClusterRole"));
        }
        ("rbac.authorization.k8s.io", name) => {
            causes.extend(rbac::validate_binding(new, old, name == "ClusterRoleBinding"));
        }
        _ => {}
    }
    causes
}

fn validate_config_map(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let mut size = 0;
    for map in ["data", "binaryData"] {
        for (key, value) in entries(new.get(map)) {
            let at = field::key(map, key);
            push_invalid(causes, &at, key, names::data_key_errors(key));
            if map == "data" && new.get("binaryData").is_some_and(|other| other.get(key).is_some()) {
                causes.push(field::invalid(
                    &at,
                    &Value::from(key.as_str()),
                    "duplicate of key present in binaryData",
                ));
            }
            size += value.as_str().unwrap_or_default().len() as u64;
        }
    }
    if size > MAX_DATA_BYTES {
        causes.push(field::too_long("", MAX_DATA_BYTES));
    }
    validate_immutable(new, old, &["data", "binaryData"], causes);
}

fn validate_secret(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let mut size = 0;
    for (key, value) in entries(new.get("data")) {
        push_invalid(causes, &field::key("data", key), key, names::data_key_errors(key));
        size += value.as_str().unwrap_or_default().len() as u64 / 4 * 3;
    }
    if size > MAX_DATA_BYTES {
        causes.push(field::too_long("data", MAX_DATA_BYTES));
    }
    let required_keys: &[&str] = match text(new, "/type") {
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        _ => &[],
    };
    for key in required_keys {
        if new.get("data").and_then(|data| data.get(*key)).is_none() {
            causes.push(field::required(&field::key("data", key), ""));
        }
    }
    validate_immutable(new, old, &["data"], causes);
    if let Some(old) = old
        && old.get("type") != new.get("type")
    {
        causes.push(field::invalid("type", &new["type"], "field is immutable"));
    }
}

/// Checks that an immutable ConfigMap or Secret stays so and that `fields` are unchanged.
fn validate_immutable(new: &Value, old: Option<&Value>, fields: &[&str], causes: &mut Vec<Cause>) {
    let Some(old) = old.filter(|old| old.get("immutable") == Some(&Value::Bool(true))) else { return };
    let detail = "field is immutable when `immutable` is set";
    if new.get("immutable") != Some(&Value::Bool(true)) {
        causes.push(field::forbidden("immutable", detail));
    }
    for name in fields.iter().filter(|name| new.get(**name) != old.get(**name)) {
        causes.push(field::forbidden(name, detail));
    }
}

fn validate_service_spec(spec: &Value, causes: &mut Vec<Cause>) {
    let ty = text(spec, "/type");
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if !types.contains(&ty) {
        causes.push(field::not_supported("spec.type", &Value::from(ty), &types));
    }
    let ports = spec.get("ports").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let is_headless = text(spec, "/clusterIP") == "None";
    if ports.is_empty() && !is_headless && ty != "ExternalName" {
        causes.push(field::required("spec.ports", ""));
    }
    for (index, port) in ports.iter().enumerate() {
        let at = field::index("spec.ports", index);
        if ports.len() > 1 && text(port, "/name").is_empty() {
            causes.push(field::required(&field::child(&at, "name"), ""));
        }
        validate_port_number(port, "port", &at, causes);
    }
}

fn validate_port_number(port: &Value, name: &str, at: &str, causes: &mut Vec<Cause>) {
    if let Some(number) = port.get(name).filter(|number| number.is_i64())
        && !(1..=65535).contains(&number.as_i64().unwrap_or_default())
    {
        causes.push(field::invalid(
            &field::child(at, name),
            number,
            "must be between 1 and 65535, inclusive",
        ));
    }
}

fn validate_workload_spec(kind: BuiltinKind, spec: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    for name in ["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        validate_non_negative(spec, name, "spec", causes);
    }
    let template = spec.get("template").unwrap_or(&Value::Null);
    let selector = spec.get("selector").unwrap_or(&Value::Null);
    let is_empty = ["matchLabels", "matchExpressions"].iter().all(|name| {
        selector.get(*name).is_none_or(|value| {
            value.as_array().is_none_or(Vec::is_empty) && value.as_object().is_none_or(Map::is_empty)
        })
    });
    if selector.is_object() && is_empty {
        let detail = format!("empty selector is invalid for {}", kind.kind.to_lowercase());
        causes.push(field::invalid("spec.selector", selector, &detail));
    } else if selector.is_object() {
        validate_selector(selector, template, causes);
    }
    if let Some(old_selector) = old.and_then(|old| old.pointer("/spec/selector"))
        && old_selector != selector
    {
        causes.push(field::invalid("spec.selector", selector, "field is immutable"));
    }
    if let Some(meta) = template.get("metadata").and_then(Value::as_object) {
        validate_labels_and_annotations(meta, "spec.template", causes);
    }
    let pod = template.get("spec").unwrap_or(&Value::Null);
    let policy = text(pod, "/restartPolicy");
    if !policy.is_empty() && policy != "Always" {
        causes.push(field::not_supported(
            "spec.template.spec.restartPolicy",
            &Value::from(policy),
            &["Always"],
        ));
    }
    validate_pod_spec(pod, "spec.template.spec", causes);
}

/// Checks that a workload's selector is valid and matches the labels of its template.
fn validate_selector(selector: &Value, template: &Value, causes: &mut Vec<Cause>) {
    let labels = template.pointer("/metadata/labels").cloned().unwrap_or(Value::Null);
    match LabelSelector::from_json(selector) {
        Err(_) => causes.push(field::invalid("spec.selector", selector, "invalid label selector")),
        Ok(parsed) if !parsed.matches(|key| labels.get(key).and_then(Value::as_str)) => {
            let detail = "`selector` does not match template `labels`";
            causes.push(field::invalid("spec.template.metadata.labels", &labels, detail));
        }
        Ok(_) => {}
    }
}

fn validate_job_spec(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    for name in
        ["parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"]
    {
        validate_non_negative(spec, name, path, causes);
    }
    let pod = spec.pointer("/template/spec").unwrap_or(&Value::Null);
    let at = format!("{path}.template.spec");
    let policy = text(pod, "/restartPolicy");
    if !["OnFailure", "Never"].contains(&policy) {
        let detail = "valid values: \"OnFailure\", \"Never\"";
        causes.push(field::required(&field::child(&at, "restartPolicy"), detail));
    }
    validate_pod_spec(pod, &at, causes);
}

fn validate_schedule(schedule: &str, before: &str, causes: &mut Vec<Cause>) {
    const PATH: &str = "spec.schedule";
    let has_time_zone = schedule.contains("TZ");
    if schedule.is_empty() {
        causes.push(field::required(PATH, ""));
    } else if has_time_zone && schedule != before {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        causes.push(field::invalid(PATH, &Value::from(schedule), detail));
    } else if !has_time_zone && let Some(problem) = cron::error(schedule) {
        causes.push(field::invalid(PATH, &Value::from(schedule), &problem));
    }
}

fn validate_pod_spec(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    if !spec.is_object() {
        return;
    }
    let mut container_names = Vec::new();
    if spec.get("containers").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        causes.push(field::required(&field::child(path, "containers"), ""));
    }
    for list in ["containers", "initContainers"] {
        let at = field::child(path, list);
        for (index, container) in spec.get(list).and_then(Value::as_array).into_iter().flatten().enumerate() {
            validate_container(container, &field::index(&at, index), &mut container_names, causes);
        }
    }
    let at = field::child(path, "volumes");
    let mut volume_names: Vec<&str> = Vec::new();
    for (index, volume) in spec.get("volumes").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let name = text(volume, "/name");
        validate_unique_name(name, &field::index(&at, index), &mut volume_names, causes);
    }
    for list in ["containers", "initContainers"] {
        for (index, container) in spec.get(list).and_then(Value::as_array).into_iter().flatten().enumerate() {
            let mounts = container.get("volumeMounts").and_then(Value::as_array).into_iter().flatten();
            for (mount_index, name) in mounts.map(|mount| text(mount, "/name")).enumerate() {
                if !volume_names.contains(&name) {
                    let at = format!("{path}.{list}[{index}].volumeMounts[{mount_index}].name");
                    causes.push(field::not_found(&at, &Value::from(name)));
                }
            }
        }
    }
}

/// Checks the container at `at` and adds its name to `names`, those of the pod's other containers.
fn validate_container<'a>(container: &'a Value, at: &str, names: &mut Vec<&'a str>, causes: &mut Vec<Cause>) {
    validate_unique_name(text(container, "/name"), at, names, causes);
    if text(container, "/image").is_empty() {
        causes.push(field::required(&field::child(at, "image"), ""));
    }
    let policies = ["Always", "IfNotPresent", "Never"];
    if let Some(policy) =
        container.get("imagePullPolicy").filter(|policy| !policies.iter().any(|known| policy == known))
    {
        causes.push(field::not_supported(&field::child(at, "imagePullPolicy"), policy, &policies));
    }
    for (index, port) in container.get("ports").and_then(Value::as_array).into_iter().flatten().enumerate() {
        validate_port_number(port, "containerPort", &field::index(&field::child(at, "ports"), index), causes);
    }
}

/// Checks that the name of the item at `at` is a DNS label that is not in `others`, and adds it there.
fn validate_unique_name<'a>(name: &'a str, at: &str, others: &mut Vec<&'a str>, causes: &mut Vec<Cause>) {
    let at = field::child(at, "name");
    if name.is_empty() {
        causes.push(field::required(&at, ""));
        return;
    }
    push_invalid(causes, &at, name, names::label_errors(name));
    if others.contains(&name) {
        causes.push(field::duplicate(&at, &Value::from(name)));
    }
    others.push(name);
}

fn validate_non_negative(spec: &Value, name: &str, path: &str, causes: &mut Vec<Cause>) {
    if let Some(value) = spec.get(name).filter(|value| value.as_i64().is_some_and(|number| number < 0)) {
        causes.push(field::invalid(&field::child(path, name), value, "must be greater than or equal to 0"));
    }
}

fn push_invalid(causes: &mut Vec<Cause>, path: &str, value: &str, errors: Vec<String>) {
    causes.extend(errors.into_iter().map(|detail| field::invalid(path, &Value::from(value), &detail)));
}

fn entries(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
