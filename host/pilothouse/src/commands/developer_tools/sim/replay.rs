//! `pilothouse sim --replay`: runs the plan of a trace again.

use std::path::Path;

use pilothouse_sim::Simulator;
use pilothouse_sim::analysis::RunView;
use pilothouse_sim::export::{Export, baseline_plan};
use pilothouse_sim::finding::divergence::Divergence;
use pilothouse_sim::finding::story::{self, VersionStory};
use pilothouse_sim::finding::trace::{Input, Trace};
use pilothouse_sim::oracle::{ReferenceRuns, Violation};
use pilothouse_sim::plan::Plan;
use pilothouse_sim::search::driver::reference_plans;

use super::inputs::{PluginInput, read_text};
use super::subject::Subject;
use super::subject_files::SubjectFiles;
use super::{export, unusable};
use crate::cli::simulation::Sim;
use crate::{CommandError, CommandResult, output};

/// The number of digits of a digest that an error shows.
const DIGITS: usize = 12;

/// Replays a trace. Fails if its error happens again.
///
/// # Errors
/// Returns a usage error if the trace cannot be read, was made from other files, or no longer applies.
pub(super) fn run(flags: &Sim, file: &Path) -> CommandResult {
    let usage_error = |problem: &str| CommandError::Usage(format!("--replay {}: {problem}", file.display()));
    let trace = Trace::parse(&read_text(file)?).map_err(|problem| usage_error(&problem))?;
    let scenario = match (flags.scenario.as_slice(), &trace.scenario) {
        ([], None) => None,
        ([scenario], Some(_)) => Some(scenario.as_path()),
        (_, Some(input)) => {
            let problem = format!("it was made with the scenario {}; name it with --scenario", input.file);
            return Err(usage_error(&problem));
        }
        (_, None) => return Err(usage_error("it was made without a scenario; leave --scenario out")),
    };
    let files = SubjectFiles::read(flags, scenario, &PluginInput::files_of(flags))?;
    let recorded: Vec<_> = trace.plugins.iter().chain(&trace.scenario).collect();
    let changed = ChangedFiles::between(&recorded, &files.inputs());
    if let Some(changed) = changed.as_ref().filter(|_| !flags.other_version) {
        return Err(usage_error(&changed.problem()));
    }
    let subject = Subject::of_files(flags, files)?;
    let plugins = subject.plugin_inputs();
    let mut world = subject.world()?;
    let mut run = |plan: &Plan| world.run(plan).map_err(|error| unusable(&error));
    // The oracles compare with the default schedule of the steps that the trace has.
    let mut reference_of = |plan: &Plan| -> Result<ReferenceRuns, CommandError> {
        let [first, second] = reference_plans(flags.seed, plan).map(|plan| run(&plan));
        Ok(ReferenceRuns::new(&first?, &second?))
    };
    let mut reference = reference_of(&trace.plan)?;
    if trace.plan.history.is_some() {
        reference = reference.with_cleanups_of(&reference_of(&Plan::default())?);
    }
    let replayed = run(&trace.plan)?;
    let renamed = renamed_plugins(&trace.plugins, &plugins);
    let divergence = trace.divergence(&replayed, &renamed);
    let skipped = trace.skipped(&replayed);
    print_differences(divergence.as_ref(), &skipped);
    let view = RunView::new(&replayed, reference.random());
    let oracles = subject.oracles()?;
    let judgements = oracles.judge(&view, Some(&reference));
    let sought = trace.violation.oracle.as_str();
    if !judgements.iter().any(|(name, _)| *name == sought) {
        return Err(usage_error(&why_nobody_judges(sought, oracles.disabled().get(sought))));
    }
    let mut violations = judgements.into_iter().flat_map(|(_, judgement)| judgement.violations);
    let found = violations.find(|violation| violation.is_same_error(&trace.violation));
    for line in story_lines(&trace, changed.as_ref(), &renamed, &view, found.as_ref()) {
        output::print_line(line);
    }
    let Some(violation) = found else {
        if let Some(problem) = why_nothing_follows(divergence.as_ref(), &skipped, flags.other_version) {
            return Err(usage_error(&problem));
        }
        output::print_line(format_args!("{}: not found again", trace.violation.oracle));
        return Ok(());
    };
    if let Some(folder) = &flags.export {
        let baseline = run(&baseline_plan(&trace.plan))?;
        let exported = Export::of(&view, &violation, &reference, &baseline, subject.exported_files()?);
        let exported = exported.map_err(|problem| export::impossible(&problem))?;
        export::write(folder, &exported, &subject, &trace)?;
    }
    Err(CommandError::Failure(format!("{}: found again", violation.oracle)))
}

/// Prints where the run is not the recorded one.
fn print_differences(divergence: Option<&Divergence>, skipped: &[String]) {
    if let Some(difference) = divergence {
        output::print_line(format_args!(
            "the run differs from the recorded one at event {}:",
            difference.index + 1
        ));
        output::print_line(format_args!("  recorded: {}", difference.expected));
        output::print_line(format_args!("  replayed: {}", difference.found));
    }
    for fault in skipped {
        output::print_line(format_args!("no longer applies: {fault}"));
    }
}

/// Returns the lines of the story of a replay; none if the error did not happen again with the same files. With other files, the story says what is only
/// in the trace, and what the other version did.
fn story_lines(
    trace: &Trace,
    changed: Option<&ChangedFiles>,
    renamed: &[(String, String)],
    view: &RunView<'_>,
    found: Option<&Violation>,
) -> Vec<String> {
    let Some(changed) = changed else {
        return found.map_or_else(Vec::new, |violation| story::align(&story::steps_of(view, violation)));
    };
    let steps = found.map_or_else(|| story::steps_of_run(view), |violation| story::steps_of(view, violation));
    let [recorded, current] = [&changed.recorded, &changed.current]
        .map(|files| if files.is_empty() { "the other files alone" } else { files.as_str() });
    let recorded = VersionStory { steps: &trace.steps, files: recorded };
    story::compare_versions(recorded, VersionStory { steps: &steps, files: current }, renamed)
}

