use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::CLEANUP;
use crate::meta;
use crate::state::State;

/// Fills in what a CRD leaves out, and its status: accepted names, stored versions, conditions.
pub(crate) fn prepare(state: &State, crd: &mut Value, old: Option<&Value>, now: &str) {
    let names = &mut crd["spec"]["names"];
    let kind = names["kind"].as_str().unwrap_or_default().to_owned();
    if names["singular"].as_str().is_none_or(str::is_empty) {
        names["singular"] = kind.to_lowercase().into();
    }
    if names["listKind"].as_str().is_none_or(str::is_empty) {
        names["listKind"] = format!("{kind}List").into();
    }
    let names = names.clone();
    if crd["spec"]["conversion"].is_null() {
        crd["spec"]["conversion"] = json!({"strategy": "None"});
    }
    let conflict = conflict(state, crd);
    let old_status = old.map(|old| old["status"].clone()).unwrap_or_default();
    let accepted = if conflict.is_none() { names } else { old_status["acceptedNames"].clone() };
    crd["status"] = json!({
        "acceptedNames": accepted,
        "storedVersions": stored_versions(crd, &old_status),
        "conditions": conditions(conflict, &old_status, now),
    });
    if crd["status"]["acceptedNames"].is_null() {
        crd["status"]["acceptedNames"] = json!({"kind": "", "plural": ""});
    }
    if let Some(spec) = crd["spec"].as_object_mut() {
        spec.retain(|_, value| !value.is_null());
    }
}

/// Why the names cannot be accepted, as reason and message: another CRD, or a built-in kind, of the group has one of
/// them. Of several reasons the last counts, as with Kubernetes.
fn conflict(state: &State, crd: &Value) -> Option<(&'static str, String)> {
    let registry = state.registry();
    let (spec, own) = (&crd["spec"], meta::text(crd, "name"));
    let group = registry.groups().get(spec["group"].as_str().unwrap_or_default())?;
    let others = group
        .versions
        .iter()
        .flat_map(|version| version.endpoints.values())
        .filter(|endpoint| endpoint.resource.custom.as_ref().is_none_or(|custom| custom.crd != own));
    let (mut resources, mut kinds) = (BTreeSet::new(), BTreeSet::new());
    for endpoint in others {
        let names = &endpoint.resource.names;
        resources.extend([&names.plural, &names.singular].into_iter().chain(&names.short).cloned());
        kinds.extend([names.kind.clone(), names.list_kind.clone()]);
    }
    let names = &spec["names"];
    let one = |name: &'static str| std::slice::from_ref(&names[name]);
    let short = names["shortNames"].as_array().map_or(&[][..], Vec::as_slice);
    let parts = [
        ("PluralConflict", one("plural"), &resources),
        ("SingularConflict", one("singular"), &resources),
        ("ShortNamesConflict", short, &resources),
        ("KindConflict", one("kind"), &kinds),
        ("ListKindConflict", one("listKind"), &kinds),
    ];
    parts.into_iter().rev().find_map(|(reason, wanted, taken)| {
        let name = wanted.iter().filter_map(Value::as_str).find(|name| taken.contains(*name))?;
        Some((reason, format!("{name:?} is already in use")))
    })
}

/// The versions that objects were ever stored in. A status update may shorten the list; the storage version stays.
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

fn conditions(conflict: Option<(&'static str, String)>, old_status: &Value, now: &str) -> Value {
    let established = old_status["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
    let wanted = match conflict {
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
            let why = if established { "InitialNamesAccepted" } else { "NotAccepted" };
            let text = if established {
                "the initial names have been accepted"
            } else {
                "not all names are accepted"
            };
            [("NamesAccepted", "False", reason, message), ("Established", status, why, text.to_owned())]
        }
    };
    let mut conditions = old_status["conditions"].as_array().cloned().unwrap_or_default();
    for (kind, status, reason, message) in wanted {
        set_condition(&mut conditions, kind, status, reason, &message, now);
    }
    Value::Array(conditions)
}

/// Sets a condition; its transition time moves only when its status does.
fn set_condition(
    conditions: &mut Vec<Value>,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: &str,
) {
    let found = conditions.iter().position(|condition| condition["type"] == kind);
    let since = found
        .map(|at| &conditions[at])
        .filter(|condition| condition["status"] == status)
        .and_then(|condition| condition["lastTransitionTime"].as_str())
        .unwrap_or(now);
    let condition = json!({
        "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since,
    });
    match found {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}

/// Marks a CRD that is being deleted: it goes when its objects have gone.
pub(crate) fn mark_deleting(state: &State, crd: &mut Value) {
    let group = crd["spec"]["group"].as_str().unwrap_or_default();
    let plural = crd["spec"]["names"]["plural"].as_str().unwrap_or_default();
    let served = state.registry().resources().into_iter().find(|endpoint| {
        endpoint.group == group
            && endpoint.resource.names.plural == plural
            && endpoint.resource.custom.as_ref().is_some_and(|custom| custom.crd == meta::text(crd, "name"))
    });
    if served.is_none_or(|endpoint| endpoint.resource.table.count(None) == 0) {
        return;
    }
    let mut finalizers = meta::finalizers(crd);
    if !finalizers.iter().any(|finalizer| finalizer == CLEANUP) {
        finalizers.push(CLEANUP.into());
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
