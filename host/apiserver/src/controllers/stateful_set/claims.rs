//! The PersistentVolumeClaims of a StatefulSet's Pods, and `spec.persistentVolumeClaimRetentionPolicy`.
//!
//! A claim that is deleted with the StatefulSet or with its Pod has an owner reference to it. The garbage collector does the rest.

use serde_json::{Value, json};

use super::super::action::Action;
use super::super::kind::Kind;
use super::super::object::{items, key, owner_reference};
use crate::meta;

/// Returns the name of the claim of a template for a Pod.
pub(super) fn name(template: &Value, pod_name: &str) -> String {
    format!("{}-{pod_name}", meta::text(template, "name"))
}

/// Returns the names of the claims of a Pod.
pub(super) fn names(set: &Value, pod_name: &str) -> impl Iterator<Item = String> {
    items(&set["spec"]["volumeClaimTemplates"]).iter().map(move |template| name(template, pod_name))
}

/// Returns the claim of a template for a Pod.
pub(super) fn new_claim(set: &Value, template: &Value, pod_name: &str) -> Value {
    let mut claim = template.clone();
    claim["apiVersion"] = "v1".into();
    claim["kind"] = "PersistentVolumeClaim".into();
    claim["metadata"]["name"] = name(template, pod_name).into();
    claim["metadata"]["namespace"] = meta::text(set, "namespace").into();
    for (label, value) in set["spec"]["selector"]["matchLabels"].as_object().into_iter().flatten() {
        claim["metadata"]["labels"][label] = value.clone();
    }
    if let Some(claim) = claim.as_object_mut() {
        claim.remove("status");
    }
    claim
}

/// Mounts the claims of a Pod in the place of its volumes of the same names.
pub(super) fn mount(set: &Value, pod: &mut Value) {
    let pod_name = meta::text(pod, "name").to_owned();
    for template in items(&set["spec"]["volumeClaimTemplates"]) {
        let template_name = meta::text(template, "name");
        let claim_name = name(template, &pod_name);
        let volume = json!({"name": template_name, "persistentVolumeClaim": {"claimName": claim_name}});
        let mut volumes: Vec<Value> = items(&pod["spec"]["volumes"]).to_vec();
        volumes.retain(|known| known["name"] != template_name);
        volumes.push(volume);
        pod["spec"]["volumes"] = volumes.into();
    }
}

/// Whether claims are deleted when their Pod is scaled down.
fn is_deleted_when_scaled(set: &Value) -> bool {
    set["spec"]["persistentVolumeClaimRetentionPolicy"]["whenScaled"] == "Delete"
}