/// How the files differ from those of the trace.
struct ChangedFiles {
    /// The files of the trace that are others now, with the beginnings of their digests; "" if there are none.
    recorded: String,
    /// The files of now that the trace does not have.
    current: String,
}

impl ChangedFiles {
    /// Returns how the files differ; `None` if they have the same contents.
    fn between(recorded: &[&Input], current: &[&Input]) -> Option<Self> {
        let missing = |inputs: &[&Input], others: &[&Input]| {
            let missing =
                inputs.iter().filter(|input| others.iter().all(|other| other.digest != input.digest));
            let name = |input: &&Input| {
                let digest: String = input.digest.chars().take(DIGITS).collect();
                format!("{} with the digest {digest}", input.file)
            };
            missing.map(name).collect::<Vec<_>>().join(" and ")
        };
        let files = Self { recorded: missing(recorded, current), current: missing(current, recorded) };
        (!files.recorded.is_empty() || !files.current.is_empty()).then_some(files)
    }

    /// Returns why the trace is refused, and what to do.
    fn problem(&self) -> String {
        let remedy = "name the same files as then, or give --other-version if another version is intended";
        match (self.recorded.as_str(), self.current.as_str()) {
            (then, "") => format!("it was made with {then}, too; {remedy}"),
            ("", now) => format!("it was made without {now}; {remedy}"),
            (then, now) => format!("it was made with {then}, and not with {now}; {remedy}"),
        }
    }
}

/// Returns the names of plugins whose files have other names than those of the trace: the name in the trace, and that of now.
fn renamed_plugins(recorded: &[Input], current: &[Input]) -> Vec<(String, String)> {
    let name = |input: &Input| Path::new(&input.file).with_extension("").to_string_lossy().into_owned();
    let pairs = recorded.iter().zip(current).filter(|(old, new)| old.file != new.file);
    pairs.map(|(old, new)| (name(old), name(new))).filter(|(old, _)| !old.is_empty()).collect()
}

/// Returns why no oracle can find the error of a trace again, and what to do.
fn why_nobody_judges(oracle: &str, disabled_because: Option<&String>) -> String {
    match disabled_because {
        Some(reason) => {
            format!("its oracle {oracle:?} is switched off ({reason}); switch it on to replay it")
        }
        None => format!(
            "nothing here judges {oracle:?}, which found its error; name the scenario that has this invariant"
        ),
    }
}

/// Returns why a replay that does not show the error again proves nothing, and what to do; `None` if it does. Another version is expected to
/// make another run, but all faults must happen in it.
fn why_nothing_follows(
    divergence: Option<&Divergence>,
    skipped: &[String],
    is_other_version: bool,
) -> Option<String> {
    let divergence = divergence.filter(|_| !is_other_version || !skipped.is_empty())?;
    let fault = skipped.first().map_or_else(String::new, |fault| format!(", and this never comes: {fault}"));
    let remedy = if is_other_version {
        "search for the error again, without --replay"
    } else {
        "give the flags with which the error was found, or search for it again, without --replay"
    };
    Some(format!(
        "the trace no longer applies: the run differs first at event {} ({}){fault}; {remedy}",
        divergence.index + 1,
        divergence.expected
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_another_content_are_named() {
        let input = |digest: &str| Input { file: "zoo.wasm".to_owned(), digest: digest.to_owned() };
        let (old, new) = (input("0123456789abcdef"), input("b"));
        assert!(ChangedFiles::between(&[&old], &[&old]).is_none());
        let assert_starts = |recorded: &[&Input], current: &[&Input], expected: &str| {
            let problem = ChangedFiles::between(recorded, current).expect("a difference").problem();
            assert!(problem.starts_with(expected) && problem.contains("--other-version"), "{problem}");
        };
        let both = "it was made with zoo.wasm with the digest 0123456789ab, and not with zoo.wasm with the digest b;";
        assert_starts(&[&old], &[&new], both);
        assert_starts(&[&old, &new], &[&old], "it was made with zoo.wasm with the digest b, too;");
        assert_starts(&[&old], &[&old, &new], "it was made without zoo.wasm with the digest b;");
    }

    #[test]
    fn plugins_are_renamed_by_their_position() {
        let input = |file: &str| Input { file: file.to_owned(), digest: String::new() };
        let (old, new) = ([input("zoo.wasm"), input("old.wasm")], [input("zoo.wasm"), input("new.wasm")]);
        assert_eq!(renamed_plugins(&old, &new), [("old".to_owned(), "new".to_owned())]);
        assert_eq!(renamed_plugins(&old, &old), []);
    }

    #[test]
    fn a_trace_applies_if_the_run_is_the_recorded_one_or_that_of_another_version_with_all_faults() {
        let divergence = Divergence { index: 6, expected: "a".to_owned(), found: "b".to_owned() };
        let fault = ["a crash".to_owned()];
        assert_eq!(why_nothing_follows(None, &fault, false), None);
        assert_eq!(why_nothing_follows(Some(&divergence), &[], true), None);
        let problem = why_nothing_follows(Some(&divergence), &[], false).expect("a problem");
        assert!(problem.contains("first at event 7 (a);") && problem.contains("flags"), "{problem}");
        let problem = why_nothing_follows(Some(&divergence), &fault, true).expect("a problem");
        assert!(problem.contains("this never comes: a crash; search"), "{problem}");
    }
}
