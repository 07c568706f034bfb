//! The progress of a search: prints progress and findings, and saves traces.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write, stderr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pilothouse_sim::Run;
use pilothouse_sim::finding::Finding;
use pilothouse_sim::finding::trace::{Input, Trace};
use pilothouse_sim::plan::Plan;
use pilothouse_sim::search::{SearchProgress, Strategy};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::subject::Subject;
use crate::cli::simulation::{Guarantees, Sim, SimOutput};
use crate::{CommandError, output};

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
    /// What the names of traces begin with.
    prefix: String,
    /// The part of the replay command that names plugins and scenario.
    arguments: String,
    plugins: Vec<Input>,
    scenario: Option<Input>,
    /// The lines about all findings.
    stories: Vec<String>,
    /// When each finding was shrunk and saved, in seconds since the start.
    finding_seconds: Vec<f64>,
    hashes: Option<HashFile>,
}

/// A file with the hash and the plan of each run, one line each.
struct HashFile {
    path: PathBuf,
    writer: BufWriter<File>,
    /// The first error. Nothing is written after it.
    error: Option<io::Error>,
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
            prefix: flags.derived.trace_prefix.clone(),
            arguments: arguments_of(flags).join(" "),
            plugins: subject.plugin_inputs(),
            scenario: subject.scenario_input(),
            stories: Vec::new(),
            finding_seconds: Vec::new(),
            hashes: None,
        }
    }

    /// Returns the lines about all findings, and when each was shrunk and saved, in seconds since the start.
    pub(super) fn into_findings(self) -> (Vec<String>, Vec<f64>) {
        (self.stories, self.finding_seconds)
    }

    /// Writes the hashes of the runs to a file, which is replaced if it exists.
    ///
    /// # Errors
    /// Returns a usage error if the file cannot be created.
    pub(super) fn write_hashes_to(&mut self, path: &Path) -> Result<(), CommandError> {
        let file = File::create(path).map_err(|error| {
            let problem = format!("--hashes {}: {error}; name a file that can be written", path.display());
            CommandError::Usage(problem)
        })?;
        let writer = BufWriter::new(file);
        self.hashes = Some(HashFile { path: path.to_owned(), writer, error: None });
        Ok(())
    }

    /// Ends the search.
    ///
    /// # Errors
    /// Returns a usage error if the hashes could not be written: exit code 1 would mean that something was found.
    pub(super) fn finish(&mut self) -> Result<(), CommandError> {
        self.clear_line();
        self.hashes.take().map_or(Ok(()), HashFile::finish)
    }

    /// Removes the progress from the terminal.
    fn clear_line(&self) {
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
        let path = self.folder.join(trace_name(&self.prefix, finding.number));
        let trace = Trace::new(finding, run, self.plugins.clone(), self.scenario.clone());
        let written =
            std::fs::create_dir_all(&self.folder).and_then(|()| std::fs::write(&path, trace.to_json()));
        match written {
            Ok(()) => Some(format!("pilothouse sim {} --replay {}", self.arguments, path.display())),
            Err(error) => {
                let problem = format!("the trace is not saved: {}: {error}", path.display());
                eprintln!("warning: {}; name another folder with --traces", output::TerminalSafe(&problem));
                None
            }
        }
    }
}

/// Returns the name of the file with the trace of a finding. `prefix` distinguishes the scenarios.
pub(in crate::commands::developer_tools) fn trace_name(prefix: &str, number: usize) -> String {
    format!("{prefix}finding-{number}.trace")
}

impl HashFile {
    fn add(&mut self, plan: &Plan, hash: u64) {
        let plan = serde_json::to_string(plan).expect("a plan has no maps");
        if self.error.is_none() {
            self.error = writeln!(self.writer, "{hash:016x} {plan}").err();
        }
    }

    fn finish(mut self) -> Result<(), CommandError> {
        let written = self.error.take().map_or_else(|| self.writer.flush(), Err);
        written.map_err(|error| {
            let path = self.path.display();
            CommandError::Usage(format!(
                "--hashes {path}: cannot write the hashes: {error}; name another file"
            ))
        })
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

impl SearchProgress for Progress {
    fn elapsed(&self) -> Duration {
        self.time()
    }

    fn is_interrupted(&self) -> bool {
        self.stop.is_cancelled()
    }

    fn ran(&mut self, plan: &Plan, hash: u64) {
        if let Some(hashes) = &mut self.hashes {
            hashes.add(plan, hash);
        }
    }

    fn batch_ended(&mut self, strategy: Strategy, runs: u64) {
        if self.shows_progress && self.printed.elapsed() >= INTERVAL {
            self.printed = Instant::now();
            let _ = write!(stderr(), "\r\u{1b}[K{}: {runs} runs, {:.0} s", strategy.name(), self.seconds());
        }
    }

    fn found(&mut self, finding: &Finding, run: &Run) {
        let command = self.save(finding, run);
        let mut lines = finding.lines(command.as_deref());
        lines.push(String::new());
        if self.shows_findings {
            self.clear_line();
            for line in &lines {
                output::print_line(line);
            }
        }
        self.stories.append(&mut lines);
        self.finding_seconds.push(self.seconds());
    }
}
