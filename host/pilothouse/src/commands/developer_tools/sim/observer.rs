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
use crate::cli::simulation::{Guarantees, Sim, SimOutput};
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
        let now = Instant::now();
        Self {
            started: now,
            printed: now,
            stop: stop.clone(),
            shows_progress: stderr().is_terminal(),
            shows_findings: flags.output == SimOutput::Text,
            folder: flags.traces.clone(),
            arguments: arguments_of(flags).join(" "),
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
                let problem = format!("the trace is not saved: {}: {error}", path.display());
                eprintln!("warning: {}; name another folder with --traces", output::TerminalSafe(&problem));
                None
            }
        }
    }
}

/// Returns the arguments on which a run depends, beside its plan.
fn arguments_of(flags: &Sim) -> Vec<String> {
    let mut arguments: Vec<_> = flags.plugins.iter().map(|file| file.display().to_string()).collect();
    let named = |name: &str, files: &[PathBuf]| -> Vec<String> {
        files.iter().map(|file| format!("{name} {}", file.display())).collect()
    };
    arguments.extend(named("--scenario", &flags.scenario));
    arguments.extend(named("--objects", flags.objects.as_slice()));
    arguments.extend(named("--upgrade", flags.upgrade.as_slice()));
    arguments.push(format!("--seed {:#x}", flags.seed));
    arguments.extend(flags.guarantees.map(|guarantees| match guarantees {
        Guarantees::On => "--guarantees on".to_owned(),
        Guarantees::None => "--guarantees none".to_owned(),
    }));
    arguments
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
