//! Handles SIGTERM and SIGINT (Ctrl-C).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::CommandError;

/// How long running work may take to finish after a signal.
pub(crate) const GRACE_PERIOD: Duration = Duration::from_millis(9_500);

/// Signals within this time count as one: `timeout` of coreutils signals the process and its group, and a terminal and a parent may do so, too.
const SAME_SIGNAL: Duration = Duration::from_secs(1);

/// Whether a file is being read that may block, such as a pipe without a writer.
static IS_READING: AtomicBool = AtomicBool::new(false);

/// Reads a file that may block. A signal meanwhile ends the process at once.
pub(crate) fn while_reading<T>(read: impl FnOnce() -> T) -> T {
    IS_READING.store(true, Ordering::Relaxed);
    let result = read();
    IS_READING.store(false, Ordering::Relaxed);
    result
}

/// Returns a token that is cancelled by the first SIGTERM or SIGINT. A later one ends the process at once with exit code 1, as in
/// controller-runtime (`sigs.k8s.io/controller-runtime/pkg/manager/signals`).
pub(crate) fn on_signal() -> Result<CancellationToken, CommandError> {
    let handler_error =
        |error| CommandError::Failure(format!("cannot install handlers for SIGTERM and SIGINT: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(handler_error)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(handler_error)?;
    let token = CancellationToken::new();
    let shutdown = token.clone();
    tokio::spawn(async move {
        let mut signals = Signals::default();
        loop {
            let name = tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            };
            match signals.received(Instant::now(), IS_READING.load(Ordering::Relaxed)) {
                Effect::Drain => {
                    tracing::info!("received {name}: draining and stopping; another signal stops at once");
                    shutdown.cancel();
                }
                Effect::Nothing => {}
                Effect::Exit => {
                    tracing::warn!("received {name}: stopping at once");
                    std::process::exit(1);
                }
            }
        }
    });
    Ok(token)
}

/// What a signal causes.
#[derive(Debug, PartialEq, Eq)]
enum Effect {
    Drain,
    Nothing,
    Exit,
}

/// The signals so far.
#[derive(Default)]
struct Signals {
    first: Option<Instant>,
}

impl Signals {
    /// Returns what a signal causes. Nothing can be drained while a file is read.
    fn received(&mut self, now: Instant, is_reading: bool) -> Effect {
        match self.first {
            None if is_reading => Effect::Exit,
            None => {
                self.first = Some(now);
                Effect::Drain
            }
            Some(first) if now.duration_since(first) < SAME_SIGNAL => Effect::Nothing,
            Some(_) => Effect::Exit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_signal_drains_and_a_later_one_ends_the_process() {
        let start = Instant::now();
        let mut signals = Signals::default();
        assert_eq!(signals.received(start, false), Effect::Drain);
        assert_eq!(signals.received(start + SAME_SIGNAL / 2, false), Effect::Nothing);
        assert_eq!(signals.received(start + SAME_SIGNAL, false), Effect::Exit);
    }

    #[test]
    fn a_signal_ends_a_process_that_reads_a_file() {
        assert_eq!(Signals::default().received(Instant::now(), true), Effect::Exit);
    }
}
