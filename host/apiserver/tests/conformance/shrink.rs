//! Shrinks random scripts on which the servers differ.

use crate::case::{Case, Step};
use crate::compare::{self, Difference};
use crate::run;
use crate::target::Target;

/// Runs a script on both servers. If they differ, removes steps while they still differ, and describes the shortest script.
pub(crate) async fn smallest_failure(script: &Case, real: &Target) -> Option<String> {
    let mut found = first_difference(script, real).await?;
    let mut smallest = script.clone();
    // Steps after the one that differs have no effect on it.
    smallest.steps.truncate(found.step.max(1));
    let mut position = smallest.steps.len();
    let mut attempts = 0;
    while position > 0 {
        position -= 1;
        attempts += 1;
        let candidate = without(&smallest, position, attempts);
        if let Some(difference) = first_difference(&candidate, real).await {
            smallest = candidate;
            smallest.steps.truncate(difference.step.max(1));
            position = position.min(smallest.steps.len());
            found = difference;
        }
    }
    let steps: Vec<String> = smallest.steps.iter().map(describe).collect();
    Some(format!(
        "{} (shrunk from {} steps):\n  {}\n  differs at {}\n    kube-apiserver: {}\n    embedded:       {}",
        script.name,
        script.steps.len(),
        steps.join("\n  "),
        found.pointer,
        found.expected,
        found.actual
    ))
}

/// Returns the script without one step, in a namespace that was not used before.
fn without(script: &Case, position: usize, attempt: usize) -> Case {
    let mut steps = script.steps.clone();
    steps.remove(position);
    let name = script.name.rsplit('/').next().unwrap_or_default();
    let base = name.split("-s").next().unwrap_or_default();
    let mut shrunk = Case::new(&script.group, &format!("{base}-s{attempt}"), steps);
    shrunk.setup.clone_from(&script.setup);
    for (name, value) in &script.variables {
        shrunk.variables.entry(name.clone()).or_insert_with(|| value.clone());
    }
    shrunk
}

async fn first_difference(script: &Case, real: &Target) -> Option<Difference> {
    if script.steps.is_empty() {
        return None;
    }
    let expected = run::run(script, real).await;
    let actual = run::run(script, &Target::Embedded).await;
    compare::answers(&script.name, &expected, &actual).into_iter().next()
}

fn describe(step: &Step) -> String {
    serde_json::to_string(step).expect("JSON")
}
