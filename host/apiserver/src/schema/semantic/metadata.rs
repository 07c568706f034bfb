//! The metadata of objects of all kinds, custom resources included.

use std::net::IpAddr;

use pilothouse_model::hash::HashSet;
use serde_json::{Map, Value};

use super::{IP_ADDRESS, entries, items, push_invalid, text};
use crate::go;
use crate::schema::{field, names};
use crate::status::{Cause, Causes};

const TOTAL_ANNOTATION_BYTES: u64 = 256 * 1024;
/// The bytes of the lists of owners in the causes of one object: each cause about two controllers shows the whole list.
const MAX_SHOWN_OWNERS: usize = 1 << 20;
/// The finalizers without a domain that built-in kinds may have.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// Returns what is wrong with the metadata of an object, whose `generateName` must have been resolved. `old` is the stored object on updates.
pub(in crate::schema) fn validate_metadata(object: &Value, old: Option<&Value>, is_built_in: bool) -> Causes {
    let mut causes = Causes::default();
    let Some(meta) = object.get("metadata").and_then(Value::as_object) else {
        causes.push(field::required("metadata.name", "name or generateName is required"));
        return causes;
    };
    let name_errors = |name: &str| name_errors(object, name);
    let is_new = old.is_none();
    validate_names(meta, "metadata", is_new, &name_errors, &mut causes);
    validate_labels_and_annotations(meta, "metadata", &mut causes);
    validate_owners(meta, "metadata", &mut causes);
    let before = old.map_or(&Value::Null, |old| &old["metadata"]["finalizers"]);
    validate_finalizers(meta, "metadata", before, is_built_in, &mut causes);
    causes
}

/// Adds what is wrong with the metadata of a resource that is embedded in a custom resource. It may lack a name.
pub(in crate::schema) fn validate_embedded_metadata(
    meta: &Map<String, Value>,
    path: &str,
    causes: &mut Causes,
) {
    let text = |name: &str| meta.get(name).and_then(Value::as_str).unwrap_or_default();
    if !text("name").is_empty() || !text("generateName").is_empty() {
        let mut named = meta.clone();
        named.entry("name").or_insert_with(|| "a".into());
        validate_names(&named, path, true, &names::path_segment_errors, causes);
    }
    let namespace = text("namespace");
    if !namespace.is_empty() {
        let at = field::child(path, "namespace");
        push_invalid(causes, &at, namespace, names::label_errors(namespace));
    }
    validate_labels_and_annotations(meta, path, causes);
    validate_owners(meta, path, causes);
    validate_finalizers(meta, path, &Value::Null, false, causes);
}

/// Adds what is wrong with the name, and with the prefix of the name of a new object.
fn validate_names(
    meta: &Map<String, Value>,
    path: &str,
    is_new: bool,
    name_errors: &dyn Fn(&str) -> Vec<String>,
    causes: &mut Causes,
) {
    if let Some(Value::String(base)) = meta.get("generateName").filter(|_| is_new)
        && !base.is_empty()
    {
        // A hyphen or dot at its end is followed by the generated part.
        let masked = format!("{}a", base.strip_suffix(['-', '.']).unwrap_or(base));
        push_invalid(causes, &field::child(path, "generateName"), base, name_errors(&masked));
    }
    let at = field::child(path, "name");
    match meta.get("name").and_then(Value::as_str).unwrap_or_default() {
        "" => causes.push(field::required(&at, "name or generateName is required")),
        name => push_invalid(causes, &at, name, name_errors(name)),
    }
}

/// Returns what is wrong with a name of an object of its kind.
fn name_errors(object: &Value, name: &str) -> Vec<String> {
    let (kind, version) = (text(object, "kind"), text(object, "apiVersion"));
    match (version.split_once('/').map_or("", |(group, _)| group), kind) {
        ("rbac.authorization.k8s.io" | "certificates.k8s.io" | "apiregistration.k8s.io", _) => {
            names::path_segment_errors(name)
        }
        // Kubernetes has no rule of its own for them.
        ("" | "events.k8s.io" | "policy", "Event" | "PodDisruptionBudget") => {
            names::path_segment_errors(name)
        }
        ("networking.k8s.io", "IPAddress") => ip_errors(name),
        ("" | "apps", "Service" | "Namespace" | "StatefulSet") => names::label_errors(name),
        _ => names::subdomain_errors(name),
    }
}

