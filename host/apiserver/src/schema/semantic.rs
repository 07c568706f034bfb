//! What a schema cannot say: rules between fields, and the syntax of names, for the kinds that people write most.
//!
//! Sources: `k8s.io/apimachinery/pkg/api/validation` and `k8s.io/kubernetes/pkg/apis/*/validation`.

use pilothouse_model::LabelSelector;
use serde_json::{Map, Value};

use super::builtin::BuiltinKind;
use super::{field, names, rbac};
use crate::status::Cause;

const TOTAL_ANNOTATION_BYTES: u64 = 256 * 1024;
const MAX_DATA_BYTES: u64 = 1024 * 1024;

/// What is wrong with the metadata of any object. The name must have been generated already.
pub(super) fn metadata(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let Some(meta) = object.get("metadata").and_then(Value::as_object) else {
        return vec![field::required("metadata.name", "name or generateName is required")];
    };
    let name = meta.get("name").and_then(Value::as_str).unwrap_or_default();
    if name.is_empty() {
        causes.push(field::required("metadata.name", "name or generateName is required"));
    } else {
        let (kind, version) = (text(object, "/kind"), text(object, "/apiVersion"));
        let wrong = match (version.split_once('/').map_or("", |(group, _)| group), kind) {
            ("rbac.authorization.k8s.io", _) => names::path_segment(name),
            ("", "Service") => names::service(name),
            ("", "Namespace") => names::label(name),
            _ => names::subdomain(name),
        };
        say(&mut causes, "metadata.name", name, wrong);
    }
    labels_and_annotations(meta, "metadata", &mut causes);
    for (index, owner) in
        meta.get("ownerReferences").and_then(Value::as_array).into_iter().flatten().enumerate()
    {
        let at = field::index("metadata.ownerReferences", index);
        for (part, detail) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if owner.get(part).and_then(Value::as_str).unwrap_or_default().is_empty() {
                causes.push(field::invalid(&field::child(&at, part), &Value::from(""), detail));
            }
        }
    }
    for finalizer in
        meta.get("finalizers").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    {
        say(&mut causes, "metadata.finalizers", finalizer, names::qualified(finalizer));
    }
    causes
}

fn labels_and_annotations(meta: &Map<String, Value>, path: &str, causes: &mut Vec<Cause>) {
    let at = field::child(path, "labels");
    for (key, value) in entries(meta.get("labels")) {
        say(causes, &at, key, names::qualified(key));
        let value = value.as_str().unwrap_or_default();
        say(causes, &at, value, names::label_value(value));
    }
    let at = field::child(path, "annotations");
    let mut size = 0;
    for (key, value) in entries(meta.get("annotations")) {
        say(causes, &at, key, names::qualified(&key.to_lowercase()));
        size += key.len() as u64 + value.as_str().unwrap_or_default().len() as u64;
    }
    if size > TOTAL_ANNOTATION_BYTES {
        causes.push(field::too_long(&at, TOTAL_ANNOTATION_BYTES));
    }
}

/// What is wrong with an object of a built-in kind beyond its schema.
pub(super) fn check(kind: BuiltinKind, new: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let spec = new.get("spec").unwrap_or(&Value::Null);
    match (kind.group, kind.kind) {
        ("", "ConfigMap") => config_map(new, old, &mut causes),
        ("", "Secret") => secret(new, old, &mut causes),
        ("", "Pod") => pod_spec(spec, "spec", &mut causes),
        ("", "Service") => service(spec, &mut causes),
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") => {
            workload(kind, spec, old, &mut causes);
        }
        ("batch", "Job") => job(spec, "spec", &mut causes),
        ("batch", "CronJob") => {
            let template = spec.pointer("/jobTemplate/spec").unwrap_or(&Value::Null);
            job(template, "spec.jobTemplate.spec", &mut causes);
        }
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => {
            causes.extend(rbac::role(new, kind.kind == "ClusterRole"));
        }
        ("rbac.authorization.k8s.io", name) => {
            causes.extend(rbac::binding(new, old, name == "ClusterRoleBinding"));
        }
        _ => {}
    }
    causes
}

