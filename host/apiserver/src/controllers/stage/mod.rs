//! Stages: what happens to the objects that match a selector, and when, in the manner of KWOK.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use super::action::{Action, Plan};
use super::kind::Kind;
use super::kind_controller::{ControllerGroup, KindController};
use super::object::{Key, is_deleting, items, key, put_condition, until};
use crate::meta;
use crate::patch::merge_patch;

/// The name of the controller.
pub(super) const NAME: &str = "stage";

const API_VERSION: &str = "pilothouse.dev/v1alpha1";
const STAGE: &str = "Stage";

/// The maximum number of stages.
const MAX_STAGES: usize = 256;
/// The maximum length of a file in bytes.
const MAX_LENGTH: usize = 1 << 20;
/// The longest delay: a year.
const MAX_DELAY_MILLISECONDS: u64 = 366 * 24 * 3600 * 1000;

/// A list of stages. The first one that an object matches applies to it.
#[derive(Clone, Debug, Default)]
pub struct Stages(Arc<[Stage]>);

/// A file of stages cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum StageError {
    /// The file is not YAML of the expected form.
    #[error("a stage cannot be read: {0}")]
    Syntax(String),
    /// A stage is well-formed but has no meaning.
    #[error("stage {name:?}: {problem}")]
    Stage {
        /// The name of the stage.
        name: String,
        /// What is wrong, and what to write.
        problem: String,
    },
    /// A limit is exceeded.
    #[error("{0}")]
    TooLarge(String),
}

#[derive(Debug)]
struct Stage {
    kind: Kind,
    selector: Selector,
    delay: Duration,
    next: Next,
    /// Whether the stage is also for objects that are being deleted.
    handles_deletion: bool,
}

