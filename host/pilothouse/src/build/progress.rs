//! Shows the progress of a build on standard error. Only steps that take longer than a second are shown.

use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

use tokio::time::{Instant, interval_at};

/// Prints progress to standard error.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    /// Updates one terminal line in place instead of printing a line per update.
    rewrites: bool,
}

/// A step that takes less than this is not shown.
const SHOW_AFTER: Duration = Duration::from_secs(1);

impl Progress {
    /// Returns progress for a command that is the only writer to standard error. Updates in place if that is a terminal.
    pub(crate) fn on_stderr() -> Self {
        Self { rewrites: stderr().is_terminal() }
    }

    /// Returns progress that never updates a line in place, for processes with several writers to standard error.
    pub(crate) fn plain() -> Self {
        Self { rewrites: false }
    }

    /// Prints a line.
    pub(crate) fn print(&self, line: &str) {
        let clear = if self.rewrites { "\r\x1b[K" } else { "" };
        // A closed standard error must not stop the build.
        let _ = writeln!(stderr(), "{clear}{line}");
    }

    /// Awaits the work. Once it has taken longer than [`SHOW_AFTER`], shows the step's name and the elapsed seconds.
    pub(super) async fn show_while<T>(&self, step: &str, work: impl Future<Output = T>) -> T {
        let started = Instant::now();
        let mut ticks = interval_at(started + SHOW_AFTER, SHOW_AFTER);
        let mut work = std::pin::pin!(work);
        let mut is_shown = false;
        let output = loop {
            tokio::select! {
                biased;
                output = &mut work => break output,
                _ = ticks.tick() => {
                    self.show(step, started.elapsed(), !is_shown);
                    is_shown = true;
                }
            }
        };
        if is_shown {
            self.print(&format!("  {step}: {} s", started.elapsed().as_secs()));
        }
        output
    }

    fn show(&self, step: &str, elapsed: Duration, is_first: bool) {
        if self.rewrites {
            let _ = write!(stderr(), "\r\x1b[K  {step} … {} s", elapsed.as_secs());
            let _ = stderr().flush();
        } else if is_first {
            self.print(&format!("  {step} …"));
        }
    }
}
