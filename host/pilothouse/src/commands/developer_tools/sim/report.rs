//! Prints the result of a search.

use pilothouse_sim::finding::Report;
use serde::Serialize;

use super::SearchResult;
use super::junit::suite_of;
use crate::cli::simulation::{Sim, SimOutput};
use crate::output;

/// The JSON document of a search.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    name: &'a str,
    seconds: f64,
    /// When each finding was shrunk and saved, in seconds since the start.
    finding_seconds: &'a [f64],
    #[serde(flatten)]
    report: &'a Report,
    /// Kinds for which no objects could be generated.
    problems: &'a [String],
}

/// Prints the result. In text, the findings were printed when they were found.
pub(super) fn print(flags: &Sim, result: &SearchResult) {
    let SearchResult { subject, report, seconds, finding_seconds, .. } = result;
    let (name, seconds) = (subject.name(), *seconds);
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
                finding_seconds,
                report,
                problems: subject.problems(),
            }));
        }
        SimOutput::Junit => {
            output::print_line(suite_of(&name, report, seconds).to_xml());
        }
    }
}

/// Returns a document as JSON.
pub(super) fn json(document: &impl Serialize) -> String {
    serde_json::to_string_pretty(document).expect("a value whose maps have text keys")
}
