//! The environment variables of containers.

use pilothouse_model::hash::HashMap;
use serde_json::Value;

use super::{has, items, names, push_invalid, quantity, text};
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
const VOLUME_FIELD_PATHS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// Field labels that selectors know, and environment variables cannot refer to.
const OTHER_FIELD_LABELS: [&str; 6] = [
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
    FIELDS.contains(&label) || OTHER_FIELD_LABELS.contains(&label)
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
        let at = field::child(at, "resourceFieldRef");
        validate_resource(&source["resourceFieldRef"], &at, false, causes);
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
    validate_field_of(reference, at, &VOLUME_FIELD_PATHS, causes);
}

fn validate_field_of(reference: &Value, at: &str, supported: &[&str], causes: &mut Causes) {
    let (path, value) = (field::child(at, "fieldPath"), text(reference, "fieldPath"));
    // The name of this field in earlier releases.
    let value = if value == "spec.host" { "spec.nodeName" } else { value };
    if value.is_empty() {
        causes.push(field::required(&path, ""));
        return;
    }
    let mut refuse = |problem: &str| {
        let detail = format!("error converting fieldPath: {problem}");
        causes.push(field::invalid(&path, &Value::from(value), &detail));
    };
    let version = text(reference, "apiVersion");
    if !["", "v1"].contains(&version) {
        refuse(&format!("unsupported pod version: {version}"));
        return;
    }
    if let Some((field, key)) = value.strip_suffix("']").and_then(|value| value.split_once("['")) {
        match field {
            "metadata.annotations" | "metadata.labels" => {
                let key = if field == "metadata.annotations" { key.to_lowercase() } else { key.to_owned() };
                push_invalid(causes, at, &key, names::qualified_name_errors(&key));
            }
            _ => refuse(&format!("field label does not support subscript: {value}")),
        }
        return;
    }
    if !is_field(value) {
        refuse(&format!("field label not supported: {value}"));
    } else if !supported.contains(&value) {
        causes.push(field::not_supported(&path, &Value::from(value), supported));
    }
}

/// Checks the reference to a resource of a container, which that of a volume names.
pub(super) fn validate_resource(reference: &Value, at: &str, needs_container: bool, causes: &mut Causes) {
    let (resource, path) = (text(reference, "resource"), field::child(at, "resource"));
    let is_huge_page =
        ["limits.hugepages-", "requests.hugepages-"].iter().any(|start| resource.starts_with(start));
    if needs_container && text(reference, "containerName").is_empty() {
        causes.push(field::required(&field::child(at, "containerName"), ""));
    } else if resource.is_empty() {
        causes.push(field::required(&path, ""));
    } else if !is_huge_page && !RESOURCES.contains(&resource) {
        causes.push(field::not_supported(&path, &resource.into(), &RESOURCES));
    }
    validate_divisor(reference, resource, is_huge_page, at, causes);
}

/// Checks the unit of a resource.
fn validate_divisor(reference: &Value, resource: &str, is_huge_page: bool, at: &str, causes: &mut Causes) {
    const SIZES: [&str; 13] =
        ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let (supported, name): (&[&str], &str) = match resource {
        "limits.cpu" | "requests.cpu" => (&["1m", "1"], "cpu"),
        "limits.memory" | "requests.memory" => (&SIZES, "memory"),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => (&SIZES, "local ephemeral storage"),
        _ if is_huge_page => (&SIZES, "hugepages"),
        _ => return,
    };
    let divisor = quantity::canonical(&reference["divisor"]).unwrap_or_else(|| "0".to_owned());
    if divisor == "0" || supported.contains(&&*divisor) {
        return;
    }
    let values = if name == "cpu" { "1m and 1".to_owned() } else { supported.join(", ") };
    let detail = format!("only divisor's values {values} are supported with the {name} resource");
    causes.push(field::invalid(&field::child(at, "divisor"), &resource.into(), &detail));
}

/// Checks that the variables of files refer to volumes that are empty directories.
pub(super) fn validate_file_volumes(spec: &Value, path: &str, causes: &mut Causes) {
    let volumes: HashMap<&str, bool> = items(&spec["volumes"])
        .iter()
        .map(|volume| (text(volume, "name"), has(volume, "emptyDir")))
        .collect();
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in items(&spec[list]).iter().enumerate() {
            let at = field::child(&field::index(&field::child(path, list), index), "env");
            for (index, variable) in items(&container["env"]).iter().enumerate() {
                let reference = &variable["valueFrom"]["fileKeyRef"];
                let name = text(reference, "volumeName");
                if reference.is_null() || volumes.get(name) == Some(&true) {
                    continue;
                }
                let at = field::child(&field::index(&at, index), "valueFrom.fileKeyRef.volumeName");
                causes.push(match volumes.get(name) {
                    None => field::not_found(&at, &name.into()),
                    Some(_) => {
                        field::invalid(&at, &name.into(), "referenced volume must be of type emptyDir")
                    }
                });
            }
        }
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
            let (path, name) = (field::child(&field::child(&at, kind), "name"), text(&source[*kind], "name"));
            if name.is_empty() {
                causes.push(field::required(&path, ""));
            } else {
                push_invalid(causes, &path, name, names::subdomain_errors(name));
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(source: &Value) -> Vec<String> {
        let mut causes = Causes::default();
        validate_source(&json!({"valueFrom": source}), "e", &mut causes);
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn fields_have_a_known_version_and_a_key_only_if_they_are_maps() {
        for path in ["spec.host", "metadata.labels['a/b']", "metadata.annotations['A/b']"] {
            assert_eq!(
                problems(&json!({"fieldRef": {"apiVersion": "v1", "fieldPath": path}})),
                [""; 0],
                "{path}"
            );
        }
        for (version, path, problem) in [
            (
                "v2",
                "metadata.name",
                "e.fieldRef.fieldPath: Invalid value: \"metadata.name\": error converting fieldPath: unsupported pod version: v2",
            ),
            (
                "v1",
                "metadata.labels['a/b/c']",
                "e.fieldRef: Invalid value: \"a/b/c\": a valid label key must consist of",
            ),
            (
                "v1",
                "spec.nodeName['x']",
                "e.fieldRef.fieldPath: Invalid value: \"spec.nodeName['x']\": error converting fieldPath: field label does not support subscript",
            ),
        ] {
            let found = problems(&json!({"fieldRef": {"apiVersion": version, "fieldPath": path}}));
            assert!(found[0].starts_with(problem), "{found:?}");
        }
    }

    #[test]
    fn divisors_are_units_of_the_resource() {
        let of = |resource: &str, divisor: &str| {
            problems(&json!({"resourceFieldRef": {"resource": resource, "divisor": divisor}}))
        };
        assert_eq!(of("limits.cpu", "1m"), [""; 0]);
        assert_eq!(of("limits.memory", "1Mi"), [""; 0]);
        assert_eq!(of("limits.hugepages-2Mi", "0"), [""; 0]);
        assert_eq!(
            of("limits.cpu", "5"),
            [
                "e.resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 are supported with the cpu resource"
            ]
        );
        assert!(of("requests.memory", "5")[0].ends_with("are supported with the memory resource"));
    }

    #[test]
    fn sources_have_names_of_objects() {
        let mut causes = Causes::default();
        validate_sources(&json!([{"configMapRef": {"name": "A_b"}}]), "s", &mut causes);
        assert_eq!(causes[0].field, "s[0].configMapRef.name");
    }
}
