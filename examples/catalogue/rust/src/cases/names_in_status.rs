//! Case 16: the names of what was created are in the status only.
//!
//! The plugin creates a TaskRun with a random name for each task of a Run, and records all names by one update of the status. If the
//! update conflicts, or the process ends before it, the tasks run again.
//!
//! Sources: <https://github.com/tektoncd/pipeline/issues/2558>, <https://github.com/tektoncd/pipeline/issues/3126>

use std::collections::BTreeMap;

use pilothouse_sdk::serde_json::{Value, json};
use pilothouse_sdk::{Context, Error, Object, Outcome, Plugin, Request, Verb, Watch, WatchRef};

use crate::{Case, kit};

const RUNS: WatchRef<Object> = WatchRef::new("runs");
const TASK_RUNS: WatchRef<Object> = WatchRef::new("taskruns");

/// See the module.
#[derive(Default)]
pub struct NamesInStatus;

impl Case for NamesInStatus {
    const NAME: &'static str = "names-in-status";

    fn describe(plugin: Plugin) -> Plugin {
        plugin
            .crd(kit::definition(include_str!("../../../crds/run.json")))
            .crd(kit::definition(include_str!("../../../crds/taskrun.json")))
            .watch(Watch::untyped(RUNS, kit::own("Run")).triggers_itself())
            .watch(Watch::untyped(TASK_RUNS, kit::own("TaskRun")).triggers_owner(RUNS))
            .writes(kit::may("taskruns", &[Verb::Create]))
            .writes(kit::may("runs/status", &[Verb::Update, Verb::Patch]))
    }

    fn wrong(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some((run, tasks, mut names)) = read(ctx, request)? else { return Ok(Outcome::Done) };
        let missing: Vec<String> = tasks.into_iter().filter(|task| !names.contains_key(task)).collect();
        if missing.is_empty() {
            return Ok(Outcome::Done);
        }
        for task in missing {
            let name = json!({"generateName": format!("{}-{task}-", request.key.name)});
            let created = ctx.client().untyped().create(&task_run(&run, &task, name), "")?;
            names.insert(task, created.key().name);
        }
        let mut manifest = run.value()?;
        manifest["status"] = json!({"taskRuns": names});
        ctx.client().untyped().update(&manifest, "status")?;
        Ok(Outcome::Done)
    }

    fn right(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some((run, tasks, recorded)) = read(ctx, request)? else { return Ok(Outcome::Done) };
        let mut names = BTreeMap::new();
        for task in tasks {
            let name = format!("{}-{task}", request.key.name);
            if ctx.cache(TASK_RUNS).get(&request.key.sibling(name.as_str()))?.is_none() {
                ctx.client().untyped().create(&task_run(&run, &task, json!({"name": name})), "")?;
            }
            names.insert(task, name);
        }
        if names.iter().any(|(task, name)| recorded.get(task) != Some(name)) {
            kit::merge(ctx, &run, "status", &json!({"status": {"taskRuns": names}}))?;
        }
        Ok(Outcome::Done)
    }
}

/// A Run, its tasks, and the names of the TaskRuns that its status has by task.
type Read = (Object, Vec<String>, BTreeMap<String, String>);

fn read(ctx: &Context<'_>, request: &Request) -> Result<Option<Read>, Error> {
    let Some(run) = ctx.cache(RUNS).get(&request.key)?.filter(|run| !run.is_being_deleted()) else {
        return Ok(None);
    };
    let tasks = run.field("/spec/tasks")?.unwrap_or_default();
    let names = run.field("/status/taskRuns")?.unwrap_or_default();
    Ok(Some((run, tasks, names)))
}

fn task_run(run: &Object, task: &str, mut metadata: Value) -> Value {
    let key = run.key();
    metadata["namespace"] = key.namespace.into();
    metadata["labels"] = json!({"run": key.name, "task": task});
    metadata["ownerReferences"] = kit::owned_by(run);
    json!({
        "apiVersion": "catalogue.pilothouse.dev/v1",
        "kind": "TaskRun",
        "metadata": metadata,
        "spec": {"task": task},
    })
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::testing::{Failure, Host};
    use pilothouse_sdk::{ApiError, ObjectKey, Reconciler};

    use super::*;
    use crate::{Right, Wrong};

    /// Reconciles a Run until it is done, with a conflict of the first status update. Returns the number of TaskRuns that were created.
    fn created<P: Reconciler>() -> usize {
        let host = Host::<P>::new();
        host.put_json(json!({
            "apiVersion": "catalogue.pilothouse.dev/v1", "kind": "Run", "spec": {"tasks": ["build", "test"]},
            "metadata": {"name": "a", "namespace": "default", "uid": "u1"},
        }));
        let conflict = || ApiError::Conflict { message: "changed".into(), resource_version: None };
        host.fail(Failure::new(conflict()).verb(Verb::Update).kind("Run"));
        host.fail(Failure::new(conflict()).verb(Verb::Patch).kind("Run"));
        let key = ObjectKey::new("default", "a");
        host.reconcile(RUNS, &key).expect_err("the status update conflicts");
        host.reconcile(RUNS, &key).expect("a reconcile");
        host.writes().iter().filter(|write| write.starts_with("create")).count()
    }

    #[test]
    fn after_a_conflict_only_the_wrong_twin_runs_the_tasks_again() {
        assert_eq!(created::<Wrong<NamesInStatus>>(), 4);
        assert_eq!(created::<Right<NamesInStatus>>(), 2);
    }
}
