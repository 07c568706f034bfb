//! The remaining content of a namespace that is being deleted, and the status conditions that report it, as in
//! `k8s.io/kubernetes/pkg/controller/namespace/deletion`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::meta;
use crate::storage::StoredObject;

/// What remains in a namespace after its objects were deleted.
#[derive(Debug, Default)]
pub(super) struct RemainingContent {
    /// The number of objects by `PLURAL.GROUP`.
    objects: BTreeMap<String, usize>,
    /// The number of objects by finalizer.
    finalizers: BTreeMap<String, usize>,
    /// The errors of failed deletions.
    pub failures: Vec<String>,
}

impl RemainingContent {
    /// Adds the remaining objects of one resource.
    pub(super) fn add(&mut self, resource: String, objects: &[Arc<StoredObject>]) {
        if objects.is_empty() {
            return;
        }
        self.objects.insert(resource, objects.len());
        for finalizer in objects.iter().flat_map(|object| meta::finalizers(&object.value())) {
            *self.finalizers.entry(finalizer).or_default() += 1;
        }
    }

    /// Whether no objects remain.
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Sets the conditions of a namespace's status; `now` is the transition time of those that change.
    pub(super) fn set_conditions(&self, status: &mut Value, now: &str) {
        let list = |counts: &BTreeMap<String, usize>, verb: &str| {
            let counts = counts.iter();
            counts
                .map(|(name, n)| format!("{name} {verb} {n} resource instances"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        set_condition(
            status,
            now,
            "NamespaceDeletionContentFailure",
            (!self.failures.is_empty()).then(|| {
                (
                    "ContentDeletionFailed",
                    format!("Failed to delete all resource types: {}", self.failures.join(", ")),
                )
            }),
            ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
        );
        set_condition(
            status,
            now,
            "NamespaceContentRemaining",
            (!self.objects.is_empty()).then(|| {
                (
                    "SomeResourcesRemain",
                    format!("Some resources are remaining: {}", list(&self.objects, "has")),
                )
            }),
            ("ContentRemoved", "All content successfully removed"),
        );
        set_condition(
            status,
            now,
            "NamespaceFinalizersRemaining",
            (!self.finalizers.is_empty()).then(|| {
                let found = list(&self.finalizers, "in");
                (
                    "SomeFinalizersRemain",
                    format!("Some content in the namespace has finalizers remaining: {found}"),
                )
            }),
            ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
        );
    }
}

/// Sets one condition: true with the reason and message of `problem`, or false with those of `ok`.
fn set_condition(
    status: &mut Value,
    now: &str,
    kind: &str,
    problem: Option<(&'static str, String)>,
    ok: (&'static str, &'static str),
) {
    let state = if problem.is_some() { "True" } else { "False" };
    let (reason, message) = problem.unwrap_or_else(|| (ok.0, ok.1.to_owned()));
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    let found = conditions.iter().position(|condition| condition["type"] == kind);
    let index = found.unwrap_or_else(|| {
        conditions.push(json!({"type": kind}));
        conditions.len() - 1
    });
    let condition = &mut conditions[index];
    if condition["status"] != state {
        condition["status"] = state.into();
        condition["lastTransitionTime"] = now.into();
    }
    condition["reason"] = reason.into();
    condition["message"] = message.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
        let conditions = status["conditions"].as_array().expect("conditions");
        conditions.iter().find(|condition| condition["type"] == kind).expect(kind)
    }

    #[test]
    fn condition_keeps_its_transition_time_until_its_status_changes() {
        let mut remaining = RemainingContent::default();
        remaining.objects.insert("pods.".into(), 2);
        remaining.finalizers.insert("a.io/b".into(), 1);
        remaining.failures.push("no".into());
        let mut status = json!({"phase": "Terminating"});
        remaining.set_conditions(&mut status, "then");
        assert_eq!(
            condition(&status, "NamespaceFinalizersRemaining")["message"],
            "Some content in the namespace has finalizers remaining: a.io/b in 1 resource instances"
        );
        assert_eq!(condition(&status, "NamespaceDeletionContentFailure")["status"], "True");
        remaining.finalizers.clear();
        remaining.objects.insert("pods.".into(), 1);
        remaining.set_conditions(&mut status, "now");
        let content = condition(&status, "NamespaceContentRemaining");
        assert_eq!(content["message"], "Some resources are remaining: pods. has 1 resource instances");
        assert_eq!(content["lastTransitionTime"], "then");
        let finalizers = condition(&status, "NamespaceFinalizersRemaining");
        assert_eq!(
            (&finalizers["status"], &finalizers["lastTransitionTime"]),
            (&json!("False"), &json!("now"))
        );
        assert_eq!(status["conditions"].as_array().map(Vec::len), Some(3));
    }
}
