//! Objects and steps for plugins without a scenario.
//!
//! For each kind that a plugin watches, two objects are generated, and a user creates, changes, labels, deletes and recreates
//! them. Objects of custom resources follow from the schema of the CRD, those of built-in kinds from a table. They name each other where
//! the plugin's watches look for names, and in fields that are named as a kind. Some have metadata of other clients. Everything follows from a seed.

mod builtin;
mod connect;
mod foreign;
mod histories;
mod kind_fields;
mod pattern;
mod random;
mod sample;
mod schema;
mod status;
mod step;
mod validate;
mod watch_references;

use std::collections::BTreeMap;
use std::sync::Arc;

use pilothouse_model::LabelSelector;
use pilothouse_model::selector::Operator;
use serde_json::{Value, json};

use super::actor::{ActorDefinition, Behaviour, Step, StepAction};
use super::history::History;
use super::kinds::KindInfo;
use super::manifest::Manifest;
use super::merge::merged;
use super::object_reference::DEFAULT_NAMESPACE;

pub use foreign::{FOREIGN_FINALIZER, FOREIGN_METADATA};
use sample::Sample;
pub use status::Stage;
pub use step::{GeneratedStep, ObjectAddress};
pub use watch_references::{NameForm, Place, WatchReference};

/// The name of the actor.
pub const USER: &str = "user";
/// The names of the generated objects: two for each watch of a kind that selects others than those before.
const NAMES: [[&str; 2]; 3] = [["sample-a", "sample-b"], ["sample-c", "sample-d"], ["sample-e", "sample-f"]];
/// How often the content of an object is changed.
const CHANGES: usize = 2;
/// The most kinds for which objects are generated.
const MAX_KINDS: usize = 20;

/// A kind that a plugin watches.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchedKind {
    /// The name of the watch.
    pub name: String,
    /// The kind.
    pub kind: KindInfo,
    /// What the plugin does with its objects.
    pub role: Role,
    /// The label selector of the watch, "" for all objects.
    pub label_selector: String,
    /// The namespaces of the watch; empty for all.
    pub namespaces: Vec<String>,
    /// Where its objects name those of other watches.
    pub references: Vec<WatchReference>,
    /// Whether the plugin writes the status of its objects. Otherwise, the user does so as the components of a cluster do.
    pub writes_status: bool,
    /// Whether the plugin may delete objects of any kind. Otherwise, it leaves that to the garbage collector, and what it makes lives as long as its
    /// owner.
    pub may_delete: bool,
}

impl WatchedKind {
    /// Whether the objects are made by users. Those that the plugin reads may be its own if they name objects of another watch.
    fn belongs_to_users(&self) -> bool {
        match self.role {
            Role::Reconciled => true,
            Role::Read | Role::ReadLive => self.references.is_empty(),
            Role::Owned => false,
        }
    }
}

/// What a plugin does with the objects of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It reconciles them. The user creates, changes, deletes and recreates them.
    Reconciled,
    /// It reads them. The user does the same, before and after.
    Read,
    /// It does not watch them, but may read them from the server. As before, if a field of another kind names one; otherwise, there are none.
    ReadLive,
    /// It creates them. The user deletes one, and another client labels and annotates one.
    Owned,
}

/// What was generated.
#[derive(Debug)]
pub struct Generated {
    /// The objects that must exist before the plugin starts: Namespaces.
    pub objects: Vec<Manifest>,
    /// The actor; `None` if there is nothing to do.
    pub user: Option<Arc<ActorDefinition>>,
    /// What the actor may do in place of its steps.
    pub histories: Vec<History>,
    /// What could not be generated, and why, one line for each kind.
    pub problems: Vec<String>,
}