fn config_map(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let mut size = 0;
    for bag in ["data", "binaryData"] {
        for (key, value) in entries(new.get(bag)) {
            let at = field::key(bag, key);
            say(causes, &at, key, names::data_key(key));
            if bag == "data" && new.get("binaryData").is_some_and(|other| other.get(key).is_some()) {
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
    immutable_data(new, old, &["data", "binaryData"], causes);
}

fn secret(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let mut size = 0;
    for (key, value) in entries(new.get("data")) {
        say(causes, &field::key("data", key), key, names::data_key(key));
        size += value.as_str().unwrap_or_default().len() as u64 / 4 * 3;
    }
    if size > MAX_DATA_BYTES {
        causes.push(field::too_long("data", MAX_DATA_BYTES));
    }
    let wanted: &[&str] = match text(new, "/type") {
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        _ => &[],
    };
    for key in wanted.iter().filter(|key| new.get("data").and_then(|data| data.get(**key)).is_none()) {
        causes.push(field::required(&field::key("data", key), ""));
    }
    immutable_data(new, old, &["data"], causes);
    if let Some(old) = old
        && old.get("type") != new.get("type")
    {
        causes.push(field::invalid("type", &new["type"], "field is immutable"));
    }
}

fn immutable_data(new: &Value, old: Option<&Value>, bags: &[&str], causes: &mut Vec<Cause>) {
    let Some(old) = old.filter(|old| old.get("immutable") == Some(&Value::Bool(true))) else { return };
    let detail = "field is immutable when `immutable` is set";
    if new.get("immutable") != Some(&Value::Bool(true)) {
        causes.push(field::forbidden("immutable", detail));
    }
    for bag in bags.iter().filter(|bag| new.get(**bag) != old.get(**bag)) {
        causes.push(field::forbidden(bag, detail));
    }
}

fn service(spec: &Value, causes: &mut Vec<Cause>) {
    let kind = text(spec, "/type");
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if !kinds.contains(&kind) {
        causes.push(field::not_supported("spec.type", &Value::from(kind), &kinds));
    }
    let ports = spec.get("ports").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let headless = text(spec, "/clusterIP") == "None";
    if ports.is_empty() && !headless && kind != "ExternalName" {
        causes.push(field::required("spec.ports", ""));
    }
    for (index, port) in ports.iter().enumerate() {
        let at = field::index("spec.ports", index);
        if ports.len() > 1 && text(port, "/name").is_empty() {
            causes.push(field::required(&field::child(&at, "name"), ""));
        }
        port_number(port, "port", &at, causes);
    }
}

fn port_number(port: &Value, name: &str, at: &str, causes: &mut Vec<Cause>) {
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

fn workload(kind: BuiltinKind, spec: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    for name in ["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        non_negative(spec, name, "spec", causes);
    }
    let template = spec.get("template").unwrap_or(&Value::Null);
    let selector = spec.get("selector").unwrap_or(&Value::Null);
    let empty = ["matchLabels", "matchExpressions"].iter().all(|part| {
        selector.get(*part).is_none_or(|part| {
            part.as_array().is_none_or(Vec::is_empty) && part.as_object().is_none_or(Map::is_empty)
        })
    });
    if selector.is_object() && empty {
        let detail = format!("empty selector is invalid for {}", kind.kind.to_lowercase());
        causes.push(field::invalid("spec.selector", selector, &detail));
    } else if selector.is_object() {
        selector_matches_template(selector, template, causes);
    }
    if let Some(before) = old.and_then(|old| old.pointer("/spec/selector"))
        && before != selector
    {
        causes.push(field::invalid("spec.selector", selector, "field is immutable"));
    }
    if let Some(meta) = template.get("metadata").and_then(Value::as_object) {
        labels_and_annotations(meta, "spec.template", causes);
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
    pod_spec(pod, "spec.template.spec", causes);
}

fn selector_matches_template(selector: &Value, template: &Value, causes: &mut Vec<Cause>) {
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

fn job(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    for name in
        ["parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"]
    {
        non_negative(spec, name, path, causes);
    }
    let pod = spec.pointer("/template/spec").unwrap_or(&Value::Null);
    let at = format!("{path}.template.spec");
    let policy = text(pod, "/restartPolicy");
    if !["OnFailure", "Never"].contains(&policy) {
        let detail = "valid values: \"OnFailure\", \"Never\"";
        causes.push(field::required(&field::child(&at, "restartPolicy"), detail));
    }
    pod_spec(pod, &at, causes);
}

fn pod_spec(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    if !spec.is_object() {
        return;
    }
    let mut seen = Vec::new();
    if spec.get("containers").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        causes.push(field::required(&field::child(path, "containers"), ""));
    }
    for list in ["containers", "initContainers"] {
        let at = field::child(path, list);
        for (index, one) in spec.get(list).and_then(Value::as_array).into_iter().flatten().enumerate() {
            container(one, &field::index(&at, index), &mut seen, causes);
        }
    }
    let at = field::child(path, "volumes");
    let mut volumes: Vec<&str> = Vec::new();
    for (index, volume) in spec.get("volumes").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let name = text(volume, "/name");
        unique_name(name, &field::index(&at, index), &mut volumes, causes);
    }
    for list in ["containers", "initContainers"] {
        for (index, one) in spec.get(list).and_then(Value::as_array).into_iter().flatten().enumerate() {
            let mounts = one.get("volumeMounts").and_then(Value::as_array).into_iter().flatten();
            for (nth, name) in mounts.map(|mount| text(mount, "/name")).enumerate() {
                if !volumes.contains(&name) {
                    let at = format!("{path}.{list}[{index}].volumeMounts[{nth}].name");
                    causes.push(field::not_found(&at, &Value::from(name)));
                }
            }
        }
    }
}

fn container<'a>(one: &'a Value, at: &str, seen: &mut Vec<&'a str>, causes: &mut Vec<Cause>) {
    unique_name(text(one, "/name"), at, seen, causes);
    if text(one, "/image").is_empty() {
        causes.push(field::required(&field::child(at, "image"), ""));
    }
    let policies = ["Always", "IfNotPresent", "Never"];
    if let Some(policy) =
        one.get("imagePullPolicy").filter(|policy| !policies.iter().any(|known| policy == known))
    {
        causes.push(field::not_supported(&field::child(at, "imagePullPolicy"), policy, &policies));
    }
    for (index, port) in one.get("ports").and_then(Value::as_array).into_iter().flatten().enumerate() {
        port_number(port, "containerPort", &field::index(&field::child(at, "ports"), index), causes);
    }
}

/// A required DNS label that is unique in its list.
fn unique_name<'a>(name: &'a str, at: &str, seen: &mut Vec<&'a str>, causes: &mut Vec<Cause>) {
    let at = field::child(at, "name");
    if name.is_empty() {
        causes.push(field::required(&at, ""));
        return;
    }
    say(causes, &at, name, names::label(name));
    if seen.contains(&name) {
        causes.push(field::duplicate(&at, &Value::from(name)));
    }
    seen.push(name);
}

fn non_negative(spec: &Value, name: &str, path: &str, causes: &mut Vec<Cause>) {
    if let Some(value) = spec.get(name).filter(|value| value.as_i64().is_some_and(|number| number < 0)) {
        causes.push(field::invalid(&field::child(path, name), value, "must be greater than or equal to 0"));
    }
}

fn say(causes: &mut Vec<Cause>, path: &str, value: &str, wrong: Vec<String>) {
    causes.extend(wrong.into_iter().map(|detail| field::invalid(path, &Value::from(value), &detail)));
}

fn entries(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
