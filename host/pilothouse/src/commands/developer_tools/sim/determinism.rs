//! `pilothouse sim --check-determinism`: makes the default run and some with faults in this process and in another one, in which hash maps have
//! another order, and compares all calls.

use std::io::{self, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use pilothouse_sim::call_log::{CallLog, MAX_SIZE};
use pilothouse_sim::search::repetition::{RepeatedRuns, repeated_runs};

use super::inputs::PluginInput;
use super::subject::Subject;
use super::{faults_of, unusable};
use crate::cli::simulation::Sim;
use crate::{CommandError, CommandResult, output};

/// The variable of the flag `--print-calls`, with which the other process is started.
const PRINT_CALLS: &str = "PILOTHOUSE_PRINT_CALLS";

/// Compares the runs of this process with those of another one. `position` is that of the scenario. Returns 1 if they differ.
///
/// # Errors
/// Returns an error if the run is not possible, or the other process fails.
pub(super) fn check(flags: &Sim, scenario: Option<&Path>, position: usize) -> Result<usize, CommandError> {
    let RepeatedRuns { calls: own, runs, deviations, draws } = make_runs(flags, scenario)?;
    let other = calls_of_another_process(position)?;
    let Some(difference) = own.difference(&other) else {
        output::print_line(format_args!(
            "deterministic: seed {:#x} gave the hash {:016x} in two processes, after {} calls and {draws} random draws in {runs} runs with {deviations} \
             faults; their hash maps had different orders",
            flags.seed,
            own.hash(),
            own.count()
        ));
        return Ok(0);
    };
    output::print_line(format_args!("NOT DETERMINISTIC: call {} differs", difference.index + 1));
    output::print_line(format_args!("  this process:    {}", difference.expected));
    output::print_line(format_args!("  another process: {}", difference.found));
    Ok(1)
}

/// Prints the calls of the runs, for the process that compares them.
///
/// # Errors
/// Returns an error if the run is not possible, or nobody reads the calls.
pub(super) fn print_calls(flags: &Sim, scenario: Option<&Path>) -> CommandResult {
    let calls = make_runs(flags, scenario)?.calls;
    let written = calls.write(&mut io::BufWriter::new(io::stdout().lock()));
    written.map_err(|error| CommandError::Failure(format!("cannot write the calls: {error}")))
}

/// Makes the runs that both processes make.
fn make_runs(flags: &Sim, scenario: Option<&Path>) -> Result<RepeatedRuns, CommandError> {
    let subject = Subject::new(flags, scenario, &PluginInput::files_of(flags))?;
    let (mut world, faults) = (subject.world()?, faults_of(flags, &subject));
    let runs = repeated_runs(flags.seed, &faults, |plan, calls| world.run_with_calls(plan, calls));
    runs.map_err(|error| unusable(&error))
}

/// Starts this program again with the same arguments, to make the runs of one scenario there.
fn calls_of_another_process(position: usize) -> Result<CallLog, CommandError> {
    let failed = |problem: &dyn std::fmt::Display| {
        CommandError::Failure(format!("--check-determinism: the run in another process failed: {problem}"))
    };
    let program = std::env::current_exe().map_err(|error| failed(&error))?;
    let mut process = Command::new(program)
        .args(std::env::args_os().skip(1))
        .env(PRINT_CALLS, position.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| failed(&error))?;
    let output = process.stdout.take().expect("a pipe");
    // The pipe is closed before the process is waited for, so that the process cannot wait for a reader.
    let calls = CallLog::read(BufReader::new(output.take(MAX_SIZE)));
    let status = process.wait().map_err(|error| failed(&error))?;
    if !status.success() {
        return Err(failed(&status));
    }
    calls.map_err(|problem| failed(&format!("its output cannot be read: {problem}")))
}
