//! *foreign change undone*: an update without a resource version reverts what another client wrote in between, or a write
//! removes a finalizer of somebody else.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Description, Judgement, Oracle, Reference, Violation};
use crate::analysis::{ObjectId, RunView};
use crate::run::RequestEvent;

pub(super) const DESCRIPTION: Description = Description {
    name: "foreign change undone",
    reports: "an update without a resource version restores what another client had just changed, in a field that the plugin does not change in \
              the reference; or a write removes a finalizer that the plugin never added",
    premise: "A field or finalizer of another client is not the plugin's to change. Resource versions, patches and server-side apply avoid it. \
              Not judged: fields and finalizers that the plugin also changes without faults.",
};

/// The oracle.
#[derive(Debug)]
pub(super) struct ForeignChangeUndone;

/// The finalizers and fields that a plugin changes: resource, and finalizer or JSON pointer.
#[derive(Clone, Debug, Default)]
pub(super) struct Own {
    added_finalizers: BTreeSet<(String, String)>,
    removed_finalizers: BTreeSet<(String, String)>,
    fields: BTreeSet<(String, String)>,
}

impl Oracle for ForeignChangeUndone {
    fn name(&self) -> &str {
        DESCRIPTION.name
    }

    fn judge(&self, run: &RunView<'_>, reference: Option<&Reference>) -> Judgement {
        let Some(reference) = reference else { return Judgement::without_subject() };
        let expected = reference.own_changes();
        let added = Own::of(run).added_finalizers;
        let mut judgement = Judgement::without_subject();
        let mut last: BTreeMap<ObjectId, &RequestEvent> = BTreeMap::new();
        for (index, _, request) in run.requests().filter(|(_, _, request)| request.is_effective()) {
            if request.is_by_plugin() {
                let previous =
                    last.get(&request.object_id()).copied().filter(|previous| !previous.is_by_plugin());
                let undone = previous.and_then(|previous| {
                    judgement.had_subject = true;
                    undone_field(previous, request, expected)
                });
                let removed = removed_finalizer(request, expected, &added);
                judgement.had_subject |= !finalizers(request.before.as_deref()).is_empty();
                let id = run.names.canonical_id(&request.object_id());
                let texts = [
                    undone.map(|pointer| {
                        format!("the plugin's update of {id} restored {pointer}, which another client had just changed")
                    }),
                    removed.map(|name| {
                        format!("the plugin's {} of {id} removed the finalizer {name}, which it never added", request.verb)
                    }),
                ];
                judgement.violations.extend(
                    texts.into_iter().flatten().map(|text| Violation::new(self, &id, Some(index), text)),
                );
            }
            last.insert(request.object_id(), request);
        }
        judgement
    }
}

impl Own {
    /// Finds what the plugins change in a run.
    pub(super) fn of(run: &RunView<'_>) -> Self {
        let mut own = Self::default();
        for (_, request) in run.effective_writes() {
            let (before, after) =
                (finalizers(request.before.as_deref()), finalizers(request.after.as_deref()));
            let named = |name: &&str| (request.resource.clone(), (*name).to_owned());
            own.added_finalizers.extend(after.difference(&before).map(named));
            own.removed_finalizers.extend(before.difference(&after).map(named));
            for pointer in changed_pointers(request.before.as_deref(), request.after.as_deref()) {
                own.fields.insert((request.resource.clone(), pointer));
            }
        }
        own
    }
}

