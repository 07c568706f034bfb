//! PersistentVolumeClaims, and the specifications of claims in templates.

use serde_json::Value;

use super::{
    has, items, metadata, names, push_invalid, quantity, text, validate_label_selector, validate_one_of,
};
use crate::schema::field;
use crate::status::Causes;

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
/// The annotation that `storageClassName` replaces.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const IMMUTABLE: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

/// Checks a claim. `old` is the stored object on updates.
pub(super) fn validate(claim: &Value, old: Option<&Value>, causes: &mut Causes) {
    validate_spec(&claim["spec"], "spec", causes);
    let Some(old) = old else { return };
    let (before, after) = (&old["spec"], &claim["spec"]);
    let annotation = |claim: &Value| claim["metadata"]["annotations"][CLASS_ANNOTATION].clone();
    if !replaces_annotation(old, claim) && annotation(old) != annotation(claim) {
        let path = format!("metadata.annotations.{CLASS_ANNOTATION}");
        let after = annotation(claim);
        causes.push(field::invalid(&path, &after.as_str().unwrap_or_default().into(), "field is immutable"));
    }
    if fixed_fields(before, old, claim) != fixed_fields(after, old, claim) {
        causes.push(field::forbidden("spec", IMMUTABLE));
    }
    let size = |amount: Option<&Value>| amount.and_then(quantity::nanos).unwrap_or(0);
    let requested = |spec: &Value| size(spec.pointer("/resources/requests/storage"));
    if requested(after) < requested(before)
        && requested(after) <= size(old.pointer("/status/capacity/storage"))
    {
        let detail = "field can not be less than status.capacity";
        causes.push(field::forbidden("spec.resources.requests.storage", detail));
    }
    if before["volumeMode"] != after["volumeMode"] {
        causes.push(field::invalid("volumeMode", &after["volumeMode"], "field is immutable"));
    }
    validate_attributes_class(old, after, causes);
}

/// Checks the claim that a Pod's volume creates, whose metadata may have labels and annotations only.
pub(super) fn validate_template(template: &Value, path: &str, causes: &mut Causes) {
    let (meta, at) = (&template["metadata"], field::child(path, "metadata"));
    if let Some(meta) = meta.as_object() {
        metadata::validate_annotations(meta, &at, causes);
        metadata::validate_labels(meta.get("labels"), &field::child(&at, "labels"), causes);
        for (name, value) in meta {
            let is_set = !matches!(value, Value::Null) && *value != "";
            if !["annotations", "labels"].contains(&name.as_str()) && is_set {
                causes.push(field::forbidden(&field::child(&at, name), "cannot be set"));
            }
        }
    }
    validate_spec(&template["spec"], &field::child(path, "spec"), causes);
}

/// Checks the specification at `path`.
pub(super) fn validate_spec(spec: &Value, path: &str, causes: &mut Causes) {
    if items(&spec["accessModes"]).is_empty() {
        let at = field::child(path, "accessModes");
        causes.push(field::required(&at, "at least 1 access mode is required"));
    }
    validate_label_selector(&spec["selector"], &field::child(path, "selector"), causes);
    validate_access_modes(spec, path, causes);
    let at = field::key(&field::child(path, "resources"), "storage");
    match spec.pointer("/resources/requests/storage") {
        None | Some(Value::Null) => causes.push(field::required(&at, "")),
        Some(amount) => validate_positive(amount, &at, causes),
    }
    validate_class(spec, "storageClassName", path, causes);
    validate_one_of(spec, "volumeMode", path, &["Block", "Filesystem"], causes);
    for name in ["dataSource", "dataSourceRef"] {
        if has(spec, name) {
            validate_source(&spec[name], &field::child(path, name), causes);
        }
    }
    validate_sources_match(spec, path, causes);
    validate_class(spec, "volumeAttributesClassName", path, causes);
}

/// Checks the name of a class at `path`. An empty one names none.
pub(super) fn validate_class(spec: &Value, name: &str, path: &str, causes: &mut Causes) {
    let class = text(spec, name);
    if !class.is_empty() {
        push_invalid(causes, &field::child(path, name), class, names::subdomain_errors(class));
    }
}

