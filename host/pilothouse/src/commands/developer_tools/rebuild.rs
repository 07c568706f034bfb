//! `pilothouse dev --build`: builds a project into the plugins directory at start and after each change.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::CommandError;
use crate::build::{Destination, Progress, SourceWatcher, build, detect_builder};

/// How often the sources are polled. A build starts after a poll that found no further changes.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Rebuilds a project whenever its sources change.
pub(crate) struct Rebuilder {
    project: PathBuf,
    plugins: PathBuf,
    sources: SourceWatcher,
}

impl Rebuilder {
    /// Creates a rebuilder that writes the plugin into the `plugins` folder.
    ///
    /// # Errors
    /// Errors if it cannot be detected how the project is built.
    pub(crate) fn new(project: PathBuf, plugins: PathBuf) -> Result<Self, CommandError> {
        let builder = detect_builder(&project)?;
        let sources = SourceWatcher::new(&project, &plugins, builder.into_watch());
        Ok(Self { project, plugins, sources })
    }

    /// Builds at once and after each change, until `stop` is cancelled. Changes during a build lead to one more build. A build that
    /// fails prints its error and leaves the current plugin in place.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let progress = Progress::plain();
        let output = Destination::Folder(self.plugins.clone());
        while !stop.is_cancelled() {
            progress.print(&format!("building {}", self.project.display()));
            let started = Instant::now();
            // The project file may have changed. If it is invalid now, `build` says so.
            if let Ok(builder) = detect_builder(&self.project) {
                self.sources.set_patterns(builder.into_watch());
            }
            match build(&self.project, &output, &progress, &stop).await {
                Ok(built) => {
                    for warning in &built.warnings {
                        progress.print(&format!("warning: {warning}"));
                    }
                    let (file, seconds) = (built.file.display(), started.elapsed().as_secs());
                    progress.print(&format!("built {file} in {seconds} s"));
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