/// Generates objects and steps for the kinds that a plugin watches. `examples` are manifests that replace generated objects of
/// their kinds.
#[must_use]
pub fn generate(watched: &[WatchedKind], examples: &[Manifest], seed: u64) -> Generated {
    let mut problems = Vec::new();
    let mut samples: Vec<(&WatchedKind, Vec<Sample>)> = Vec::new();
    let (owned, watched): (Vec<_>, Vec<_>) =
        wanted(watched).into_iter().partition(|watched| watched.role == Role::Owned);
    let kinds: Vec<String> =
        owned.iter().chain(&watched).map(|watched| watched.kind.resource.kind.to_lowercase()).collect();
    let distinct = distinct(&watched);
    for watched in &distinct {
        let own: Vec<_> =
            examples.iter().filter(|example| example.resource == watched.kind.resource).collect();
        let earlier =
            samples.iter().filter(|(other, _)| other.kind.resource == watched.kind.resource).count();
        let found = match NAMES.get(earlier) {
            _ if !own.is_empty() && earlier == 0 => {
                Ok(own.into_iter().map(|example| Sample::new(example.clone(), false)).collect())
            }
            Some(names) if own.is_empty() => generated(watched, *names, &kinds, seed),
            // The objects of an earlier watch of the kind have to do.
            _ => continue,
        };
        match found {
            Ok(found) => samples.push((watched, found)),
            Err(problem) => problems.push(format!(
                "no objects of the kind {} were generated: {problem}; give manifests with --objects",
                watched.kind.resource.kind
            )),
        }
    }
    connect::connect(&mut samples, &watched);
    samples.iter_mut().for_each(|(watched, samples)| change(watched, samples, &kinds, seed));
    let sees_namespaces = watched.iter().any(|watched| watched.kind.resource.kind == "Namespace");
    let histories = histories::histories(&samples, &kinds, sees_namespaces);
    for (watched, samples) in &mut samples {
        if watched.belongs_to_users()
            && let Some(sample) = samples.iter_mut().filter(|sample| sample.is_generated).nth(1)
        {
            sample.is_marked = true;
            foreign::mark(&mut sample.manifest.object);
        }
    }
    let mut steps = Vec::new();
    // What the plugin reads is there before what it reconciles.
    samples.sort_by_key(|(watched, _)| !matches!(watched.role, Role::Read | Role::ReadLive));
    for (_, samples) in &samples {
        steps.extend(samples.iter().map(|sample| sample.create("create")));
    }
    let marked = || samples.iter().flat_map(|(_, samples)| samples).filter(|sample| sample.is_marked);
    steps.extend(marked().filter_map(Sample::add_owner));
    steps.extend(owned.iter().map(|watched| delete_first(watched)));
    steps.extend(owned.iter().map(|watched| mark_first(watched)));
    steps.extend(status_steps(&samples, &owned, |stage| stage == Stage::Runs));
    for (_, samples) in &samples {
        steps.extend(samples.iter().take(1).flat_map(Sample::change_steps));
    }
    steps.extend(status_steps(&samples, &owned, |stage| stage != Stage::Runs));
    for (_, samples) in samples.iter().rev() {
        steps.extend(samples.iter().take(1).flat_map(|sample| [sample.delete(), sample.create("recreate")]));
        for sample in samples.iter().skip(1).take(1) {
            steps.push(sample.delete());
            steps.extend(sample.is_marked.then(|| sample.remove_finalizer()));
        }
    }
    let objects = namespaces(samples.iter().flat_map(|(_, samples)| samples));
    let user = (!steps.is_empty())
        .then(|| Arc::new(ActorDefinition { name: USER.to_owned(), behaviour: Behaviour::Steps(steps) }));
    Generated { objects, user, histories, problems }
}

