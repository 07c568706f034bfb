//! `pilothouse dev --build`: the project is built into the plugins directory, now and after each save.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::Failed;
use crate::build::{Language, Output, Progress, Sources, build};

/// Between two looks at the sources. A save counts when nothing has changed from one look to the next.
const LOOK: Duration = Duration::from_millis(250);

/// A project and where its plugin goes.
pub(crate) struct Rebuild {
    project: PathBuf,
    plugins: PathBuf,
    sources: Sources,
}

impl Rebuild {
    /// # Errors
    /// The folder is no project.
    pub(crate) fn new(project: PathBuf, plugins: PathBuf) -> Result<Self, Failed> {
        Language::of(&project)?;
        let sources = Sources::of(&project, &plugins);
        Ok(Self { project, plugins, sources })
    }

    /// Builds until `stop`: one build at a time, and one more when something has changed meanwhile. A build that fails is
    /// told and leaves the plugin as it is.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let progress = Progress::plain();
        let output = Output::Folder(self.plugins.clone());
        while !stop.is_cancelled() {
            progress.say(&format!("building {}", self.project.display()));
            let started = Instant::now();
            match build(&self.project, &output, &progress, &stop).await {
                Ok(built) => {
                    for warning in &built.warnings {
                        progress.say(&format!("warning: {warning}"));
                    }
                    let (file, seconds) = (built.file.display(), started.elapsed().as_secs());
                    progress.say(&format!("built {file} in {seconds} s"));
                }
                Err(_) if stop.is_cancelled() => return,
                Err(Failed::Work(problem) | Failed::Usage(problem)) => {
                    progress.say(&format!("not built: {problem}"));
                    progress.say("what was built before stays; save a change to try again");
                }
            }
            tokio::select! {
                () = self.changed() => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// Waits until the sources differ from those of the last look, and hold still.
    async fn changed(&mut self) {
        while !self.sources.look() {
            sleep(LOOK).await;
        }
        loop {
            sleep(LOOK).await;
            if !self.sources.look() {
                return;
            }
        }
    }
}
