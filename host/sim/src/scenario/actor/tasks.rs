//! Shorter tasks of an actor: some of its steps, which are searched like all of them.
//!
//! Runs are compared with the reference at their last rest. What a plugin did wrong with an object is no longer seen there if the object was
//! deleted in the end. And the step that follows an object's creation at once is rarely its deletion if the actor does much in between.

use std::collections::BTreeMap;

use super::{ActorDefinition, Behaviour, Step, StepAction};
use crate::actor::{ActorWrite, Operation};
use crate::plan::ActorStep;

/// Returns the shorter tasks, each as the steps that it leaves out:
///
/// - All steps before the first deletion, if they change something.
/// - Of each object that is recreated, only the creation and the deletion.
#[must_use]
pub fn shorter_tasks(actor: &ActorDefinition) -> Vec<Vec<ActorStep>> {
    let Behaviour::Steps(steps) = &actor.behaviour else { return Vec::new() };
    let left_out = |kept: Vec<bool>| {
        let numbers = (1..).zip(kept).filter(|(_, is_kept)| !is_kept);
        numbers.map(|(step, _)| ActorStep { actor: actor.name.clone(), step }).collect()
    };
    [before_deletions(steps), short_lives(steps)].into_iter().flatten().map(left_out).collect()
}

/// Returns which steps come before the first deletion. `None` if there is no such task, or if what comes later is more than writes: a condition may wait
/// for what is left out.
fn before_deletions(steps: &[Step]) -> Option<Vec<bool>> {
    let is_delete = |step: &Step| write(step).is_some_and(is_deletion);
    let end = steps.iter().position(is_delete)?;
    let (kept, others) = steps.split_at(end);
    let has_waits =
        others.iter().any(|step| matches!(step.action, StepAction::Wait(_) | StepAction::Sleep(_)));
    let has_changes = kept
        .iter()
        .filter_map(write)
        .any(|write| matches!(write.operation, Operation::MergePatch(_) | Operation::Apply(_)));
    (has_changes && !has_waits).then(|| (0..steps.len()).map(|index| index < end).collect())
}

/// Returns which steps create and delete objects that are recreated, each for the first time. `None` if there is no such object, or if there are other
/// steps than writes.
fn short_lives(steps: &[Step]) -> Option<Vec<bool>> {
    if steps.iter().any(|step| matches!(step.action, StepAction::Wait(_) | StepAction::Sleep(_))) {
        return None;
    }
    let mut lives: BTreeMap<[&str; 4], Vec<usize>> = BTreeMap::new();
    for (index, step) in steps.iter().enumerate() {
        let Some(write) = write(step) else { continue };
        if is_deletion(write) || matches!(write.operation, Operation::Create(_)) {
            let ActorWrite { resource, namespace, name, .. } = write;
            lives.entry([&resource.group, &resource.plural, namespace, name]).or_default().push(index);
        }
    }
    let mut kept = vec![false; steps.len()];
    for steps in lives.values().filter(|steps| steps.len() >= 3) {
        steps.iter().take(2).for_each(|index| kept[*index] = true);
    }
    kept.contains(&true).then_some(kept)
}

fn write(step: &Step) -> Option<&ActorWrite> {
    match &step.action {
        StepAction::Write(write) | StepAction::Try(write) => Some(write),
        StepAction::Generated(_) | StepAction::Wait(_) | StepAction::Sleep(_) => None,
    }
}

fn is_deletion(write: &ActorWrite) -> bool {
    matches!(write.operation, Operation::Delete { .. })
}

#[cfg(test)]
mod tests {
    use pilothouse_model::ResourceType;
    use serde_json::json;

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

    fn create(name: &str) -> Step {
        step(name, Operation::Create(json!({})))
    }

    fn change(name: &str) -> Step {
        step(name, Operation::MergePatch(json!({})))
    }

    fn delete(name: &str) -> Step {
        step(name, Operation::Delete { propagation: None, uid: None })
    }

    fn sleep() -> Step {
        Step { line: 0, title: String::new(), action: StepAction::Sleep(1) }
    }

    /// Returns the numbers of the steps that each task leaves out.
    fn tasks(steps: Vec<Step>) -> Vec<Vec<u32>> {
        let actor = ActorDefinition { name: "user".to_owned(), behaviour: Behaviour::Steps(steps) };
        let tasks = shorter_tasks(&actor).into_iter();
        tasks.map(|task| task.into_iter().map(|step| step.step).collect()).collect()
    }

    #[test]
    fn changes_are_a_task_without_the_deletions() {
        let steps = vec![create("a"), change("a"), delete("a"), change("b")];
        assert_eq!(tasks(steps), [[3, 4]]);
    }

    #[test]
    fn an_object_that_is_recreated_has_a_task_of_its_creation_and_deletion() {
        let steps = vec![create("a"), create("b"), change("a"), delete("a"), create("a"), delete("b")];
        assert_eq!(tasks(steps), [vec![4, 5, 6], vec![2, 3, 5, 6]]);
    }

    #[test]
    fn there_is_no_shorter_task_if_nothing_is_changed_or_later_steps_wait() {
        assert_eq!(tasks(vec![create("a"), delete("a")]), Vec::<Vec<u32>>::new());
        assert_eq!(tasks(vec![create("a"), change("a")]), Vec::<Vec<u32>>::new());
        let steps = vec![create("a"), change("a"), delete("a"), sleep(), create("a")];
        assert_eq!(tasks(steps), Vec::<Vec<u32>>::new());
    }
}