/// Returns the kinds for which objects are generated, in their order: the first watched ones, and then, if there is room, those that the plugin only
/// reads from the server and that a field of a watched kind names. A plugin may be allowed to read all kinds.
fn wanted(watched: &[WatchedKind]) -> Vec<&WatchedKind> {
    let is_watched = |watched: &WatchedKind| watched.role != Role::ReadLive;
    let mut left = MAX_KINDS;
    let mut take = |is_wanted: bool| {
        let is_taken = is_wanted && left > 0;
        left -= usize::from(is_taken);
        is_taken
    };
    let mut is_taken: Vec<bool> = watched.iter().map(|watched| take(is_watched(watched))).collect();
    let schemas: Vec<_> = watched
        .iter()
        .zip(&is_taken)
        .filter(|(watched, is_taken)| **is_taken && watched.role != Role::Owned)
        .filter_map(|(watched, _)| watched.kind.schema.as_ref())
        .collect();
    let is_named = |kind: &str| schemas.iter().any(|schema| !kind_fields::fields(schema, kind).is_empty());
    for (watched, is_taken) in watched.iter().zip(&mut is_taken).filter(|(watched, _)| !is_watched(watched)) {
        *is_taken = take(is_named(&watched.kind.resource.kind));
    }
    watched.iter().zip(is_taken).filter_map(|(watched, is_taken)| is_taken.then_some(watched)).collect()
}

/// Returns the watches that select different objects. Of two that select the same, one is left, which reconciles them if one of the two does.
fn distinct(watched: &[&WatchedKind]) -> Vec<WatchedKind> {
    let mut distinct: Vec<WatchedKind> = Vec::new();
    for watched in watched {
        match distinct.iter_mut().find(|known| select_the_same(known, watched)) {
            Some(known) => {
                if watched.role == Role::Reconciled {
                    known.role = Role::Reconciled;
                }
                known.references.extend(watched.references.iter().cloned());
                known.writes_status |= watched.writes_status;
                known.may_delete |= watched.may_delete;
            }
            None => distinct.push((*watched).clone()),
        }
    }
    distinct
}

fn select_the_same(one: &WatchedKind, other: &WatchedKind) -> bool {
    (&one.kind.resource, &one.label_selector, &one.namespaces)
        == (&other.kind.resource, &other.label_selector, &other.namespaces)
}

fn generated(
    watched: &WatchedKind,
    names: [&str; 2],
    kinds: &[String],
    seed: u64,
) -> Result<Vec<Sample>, String> {
    let resource = &watched.kind.resource;
    let labels = labels(&watched.label_selector)?;
    let namespace = watched.namespaces.first().map_or(DEFAULT_NAMESPACE, String::as_str);
    let mut samples = Vec::new();
    for name in names {
        let mut members = match &watched.kind.schema {
            Some(schema) => schema::generate(schema, name, kinds, seed)?,
            None => builtin::object(&resource.kind, name)?,
        };
        let mut metadata = json!({ "name": name });
        if resource.namespaced {
            metadata["namespace"] = namespace.into();
        }
        if !labels.is_empty() {
            metadata["labels"] = json!(labels);
        }
        members.insert("apiVersion".to_owned(), resource.api_version().into());
        members.insert("kind".to_owned(), resource.kind.clone().into());
        members.insert("metadata".to_owned(), metadata);
        let namespace = if resource.namespaced { namespace.to_owned() } else { String::new() };
        let manifest = Manifest {
            resource: resource.clone(),
            namespace,
            name: name.to_owned(),
            object: Value::Object(members),
        };
        samples.push(Sample::new(manifest, true));
    }
    Ok(samples)
}

/// Decides how the objects are changed.
fn change(watched: &WatchedKind, samples: &mut [Sample], kinds: &[String], seed: u64) {
    for sample in samples {
        sample.changes = changes_of(watched, &sample.manifest, kinds, seed);
    }
}

/// Returns changes of the content of an object, one after the other.
fn changes_of(watched: &WatchedKind, manifest: &Manifest, kinds: &[String], seed: u64) -> Vec<Value> {
    let name = manifest.name.as_str();
    let Some(schema) = &watched.kind.schema else {
        return builtin::changes(&watched.kind.resource.kind, name);
    };
    let mut object = manifest.object.as_object().cloned().unwrap_or_default();
    object.retain(|member, _| !schema::NOT_WRITTEN.contains(&member.as_str()));
    let mut changes = Vec::new();
    for round in 0..CHANGES {
        let Some(patch) = schema::change(schema, &object, name, kinds, seed, round) else { break };
        if let Value::Object(changed) = merged(&Value::Object(object.clone()), &patch) {
            object = changed;
        }
        changes.push(patch);
    }
    changes
}

