//! Objects and steps for plugins without a scenario.
//!
//! For each kind that a plugin watches, two objects are generated, and a user creates, changes, labels, deletes and recreates
//! them. Objects of custom resources follow from the schema of the CRD, those of built-in kinds from a table. Everything follows
//! from a seed.

mod builtin;
mod pattern;
mod random;
mod schema;
mod validate;

use std::collections::BTreeMap;
use std::sync::Arc;

use pilothouse_model::LabelSelector;
use pilothouse_model::selector::Operator;
use serde_json::{Map, Value, json};

use super::actor::{ActorDefinition, Behaviour, Step, StepAction};
use super::kinds::KindInfo;
use super::manifest::Manifest;
use super::merge::merged;
use super::reference::DEFAULT_NAMESPACE;
use crate::actor::{ActorWrite, Operation};

/// The name of the actor.
pub const USER: &str = "user";
/// The names of the generated objects.
const NAMES: [&str; 2] = ["sample-a", "sample-b"];
/// How often the content of an object is changed.
const CHANGES: usize = 2;
/// The label that a step adds.
const LABEL: &str = "pilothouse.dev/simulated";
/// The most kinds for which objects are generated.
const MAX_KINDS: usize = 20;

/// A kind that a plugin watches.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchedKind {
    /// The kind.
    pub kind: KindInfo,
    /// What the plugin does with its objects.
    pub role: Role,
    /// The label selector of the watch, "" for all objects.
    pub label_selector: String,
    /// The namespaces of the watch; empty for all.
    pub namespaces: Vec<String>,
}

/// What a plugin does with the objects of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It reconciles them. The user creates, changes, deletes and recreates them.
    Reconciled,
    /// It reads them. The user does the same, before and after.
    Read,
    /// It creates them. The user deletes one.
    Owned,
}

/// What was generated.
#[derive(Debug)]
pub struct Generated {
    /// The objects that must exist before the plugin starts: Namespaces.
    pub objects: Vec<Manifest>,
    /// The actor; `None` if there is nothing to do.
    pub user: Option<Arc<ActorDefinition>>,
    /// What could not be generated, and why, one line for each kind.
    pub problems: Vec<String>,
}

/// Generates objects and steps for the kinds that a plugin watches. `examples` are manifests that replace generated objects of
/// their kinds.
#[must_use]
pub fn generate(watched: &[WatchedKind], examples: &[Manifest], seed: u64) -> Generated {
    let mut problems = Vec::new();
    let mut samples = Vec::new();
    let mut owned = Vec::new();
    for watched in watched.iter().take(MAX_KINDS) {
        if watched.role == Role::Owned {
            owned.push(watched);
            continue;
        }
        let own: Vec<_> =
            examples.iter().filter(|example| example.resource == watched.kind.resource).collect();
        let found = if own.is_empty() {
            generated(watched, seed)
        } else {
            Ok(own.into_iter().map(|example| Sample::of_example(watched, example, seed)).collect())
        };
        match found {
            Ok(found) => samples.push((watched, found)),
            Err(problem) => problems.push(format!(
                "no objects of the kind {} were generated: {problem}; give manifests with --objects",
                watched.kind.resource.kind
            )),
        }
    }
    let mut steps = Vec::new();
    // What the plugin reads is there before what it reconciles.
    samples.sort_by_key(|(watched, _)| watched.role != Role::Read);
    for (_, samples) in &samples {
        steps.extend(samples.iter().map(|sample| sample.create("create")));
    }
    steps.extend(owned.iter().map(|watched| delete_first(watched)));
    for (_, samples) in &samples {
        steps.extend(samples.iter().take(1).flat_map(Sample::change_steps));
    }
    for (_, samples) in samples.iter().rev() {
        steps.extend(samples.iter().take(1).flat_map(|sample| [sample.delete(), sample.create("recreate")]));
        steps.extend(samples.iter().skip(1).take(1).map(Sample::delete));
    }
    let objects = namespaces(samples.iter().flat_map(|(_, samples)| samples));
    let user = (!steps.is_empty())
        .then(|| Arc::new(ActorDefinition { name: USER.to_owned(), behaviour: Behaviour::Steps(steps) }));
    Generated { objects, user, problems }
}

