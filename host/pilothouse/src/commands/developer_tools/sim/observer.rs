//! Follows a search: prints progress and findings, and saves traces.

use std::io::{IsTerminal, Write, stderr};
use std::path::PathBuf;
use std::time::Duration;

use pilothouse_sim::Run;
use pilothouse_sim::finding::Finding;
use pilothouse_sim::finding::trace::{Input, Trace};
use pilothouse_sim::search::{Observer, Strategy};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::subject::Subject;
use crate::cli::simulation::{Sim, SimOutput};
use crate::output;

/// How often the progress is printed.
const INTERVAL: Duration = Duration::from_millis(500);

/// The progress of one search.
pub(super) struct Progress {
    started: Instant,
    printed: Instant,
    stop: CancellationToken,
    shows_progress: bool,
    shows_findings: bool,
    folder: PathBuf,
    /// The part of the replay command that names plugins and scenario.
    arguments: String,
    plugins: Vec<Input>,
    scenario: Option<Input>,
}

impl Progress {
    pub(super) fn new(flags: &Sim, subject: &Subject, stop: &CancellationToken) -> Self {
        let plugins = flags.plugins.iter().map(|file| file.display().to_string());
        let scenarios = flags.scenario.iter().map(|file| format!("--scenario {}", file.display()));
        let now = Instant::now();
        Self {
            started: now,
            printed: now,
            stop: stop.clone(),
            shows_progress: stderr().is_terminal(),
            shows_findings: flags.output == SimOutput::Text,
            folder: flags.traces.clone(),
            arguments: plugins.chain(scenarios).collect::<Vec<_>>().join(" "),
            plugins: subject.plugin_inputs(),
            scenario: subject.scenario_input(),
        }
    }

    /// Removes the progress from the terminal.
    pub(super) fn finish(&self) {
        if self.shows_progress {
            // The result does not depend on what the terminal shows.
            let _ = write!(stderr(), "\r\u{1b}[K");
        }
    }

    /// Returns the time since the start.
    pub(super) fn time(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the time since the start in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.time().as_secs_f64()
    }

    /// Saves the trace. Returns the command that replays it.
    fn save(&self, finding: &Finding, run: &Run) -> Option<String> {
        let path = self.folder.join(format!("finding-{}.trace", finding.number));
        let trace = Trace::new(finding, run, self.plugins.clone(), self.scenario.clone());
        match std::fs::write(&path, trace.to_json()) {
            Ok(()) => Some(format!("pilothouse sim {} --replay {}", self.arguments, path.display())),
            Err(error) => {
                tracing::error!(
                    "the trace is not saved: {}: {error}; name another folder with --traces",
                    path.display()
                );
                None
            }
        }
    }
}

impl Observer for Progress {
    fn elapsed(&self) -> Duration {
        self.time()
    }

    fn is_interrupted(&self) -> bool {
        self.stop.is_cancelled()
    }

    fn progress(&mut self, strategy: Strategy, runs: u64) {
        if self.shows_progress && self.printed.elapsed() >= INTERVAL {
            self.printed = Instant::now();
            let _ = write!(stderr(), "\r\u{1b}[K{}: {runs} runs, {:.0} s", strategy.name(), self.seconds());
        }
    }

    fn found(&mut self, finding: &Finding, run: &Run) {
        let command = self.save(finding, run);
        if self.shows_findings {
            self.finish();
            for line in finding.lines(command.as_deref()) {
                output::print_line(line);
            }
            output::print_line("");
        }
    }
}