/// Returns labels that satisfy a selector.
fn labels(selector: &str) -> Result<BTreeMap<String, String>, String> {
    let selector = LabelSelector::parse(selector).map_err(|error| error.to_string())?;
    let mut labels = BTreeMap::new();
    for requirement in selector.requirements() {
        match requirement.operator {
            Operator::In => {
                let value = requirement.values.first().cloned().unwrap_or_default();
                labels.insert(requirement.key.clone(), value);
            }
            Operator::Exists => {
                labels.entry(requirement.key.clone()).or_insert_with(|| "true".to_owned());
            }
            _ => {}
        }
    }
    if selector.matches(|key| labels.get(key)) {
        Ok(labels)
    } else {
        Err("no labels satisfy the selector of the watch".to_owned())
    }
}

/// Returns the writes of the statuses of the first two objects of each kind, and of the first object that the plugin owns.
fn status_steps(
    samples: &[(&WatchedKind, Vec<Sample>)],
    owned: &[&WatchedKind],
    is_wanted: impl Fn(Stage) -> bool,
) -> Vec<Step> {
    let stages = |watched: &WatchedKind| -> [&[Stage]; 2] {
        // A custom resource may have the name of a built-in kind.
        let is_built_in = watched.kind.schema.is_none();
        if watched.writes_status || !is_built_in {
            [&[], &[]]
        } else {
            status::stages(&watched.kind.resource.kind)
        }
    };
    let mut steps = Vec::new();
    for (watched, samples) in samples {
        for (sample, stages) in samples.iter().zip(stages(watched)) {
            let wanted = stages.iter().filter(|stage| is_wanted(**stage));
            steps.extend(wanted.map(|stage| sample.write_status(*stage)));
        }
    }
    for watched in owned {
        let [first, _] = stages(watched);
        for stage in first.iter().filter(|stage| is_wanted(**stage)) {
            let resource = watched.kind.resource.clone();
            let title = format!("{} the first {}", stage.verb(), resource.kind);
            let action = GeneratedStep::WriteFirstStatus(resource, *stage);
            steps.push(Step { line: 0, title, action: StepAction::Generated(Box::new(action)) });
        }
    }
    steps
}

fn mark_first(watched: &WatchedKind) -> Step {
    let resource = watched.kind.resource.clone();
    Step {
        line: 0,
        title: format!("label and annotate the first {}", resource.kind),
        action: StepAction::Generated(Box::new(GeneratedStep::MarkFirst(resource))),
    }
}

fn delete_first(watched: &WatchedKind) -> Step {
    let resource = watched.kind.resource.clone();
    Step {
        line: 0,
        title: format!("delete the first {}", resource.kind),
        action: StepAction::Generated(Box::new(GeneratedStep::DeleteFirst(resource))),
    }
}

/// Returns the Namespaces of the objects that the server does not create itself.
fn namespaces<'a>(samples: impl Iterator<Item = &'a Sample>) -> Vec<Manifest> {
    let resource = super::Kinds::built_in().resolve("Namespace").map(|info| info.resource.clone());
    let Ok(resource) = resource else { return Vec::new() };
    let mut names: Vec<&str> = samples.map(|sample| sample.manifest.namespace.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let is_absent =
        |name: &&str| !name.is_empty() && *name != DEFAULT_NAMESPACE && !name.starts_with("kube-");
    let manifest = |name: &str| Manifest {
        resource: resource.clone(),
        namespace: String::new(),
        name: name.to_owned(),
        object: json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
    };
    names.into_iter().filter(is_absent).map(manifest).collect()
}

#[cfg(test)]
mod tests;
