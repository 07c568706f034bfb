//! Defaults and status of CRDs: accepted names, stored versions and conditions.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{CLEANUP_FINALIZER, approval, conversion};
use crate::meta;
use crate::state::State;

/// Sets the defaults and the status of a CRD that is about to be written. `old` is the stored CRD on updates, `now` the
/// time of new condition transitions.
pub(crate) fn prepare(state: &State, crd: &mut Value, old: Option<&Value>, now: &str) {
    let names = &mut crd["spec"]["names"];
    let kind = names["kind"].as_str().unwrap_or_default().to_owned();
    if names["singular"].as_str().is_none_or(str::is_empty) {
        names["singular"] = kind.to_lowercase().into();
    }
    if names["listKind"].as_str().is_none_or(str::is_empty) && !kind.is_empty() {
        names["listKind"] = format!("{kind}List").into();
    }
    let names = names.clone();
    if crd["spec"]["conversion"].is_null() {
        crd["spec"]["conversion"] = json!({"strategy": "None"});
    }
    let conflict = name_conflict(state, crd);
    let old_status = old.map(|old| old["status"].clone()).unwrap_or_default();
    let accepted = if conflict.is_none() { names } else { old_status["acceptedNames"].clone() };
    crd["status"] = json!({
        "acceptedNames": accepted,
        "storedVersions": stored_versions(crd, &old_status),
        "conditions": conditions(crd, conflict, &old_status, now),
    });
    if crd["status"]["acceptedNames"].is_null() {
        crd["status"]["acceptedNames"] = json!({"kind": "", "plural": ""});
    }
    if let Some(spec) = crd["spec"].as_object_mut() {
        spec.retain(|_, value| !value.is_null());
    }
}

/// Returns the reason and message of the condition `NamesAccepted` if another CRD or a built-in kind of the group uses
/// one of the names. The last of several conflicts wins, as in
/// `k8s.io/apiextensions-apiserver/pkg/controller/status/naming_controller.go`.
fn name_conflict(state: &State, crd: &Value) -> Option<(&'static str, String)> {
    let registry = state.registry();
    let (spec, crd_name) = (&crd["spec"], meta::text(crd, "name"));
    let group = registry.groups().get(spec["group"].as_str().unwrap_or_default())?;
    let others = group
        .versions
        .iter()
        .flat_map(|version| version.endpoints.values())
        .filter(|endpoint| endpoint.resource.custom.as_ref().is_none_or(|custom| custom.crd != crd_name));
    let (mut resources, mut kinds) = (BTreeSet::new(), BTreeSet::new());
    for endpoint in others {
        let names = &endpoint.resource.names;
        resources.extend([&names.plural, &names.singular].into_iter().chain(&names.short).cloned());
        kinds.extend([names.kind.clone(), names.list_kind.clone()]);
    }
    let names = &spec["names"];
    let single = |property: &'static str| std::slice::from_ref(&names[property]);
    let short_names = names["shortNames"].as_array().map_or(&[][..], Vec::as_slice);
    let checks = [
        ("PluralConflict", single("plural"), &resources),
        ("SingularConflict", single("singular"), &resources),
        ("ShortNamesConflict", short_names, &resources),
        ("KindConflict", single("kind"), &kinds),
        ("ListKindConflict", single("listKind"), &kinds),
    ];
    checks.into_iter().rev().find_map(|(reason, requested, in_use)| {
        let name = requested.iter().filter_map(Value::as_str).find(|name| in_use.contains(*name))?;
        Some((reason, format!("{name:?} is already in use")))
    })
}

/// Returns `status.storedVersions`: the versions that objects were ever stored in. A status update may remove versions
/// other than the storage version.
fn stored_versions(crd: &Value, old_status: &Value) -> Value {
    let mut stored: Vec<Value> = old_status["storedVersions"].as_array().cloned().unwrap_or_default();
    let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    for version in versions.filter(|version| version["storage"] == true) {
        if !stored.contains(&version["name"]) {
            stored.push(version["name"].clone());
        }
    }
    Value::Array(stored)
}

