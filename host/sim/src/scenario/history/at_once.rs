//! A history of the steps of a scenario: objects that are created and then changed, and the same objects created as they are in the end.

use super::History;
use crate::actor::{ActorWrite, Operation};
use crate::scenario::actor::{ActorDefinition, Behaviour, Step, StepAction};
use crate::scenario::merge::merged;

/// Returns the history of the steps before the first deletion. `None` if none of them changes an object that the actor has created, or if one of them
/// waits: a condition may wait for what is left out.
#[must_use]
pub fn changed_at_once(actor: &ActorDefinition) -> Option<History> {
    let Behaviour::Steps(steps) = &actor.behaviour else { return None };
    let is_delete =
        |step: &&Step| write(step).is_some_and(|write| matches!(write.operation, Operation::Delete { .. }));
    let kept: Vec<&Step> = steps.iter().take_while(|step| !is_delete(step)).collect();
    let writes: Vec<&ActorWrite> = kept.iter().map(|step| write(step)).collect::<Option<_>>()?;
    let at_once = at_once(&writes)?;
    let longer = kept.iter().zip(&writes).map(|(step, write)| copy(step, (*write).clone())).collect();
    let shorter = at_once.into_iter().map(|(index, write)| copy(kept[index], write)).collect();
    Some(History::new(&actor.name, longer, shorter))
}

/// Returns the writes without the changes of created objects, which are part of the creations instead, each with its former index.
fn at_once(writes: &[&ActorWrite]) -> Option<Vec<(usize, ActorWrite)>> {
    let mut kept: Vec<(usize, ActorWrite)> = Vec::new();
    for (index, write) in writes.iter().enumerate() {
        let created = kept.iter_mut().map(|(_, other)| other).find(|other| is_same_object(other, write));
        let created = created.filter(|_| write.subresource.is_empty());
        let merged = created.and_then(|created| {
            let (Operation::Create(object) | Operation::Apply(object)) = &mut created.operation else {
                return None;
            };
            match &write.operation {
                Operation::MergePatch(change) => Some((merged(object, change), object)),
                Operation::Apply(applied) => Some((merged(object, applied), object)),
                Operation::Create(_) | Operation::Delete { .. } => None,
            }
        });
        match merged {
            Some((changed, object)) => *object = changed,
            None => kept.push((index, (*write).clone())),
        }
    }
    (kept.len() < writes.len()).then_some(kept)
}

fn is_same_object(one: &ActorWrite, other: &ActorWrite) -> bool {
    let address = |write: &ActorWrite| {
        let resource = &write.resource;
        (resource.group.clone(), resource.plural.clone(), write.namespace.clone(), write.name.clone())
    };
    !one.name.is_empty() && one.subresource.is_empty() && address(one) == address(other)
}

fn write(step: &Step) -> Option<&ActorWrite> {
    match &step.action {
        StepAction::Write(write) | StepAction::Try(write) => Some(write),
        StepAction::Generated(_) | StepAction::Wait(_) | StepAction::Sleep(_) => None,
    }
}

fn copy(step: &Step, write: ActorWrite) -> Step {
    let write = Box::new(write);
    let action = match step.action {
        StepAction::Write(_) => StepAction::Write(write),
        _ => StepAction::Try(write),
    };
    Step { line: step.line, title: step.title.clone(), action }
}

#[cfg(test)]
mod tests {
    use pilothouse_model::ResourceType;
    use serde_json::{Value, json};

    use super::*;

    fn step(name: &str, operation: Operation) -> Step {
        let resource = ResourceType {
            group: String::new(),
            version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            plural: "configmaps".to_owned(),
            namespaced: true,
        };
        let (namespace, name) = ("default".to_owned(), name.to_owned());
        let subresource = String::new();
        let write = ActorWrite { step: 0, resource, subresource, namespace, name, operation };
        Step { line: 0, title: String::new(), action: StepAction::Write(Box::new(write)) }
    }

    /// Returns the operations of both ways.
    fn ways(steps: Vec<Step>) -> Option<[Vec<Operation>; 2]> {
        let actor = ActorDefinition { name: "user".to_owned(), behaviour: Behaviour::Steps(steps) };
        let history = changed_at_once(&actor)?;
        Some([false, true].map(|is_shorter| {
            let Behaviour::Steps(steps) = &history.way(is_shorter).behaviour else { panic!("steps") };
            steps.iter().map(|step| write(step).expect("a write").operation.clone()).collect()
        }))
    }

    fn create(name: &str, data: &Value) -> Step {
        step(name, Operation::Create(json!({"data": data})))
    }

    fn change(name: &str, data: &Value) -> Step {
        step(name, Operation::MergePatch(json!({"data": data})))
    }

    fn delete(name: &str) -> Step {
        step(name, Operation::Delete { propagation: None, uid: None })
    }

    #[test]
    fn changes_before_the_first_deletion_are_made_at_the_creation() {
        let steps = vec![
            create("a", &json!({"pool": "one"})),
            create("b", &json!({})),
            change("a", &json!({"pool": "two"})),
            change("c", &json!({"x": "y"})),
            delete("a"),
            change("b", &json!({"pool": "three"})),
        ];
        let [longer, shorter] = ways(steps).expect("a history");
        assert_eq!(longer.len(), 4);
        let created = |data: Value| Operation::Create(json!({"data": data}));
        let other = Operation::MergePatch(json!({"data": {"x": "y"}}));
        assert_eq!(shorter, [created(json!({"pool": "two"})), created(json!({})), other]);
    }

    #[test]
    fn there_is_no_history_without_a_change_or_with_a_wait() {
        assert!(ways(vec![create("a", &json!({})), delete("a")]).is_none());
        assert!(ways(vec![create("a", &json!({})), delete("a"), change("a", &json!({}))]).is_none());
        let sleep = Step { line: 0, title: String::new(), action: StepAction::Sleep(1) };
        assert!(ways(vec![create("a", &json!({})), sleep, change("a", &json!({"x": "y"}))]).is_none());
    }
}
