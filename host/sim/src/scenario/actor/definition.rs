//! What an actor does, as a scenario defines it.

use std::sync::Arc;

use pilothouse_model::ResourceType;
use pilothouse_yaml::describe_message;
use serde_json::Value;
use serde_saphyr::Spanned;

use super::super::document::{
    ActorDocument, DeletionDocument, ForEachDocument, PatchDocument, StepDocument, check_count,
};
use super::super::generate::GeneratedStep;
use super::super::kinds::Kinds;
use super::super::manifest::FileReader;
use super::super::object_reference::ObjectReference;
use super::super::program::Program;
use super::super::template::Template;
use super::super::text::{DurationRange, duration_ms, quoted};
use crate::actor::{ActorWrite, Operation};

/// The most steps of an actor.
const MAX_STEPS: usize = 200;
const PROPAGATION: [&str; 3] = ["Background", "Foreground", "Orphan"];

/// An actor of a scenario.
#[derive(Debug)]
pub struct ActorDefinition {
    /// The name.
    pub name: String,
    /// What it does.
    pub behaviour: Behaviour,
}

/// What an actor does.
#[derive(Debug)]
pub enum Behaviour {
    /// Takes steps in their order.
    Steps(Vec<Step>),
    /// Does something for each object of a kind.
    ForEach(Box<ForEach>),
}

/// A step.
#[derive(Debug)]
pub struct Step {
    /// The line in the scenario's file; 0 for a generated step.
    pub line: u64,
    /// What the step does, in a few words.
    pub title: String,
    /// What the step does.
    pub action: StepAction,
}

/// What a step does.
#[derive(Debug)]
pub enum StepAction {
    /// Writes to the server.
    Write(Box<ActorWrite>),
    /// Writes to the server, unless that is impossible: for generated steps, whose object the plugin may have deleted, or created itself.
    Try(Box<ActorWrite>),
    /// Writes what a generated step makes of the objects of the server, if anything, and unless that is impossible.
    Generated(Box<GeneratedStep>),
    /// Waits until a condition holds.
    Wait(Box<Program>),
    /// Waits for this many virtual milliseconds.
    Sleep(u64),
}

/// Something that is done for each object of a kind.
#[derive(Debug)]
pub struct ForEach {
    /// The resource of the objects.
    pub resource: ResourceType,
    /// The namespace; `None` for all.
    pub namespace: Option<String>,
    /// The condition; always by default.
    pub when: Option<Program>,
    /// How many times the effect is wanted; once by default.
    pub count: Option<Program>,
    /// How long the actor waits before it acts.
    pub after: DurationRange,
    /// What is done.
    pub effect: Effect,
    pub(super) kinds: Arc<Kinds>,
}

/// What an actor does for an object.
#[derive(Debug)]
pub enum Effect {
    /// Creates the object of the template if it is absent.
    Ensure(Template),
    /// Applies the object of the template if the server's object differs from it.
    Apply(Template),
    /// Changes the object by the merge patch of the template. `true`: the subresource `status`.
    Patch(Template, bool),
    /// Deletes the object.
    Delete {
        /// The propagation policy.
        propagation: Option<String>,
    },
}

/// Returns the variables of the templates and the condition of a `forEach`.
fn template_variables() -> [&'static str; 6] {
    ["object", "name", "namespace", "uid", "index", "now"]
}

/// Validates an actor, which is at this line of the scenario.
///
/// # Errors
/// Errors with one line; a problem of a step names the step's line.
pub(in crate::scenario) fn actor_of(
    document: ActorDocument,
    kinds: &Arc<Kinds>,
    files: &FileReader<'_>,
    line: u64,
) -> Result<ActorDefinition, String> {
    let at = |line: u64, problem: String| format!("line {line}: {problem}");
    let name = document.name.clone();
    let behaviour =
        behaviour_of(document, kinds, files, &|step, problem| at(step, problem)).map_err(|problem| {
            if problem.starts_with("line ") {
                problem
            } else {
                at(line, format!("actor {}: {problem}", quoted(&name)))
            }
        })?;
    Ok(ActorDefinition { name, behaviour })
}

