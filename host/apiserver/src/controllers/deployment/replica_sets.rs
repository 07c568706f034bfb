//! The ReplicaSets of a Deployment, their revisions, and the changes that a rollout makes to them.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::super::action::Action;
use super::super::kind::Kind;
use super::super::object::{is_deleting, items, key, number, owner_reference, template_hash, time};
use super::super::pod::TEMPLATE_HASH_LABEL;
use super::Settings;
use crate::meta;

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";

/// Annotations of a Deployment that its ReplicaSets do not get.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
];

/// The longest history of revisions that a ReplicaSet remembers, in bytes.
const MAX_HISTORY: usize = 2000;

/// A ReplicaSet and what the rollout changes of it.
#[derive(Clone, Debug)]
pub(super) struct ReplicaSet {
    pub(super) value: Value,
    /// The number of replicas that it is to have.
    pub(super) replicas: i64,
    annotations: Map<String, Value>,
    min_ready_seconds: Option<i64>,
}

impl ReplicaSet {
    fn new(value: Value) -> Self {
        let replicas = number(&value["spec"]["replicas"], 1);
        Self { value, replicas, annotations: Map::new(), min_ready_seconds: None }
    }

    pub(super) fn name(&self) -> &str {
        meta::text(&self.value, "name")
    }

    /// Returns a counter of the status.
    pub(super) fn count(&self, name: &str) -> i64 {
        number(&self.value["status"][name], 0)
    }

    fn annotation(&self, name: &str) -> Option<i64> {
        self.value["metadata"]["annotations"][name].as_str()?.parse().ok()
    }

    pub(super) fn revision(&self) -> i64 {
        self.annotation(REVISION).unwrap_or(0)
    }

    /// Returns the replicas of the Deployment when this set was scaled last.
    pub(super) fn desired_replicas(&self) -> Option<i64> {
        self.annotation(DESIRED_REPLICAS)
    }

    /// Returns the most Pods that the Deployment allowed when this set was scaled last.
    pub(super) fn max_replicas(&self) -> Option<i64> {
        self.annotation(MAX_REPLICAS)
    }

    pub(super) fn created(&self) -> Timestamp {
        time(&self.value["metadata"]["creationTimestamp"]).unwrap_or(Timestamp::MIN)
    }

    /// Sets the number of replicas, and records those of the Deployment.
    pub(super) fn scale(&mut self, replicas: i64, settings: &Settings) {
        self.replicas = replicas;
        self.annotate(DESIRED_REPLICAS, settings.replicas.to_string());
        self.annotate(MAX_REPLICAS, settings.max_pods().to_string());
    }

    fn annotate(&mut self, name: &str, value: String) {
        if self.value["metadata"]["annotations"][name] != value.as_str() {
            self.annotations.insert(name.to_owned(), value.into());
        }
    }

    /// Whether nothing is left of the set, and it was not changed since its controller looked at it.
    fn can_be_cleaned_up(&self) -> bool {
        let observed = number(&self.value["status"]["observedGeneration"], 0);
        self.replicas == 0
            && self.count("replicas") == 0
            && meta::generation(&self.value) <= observed
            && !is_deleting(&self.value)
    }

    /// Returns the write and the Event for what has changed.
    fn changes(&self) -> Vec<Action> {
        let before = number(&self.value["spec"]["replicas"], 1);
        let mut patch = json!({});
        if !self.annotations.is_empty() {
            patch["metadata"] = json!({"annotations": self.annotations});
        }
        if self.replicas != before {
            patch["spec"]["replicas"] = self.replicas.into();
        }
        if let Some(seconds) = self.min_ready_seconds {
            patch["spec"]["minReadySeconds"] = seconds.into();
        }
        let mut actions = Vec::new();
        if patch != json!({}) {
            actions.push(Action::Patch(Kind::ReplicaSet, key(&self.value), patch));
        }
        if self.replicas != before {
            let direction = if self.replicas > before { "up" } else { "down" };
            let message =
                format!("Scaled {direction} replica set {} from {before} to {}", self.name(), self.replicas);
            actions.push(Action::Event { warning: false, reason: "ScalingReplicaSet", message });
        }
        actions
    }
}

/// The ReplicaSets of a Deployment, oldest first.
#[derive(Clone, Debug)]
pub(super) struct ReplicaSets {
    pub(super) all: Vec<ReplicaSet>,
    /// The index of the one with the current template.
    pub(super) new: Option<usize>,
}

impl ReplicaSets {
    pub(super) fn new(deployment: &Value, values: Vec<Value>) -> Self {
        let mut all: Vec<ReplicaSet> = values.into_iter().map(ReplicaSet::new).collect();
        all.sort_by(|a, b| (a.created(), a.name()).cmp(&(b.created(), b.name())));
        let wanted = without_hash(&deployment["spec"]["template"]);
        let name = set_name(deployment);
        let has_template = |set: &ReplicaSet| without_hash(&set.value["spec"]["template"]) == wanted;
        let new = all.iter().position(|set| set.name() == name || has_template(set));
        Self { all, new }
    }

    pub(super) fn current(&self) -> Option<&ReplicaSet> {
        self.new.map(|index| &self.all[index])
    }

    pub(super) fn current_mut(&mut self) -> Option<&mut ReplicaSet> {
        self.new.map(|index| &mut self.all[index])
    }