fn finalizers(object: Option<&Value>) -> BTreeSet<&str> {
    let list = object.and_then(|object| object["metadata"]["finalizers"].as_array());
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn removed_finalizer(
    request: &RequestEvent,
    expected: &Own,
    added: &BTreeSet<(String, String)>,
) -> Option<String> {
    let (before, after) = (finalizers(request.before.as_deref()), finalizers(request.after.as_deref()));
    if request.is_effective_delete() {
        return None;
    }
    before.difference(&after).map(|name| (request.resource.clone(), (*name).to_owned())).find_map(|pair| {
        let is_own = added.contains(&pair)
            || expected.added_finalizers.contains(&pair)
            || expected.removed_finalizers.contains(&pair);
        (!is_own).then_some(pair.1)
    })
}

/// Returns a field that another client changed and that the plugin's update restored.
fn undone_field(previous: &RequestEvent, update: &RequestEvent, expected: &Own) -> Option<String> {
    let body = update.body.as_ref()?;
    let has_version = body["metadata"]["resourceVersion"].as_str().is_some_and(|version| !version.is_empty());
    if update.verb != "update" || has_version || previous.after != update.before {
        return None;
    }
    let (older, foreign) = (previous.before.as_deref()?, previous.after.as_deref()?);
    let after = update.after.as_deref()?;
    changed_pointers(Some(older), Some(foreign)).into_iter().find(|pointer| {
        !pointer.starts_with("/status")
            && !expected.fields.contains(&(update.resource.clone(), pointer.clone()))
            && after.pointer(pointer) == older.pointer(pointer)
    })
}

/// Returns the pointers of the leaves that differ, without those that the server sets.
fn changed_pointers(before: Option<&Value>, after: Option<&Value>) -> Vec<String> {
    fn walk(before: &Value, after: &Value, pointer: &str, depth: usize, found: &mut Vec<String>) {
        const SERVER: [&str; 6] = [
            "/metadata/resourceVersion",
            "/metadata/generation",
            "/metadata/managedFields",
            "/metadata/finalizers",
            "/metadata/deletionTimestamp",
            "/metadata/deletionGracePeriodSeconds",
        ];
        if before == after || depth > 100 || SERVER.contains(&pointer) {
            return;
        }
        match (before.as_object(), after.as_object()) {
            (None, None) => found.push(pointer.to_owned()),
            (before, after) => {
                let members = |map: Option<&serde_json::Map<String, Value>>| -> Vec<String> {
                    map.into_iter().flat_map(|map| map.keys().cloned()).collect()
                };
                let names: BTreeSet<_> = members(before).into_iter().chain(members(after)).collect();
                for name in names {
                    let member = |map: Option<&serde_json::Map<String, Value>>| {
                        map.and_then(|map| map.get(&name)).cloned().unwrap_or(Value::Null)
                    };
                    let pointer = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
                    walk(&member(before), &member(after), &pointer, depth + 1, found);
                }
            }
        }
    }
    let mut found = Vec::new();
    if let (Some(before), Some(after)) = (before, after) {
        walk(before, after, "", 0, &mut found);
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{RunBuilder, judge};

    fn run(interferes: bool, version: Option<&str>, finalizers: &[&str]) -> crate::Run {
        let mut run = RunBuilder::new();
        let object = |note: &str, size: u32| json!({"metadata": {"finalizers": ["other/guard"], "annotations": {"note": note}}, "size": size});
        run.actor("user", "create", "configmaps", "a/x", Some(object("old", 1)));
        run.start("a/x");
        if interferes {
            run.actor("other", "patch", "configmaps", "a/x", Some(object("new", 1)));
        }
        let mut updated = object("old", 2);
        updated["metadata"]["finalizers"] = json!(finalizers);
        let request = run.write("update", "configmaps", "a/x", Some(updated));
        let body = request.body.as_mut().expect("a body");
        body["metadata"]["resourceVersion"] = json!(version);
        run.finish()
    }

    #[test]
    fn an_update_without_a_version_that_restores_a_field_is_reported() {
        let plain = run(false, None, &["other/guard"]);
        let reference = Reference::new(&plain, &plain);
        let bad = judge(&ForeignChangeUndone, &run(true, None, &["other/guard"]), Some(&reference));
        assert!(bad.violations[0].explanation.contains("/metadata/annotations/note"));
        let good = judge(&ForeignChangeUndone, &run(true, Some("7"), &["other/guard"]), Some(&reference));
        assert!(good.had_subject && good.violations.is_empty());
    }

    #[test]
    fn a_field_that_the_plugin_changes_anyway_is_its_own() {
        let reverting = run(true, None, &["other/guard"]);
        let reference = Reference::new(&reverting, &reverting);
        assert_eq!(judge(&ForeignChangeUndone, &reverting, Some(&reference)).violations, []);
    }

    #[test]
    fn removing_a_foreign_finalizer_is_reported() {
        let plain = run(false, None, &["other/guard"]);
        let reference = Reference::new(&plain, &plain);
        let bad = judge(&ForeignChangeUndone, &run(false, None, &[]), Some(&reference));
        assert!(bad.violations[0].explanation.contains("other/guard"));
        let removing = run(false, None, &[]);
        let reference = Reference::new(&removing, &removing);
        assert_eq!(judge(&ForeignChangeUndone, &run(false, None, &[]), Some(&reference)).violations, []);
    }
}
