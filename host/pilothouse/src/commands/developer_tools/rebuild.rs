//! `pilothouse dev --build`: builds a project into the plugins directory at start and after each change.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_plugin::Engine;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

#[cfg(feature = "simulation")]
use super::build_simulations::BuildSimulations;
use crate::CommandError;
use crate::build::{BuiltPlugin, Destination, Progress, SourceWatcher, build_for_host, detect_builder};
use crate::startup::{StartupStep, StartupSteps};

/// How often the sources are polled. A build starts after a poll that found no further changes.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Rebuilds a project whenever its sources change.
pub(crate) struct Rebuilder {
    project: PathBuf,
    plugins: PathBuf,
    /// The host's engine. It compiles a plugin for the check, and the host finds the code in its cache.
    engine: Engine,
    sources: SourceWatcher,
    /// The first build, until it has succeeded.
    first_build: Option<StartupStep>,
    #[cfg(feature = "simulation")]
    simulations: BuildSimulations,
}

impl Rebuilder {
    /// Creates a rebuilder that writes the plugin into the `plugins` folder. Its first build is a step of the start.
    ///
    /// # Errors
    /// Errors if it cannot be detected how the project is built.
    pub(crate) fn new(
        project: PathBuf,
        plugins: PathBuf,
        engine: Engine,
        startup: &Arc<StartupSteps>,
    ) -> Result<Self, CommandError> {
        let builder = detect_builder(&project)?;
        let sources = SourceWatcher::new(&project, &plugins, builder.into_watch());
        let text = format!("--build {}: the first build has not succeeded yet", project.display());
        let first_build = Some(StartupStep::begin(startup, &text));
        #[cfg(feature = "simulation")]
        let simulations = BuildSimulations::new(project.clone(), None, false);
        Ok(Self {
            project,
            plugins,
            engine,
            sources,
            first_build,
            #[cfg(feature = "simulation")]
            simulations,
        })
    }

    /// Simulates the plugin after each build. Compiled plugins are kept in `cache_dir`, by default the user's cache.
    #[cfg(feature = "simulation")]
    pub(crate) fn with_simulations(mut self, cache_dir: Option<PathBuf>) -> Self {
        self.simulations = BuildSimulations::new(self.project.clone(), cache_dir, true);
        self
    }

    /// Builds at once and after each change, until `stop` is cancelled. Changes during a build lead to one more build. A build that
    /// fails prints its error and leaves the current plugin in place.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let progress = Progress::plain();
        let output = Destination::Folder(self.plugins.clone());
        while !stop.is_cancelled() {
            #[cfg(feature = "simulation")]
            self.simulations.cancel();
            progress.print(&format!("building {}", self.project.display()));
            let started = Instant::now();
            // The project file may have changed. If it is invalid now, `build` says so.
            if let Ok(builder) = detect_builder(&self.project) {
                self.sources.set_patterns(builder.into_watch());
            }
            match build_for_host(&self.engine, &self.project, &output, &progress, &stop).await {
                Ok(built) => {
                    for warning in &built.warnings {
                        progress.print(&format!("warning: {warning}"));
                    }
                    progress.print(&built_line(&built, started.elapsed()));
                    if let Some(step) = self.first_build.take() {
                        let name = built.file.file_stem().unwrap_or_default();
                        step.finish_with_plugin(name.to_string_lossy().into_owned());
                    }
                    #[cfg(feature = "simulation")]
                    self.simulations.start(&built.file, &progress);
                }
                Err(_) if stop.is_cancelled() => return,
                Err(CommandError::Failure(problem) | CommandError::Usage(problem)) => {
                    progress.print(&format!("build failed: {problem}"));
                    progress.print("the previous version keeps running; save a change to build again");
                }
            }
            tokio::select! {
                () = self.wait_for_change() => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// Waits until the sources have changed and then stayed unchanged for one [`POLL_INTERVAL`].
    async fn wait_for_change(&mut self) {
        while !self.sources.poll_changed() {
            sleep(POLL_INTERVAL).await;
        }
        loop {
            sleep(POLL_INTERVAL).await;
            if !self.sources.poll_changed() {
                return;
            }
        }
    }
}

/// Returns the line about a build: how long it took, and how much of that was the compilation to machine code.
fn built_line(built: &BuiltPlugin, elapsed: Duration) -> String {
    let compiling = match built.compile_time {
        Some(time) => format!(", {:.1} s of it compiling to machine code", time.as_secs_f64()),
        None => ", with machine code from the cache".to_owned(),
    };
    format!("built {} in {} s{compiling}", built.file.display(), elapsed.as_secs())
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn the_line_about_a_build_says_how_long_compiling_took() {
        let built = |compile_time| BuiltPlugin {
            builder: "go",
            file: "plugins/a.wasm".into(),
            size: 1,
            warnings: Vec::new(),
            compile_time,
        };
        let line = |compile_time| built_line(&built(compile_time), Duration::from_millis(3900));
        assert_eq!(
            line(Some(Duration::from_millis(1300))),
            "built plugins/a.wasm in 3 s, 1.3 s of it compiling to machine code"
        );
        assert_eq!(line(None), "built plugins/a.wasm in 3 s, with machine code from the cache");
    }
}