/// A generated object with its changes.
struct Sample {
    manifest: Manifest,
    /// Merge patches that change it, one after the other.
    changes: Vec<Value>,
}

impl Sample {
    fn of_example(watched: &WatchedKind, example: &Manifest, seed: u64) -> Self {
        let members = example.object.as_object().cloned().unwrap_or_default();
        let changes = changes_of(watched, &members, &example.name, seed);
        Self { manifest: example.clone(), changes }
    }

    fn write(&self, operation: Operation) -> StepAction {
        let Manifest { resource, namespace, name, .. } = self.manifest.clone();
        let subresource = String::new();
        StepAction::Write(Box::new(ActorWrite { step: 0, resource, subresource, namespace, name, operation }))
    }

    fn step(&self, verb: &str, operation: Operation) -> Step {
        let title = format!("{verb} {} {}", self.manifest.resource.kind, self.manifest.name);
        Step { line: 0, title, action: self.write(operation) }
    }

    fn create(&self, verb: &str) -> Step {
        self.step(verb, Operation::Create(self.manifest.object.clone()))
    }

    fn delete(&self) -> Step {
        self.step("delete", Operation::Delete { propagation: None, uid: None })
    }

    /// Returns changes of the object's content, and one of its labels only.
    fn change_steps(&self) -> Vec<Step> {
        let label = json!({"metadata": {"labels": {LABEL: "changed"}}});
        let mut steps: Vec<_> = self
            .changes
            .iter()
            .map(|patch| self.step("change", Operation::MergePatch(patch.clone())))
            .collect();
        steps.insert(steps.len().min(1), self.step("label", Operation::MergePatch(label)));
        steps
    }
}

fn generated(watched: &WatchedKind, seed: u64) -> Result<Vec<Sample>, String> {
    let resource = &watched.kind.resource;
    let labels = labels(&watched.label_selector)?;
    let namespace = watched.namespaces.first().map_or(DEFAULT_NAMESPACE, String::as_str);
    let mut samples = Vec::new();
    for name in NAMES {
        let mut members = match &watched.kind.schema {
            Some(schema) => schema::generate(schema, name, seed)?,
            None => builtin::object(&resource.kind, name)?,
        };
        let changes = changes_of(watched, &members, name, seed);
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
        samples.push(Sample { manifest, changes });
    }
    Ok(samples)
}