/// Returns the conditions, with `NamesAccepted`, `Established` and that of the approval updated. An established CRD stays established.
fn conditions(crd: &Value, conflict: Option<(&'static str, String)>, old_status: &Value, now: &str) -> Value {
    let established = conversion::is_established(old_status);
    let updates = match conflict {
        None if !established && conversion::has_invalid_bundle(crd) => [
            ("NamesAccepted", "True", "NoConflicts", "no conflicts found".to_owned()),
            (
                "Established",
                "False",
                "InvalidCABundle",
                "The conversion webhook CABundle is invalid".to_owned(),
            ),
        ],
        None => [
            ("NamesAccepted", "True", "NoConflicts", "no conflicts found".to_owned()),
            (
                "Established",
                "True",
                "InitialNamesAccepted",
                "the initial names have been accepted".to_owned(),
            ),
        ],
        Some((reason, message)) => {
            let status = if established { "True" } else { "False" };
            let (established_reason, established_message) = if established {
                ("InitialNamesAccepted", "the initial names have been accepted")
            } else {
                ("NotAccepted", "not all names are accepted")
            };
            [
                ("NamesAccepted", "False", reason, message),
                ("Established", status, established_reason, established_message.to_owned()),
            ]
        }
    };
    let mut conditions = old_status["conditions"].as_array().cloned().unwrap_or_default();
    for (ty, status, reason, message) in updates {
        set_condition(&mut conditions, ty, status, reason, &message, now);
    }
    if let Some((status, reason, message)) = approval::condition(crd) {
        set_condition(&mut conditions, approval::CONDITION, status, reason, &message, now);
    }
    Value::Array(conditions)
}

/// Sets a condition. `lastTransitionTime` changes only with the condition's status.
fn set_condition(
    conditions: &mut Vec<Value>,
    ty: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: &str,
) {
    let index = conditions.iter().position(|condition| condition["type"] == ty);
    let transition_time = index
        .map(|index| &conditions[index])
        .filter(|condition| condition["status"] == status)
        .and_then(|condition| condition["lastTransitionTime"].as_str())
        .unwrap_or(now);
    let condition = json!({
        "type": ty, "status": status, "reason": reason, "message": message, "lastTransitionTime": transition_time,
    });
    match index {
        Some(index) => conditions[index] = condition,
        None => conditions.push(condition),
    }
}

/// Adds the cleanup finalizer and the condition `Terminating` to a CRD that is being deleted. A CRD without custom resources is
/// left as it is if no controller finishes its deletion later.
pub(crate) fn mark_deleting(state: &State, crd: &mut Value) {
    let group = crd["spec"]["group"].as_str().unwrap_or_default();
    let plural = crd["spec"]["names"]["plural"].as_str().unwrap_or_default();
    let endpoint = state.registry().preferred_endpoints().into_iter().find(|endpoint| {
        endpoint.group == group
            && endpoint.resource.names.plural == plural
            && endpoint.resource.custom.as_ref().is_some_and(|custom| custom.crd == meta::text(crd, "name"))
    });
    let is_empty = endpoint.is_none_or(|endpoint| endpoint.resource.table.count(None) == 0);
    if is_empty && !state.crds_finalized_later() {
        return;
    }
    let mut finalizers = meta::finalizers(crd);
    if !finalizers.iter().any(|finalizer| finalizer == CLEANUP_FINALIZER) {
        finalizers.push(CLEANUP_FINALIZER.into());
    }
    meta::set_finalizers(crd, finalizers);
    let now = state.now();
    let status =
        crd.as_object_mut().map(|crd| crd.entry("status").or_insert_with(|| Value::Object(Map::new())));
    if let Some(status) = status {
        let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let message = "CustomResourceDefinition marked for deletion; CustomResource deletion is in progress";
        set_condition(&mut conditions, "Terminating", "True", "InstanceDeletionPending", message, &now);
        status["conditions"] = Value::Array(conditions);
    }
}
