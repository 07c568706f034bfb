//! `pilothouse sim --replay`: runs the plan of a trace again.

use std::path::Path;

use pilothouse_sim::Simulator;
use pilothouse_sim::analysis::RunView;
use pilothouse_sim::export::{Export, baseline_plan};
use pilothouse_sim::finding::story;
use pilothouse_sim::finding::trace::{Input, Trace};
use pilothouse_sim::oracle::Reference;
use pilothouse_sim::plan::Plan;
use pilothouse_sim::search::driver::reference_plans;

use super::inputs::{PluginInput, read_text};
use super::subject::Subject;
use super::{export, unusable};
use crate::cli::simulation::Sim;
use crate::{CommandError, CommandResult, output};

/// Replays a trace. Fails if its error happens again.
///
/// # Errors
/// Returns a usage error if the trace cannot be read or was made from other kinds of files.
pub(super) fn run(flags: &Sim, file: &Path) -> CommandResult {
    let trace = Trace::parse(&read_text(file)?)
        .map_err(|problem| CommandError::Usage(format!("--replay {}: {problem}", file.display())))?;
    let scenario = match (flags.scenario.as_slice(), &trace.scenario) {
        ([], None) => None,
        ([scenario], Some(_)) => Some(scenario.as_path()),
        (_, Some(input)) => {
            let problem = format!("it was made with the scenario {}; name it with --scenario", input.file);
            return Err(CommandError::Usage(format!("--replay {}: {problem}", file.display())));
        }
        (_, None) => {
            let problem = "it was made without a scenario; leave --scenario out";
            return Err(CommandError::Usage(format!("--replay {}: {problem}", file.display())));
        }
    };
    let subject = Subject::new(flags, scenario, &PluginInput::files_of(flags))?;
    let scenarios: Vec<_> = subject.scenario_input().into_iter().collect();
    let recorded: Vec<_> = trace.plugins.iter().chain(&trace.scenario).collect();
    for line in changed_inputs(&recorded, subject.plugin_inputs().iter().chain(&scenarios)) {
        output::print_line(format_args!("note: {line}"));
    }
    let mut world = subject.world()?;
    let mut run = |plan: &Plan| world.run(plan).map_err(|error| unusable(&error));
    // The oracles compare with the default schedule of the steps that the trace has.
    let [first, second] = reference_plans(flags.seed, &trace.plan).map(|plan| run(&plan));
    let reference = Reference::new(&first?, &second?);
    let replayed = run(&trace.plan)?;
    if let Some(difference) = trace.divergence(&replayed) {
        output::print_line(format_args!(
            "the run differs from the recorded one at event {}:",
            difference.index + 1
        ));
        output::print_line(format_args!("  recorded: {}", difference.expected));
        output::print_line(format_args!("  replayed: {}", difference.found));
    }
    for step in trace.skipped(&replayed) {
        output::print_line(format_args!("no longer applies: {step}"));
    }
    let view = RunView::new(&replayed, reference.random());
    let oracles = subject.oracles()?;
    let judgements = oracles.judge(&view, Some(&reference));
    let mut violations = judgements.into_iter().flat_map(|(_, judgement)| judgement.violations);
    let Some(violation) = violations.find(|violation| violation.is_same_error(&trace.violation)) else {
        output::print_line(format_args!("{}: not found again", trace.violation.oracle));
        return Ok(());
    };
    for line in story::align(&story::tell(&view, &violation)) {
        output::print_line(line);
    }
    if let Some(folder) = &flags.export {
        let baseline = run(&baseline_plan(&trace.plan))?;
        let exported = Export::of(&view, &violation, &reference, &baseline, subject.exported_files()?);
        let exported = exported.map_err(|problem| export::impossible(&problem))?;
        export::write(folder, &exported, &subject, &trace)?;
    }
    Err(CommandError::Failure(format!("{}: found again", violation.oracle)))
}

/// Returns a line for each file whose content is another than that of the trace.
fn changed_inputs<'a>(recorded: &[&Input], current: impl Iterator<Item = &'a Input>) -> Vec<String> {
    current
        .filter(|input| !recorded.iter().any(|recorded| recorded.digest == input.digest))
        .map(|input| format!("{} is not the file of the trace; the run may differ", input.file))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_another_content_are_named() {
        let input = |digest: &str| Input { file: "zoo.wasm".to_owned(), digest: digest.to_owned() };
        assert_eq!(changed_inputs(&[&input("a")], [input("a")].iter()), Vec::<String>::new());
        assert_eq!(
            changed_inputs(&[&input("a")], [input("b")].iter()),
            ["zoo.wasm is not the file of the trace; the run may differ"]
        );
    }
}