fn changes_of(watched: &WatchedKind, members: &Map<String, Value>, name: &str, seed: u64) -> Vec<Value> {
    let Some(schema) = &watched.kind.schema else {
        return builtin::change(&watched.kind.resource.kind, name).into_iter().collect();
    };
    let mut object = members.clone();
    let mut changes = Vec::new();
    for round in 0..CHANGES {
        let Some(patch) = schema::change(schema, &object, name, seed, round) else { break };
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

fn delete_first(watched: &WatchedKind) -> Step {
    let resource = watched.kind.resource.clone();
    Step {
        line: 0,
        title: format!("delete the first {}", resource.kind),
        action: StepAction::DeleteFirst(resource),
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
mod tests {
    use super::super::Kinds;
    use super::*;
    use crate::actor::{Actor, ActorPoll, PollMoment, WriteOutcome};
    use crate::scenario::actor::ActorState;
    use crate::scenario::test_view::TestView;

    fn built_in(kind: &str, role: Role, label_selector: &str) -> WatchedKind {
        let kind = Kinds::built_in().resolve(kind).expect("built in").clone();
        WatchedKind { kind, role, label_selector: label_selector.to_owned(), namespaces: Vec::new() }
    }

    fn zoo() -> WatchedKind {
        let mut zoo = built_in("ConfigMap", Role::Reconciled, "");
        zoo.kind.resource.group = "example.com".to_owned();
        zoo.kind.resource.kind = "Zoo".to_owned();
        zoo.kind.resource.plural = "zoos".to_owned();
        zoo.kind.schema = Some(json!({"type": "object", "properties": {"spec": {
            "type": "object", "required": ["size"], "properties": {"size": {"type": "integer", "minimum": 1}},
        }}}));
        zoo
    }

    fn titles(generated: &Generated) -> Vec<&str> {
        let Behaviour::Steps(steps) = &generated.user.as_ref().expect("a user").behaviour else {
            panic!("steps")
        };
        steps.iter().map(|step| step.title.as_str()).collect()
    }

    #[test]
    fn a_user_creates_changes_deletes_and_recreates_objects() {
        let watched = [zoo(), built_in("Secret", Role::Read, ""), built_in("Deployment", Role::Owned, "")];
        let generated = generate(&watched, &[], 1);
        assert_eq!(generated.problems, [""; 0]);
        assert_eq!(
            titles(&generated),
            [
                "create Secret sample-a",
                "create Secret sample-b",
                "create Zoo sample-a",
                "create Zoo sample-b",
                "delete the first Deployment",
                "change Secret sample-a",
                "label Secret sample-a",
                "change Zoo sample-a",
                "label Zoo sample-a",
                "change Zoo sample-a",
                "delete Zoo sample-a",
                "recreate Zoo sample-a",
                "delete Zoo sample-b",
                "delete Secret sample-a",
                "recreate Secret sample-a",
                "delete Secret sample-b",
            ]
        );
    }

    #[test]
    fn the_steps_can_be_taken() {
        let watched = [zoo(), built_in("Deployment", Role::Owned, "")];
        let user = generate(&watched, &[], 1).user.expect("a user");
        let mut actor = ActorState::new(user, 1);
        let deployment = |name: &str, owners: Value| json!({"kind": "Deployment", "metadata": {"name": name, "namespace": "default", "ownerReferences": owners}});
        let view =
            TestView::new(vec![deployment("other", json!([])), deployment("web", json!([{"uid": "1"}]))]);
        let mut writes = Vec::new();
        loop {
            match actor.poll(&view, PollMoment { now_ms: 0, at_rest: true }) {
                ActorPoll::Write(write) => writes.push((write.step, write.resource.kind, write.name)),
                ActorPoll::Done => break,
                other => panic!("{other:?}"),
            }
            actor.written(&WriteOutcome { status: 200, message: String::new() }, 0);
        }
        assert_eq!(writes[2], (3, "Deployment".to_owned(), "web".to_owned()));
        assert_eq!(writes.len(), 9);
    }

    #[test]
    fn every_built_in_kind_is_generated_or_known_not_to_be() {
        for info in Kinds::built_in().iter() {
            let kind = info.resource.kind.clone();
            let watched = WatchedKind {
                kind: info.clone(),
                role: Role::Reconciled,
                label_selector: String::new(),
                namespaces: vec!["shop".to_owned()],
            };
            let generated = generate(&[watched], &[], 1);
            if ["Event", "CustomResourceDefinition"].contains(&kind.as_str()) {
                assert!(generated.problems[0].contains("--objects"), "{kind}");
                continue;
            }
            assert_eq!(generated.problems, [""; 0], "{kind}");
            assert!(titles(&generated).contains(&format!("change {kind} sample-a").as_str()));
            assert_eq!(generated.objects.len(), usize::from(info.resource.namespaced), "{kind}");
        }
    }

    #[test]
    fn objects_have_the_labels_that_the_watch_selects() {
        for (selector, expected) in [
            ("", json!({})),
            ("app=web,tier in (b, a),canary", json!({"app": "web", "tier": "a", "canary": "true"})),
            ("!copy,app!=web", json!({})),
        ] {
            assert_eq!(labels(selector).map(|labels| json!(labels)), Ok(expected), "{selector}");
        }
        let generated = generate(&[built_in("Secret", Role::Reconciled, "a=b,!a")], &[], 1);
        assert!(generated.user.is_none());
        assert!(generated.problems[0].contains("no labels satisfy"), "{:?}", generated.problems);
    }

    #[test]
    fn examples_replace_generated_objects() {
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}, "data": {"password": "YQ=="}});
        let example = Manifest::new(object, "default", &Kinds::built_in()).expect("valid");
        let generated = generate(&[built_in("Secret", Role::Reconciled, "")], &[example], 1);
        assert_eq!(
            titles(&generated),
            [
                "create Secret token",
                "change Secret token",
                "label Secret token",
                "delete Secret token",
                "recreate Secret token"
            ]
        );
    }
}
