//! The environment variables of containers.

use serde_json::Value;

use super::{has, items, names, push_invalid, text};
use crate::schema::field;
use crate::status::Causes;

/// The fields of a Pod that an environment variable can refer to.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The fields of a Pod that a volume can project into files.
const FIELDS_OF_FILES: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// Further fields of a Pod that have a label.
const LABELLED: [&str; 6] = [
    "metadata.annotations",
    "metadata.labels",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
    "status.nominatedNodeName",
];

/// The resources of a container that a variable can refer to.
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

const NAME: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";

fn is_name(name: &str) -> bool {
    name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=')
}

/// Whether Pods have a field with this label, which selectors and the downward API know.
fn is_field(label: &str) -> bool {
    FIELDS.contains(&label) || LABELLED.contains(&label)
}

pub(super) fn validate(variables: &Value, path: &str, causes: &mut Causes) {
    for (index, variable) in items(variables).iter().enumerate() {
        let at = field::index(path, index);
        let (at_name, name) = (field::child(&at, "name"), text(variable, "name"));
        if name.is_empty() {
            causes.push(field::required(&at_name, ""));
        } else if !is_name(name) {
            causes.push(field::invalid(&at_name, &Value::from(name), NAME));
        }
        if has(variable, "valueFrom") {
            validate_source(variable, &field::child(&at, "valueFrom"), causes);
        }
    }
}

fn validate_source(variable: &Value, at: &str, causes: &mut Causes) {
    let source = &variable["valueFrom"];
    let kinds = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    let count = kinds.iter().filter(|kind| has(source, kind)).count();
    if has(source, "fieldRef") {
        validate_field(&source["fieldRef"], &field::child(at, "fieldRef"), causes);
    }
    if has(source, "resourceFieldRef") {
        let (at, resource) =
            (field::child(at, "resourceFieldRef"), text(&source["resourceFieldRef"], "resource"));
        let path = field::child(&at, "resource");
        let is_huge_page =
            ["limits.hugepages-", "requests.hugepages-"].iter().any(|start| resource.starts_with(start));
        if resource.is_empty() {
            causes.push(field::required(&path, ""));
        } else if !is_huge_page && !RESOURCES.contains(&resource) {
            causes.push(field::not_supported(&path, &resource.into(), &RESOURCES));
        }
    }
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        let (path, key) = (field::child(&field::child(at, kind), "key"), text(&source[kind], "key"));
        if has(source, kind) {
            let name = text(&source[kind], "name");
            push_invalid(
                causes,
                &field::child(&field::child(at, kind), "name"),
                name,
                names::subdomain_errors(name),
            );
        }
        if has(source, kind) && key.is_empty() {
            causes.push(field::required(&path, ""));
        } else if has(source, kind) {
            push_invalid(causes, &path, key, names::data_key_errors(key));
        }
    }
    let detail = if count == 0 {
        "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
    } else if !text(variable, "value").is_empty() {
        "may not be specified when `value` is not empty"
    } else if count > 1 {
        "may not have more than one field specified at a time"
    } else {
        return;
    };
    causes.push(field::invalid(at, &Value::from(""), detail));
}

fn validate_field(reference: &Value, at: &str, causes: &mut Causes) {
    validate_field_of(reference, at, &FIELDS, causes);
}

/// Checks the reference to a field that becomes a file.
pub(super) fn validate_file_field(reference: &Value, at: &str, causes: &mut Causes) {
    validate_field_of(reference, at, &FIELDS_OF_FILES, causes);
}

fn validate_field_of(reference: &Value, at: &str, supported: &[&str], causes: &mut Causes) {
    let (path, value) = (field::child(at, "fieldPath"), text(reference, "fieldPath"));
    if value.is_empty() {
        causes.push(field::required(&path, ""));
        return;
    }
    let has_subscript = ["metadata.annotations['", "metadata.labels['"]
        .iter()
        .any(|start| value.starts_with(start) && value.ends_with("']"));
    if !has_subscript && !is_field(value) {
        let detail = format!("error converting fieldPath: field label not supported: {value}");
        causes.push(field::invalid(&path, &Value::from(value), &detail));
    } else if !has_subscript && !supported.contains(&value) {
        causes.push(field::not_supported(&path, &Value::from(value), supported));
    }
}

/// Checks the objects whose entries become variables.
pub(super) fn validate_sources(sources: &Value, path: &str, causes: &mut Causes) {
    for (index, source) in items(sources).iter().enumerate() {
        let at = field::index(path, index);
        let prefix = text(source, "prefix");
        if !prefix.is_empty() && !is_name(prefix) {
            causes.push(field::invalid(&field::child(&at, "prefix"), &prefix.into(), NAME));
        }
        let kinds = ["configMapRef", "secretRef"];
        let present: Vec<&str> = kinds.into_iter().filter(|kind| has(source, kind)).collect();
        for kind in &present {
            if text(&source[*kind], "name").is_empty() {
                causes.push(field::required(&field::child(&field::child(&at, kind), "name"), ""));
            }
        }
        let detail = match present.len() {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        // As in Kubernetes, the path is that of the list.
        causes.push(field::invalid(path, &"".into(), detail));
    }
}
