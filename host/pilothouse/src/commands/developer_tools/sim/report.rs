//! Prints the result of a search.

use pilothouse_sim::finding::{Report, junit};
use serde::Serialize;

use super::subject::Subject;
use crate::cli::simulation::{Sim, SimOutput};
use crate::output;

/// The JSON document of a search.
#[derive(Serialize)]
struct Document<'a> {
    name: &'a str,
    seconds: f64,
    #[serde(flatten)]
    report: &'a Report,
    /// Kinds for which no objects could be generated.
    problems: &'a [String],
}

/// Prints the result. In text, the findings were printed when they were found.
pub(super) fn print(flags: &Sim, subject: &Subject, report: &Report, seconds: f64) {
    let name = subject.name();
    match flags.output {
        SimOutput::Text => {
            for problem in subject.problems() {
                output::print_line(format_args!("note: {problem}"));
            }
            let runs = f64::from(u32::try_from(report.runs + report.shrinking_runs).unwrap_or(u32::MAX));
            output::print_line(format_args!(
                "{name}: {seconds:.1} s, {:.0} runs per second",
                if seconds > 0.0 { runs / seconds } else { runs }
            ));
            for line in report.lines() {
                output::print_line(line);
            }
        }
        SimOutput::Json => {
            output::print_line(json(&Document {
                name: &name,
                seconds,
                report,
                problems: subject.problems(),
            }));
        }
        SimOutput::Junit => {
            output::print_line(junit::junit(&name, report, seconds));
        }
    }
}

/// Returns a document as JSON.
pub(super) fn json(document: &impl Serialize) -> String {
    serde_json::to_string_pretty(document).expect("a value whose maps have text keys")
}
