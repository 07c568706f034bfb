//! A generated object, and the steps of the user who writes it.

use std::collections::BTreeMap;

use pilothouse_model::LabelSelector;
use serde_json::{Value, json};

use super::status::Stage;
use super::watch_references::{self, Place};
use super::{GeneratedStep, ObjectAddress, WatchedKind, validate};
use crate::actor::{ActorWrite, Operation};
use crate::scenario::actor::{Step, StepAction};
use crate::scenario::manifest::Manifest;

/// The label that a step adds.
const LABEL: &str = "pilothouse.dev/simulated";

/// An object with its changes.
pub(super) struct Sample {
    pub(super) manifest: Manifest,
    /// Whether it was generated, and may be changed so that it names other objects.
    pub(super) is_generated: bool,
    /// Whether it has metadata of other clients.
    pub(super) is_marked: bool,
    /// Merge patches that change it, one after the other.
    pub(super) changes: Vec<Value>,
}

impl Sample {
    pub(super) fn new(manifest: Manifest, is_generated: bool) -> Self {
        Self { manifest, is_generated, is_marked: false, changes: Vec::new() }
    }

    /// Lets the object contain a text at a place, if its kind and the watch allow it.
    pub(super) fn contain(&mut self, watched: &WatchedKind, place: &Place, text: &str) {
        let schema = watched.kind.schema.as_ref();
        let changed = watch_references::with_text(&self.manifest.object, place, text, schema.is_some());
        let Some(changed) = changed else { return };
        let is_valid = schema.is_none_or(|schema| validate::validate(schema, &changed, None).is_ok());
        if is_valid && is_selected(&watched.label_selector, &changed) {
            self.manifest.object = changed;
        }
    }

    fn write(&self, operation: Operation) -> StepAction {
        let Manifest { resource, namespace, name, .. } = self.manifest.clone();
        let subresource = String::new();
        StepAction::Try(Box::new(ActorWrite { step: 0, resource, subresource, namespace, name, operation }))
    }

    fn step(&self, verb: &str, operation: Operation) -> Step {
        let title = format!("{verb} {} {}", self.manifest.resource.kind, self.manifest.name);
        Step { line: 0, title, action: self.write(operation) }
    }

    pub(super) fn create(&self, verb: &str) -> Step {
        self.step(verb, Operation::Create(self.manifest.object.clone()))
    }

    /// Returns a change by this merge patch.
    pub(super) fn change(&self, patch: &Value) -> Step {
        self.step("change", Operation::MergePatch(patch.clone()))
    }

    pub(super) fn delete(&self) -> Step {
        self.step("delete", Operation::Delete { propagation: None, uid: None })
    }

    /// Returns the addition of another owner. A Namespace has none.
    pub(super) fn add_owner(&self) -> Option<Step> {
        let resource = &self.manifest.resource;
        let is_namespace = resource.kind == "Namespace" && resource.group.is_empty();
        (!is_namespace).then(|| self.generated_step("add an owner to", GeneratedStep::AddOwner))
    }

    /// Returns the removal of the finalizer that another controller has set.
    pub(super) fn remove_finalizer(&self) -> Step {
        self.generated_step("remove the finalizer of", GeneratedStep::RemoveFinalizer)
    }

    /// Returns the write of a status.
    pub(super) fn write_status(&self, stage: Stage) -> Step {
        self.generated_step(stage.verb(), |address| GeneratedStep::WriteStatus(address, stage))
    }

    fn generated_step(&self, verb: &str, step: impl FnOnce(ObjectAddress) -> GeneratedStep) -> Step {
        let Manifest { resource, namespace, name, .. } = self.manifest.clone();
        let title = format!("{verb} {} {name}", resource.kind);
        let step = step(ObjectAddress { resource, namespace, name });
        Step { line: 0, title, action: StepAction::Generated(Box::new(step)) }
    }

    /// Returns changes of the object's content, and one of its labels only.
    pub(super) fn change_steps(&self) -> Vec<Step> {
        let label = json!({"metadata": {"labels": {LABEL: "changed"}}});
        let mut steps: Vec<_> = self.changes.iter().map(|patch| self.change(patch)).collect();
        steps.insert(steps.len().min(1), self.step("label", Operation::MergePatch(label)));
        steps
    }
}

/// Whether a watch with this selector selects the object.
fn is_selected(selector: &str, object: &Value) -> bool {
    let labels: BTreeMap<String, String> = object["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect();
    LabelSelector::parse(selector).is_ok_and(|selector| selector.matches(|key| labels.get(key)))
}