fn behaviour_of(
    document: ActorDocument,
    kinds: &Arc<Kinds>,
    files: &FileReader<'_>,
    at: &dyn Fn(u64, String) -> String,
) -> Result<Behaviour, String> {
    let ActorDocument { name: _, steps, for_each, after, ensure, apply, patch, patch_status, delete } =
        document;
    let effects = [&ensure, &apply, &patch, &patch_status, &delete].into_iter().flatten().count();
    match (steps, for_each) {
        (Some(steps), None) => {
            if effects > 0 || after.is_some() {
                return Err(
                    "after, ensure, apply, patch, patchStatus and delete belong to forEach; make them steps"
                        .to_owned(),
                );
            }
            check_count("steps", steps.len(), MAX_STEPS)?;
            let mut found = Vec::new();
            for step in steps {
                let line = step.referenced.line();
                found.extend(steps_of(step, kinds, files).map_err(|problem| at(line, problem))?);
            }
            check_count("steps", found.len(), MAX_STEPS)?;
            Ok(Behaviour::Steps(found))
        }
        (None, Some(for_each)) => {
            if effects != 1 {
                return Err("forEach needs exactly one of ensure, apply, patch, patchStatus and delete; make the others actors of their own".to_owned());
            }
            let after = after.as_deref().map_or(Ok(DurationRange::default()), DurationRange::parse)?;
            let effect = effect_of(ensure, apply, patch, patch_status, delete, kinds, &for_each.kind)?;
            for_each_of(for_each, after, effect, kinds).map(|for_each| Behaviour::ForEach(Box::new(for_each)))
        }
        (Some(_), Some(_)) => Err("it has both steps and forEach; make them two actors".to_owned()),
        (None, None) => Err("it does nothing; give it steps or forEach".to_owned()),
    }
}

fn for_each_of(
    document: ForEachDocument,
    after: DurationRange,
    effect: Effect,
    kinds: &Arc<Kinds>,
) -> Result<ForEach, String> {
    let variables = ["object", "name", "namespace", "uid", "now"];
    let when = document.when.map(|text| Program::compile_condition(&text, &variables, kinds));
    let count = document.count.map(|text| Program::compile_count(&text, &variables, kinds));
    Ok(ForEach {
        resource: kinds.resolve(&document.kind)?.resource.clone(),
        namespace: document.namespace,
        when: when.transpose().map_err(|problem| format!("forEach.when: {problem}"))?,
        count: count.transpose().map_err(|problem| format!("forEach.count: {problem}"))?,
        after,
        effect,
        kinds: Arc::clone(kinds),
    })
}

fn effect_of(
    ensure: Option<Value>,
    apply: Option<Value>,
    patch: Option<Value>,
    patch_status: Option<Value>,
    delete: Option<Value>,
    kinds: &Arc<Kinds>,
    kind: &str,
) -> Result<Effect, String> {
    let variables = template_variables();
    let template = |value: &Value| Template::parse(value, &variables, kinds);
    let delete = match delete {
        None | Some(Value::Bool(true)) => None,
        Some(options) => {
            let options: DeletionDocument = serde_json::from_value(options).map_err(|error| {
                let error = describe_message(&error.to_string());
                format!("delete: {error}; write true, or {{propagation: Background}}")
            })?;
            if options.object.is_some() {
                return Err(
                    "delete: an actor with forEach deletes the object itself; remove object".to_owned()
                );
            }
            propagation(options.propagation)?
        }
    };
    Ok(match (ensure, apply, patch, patch_status) {
        (Some(value), ..) => Effect::Ensure(template(&value)?),
        (_, Some(value), ..) => Effect::Apply(template(&value)?),
        (_, _, Some(value), _) => Effect::Patch(template(&value)?, false),
        (.., Some(value)) => {
            // The members are those of the status.
            let value = match value {
                Value::String(text) => {
                    Value::String(format!("status:\n  {}\n", text.trim_end().replace('\n', "\n  ")))
                }
                members => serde_json::json!({ "status": members }),
            };
            Effect::Patch(template(&value)?, kinds.resolve(kind)?.has_status)
        }
        _ => Effect::Delete { propagation: delete },
    })
}

fn propagation(policy: Option<String>) -> Result<Option<String>, String> {
    match policy {
        Some(policy) if !PROPAGATION.contains(&policy.as_str()) => {
            Err(format!("delete: propagation {} is none of {}", quoted(&policy), PROPAGATION.join(", ")))
        }
        policy => Ok(policy),
    }
}