/// Returns what is wrong with an IP address, which is in its canonical form.
fn ip_errors(name: &str) -> Vec<String> {
    match name.parse::<IpAddr>().map(|ip| ip.to_string()) {
        Err(_) => vec![IP_ADDRESS.to_owned()],
        Ok(canonical) if canonical != name => vec![format!("must be in canonical form ({canonical:?})")],
        Ok(_) => Vec::new(),
    }
}

fn validate_owners(meta: &Map<String, Value>, path: &str, causes: &mut Causes) {
    let owners = meta.get("ownerReferences").unwrap_or(&Value::Null);
    let path = &field::child(path, "ownerReferences");
    let (mut first_controller, mut shown, mut left) = (None, None, MAX_SHOWN_OWNERS);
    for owner in items(owners) {
        for (name, detail) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            let value = text(owner, name);
            if value.is_empty() || (name == "apiVersion" && has_no_version(value)) {
                causes.push(field::invalid(&field::child(path, name), &value.into(), detail));
            }
        }
        if (text(owner, "apiVersion"), text(owner, "kind")) == ("v1", "Event") {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            causes.push(field::invalid_shown(path, &go::owner_reference(owner), detail));
        }
        if owner.get("controller") != Some(&Value::Bool(true)) {
            continue;
        }
        let controller = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
        match &first_controller {
            None => first_controller = Some(controller),
            Some(first) => {
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and \
                     {controller}"
                );
                let shown = shown.get_or_insert_with(|| go::owner_references(owners));
                if left > 0 {
                    causes.push(field::invalid_shown(path, shown, &detail));
                }
                left = left.saturating_sub(shown.len());
            }
        }
    }
}

/// Whether an `apiVersion` names no version: it has several slashes, or ends with one.
fn has_no_version(version: &str) -> bool {
    version.matches('/').count() > 1 || version.ends_with('/')
}

fn validate_finalizers(
    meta: &Map<String, Value>,
    path: &str,
    before: &Value,
    is_built_in: bool,
    causes: &mut Causes,
) {
    let finalizers = meta.get("finalizers").unwrap_or(&Value::Null);
    let path = &field::child(path, "finalizers");
    let all = || items(finalizers).iter().filter_map(Value::as_str);
    for finalizer in all() {
        push_invalid(causes, path, finalizer, names::qualified_name_errors(finalizer));
    }
    if ["orphan", "foregroundDeletion"].iter().all(|name| all().any(|finalizer| finalizer == *name)) {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        causes.push(field::invalid(path, finalizers, detail));
    }
    if !is_built_in {
        return;
    }
    let before: HashSet<&str> = items(before).iter().filter_map(Value::as_str).collect();
    for (index, finalizer) in all().enumerate().filter(|(_, finalizer)| !before.contains(finalizer)) {
        if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(field::invalid(&field::index(path, index), &Value::from(finalizer), detail));
        }
    }
}

/// Returns what is wrong with the labels and annotations of an object's metadata.
pub(crate) fn labels_and_annotations_causes(meta: &Map<String, Value>) -> Vec<Cause> {
    let mut causes = Causes::default();
    validate_labels_and_annotations(meta, "metadata", &mut causes);
    causes.into()
}

pub(super) fn validate_labels(labels: Option<&Value>, at: &str, causes: &mut Causes) {
    for (key, value) in entries(labels) {
        push_invalid(causes, at, key, names::qualified_name_errors(key));
        let value = value.as_str().unwrap_or_default();
        push_invalid(causes, at, value, names::label_value_errors(value));
    }
}

pub(super) fn validate_labels_and_annotations(meta: &Map<String, Value>, path: &str, causes: &mut Causes) {
    validate_labels(meta.get("labels"), &field::child(path, "labels"), causes);
    validate_annotations(meta, path, causes);
}

pub(super) fn validate_annotations(meta: &Map<String, Value>, path: &str, causes: &mut Causes) {
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