/// Whether claims are deleted with the StatefulSet.
fn is_deleted_with_set(set: &Value) -> bool {
    set["spec"]["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Delete"
}

/// Whether a claim is about to be deleted with an earlier Pod of that name, so that a new Pod has to wait.
pub(super) fn is_stale(set: &Value, pod_name: &str, claim: &Value) -> bool {
    is_deleted_when_scaled(set)
        && items(&claim["metadata"]["ownerReferences"])
            .iter()
            .any(|owner| refers_to(owner, Kind::Pod, pod_name))
}

/// Returns the write that gives a claim the owner that the policy wants, if it has another one. `is_condemned` says whether the Pod is scaled down.
///
/// A claim that something else controls, or that earlier objects of the same names own, is left to them.
pub(super) fn set_owner(set: &Value, pod: &Value, is_condemned: bool, claim: &Value) -> Option<Action> {
    let members = [(Kind::StatefulSet, set), (Kind::Pod, pod)];
    let owners = items(&claim["metadata"]["ownerReferences"]);
    let is_own = |owner: &&Value| {
        members.iter().any(|(kind, member)| refers_to(owner, *kind, meta::text(member, "name")))
    };
    let has_uid =
        |owner: &&Value| members.iter().any(|(_, member)| owner["uid"] == meta::text(member, "uid"));
    if owners.iter().filter(is_own).any(|owner| !has_uid(&owner)) {
        return None;
    }
    let is_managed = is_deleted_when_scaled(set) || is_deleted_with_set(set);
    let is_foreign = owners.iter().filter(|owner| !is_own(owner)).any(|owner| owner["controller"] == true);
    let wanted = if is_managed && is_foreign {
        None
    } else if is_condemned && is_deleted_when_scaled(set) {
        Some(owner_reference(Kind::Pod, pod))
    } else if is_deleted_with_set(set) {
        Some(owner_reference(Kind::StatefulSet, set))
    } else {
        None
    };
    let present: Vec<&Value> = owners.iter().filter(is_own).collect();
    if present == wanted.iter().collect::<Vec<_>>() {
        return None;
    }
    let references: Vec<Value> =
        owners.iter().filter(|owner| !is_own(owner)).cloned().chain(wanted).collect();
    let references = if references.is_empty() { Value::Null } else { references.into() };
    let patch = json!({"metadata": {"ownerReferences": references}});
    Some(Action::Patch(Kind::PersistentVolumeClaim, key(claim), patch))
}

fn refers_to(owner: &Value, kind: Kind, name: &str) -> bool {
    owner["apiVersion"] == kind.api_version() && owner["kind"] == kind.name() && owner["name"] == name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(scaled: &str, deleted: &str) -> Value {
        json!({
            "metadata": {"name": "db", "namespace": "n", "uid": "set"},
            "spec": {"persistentVolumeClaimRetentionPolicy": {"whenScaled": scaled, "whenDeleted": deleted}},
        })
    }

    fn claim(owners: &Value) -> Value {
        json!({"metadata": {"name": "data-db-0", "namespace": "n", "ownerReferences": owners}})
    }

    /// Returns the kinds of the owners that are written, `None` if nothing is.
    fn written(set: &Value, is_condemned: bool, claim: &Value) -> Option<Vec<String>> {
        let pod = json!({"metadata": {"name": "db-0", "namespace": "n", "uid": "pod"}});
        let Action::Patch(_, _, patch) = set_owner(set, &pod, is_condemned, claim)? else {
            panic!("a patch")
        };
        let owners = items(&patch["metadata"]["ownerReferences"]).iter();
        Some(owners.map(|owner| owner["kind"].as_str().unwrap_or_default().to_owned()).collect())
    }

    #[test]
    fn owner_follows_the_policy_and_the_scale() {
        let free = claim(&json!([]));
        let owner = |scaled: &str, deleted: &str, is_condemned: bool| {
            written(&set(scaled, deleted), is_condemned, &free).unwrap_or_default().join(",")
        };
        assert_eq!(owner("Retain", "Retain", true), "");
        assert_eq!(
            (owner("Retain", "Delete", false), owner("Retain", "Delete", true)),
            ("StatefulSet".into(), "StatefulSet".into())
        );
        assert_eq!(
            (owner("Delete", "Retain", false), owner("Delete", "Retain", true)),
            (String::new(), "Pod".into())
        );
        assert_eq!(
            (owner("Delete", "Delete", false), owner("Delete", "Delete", true)),
            ("StatefulSet".into(), "Pod".into())
        );
    }

    #[test]
    fn owners_that_are_right_are_not_written() {
        let both = set("Delete", "Delete");
        let owned = claim(&json!([owner_reference(Kind::StatefulSet, &both)]));
        assert_eq!(written(&both, false, &owned), None);
        assert_eq!(written(&both, true, &owned), Some(vec!["Pod".to_owned()]));
        assert_eq!(written(&set("Retain", "Retain"), false, &owned), Some(Vec::new()));
    }

    #[test]
    fn claims_of_others_are_left_to_them() {
        let both = set("Delete", "Delete");
        let earlier = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "earlier"});
        assert_eq!(written(&both, false, &claim(&json!([earlier]))), None);
        let foreign = json!({"apiVersion": "v1", "kind": "Foo", "name": "f", "uid": "f", "controller": true});
        assert_eq!(written(&both, false, &claim(&json!([foreign]))), None);
    }

    #[test]
    fn claim_of_an_earlier_pod_is_stale_when_scaling_deletes_claims() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "name": "db-0", "uid": "earlier"});
        let claim = claim(&json!([pod]));
        assert!(is_stale(&set("Delete", "Retain"), "db-0", &claim));
        assert!(!is_stale(&set("Retain", "Delete"), "db-0", &claim));
        assert!(!is_stale(&set("Delete", "Retain"), "db-1", &claim));
    }
}
