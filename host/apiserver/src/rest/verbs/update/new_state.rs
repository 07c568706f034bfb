//! Completes the new state of an object: what an update of its target may change, and the generation.

use pilothouse_model::hash::HashSet;
use serde_json::{Value, json};

use super::UpdateTarget;
use crate::meta;
use crate::registry::Endpoint;
use crate::rest::kinds::{pods, strategy};
use crate::schema::field;
use crate::state::State;
use crate::status::Cause;

/// Completes the new state, whose unknown fields and defaults were handled before. Returns what is invalid beyond its schema.
pub(in crate::rest) fn prepare(
    state: &State,
    endpoint: &Endpoint,
    target: UpdateTarget,
    old: &Value,
    new: &mut Value,
) -> Vec<Cause> {
    if target == UpdateTarget::Status && endpoint.is_core("pods") {
        // As in Kubernetes, a Pod's status cannot mark it as being deleted.
        meta::metadata_mut(new).remove("deletionTimestamp");
    }
    let mut causes = check_added_finalizers(old, new);
    causes.extend(changed_metadata(old, new));
    // kube-apiserver validates the metadata of every update twice, and lists each cause twice.
    causes.extend(causes.clone());
    meta::keep_server_fields(old, new);
    keep_fields_outside_target(endpoint, target, old, new);
    if !matches!(target, UpdateTarget::Finalize | UpdateTarget::Scale) {
        causes.extend(strategy::prepare_update(state, endpoint, target, old, new));
    }
    if !matches!(target, UpdateTarget::Status | UpdateTarget::Approval | UpdateTarget::Binding)
        && increments_generation(endpoint, old, new)
    {
        meta::metadata_mut(new).insert("generation".into(), json!(meta::generation(old) + 1));
    }
    causes
}

/// Restores the fields of the old state that an update of this target does not change.
fn keep_fields_outside_target(endpoint: &Endpoint, target: UpdateTarget, old: &Value, new: &mut Value) {
    match target {
        UpdateTarget::Object | UpdateTarget::Scale => {
            if endpoint.has_status {
                copy_field(old, new, "status");
            }
        }
        UpdateTarget::Binding => {}
        UpdateTarget::EphemeralContainers | UpdateTarget::Resize => {
            let managed = new["metadata"]["managedFields"].take();
            let mut merged = old.clone();
            match target {
                UpdateTarget::Resize => pods::copy_resources(new, &mut merged),
                _ => pods::copy_ephemeral_containers(new, &mut merged),
            }
            if !managed.is_null() {
                meta::metadata_mut(&mut merged).insert("managedFields".into(), managed);
            }
            *new = merged;
        }
        // As in Kubernetes, the metadata of a Namespace may change with its finalizers.
        UpdateTarget::Finalize => copy_field(old, new, "status"),
        UpdateTarget::Status | UpdateTarget::Approval => {
            let managed = new["metadata"]["managedFields"].take();
            let mut merged = old.clone();
            merged["metadata"] = strategy::metadata_of_status_update(endpoint, old, new);
            copy_field(new, &mut merged, "status");
            if !managed.is_null() {
                meta::metadata_mut(&mut merged).insert("managedFields".into(), managed);
            }
            *new = merged;
        }
    }
}

/// Copies a top-level field, or removes it if `from` does not have it.
fn copy_field(from: &Value, to: &mut Value, field: &str) {
    let Some(target) = to.as_object_mut() else { return };
    match from.get(field) {
        Some(value) => drop(target.insert(field.into(), value.clone())),
        None => drop(target.remove(field)),
    }
}

/// Whether a change increments `metadata.generation`.
fn increments_generation(endpoint: &Endpoint, old: &Value, new: &Value) -> bool {
    let custom = endpoint.resource.custom.is_some();
    if !custom && !endpoint.resource.strategy.tracks_generation {
        return false;
    }
    let ignored = |name: &str| name == "metadata" || (name == "status" && (endpoint.has_status || !custom));
    let differs = |a: &Value, b: &Value| {
        a.as_object().into_iter().flatten().any(|(name, value)| !ignored(name) && b.get(name) != Some(value))
    };
    differs(old, new) || differs(new, old) || metadata_increments_generation(endpoint, old, new)
}

/// Whether a change of the metadata increments the generation: that of a Deployment's annotations, which it passes on to its `ReplicaSets`, and that
/// of an `EndpointSlice`'s labels.
fn metadata_increments_generation(endpoint: &Endpoint, old: &Value, new: &Value) -> bool {
    let field = match (endpoint.resource.group.as_str(), endpoint.resource.names.plural.as_str()) {
        ("apps", "deployments") => "annotations",
        ("discovery.k8s.io", "endpointslices") => "labels",
        _ => return false,
    };
    let entries =
        |object: &Value| object["metadata"][field].as_object().filter(|map| !map.is_empty()).cloned();
    entries(old) != entries(new)
}

/// Rejects an update that makes an object one that is being deleted. Other metadata that a client cannot change is ignored.
fn changed_metadata(old: &Value, new: &Value) -> Vec<Cause> {
    let changed = |field: &&str| old["metadata"][*field].is_null() && !new["metadata"][*field].is_null();
    let fields = ["deletionTimestamp", "deletionGracePeriodSeconds"].into_iter().filter(changed);
    fields
        .map(|name| {
            let path = field::child("metadata", name);
            field::invalid(&path, &new["metadata"][name], "field is immutable")
        })
        .collect()
}

/// Rejects new finalizers on an object that is being deleted.
fn check_added_finalizers(old: &Value, new: &Value) -> Vec<Cause> {
    if old["metadata"].get("deletionTimestamp").is_none() {
        return Vec::new();
    }
    let before: HashSet<String> = meta::finalizers(old).into_iter().collect();
    let added: Vec<String> =
        meta::finalizers(new).into_iter().filter(|finalizer| !before.contains(finalizer)).collect();
    if added.is_empty() {
        return Vec::new();
    }
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        added.iter().map(|finalizer| format!("{finalizer:?}")).collect::<Vec<_>>().join(", ")
    );
    vec![field::forbidden("metadata.finalizers", &detail)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finalizers_can_be_removed_but_not_added_during_deletion() {
        let old = json!({"metadata": {"deletionTimestamp": "t", "finalizers": ["a/b", "c/d"]}});
        assert!(check_added_finalizers(&old, &json!({"metadata": {"finalizers": ["c/d"]}})).is_empty());
        assert_eq!(check_added_finalizers(&old, &json!({"metadata": {"finalizers": ["e/f"]}})).len(), 1);
    }
}