/// Returns the steps of an entry: one for each object of a file.
fn steps_of(
    step: Spanned<StepDocument>,
    kinds: &Arc<Kinds>,
    files: &FileReader<'_>,
) -> Result<Vec<Step>, String> {
    let line = step.referenced.line();
    let StepDocument { create, apply, patch, delete, wait, sleep } = step.value;
    let actions = [
        create.is_some(),
        apply.is_some(),
        patch.is_some(),
        delete.is_some(),
        wait.is_some(),
        sleep.is_some(),
    ];
    match actions.into_iter().filter(|is_given| *is_given).count() {
        1 => {}
        0 => return Err("the step does nothing; give it one action, such as create or wait".to_owned()),
        _ => {
            return Err(
                "the step has several actions; make each a step of its own, in their order".to_owned()
            );
        }
    }
    let one = |title: String, action: StepAction| Ok(vec![Step { line, title, action }]);
    let manifests =
        |verb: &str, entry: &Value, operation: fn(Value) -> Operation| -> Result<Vec<Step>, String> {
            let step = |manifest: super::super::manifest::Manifest| {
                let title = format!("{verb} {} {}", manifest.resource.kind, manifest.name);
                Step { line, title, action: StepAction::Write(Box::new(manifest.write(operation))) }
            };
            Ok(files.manifests(entry, kinds)?.into_iter().map(step).collect())
        };
    if let Some(entry) = create {
        manifests("create", &entry, Operation::Create)
    } else if let Some(entry) = apply {
        let steps = manifests("apply", &entry, Operation::Apply)?;
        let is_named =
            |step: &Step| !matches!(&step.action, StepAction::Write(write) if write.name.is_empty());
        if !steps.iter().all(is_named) {
            return Err("apply needs metadata.name; use create with generateName".to_owned());
        }
        Ok(steps)
    } else if let Some(patch) = patch {
        let (title, write) = patch_write(patch, kinds)?;
        one(title, StepAction::Write(Box::new(write)))
    } else if let Some(delete) = delete {
        let (title, write) = delete_write(delete, kinds)?;
        one(title, StepAction::Write(Box::new(write)))
    } else if let Some(condition) = wait {
        let program = Program::compile_condition(&condition, &["now"], kinds)
            .map_err(|problem| format!("wait: {problem}"))?;
        one(format!("wait: {}", program.text()), StepAction::Wait(Box::new(program)))
    } else {
        let text = sleep.unwrap_or_default();
        let duration = duration_ms(&text).map_err(|problem| format!("sleep: {problem}"))?;
        one(format!("sleep {text}"), StepAction::Sleep(duration))
    }
}

fn patch_write(document: PatchDocument, kinds: &Kinds) -> Result<(String, ActorWrite), String> {
    let subresource = document.subresource.unwrap_or_default();
    if !["", "status", "scale"].contains(&subresource.as_str()) {
        return Err(format!("patch.subresource: {} is neither status nor scale", quoted(&subresource)));
    }
    let object = ObjectReference::parse(&document.object, kinds)?;
    let title = format!("patch {object}");
    Ok((title, write_of(object, subresource, Operation::MergePatch(Value::Object(document.merge)))))
}

fn delete_write(value: Value, kinds: &Kinds) -> Result<(String, ActorWrite), String> {
    let document = match value {
        Value::String(object) => DeletionDocument { object: Some(object), propagation: None },
        value => serde_json::from_value(value).map_err(|error| {
            let error = describe_message(&error.to_string());
            format!("delete: {error}; write KIND/NAME, or object and propagation")
        })?,
    };
    let object = document.object.ok_or("delete: it names no object; write KIND/NAME")?;
    let object = ObjectReference::parse(&object, kinds)?;
    let operation = Operation::Delete { propagation: propagation(document.propagation)?, uid: None };
    Ok((format!("delete {object}"), write_of(object, String::new(), operation)))
}

fn write_of(object: ObjectReference, subresource: String, operation: Operation) -> ActorWrite {
    let ObjectReference { resource, namespace, name } = object;
    ActorWrite { step: 0, resource, subresource, namespace, name, operation }
}