/// A stage: how the objects that match it change, and when. A file has a YAML document for each.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    /// `pilothouse.dev/v1alpha1`.
    api_version: String,
    /// `Stage`.
    kind: String,
    metadata: Metadata,
    spec: Specification,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct Metadata {
    /// The name in messages.
    name: String,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Specification {
    /// The kind of the objects.
    resource_ref: ResourceReference,
    /// The objects that the stage is for; all of the kind by default.
    #[serde(default)]
    selector: Selector,
    /// When the stage applies, from the time at which an object begins to match; at once by default.
    #[serde(default)]
    delay: Delay,
    /// What the stage changes. One that changes nothing leaves objects as they are.
    #[serde(default)]
    next: Next,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ResourceReference {
    /// The `apiVersion`.
    #[serde(default = "core_version")]
    api_group: String,
    /// A built-in kind that the controllers use, such as `Pod`.
    kind: String,
}

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Selector {
    /// Labels that an object must have.
    #[serde(default)]
    match_labels: BTreeMap<String, String>,
    /// Annotations that an object must have.
    #[serde(default)]
    match_annotations: BTreeMap<String, String>,
    /// Expressions that must hold.
    #[serde(default)]
    match_expressions: Vec<Expression>,
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct Expression {
    /// A path such as `.status.phase` or `.metadata.ownerReferences.[].kind`.
    key: String,
    operator: Operator,
    /// The values of `In` and `NotIn`. The other operators have none.
    #[serde(default)]
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Delay {
    /// Milliseconds; at most a year.
    #[serde(default)]
    #[cfg_attr(test, schemars(range(max = MAX_DELAY_MILLISECONDS)))]
    duration_milliseconds: u64,
}

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct Next {
    /// A merge patch of the status. Conditions are merged by their type.
    #[cfg_attr(test, schemars(with = "Option<serde_json::Map<String, Value>>"))]
    status: Option<Value>,
    /// Whether the object is deleted.
    #[serde(default)]
    delete: bool,
}

fn core_version() -> String {
    "v1".to_owned()
}

impl FromStr for Stages {
    type Err = StageError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() > MAX_LENGTH {
            return Err(StageError::TooLarge(format!("the stages are longer than {MAX_LENGTH} bytes")));
        }
        let documents: Vec<Document> = pilothouse_yaml::from_multiple(text).map_err(StageError::Syntax)?;
        if documents.len() > MAX_STAGES {
            return Err(StageError::TooLarge(format!("there are more than {MAX_STAGES} stages")));
        }
        let stages: Result<Vec<Stage>, StageError> = documents.into_iter().map(Stage::new).collect();
        stages.map(|stages| Self(stages.into()))
    }
}

impl Stages {
    /// Returns the position of the stage that applies to an object.
    pub(super) fn find(&self, kind: Kind, object: &Value) -> Option<usize> {
        self.0.iter().position(|stage| stage.kind == kind && stage.matches(object))
    }
}

impl Stage {
    fn new(document: Document) -> Result<Self, StageError> {
        let Document { api_version, kind, metadata: Metadata { name }, spec } = document;
        let problem = |problem: String| Err(StageError::Stage { name: name.clone(), problem });
        if api_version != API_VERSION || kind != STAGE {
            return problem(format!("{kind} of {api_version} is not known; write {STAGE} of {API_VERSION}"));
        }
        let Specification { resource_ref, selector, delay, next } = spec;
        let found = Kind::ALL
            .into_iter()
            .find(|kind| kind.name() == resource_ref.kind && kind.api_version() == resource_ref.api_group);
        let Some(kind) = found else {
            return problem(format!(
                "resourceRef: {} of {} has no stages; write a kind that the built-in controllers use, such as \
                 {{apiGroup: v1, kind: Pod}}",
                resource_ref.kind, resource_ref.api_group
            ));
        };
        for expression in &selector.match_expressions {
            let needs_values = matches!(expression.operator, Operator::In | Operator::NotIn);
            if needs_values == expression.values.is_empty() {
                return problem(format!(
                    "selector: {}: In and NotIn need values, and the other operators have none",
                    expression.key
                ));
            }
        }
        if delay.duration_milliseconds > MAX_DELAY_MILLISECONDS {
            return problem(format!("delay: at most {MAX_DELAY_MILLISECONDS} milliseconds are possible"));
        }
        if next.status.as_ref().is_some_and(|status| !status.is_object()) {
            return problem("next.status is not a map".to_owned());
        }
        let is_about_deletion = |one: &Expression| one.key == ".metadata.deletionTimestamp";
        Ok(Self {
            kind,
            handles_deletion: selector.match_expressions.iter().any(is_about_deletion),
            selector,
            delay: Duration::from_millis(delay.duration_milliseconds),
            next,
        })
    }

    fn matches(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let has = |field: &str, wanted: &BTreeMap<String, String>| {
            wanted.iter().all(|(name, value)| metadata[field][name.as_str()] == value.as_str())
        };
        (self.handles_deletion || !is_deleting(object))
            && has("labels", &self.selector.match_labels)
            && has("annotations", &self.selector.match_annotations)
            && self.selector.match_expressions.iter().all(|expression| expression.holds(object))
    }

    /// Returns what the stage does to an object.
    fn actions(&self, object: &Value, now: &str) -> Vec<Action> {
        if self.next.delete {
            return vec![if is_deleting(object) {
                Action::Remove
            } else {
                Action::delete(self.kind, object)
            }];
        }
        let Some(patch) = &self.next.status else { return Vec::new() };
        let status = merge_status(&object["status"], patch, now);
        if status == object["status"] { Vec::new() } else { vec![Action::SetStatus(status)] }
    }
}

impl Expression {
    fn holds(&self, object: &Value) -> bool {
        let mut found = vec![object];
        for part in self.key.split('.').filter(|part| !part.is_empty()) {
            found = if part == "[]" {
                found.into_iter().flat_map(items).collect()
            } else {
                found.into_iter().filter_map(|value| value.get(part)).collect()
            };
        }
        found.retain(|value| !value.is_null());
        let is_listed = |value: &&Value| match value {
            Value::String(text) => self.values.contains(text),
            other => self.values.contains(&other.to_string()),
        };
        match self.operator {
            Operator::In => found.iter().any(is_listed),
            Operator::NotIn => !found.iter().any(is_listed),
            Operator::Exists => !found.is_empty(),
            Operator::DoesNotExist => found.is_empty(),
        }
    }
}

/// Merges a patch into a status. Conditions are merged by type, and get the time of the transition if they lack it.
fn merge_status(status: &Value, patch: &Value, now: &str) -> Value {
    let mut rest = patch.clone();
    let conditions = rest.as_object_mut().and_then(|rest| rest.remove("conditions"));
    let mut merged = merge_patch(status, &rest);
    for condition in items(&conditions.unwrap_or_default()) {
        let mut condition = condition.clone();
        let known = items(&merged["conditions"]).iter().find(|known| known["type"] == condition["type"]);
        if condition["lastTransitionTime"].is_null() {
            let same = known.filter(|known| known["status"] == condition["status"]);
            let since =
                same.map(|known| known["lastTransitionTime"].clone()).filter(|since| !since.is_null());
            condition["lastTransitionTime"] = since.unwrap_or_else(|| now.into());
        }
        put_condition(&mut merged, condition);
    }
    merged
}

/// Since when each object has matched its stage.
type Waiting = BTreeMap<Key, Match>;

#[derive(Clone, Debug, PartialEq)]
struct Match {
    uid: String,
    stage: usize,
    since: Timestamp,
}

/// Returns the controller that applies the stages: one for each kind that has a stage.
pub(super) fn controller(stages: &Stages) -> ControllerGroup {
    let with_stages = |kind: &Kind| stages.0.iter().any(|stage| stage.kind == *kind);
    let kinds = Kind::ALL.into_iter().filter(with_stages);
    ControllerGroup(kinds.map(|kind| controller_of(kind, stages.clone())).collect())
}

fn controller_of(kind: Kind, stages: Stages) -> KindController {
    let waiting = Arc::new(Mutex::new(Waiting::new()));
    let forget = Arc::clone(&waiting);
    KindController::new(kind, move |cluster, object| {
        plan(&stages, kind, object, &mut waiting.lock(), (cluster.now, &cluster.now_text()))
    })
    .on_missing(move |_, key| {
        forget.lock().remove(key);
        Vec::new()
    })
    .manager("pilothouse-stage")
}

/// Decides what the stage of an object does now.
fn plan(
    stages: &Stages,
    kind: Kind,
    object: &Value,
    waiting: &mut Waiting,
    (now, now_text): (Timestamp, &str),
) -> Plan {
    let mut plan = Plan::default();
    let Some(stage) = stages.find(kind, object) else {
        waiting.remove(&key(object));
        return plan;
    };
    let fresh = Match { uid: meta::text(object, "uid").to_owned(), stage, since: now };
    let known = waiting.entry(key(object)).or_insert_with(|| fresh.clone());
    if known.uid != fresh.uid || known.stage != stage {
        *known = fresh;
    }
    let due = known.since.checked_add(stages.0[stage].delay).unwrap_or(Timestamp::MAX);
    match until(due, now) {
        Some(delay) => plan.retry_after(delay),
        None => plan.actions = stages.0[stage].actions(object, now_text),
    }
    plan
}

#[cfg(test)]
mod tests;
