//! The steps of a build, as the person who waits sees them: on standard error, and only those that take a while.

use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

use tokio::time::{Instant, interval_at};

/// Shows steps.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    /// One line is written over again and again.
    rewrites: bool,
}

/// A step that is shorter is not shown.
const A_WHILE: Duration = Duration::from_secs(1);

impl Progress {
    /// For a command that has standard error to itself.
    pub(crate) fn on_stderr() -> Self {
        Self { rewrites: stderr().is_terminal() }
    }

    /// One line after another, also where others write in between.
    pub(crate) fn plain() -> Self {
        Self { rewrites: false }
    }

    /// Writes a line.
    pub(crate) fn say(&self, line: &str) {
        let clear = if self.rewrites { "\r\x1b[K" } else { "" };
        // Nobody reading is no reason to stop building.
        let _ = writeln!(stderr(), "{clear}{line}");
    }

    /// Shows the step's name and its seconds while the work goes on, once it has taken a while.
    pub(super) async fn during<T>(&self, step: &str, work: impl Future<Output = T>) -> T {
        let started = Instant::now();
        let mut ticks = interval_at(started + A_WHILE, A_WHILE);
        let mut work = std::pin::pin!(work);
        let mut shown = false;
        let done = loop {
            tokio::select! {
                biased;
                done = &mut work => break done,
                _ = ticks.tick() => {
                    self.tick(step, started.elapsed(), !shown);
                    shown = true;
                }
            }
        };
        if shown {
            self.say(&format!("  {step}: {} s", started.elapsed().as_secs()));
        }
        done
    }

    fn tick(&self, step: &str, elapsed: Duration, first: bool) {
        if self.rewrites {
            let _ = write!(stderr(), "\r\x1b[K  {step} … {} s", elapsed.as_secs());
            let _ = stderr().flush();
        } else if first {
            self.say(&format!("  {step} …"));
        }
    }
}