/// Checks the object from which the volume is filled.
fn validate_source(source: &Value, path: &str, causes: &mut Causes) {
    let [name, kind, group, namespace] =
        ["name", "kind", "apiGroup", "namespace"].map(|member| text(source, member));
    for (member, value) in [("name", name), ("kind", kind)] {
        if value.is_empty() {
            causes.push(field::required(&field::child(path, member), ""));
        }
    }
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        causes.push(field::invalid(path, &kind.into(), detail));
    }
    if !group.is_empty() {
        push_invalid(causes, &field::child(path, "apiGroup"), group, names::subdomain_errors(group));
    }
    if !namespace.is_empty() {
        push_invalid(causes, &field::child(path, "namespace"), namespace, names::label_errors(namespace));
    }
}

/// Checks that both references to the source of a volume are the same one.
fn validate_sources_match(spec: &Value, path: &str, causes: &mut Causes) {
    let (source, reference) = (&spec["dataSource"], &spec["dataSourceRef"]);
    if source.is_null() || reference.is_null() {
        return;
    }
    let detail = if !text(reference, "namespace").is_empty() {
        "may not be specified when dataSourceRef.namespace is specified"
    } else if ["apiGroup", "kind", "name"].iter().any(|name| source[*name] != reference[*name]) {
        "must match dataSourceRef"
    } else {
        return;
    };
    // As in Kubernetes, the value is the path of the field, which is printed without its parts.
    causes.push(field::invalid_shown(path, "{}", detail));
}

/// Checks that an amount is more than zero.
pub(super) fn validate_positive(amount: &Value, path: &str, causes: &mut Causes) {
    if quantity::nanos(amount).is_some_and(|nanos| nanos <= 0) {
        let shown = Value::from(quantity::canonical(amount));
        causes.push(field::invalid(path, &shown, "must be greater than zero"));
    }
}

/// Checks the access modes of the claim or the volume whose specification is at `path`.
pub(super) fn validate_access_modes(spec: &Value, path: &str, causes: &mut Causes) {
    const ONE_POD: &str = "ReadWriteOncePod";
    let (modes, at) = (items(&spec["accessModes"]), field::child(path, "accessModes"));
    let is_known = |mode: &Value| ACCESS_MODES.iter().any(|known| mode == known);
    for mode in modes.iter().filter(|mode| !is_known(mode)) {
        causes.push(field::not_supported(&at, mode, &ACCESS_MODES));
    }
    let has_one_pod = modes.iter().any(|mode| mode == ONE_POD);
    if has_one_pod && modes.iter().any(|mode| mode != ONE_POD && is_known(mode)) {
        causes.push(field::forbidden(&at, "may not use ReadWriteOncePod with other access modes"));
    }
}

/// Whether an update moves the class from the annotation to the field.
fn replaces_annotation(old: &Value, new: &Value) -> bool {
    let annotation = |claim: &Value| claim["metadata"]["annotations"][CLASS_ANNOTATION].clone();
    let (before, after) = (annotation(old), annotation(new));
    before.is_string()
        && !has(&old["spec"], "storageClassName")
        && new["spec"]["storageClassName"] == before
        && (after.is_null() || after == before)
}

/// Returns the fields of the specification that the update from `old` to `new` may not change.
fn fixed_fields(spec: &Value, old: &Value, new: &Value) -> Value {
    let mut spec = spec.clone();
    let (before, is_bound) = (&old["spec"], new["status"]["phase"] == "Bound");
    if is_bound && let Some(requests) = spec.pointer_mut("/resources/requests").and_then(Value::as_object_mut)
    {
        requests.remove("storage");
    }
    let annotation = &old["metadata"]["annotations"][CLASS_ANNOTATION];
    let class = &new["spec"]["storageClassName"];
    let may_set_class =
        !class.is_null() && !has(before, "storageClassName") && (annotation.is_null() || annotation == class);
    if let Some(members) = spec.as_object_mut() {
        if text(before, "volumeName").is_empty() {
            members.remove("volumeName");
        }
        if may_set_class {
            members.remove("storageClassName");
        }
        if is_bound {
            members.remove("volumeAttributesClassName");
        }
        members.retain(|name, value| !value.is_null() && (name != "volumeName" || *value != ""));
    }
    spec
}