    pub(super) fn old(&self) -> impl Iterator<Item = &ReplicaSet> {
        let new = self.new;
        self.all.iter().enumerate().filter(move |(index, _)| Some(*index) != new).map(|(_, set)| set)
    }

    pub(super) fn old_mut(&mut self) -> impl Iterator<Item = &mut ReplicaSet> {
        let new = self.new;
        self.all.iter_mut().enumerate().filter(move |(index, _)| Some(*index) != new).map(|(_, set)| set)
    }

    /// Returns the sum of the replicas that the sets are to have.
    pub(super) fn total_replicas(&self) -> i64 {
        self.all.iter().fold(0, |sum, set| sum.saturating_add(set.replicas))
    }

    /// Returns the sum of a counter of the statuses.
    pub(super) fn total(&self, counter: &str) -> i64 {
        self.all.iter().fold(0, |sum, set| sum.saturating_add(set.count(counter)))
    }

    /// Returns the revision of the current template.
    pub(super) fn new_revision(&self) -> i64 {
        let next = self.old().map(ReplicaSet::revision).max().unwrap_or(0).saturating_add(1);
        self.current().map_or(next, |set| set.revision().max(next))
    }

    /// Brings the annotations and `minReadySeconds` of the current set up to date.
    pub(super) fn synchronize_current(&mut self, deployment: &Value) {
        let revision = self.new_revision();
        let min_ready = number(&deployment["spec"]["minReadySeconds"], 0);
        let Some(set) = self.current_mut() else { return };
        for (name, value) in copied_annotations(deployment) {
            set.annotate(&name, value.as_str().unwrap_or_default().to_owned());
        }
        if set.revision() < revision {
            if set.revision() > 0 {
                let before =
                    set.value["metadata"]["annotations"][REVISION_HISTORY].as_str().unwrap_or_default();
                let history =
                    [before, &set.revision().to_string()].join(if before.is_empty() { "" } else { "," });
                if history.len() <= MAX_HISTORY {
                    set.annotate(REVISION_HISTORY, history);
                }
            }
            set.annotate(REVISION, revision.to_string());
        }
        if number(&set.value["spec"]["minReadySeconds"], 0) != min_ready {
            set.min_ready_seconds = Some(min_ready);
        }
    }

    /// Returns a ReplicaSet of the current template.
    pub(super) fn create(&self, deployment: &Value, settings: &Settings, replicas: i64) -> Value {
        let mut annotations = copied_annotations(deployment);
        annotations.insert(REVISION.into(), self.new_revision().to_string().into());
        annotations.insert(DESIRED_REPLICAS.into(), settings.replicas.to_string().into());
        annotations.insert(MAX_REPLICAS.into(), settings.max_pods().to_string().into());
        let hash = hash(deployment);
        let mut template = deployment["spec"]["template"].clone();
        template["metadata"]["labels"][TEMPLATE_HASH_LABEL] = hash.as_str().into();
        let mut selector = deployment["spec"]["selector"].clone();
        selector["matchLabels"][TEMPLATE_HASH_LABEL] = hash.as_str().into();
        let mut set = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "name": set_name(deployment), "namespace": meta::text(deployment, "namespace"),
                "labels": template["metadata"]["labels"], "annotations": annotations,
                "ownerReferences": [owner_reference(Kind::Deployment, deployment)],
            },
            "spec": {"replicas": replicas, "selector": selector, "template": template},
        });
        if let Some(seconds) = deployment["spec"].get("minReadySeconds") {
            set["spec"]["minReadySeconds"] = seconds.clone();
        }
        set
    }

    /// Returns the writes for what has changed.
    pub(super) fn changes(&self) -> Vec<Action> {
        self.all.iter().flat_map(ReplicaSet::changes).collect()
    }

    /// Returns the deletions of old sets beyond the limit of the history.
    pub(super) fn clean_up(&self, limit: usize) -> Vec<Action> {
        let mut old: Vec<&ReplicaSet> = self.old().filter(|set| !is_deleting(&set.value)).collect();
        old.sort_by_key(|set| (set.revision(), set.created()));
        let surplus = old.len().saturating_sub(limit);
        let surplus = old.into_iter().take(surplus).filter(|set| set.can_be_cleaned_up());
        surplus.map(|set| Action::delete(Kind::ReplicaSet, &set.value)).collect()
    }
}

/// Returns the name of the ReplicaSet of the current template.
pub(super) fn set_name(deployment: &Value) -> String {
    format!("{}-{}", meta::text(deployment, "name"), hash(deployment))
}

fn hash(deployment: &Value) -> String {
    template_hash(&deployment["spec"]["template"], number(&deployment["status"]["collisionCount"], 0))
}

fn copied_annotations(deployment: &Value) -> Map<String, Value> {
    let annotations = deployment["metadata"]["annotations"].as_object().into_iter().flatten();
    let copied = annotations.filter(|(name, _)| !NOT_COPIED.contains(&name.as_str()));
    copied.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns a template without the label that its ReplicaSet adds, and without fields that are empty.
fn without_hash(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
        labels.remove(TEMPLATE_HASH_LABEL);
    }
    if let Some(metadata) = template["metadata"].as_object_mut() {
        metadata.retain(|_, value| {
            !value.is_null()
                && value.as_object().is_none_or(|map| !map.is_empty())
                && (!value.is_array() || !items(value).is_empty())
        });
    }
    template
}
