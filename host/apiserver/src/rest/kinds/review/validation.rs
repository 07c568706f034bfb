//! The validation of access reviews, after `k8s.io/kubernetes/pkg/apis/authorization/validation`.

use serde_json::Value;

use crate::go;
use crate::schema::{field, names};
use crate::status::Cause;

/// Returns what is wrong with an access review of a kind, which a request in `namespace` creates.
pub(super) fn causes(kind: &str, namespace: &str, review: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let spec = &review["spec"];
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    match (resource.is_object(), path.is_object()) {
        (true, true) => {
            let detail = "cannot be specified in combination with resourceAttributes";
            causes.push(field::invalid_shown("spec.nonResourceAttributes", &path_as_go(path), detail));
        }
        (false, false) => {
            let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            causes.push(field::invalid("spec.resourceAttributes", &Value::Null, detail));
        }
        _ => {}
    }
    if kind != "SelfSubjectAccessReview" && text(spec, "user").is_empty() && items(&spec["groups"]).is_empty()
    {
        let detail = "at least one of user or group must be specified";
        causes.push(field::invalid("spec.user", &"".into(), detail));
    }
    for name in ["fieldSelector", "labelSelector"] {
        if !resource[name].is_null() {
            let at = field::child("spec.resourceAttributes", name);
            validate_selector(&resource[name], &at, name == "labelSelector", &mut causes);
        }
    }
    validate_metadata(kind, &review["metadata"], &mut causes);
    if kind == "LocalSubjectAccessReview" {
        validate_local(resource, path, namespace, &mut causes);
    }
    causes
}

fn validate_selector(selector: &Value, at: &str, is_of_labels: bool, causes: &mut Vec<Cause>) {
    let (raw, requirements) = (text(selector, "rawSelector"), items(&selector["requirements"]));
    if !raw.is_empty() && !requirements.is_empty() {
        let detail = "may not specified at the same time as requirements";
        causes.push(field::invalid(&field::child(at, "rawSelector"), &raw.into(), detail));
    }
    if raw.is_empty() && requirements.is_empty() {
        let detail = format!("when {at} is specified, requirements or rawSelector is required");
        causes.push(field::required(&field::child(at, "requirements"), &detail));
    }
    for (index, requirement) in requirements.iter().enumerate() {
        let at = field::index(&field::child(at, "requirements"), index);
        let (at_key, at_values) = (field::child(&at, "key"), field::child(&at, "values"));
        let (key, values) = (text(requirement, "key"), items(&requirement["values"]));
        if !is_of_labels && key.is_empty() {
            causes.push(field::required(&at_key, "must be specified"));
        }
        // Operators that the server does not know are those of newer clients.
        match text(requirement, "operator") {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                causes.push(field::required(&at_values, detail));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                causes.push(field::forbidden(&at_values, detail));
            }
            _ => {}
        }
        if is_of_labels {
            let errors = names::qualified_name_errors(key).into_iter();
            causes.extend(errors.map(|detail| field::invalid(&at_key, &key.into(), &detail)));
        }
    }
}

/// Checks that a review has no metadata but managed fields and, if it belongs to a namespace, that.
fn validate_metadata(kind: &str, metadata: &Value, causes: &mut Vec<Cause>) {
    let is_local = kind == "LocalSubjectAccessReview";
    let mut others = metadata.as_object().into_iter().flatten().filter(|(name, value)| {
        *name != "managedFields" && !value.is_null() && !(is_local && *name == "namespace")
    });
    if others.next().is_some() {
        let detail = if is_local { "must be empty except for namespace" } else { "must be empty" };
        causes.push(field::invalid_shown("metadata", &go::metadata_json(metadata), detail));
    }
}

fn validate_local(resource: &Value, path: &Value, namespace: &str, causes: &mut Vec<Cause>) {
    let requested = text(resource, "namespace");
    if resource.is_object() && requested != namespace {
        let detail = "must match metadata.namespace";
        causes.push(field::invalid("spec.resourceAttributes.namespace", &requested.into(), detail));
    }
    if path.is_object() {
        let detail = "disallowed on this kind of request";
        causes.push(field::invalid_shown("spec.nonResourceAttributes", &path_as_go(path), detail));
    }
}

/// Returns the attributes of a path that is no resource as messages show them.
fn path_as_go(path: &Value) -> String {
    let [path, verb] = ["path", "verb"].map(|name| go::encoded_json(&text(path, name).into()));
    format!(r#"{{"Path":{},"Verb":{}}}"#, path.trim_end(), verb.trim_end())
}

fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object[name].as_str().unwrap_or_default()
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}
