//! `pilothouse dev --build --sim`: simulates each build in a process of its own, so that a simulation neither slows the host down nor ends it.

mod report;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, setpriority_pgrp};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::task::JoinHandle;

use super::simulation_files;
use crate::build::Progress;
use crate::commands::compile::this_executable;
use crate::{CommandError, output};
use report::{Simulated, lines_about};

/// The number of runs in each scenario.
const RUNS: &str = "120";
/// How long a search in a scenario takes at most.
const MAX_TIME: &str = "30s";
/// Niceness of the process: the host and builds take precedence.
const NICENESS: i32 = 10;
/// How many bytes of the process's output are read.
const MAX_OUTPUT: u64 = 16 << 20;
/// The folder for traces in the project. Git and the watcher of the sources ignore it.
const TRACES: &str = ".pilothouse";
/// What the environment variables of the host's own flags begin with. They are not meant for the simulation.
const VARIABLES: &str = "PILOTHOUSE_";

/// Simulates the builds of a project, one at a time. Dropping this ends the simulation that is under way.
pub(super) struct BuildSimulations {
    project: PathBuf,
    /// The directory of compiled plugins; `None` for the user's cache.
    cache_dir: Option<PathBuf>,
    /// Whether builds are simulated. If not, the first build is followed by a hint.
    is_enabled: bool,
    has_hinted: bool,
    running: Option<JoinHandle<()>>,
}

impl BuildSimulations {
    pub(super) fn new(project: PathBuf, cache_dir: Option<PathBuf>, is_enabled: bool) -> Self {
        Self { project, cache_dir, is_enabled, has_hinted: false, running: None }
    }

    /// Ends the simulation that is under way: its build is outdated.
    pub(super) fn cancel(&mut self) {
        if let Some(task) = self.running.take() {
            // The process is killed when the task is dropped.
            task.abort();
        }
    }

    /// Starts the simulation of a build, or prints once how to simulate it.
    pub(super) fn start(&mut self, plugin: &Path, progress: &Progress) {
        self.cancel();
        if !self.is_enabled {
            if !std::mem::replace(&mut self.has_hinted, true) {
                let project = self.project.display();
                progress.print(&format!(
                    "simulate it with `pilothouse sim {project}`, or each build with `pilothouse dev --build {project} --sim`"
                ));
            }
            return;
        }
        let (project, plugin, progress) = (self.project.clone(), plugin.to_owned(), progress.clone());
        let cache_dir = self.cache_dir.clone();
        self.running = Some(tokio::spawn(async move {
            let name = plugin.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let lines = match simulate(&project, &plugin, cache_dir.as_deref()).await {
                Ok(simulated) => lines_about(&name, &project, &simulated),
                Err(CommandError::Failure(problem) | CommandError::Usage(problem)) => {
                    vec![format!("cannot simulate {name}: {problem}")]
                }
            };
            for line in lines {
                progress.print(&output::TerminalSafe(&line).to_string());
            }
        }));
    }
}

impl Drop for BuildSimulations {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// Runs `pilothouse sim` with the plugin and the scenarios of the project, until it ends. Dropping the future kills the process.
///
/// # Errors
/// Errors if the scenarios cannot be listed, or the process cannot be run.
async fn simulate(
    project: &Path,
    plugin: &Path,
    cache_dir: Option<&Path>,
) -> Result<Simulated, CommandError> {
    let scenarios = simulation_files::find(project)?;
    let traces = project.join(TRACES);
    let failed =
        |error: std::io::Error| CommandError::Failure(format!("cannot run `pilothouse sim`: {error}"));
    let program = this_executable()
        .ok_or_else(|| CommandError::Failure("the path of this program is unknown".to_owned()))?;
    let mut command = Command::new(program);
    let is_setting = |name: &OsString| name.to_string_lossy().starts_with(VARIABLES);
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_setting(name)) {
        command.env_remove(name);
    }
    command.args(arguments(plugin, &scenarios, &traces, cache_dir));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    // A process group of its own: the priority then applies to all of its threads.
    command.process_group(0);
    let mut child = command.spawn().map_err(failed)?;
    let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    if let Some(group) = group {
        // A precaution. If the system refuses it, the simulation competes with the host.
        let _ = setpriority_pgrp(Some(group), NICENESS);
    }
    let (stdout, stderr) = tokio::join!(text_of(child.stdout.take()), text_of(child.stderr.take()));
    child.wait().await.map_err(failed)?;
    Ok(Simulated { stdout, stderr, scenarios, traces })
}

/// Returns the arguments of the process.
fn arguments(plugin: &Path, scenarios: &[PathBuf], traces: &Path, cache_dir: Option<&Path>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["sim".into(), plugin.into()];
    // One thread leaves the other cores to the host and to builds.
    for argument in ["--seeds", RUNS, "--time", MAX_TIME, "--threads", "1", "--output", "json", "--traces"] {
        arguments.push(argument.into());
    }
    arguments.push(traces.into());
    if let Some(directory) = cache_dir {
        arguments.push("--cache-dir".into());
        arguments.push(directory.into());
    }
    for scenario in scenarios {
        arguments.push("--scenario".into());
        arguments.push(scenario.into());
    }
    arguments
}

/// Returns what a pipe delivers until its end, or until [`MAX_OUTPUT`].
async fn text_of(pipe: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        // What was read before an error is used.
        let _ = pipe.take(MAX_OUTPUT).read_to_end(&mut bytes).await;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::developer_tools::DeveloperCommand;
    use crate::cli::{Cli, Command};

    #[test]
    fn the_arguments_are_those_of_the_command_sim() {
        let scenarios = [PathBuf::from("s/a.yaml"), PathBuf::from("s/b.yaml")];
        let (traces, cache) = (Path::new("p/.pilothouse"), Path::new("/c"));
        let arguments = arguments(Path::new("plugins/a.wasm"), &scenarios, traces, Some(cache));
        let all = std::iter::once(OsString::from("pilothouse")).chain(arguments);
        let Command::DeveloperTools(DeveloperCommand::Sim(flags)) =
            Cli::try_parse_from(all).expect("valid").command
        else {
            panic!("another command");
        };
        assert_eq!(flags.plugins, [PathBuf::from("plugins/a.wasm")]);
        assert_eq!(flags.scenario, scenarios);
        assert_eq!((flags.threads, flags.seeds), (Some(1), Some(120)));
        assert_eq!((flags.traces.as_path(), flags.cache_dir.as_deref()), (traces, Some(cache)));
    }

    #[tokio::test]
    async fn without_the_flag_nothing_is_simulated() {
        let mut simulations = BuildSimulations::new("greeter".into(), None, false);
        for _ in 0..2 {
            simulations.start(Path::new("plugins/greeter.wasm"), &Progress::plain());
            assert!(simulations.running.is_none() && simulations.has_hinted);
        }
    }
}
