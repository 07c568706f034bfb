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

/// A step that takes less than this is not shown. Then its line on a terminal is updated at this interval.
const SHOW_AFTER: Duration = Duration::from_secs(1);
/// How often another line is printed about a step, where lines cannot be updated in place.
const REPEAT_INTERVAL: Duration = Duration::from_secs(15);
/// The maximum number of characters of a detail, so that a line fits into a terminal.
const MAX_DETAIL_CHARS: usize = 50;

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

    /// Awaits the work. Once it has taken longer than [`SHOW_AFTER`], shows the step's name, the elapsed seconds and `detail`, which
    /// describes how far the work has got.
    pub(super) async fn show_while<T>(
        &self,
        step: &str,
        detail: &(dyn Fn() -> Option<String> + Sync),
        work: impl Future<Output = T>,
    ) -> T {
        let started = Instant::now();
        let mut ticks = interval_at(started + SHOW_AFTER, SHOW_AFTER);
        let mut work = std::pin::pin!(work);
        let mut lines = StepLines::default();
        let output = loop {
            tokio::select! {
                biased;
                output = &mut work => break output,
                _ = ticks.tick() => self.show(&mut lines, step, started.elapsed(), detail().as_deref()),
            }
        };
        if lines.last.is_some() {
            self.print(&format!("  {step}: {} s", started.elapsed().as_secs()));
        }
        output
    }

    fn show(&self, lines: &mut StepLines, step: &str, elapsed: Duration, detail: Option<&str>) {
        let line = lines.next(step, elapsed, detail);
        if self.rewrites {
            let _ = write!(stderr(), "\r\x1b[K{}", describe(step, elapsed, detail));
            let _ = stderr().flush();
        } else if let Some(line) = line {
            self.print(&line);
        }
    }
}

/// Decides when another line about a step is printed. Pure: the caller passes the time since the step began.
#[derive(Debug, Default)]
struct StepLines {
    /// When the last line was due, since the step began.
    last: Option<Duration>,
}

impl StepLines {
    /// Returns the line that is due after `elapsed`: one at first, and then one every [`REPEAT_INTERVAL`].
    fn next(&mut self, step: &str, elapsed: Duration, detail: Option<&str>) -> Option<String> {
        if self.last.is_some_and(|last| elapsed < last + REPEAT_INTERVAL) {
            return None;
        }
        self.last = Some(elapsed);
        Some(describe(step, elapsed, detail))
    }
}

fn describe(step: &str, elapsed: Duration, detail: Option<&str>) -> String {
    let detail: String = detail.unwrap_or_default().chars().take(MAX_DETAIL_CHARS).collect();
    let colon = if detail.is_empty() { "" } else { ": " };
    format!("  {step} … {} s{colon}{detail}", elapsed.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_long_step_is_reported_at_intervals_with_what_it_is_doing() {
        let mut lines = StepLines::default();
        let mut printed = Vec::new();
        for second in 1..=40_u32 {
            let detail = format!("Compiling crate-{second}");
            printed.extend(lines.next("cargo build", second * SECOND, Some(&detail)));
        }
        assert_eq!(
            printed,
            [
                "  cargo build … 1 s: Compiling crate-1",
                "  cargo build … 16 s: Compiling crate-16",
                "  cargo build … 31 s: Compiling crate-31",
            ]
        );
    }

    #[test]
    fn a_line_without_details_has_the_step_and_its_time() {
        assert_eq!(
            StepLines::default().next("npm install", SECOND, None).as_deref(),
            Some("  npm install … 1 s")
        );
        let long = describe("cargo build", SECOND, Some(&"x".repeat(500)));
        assert!(long.chars().count() < 80, "{long}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_result_of_the_work_is_returned_however_long_it_takes() {
        let progress = Progress::plain();
        let detail = || Some("working".to_owned());
        let work = async {
            tokio::time::sleep(100 * SECOND).await;
            7
        };
        assert_eq!(progress.show_while("step", &detail, work).await, 7);
    }
}