/// Checks that a claim whose volume has the attributes of a class keeps a class.
fn validate_attributes_class(old: &Value, spec: &Value, causes: &mut Causes) {
    const NAME: &str = "volumeAttributesClassName";
    if old["spec"][NAME] == spec[NAME] || old["status"]["currentVolumeAttributesClassName"].is_null() {
        return;
    }
    let shown = match spec[NAME].as_str() {
        None => "nil",
        Some("") => "empty string",
        Some(_) => return,
    };
    let detail =
        format!("update to {shown} is forbidden when status.currentVolumeAttributesClassName is not nil");
    causes.push(field::forbidden(&field::child("spec", NAME), &detail));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(old: &Value, new: &Value) -> Vec<String> {
        let mut causes = Causes::default();
        validate(new, Some(old), &mut causes);
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    /// Returns a claim with further members of its specification.
    fn claim(members: &Value, phase: &str) -> Value {
        let mut claim = json!({
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}},
            "status": {"phase": phase, "capacity": {"storage": "1Gi"}},
        });
        for (name, value) in members.as_object().into_iter().flatten() {
            claim["spec"][name] = value.clone();
        }
        claim
    }

    #[test]
    fn volume_and_class_can_be_set_once() {
        for phase in ["Pending", "Bound"] {
            for (before, after, is_valid) in [
                (json!({}), json!({"volumeName": "v", "storageClassName": "c"}), true),
                (json!({"volumeName": ""}), json!({}), true),
                (json!({"volumeName": "v"}), json!({"volumeName": "w"}), false),
                (json!({"volumeName": "v"}), json!({}), false),
                (json!({"storageClassName": "c"}), json!({"storageClassName": ""}), false),
                (json!({"storageClassName": ""}), json!({"storageClassName": "c"}), false),
                (json!({"storageClassName": "c"}), json!({}), false),
            ] {
                let found = problems(&claim(&before, phase), &claim(&after, phase));
                let expected = if is_valid { vec![] } else { vec![format!("spec: Forbidden: {IMMUTABLE}")] };
                assert_eq!(found, expected, "{phase}: {before} -> {after}");
            }
        }
    }

    #[test]
    fn class_can_move_from_the_annotation_to_the_field() {
        let mut old = claim(&json!({}), "Pending");
        old["metadata"] = json!({"annotations": {CLASS_ANNOTATION: "c"}});
        assert_eq!(problems(&old, &claim(&json!({"storageClassName": "c"}), "Pending")), [""; 0]);
        let found = problems(&old, &claim(&json!({"storageClassName": "d"}), "Pending"));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("metadata.annotations.volume.beta.kubernetes.io/storage-class: "));
    }

    #[test]
    fn bound_claim_cannot_shrink_to_its_capacity() {
        let sized = |size: &str| claim(&json!({"resources": {"requests": {"storage": size}}}), "Bound");
        assert_eq!(problems(&sized("2Gi"), &sized("1.5Gi")), [""; 0]);
        assert_eq!(
            problems(&sized("2Gi"), &sized("1Gi")),
            ["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"]
        );
    }

    #[test]
    fn sources_are_complete_and_match() {
        let found = |members: &Value| {
            let mut causes = Causes::default();
            validate(&claim(members, "Pending"), None, &mut causes);
            causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect::<Vec<_>>()
        };
        let source = json!({"kind": "PersistentVolumeClaim", "name": "a"});
        assert_eq!(found(&json!({"dataSource": source, "dataSourceRef": source})), [""; 0]);
        assert_eq!(
            found(&json!({"dataSource": {"kind": "Pod"}})),
            [
                "spec.dataSource.name: Required value",
                "spec.dataSource: Invalid value: \"Pod\": must be 'PersistentVolumeClaim' when referencing the default apiGroup"
            ]
        );
        let other = json!({"kind": "PersistentVolumeClaim", "name": "b"});
        assert_eq!(
            found(&json!({"dataSource": source, "dataSourceRef": other})),
            ["spec: Invalid value: {}: must match dataSourceRef"]
        );
        assert_eq!(found(&json!({"volumeAttributesClassName": "A b"})).len(), 1);
    }
}
