//! Starts the controllers again after one of them has panicked. One object that a controller cannot handle must not end the controllers of all
//! others.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use tokio_util::sync::CancellationToken;

/// The pause before the first restart. Each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Runs what `start` returns until it ends or `shutdown` is cancelled. After a panic, runs it again: new controllers read all objects, like those of
/// a process that was started again.
pub(super) async fn run<F: Future<Output = ()>>(start: impl Fn() -> F, shutdown: &CancellationToken) {
    let mut pause = FIRST_PAUSE;
    loop {
        // Locks of the state are not poisoned, and the controllers' own state is dropped.
        let Err(panic) = AssertUnwindSafe(start()).catch_unwind().await else { return };
        tracing::error!(
            "a built-in controller panicked: {}; all built-in controllers start again in {} s, please report this",
            message(&*panic),
            pause.as_secs()
        );
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Returns the message of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_panicked_runs_again_after_a_pause_that_grows() {
        let (starts, begun) = (Cell::new(0), Instant::now());
        let start = || async {
            starts.set(starts.get() + 1);
            assert!(starts.get() > 3, "broken");
        };
        run(start, &CancellationToken::new()).await;
        assert_eq!((starts.get(), begun.elapsed()), (4, Duration::from_secs(1 + 2 + 4)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_shutdown_ends_the_pause() {
        let shutdown = CancellationToken::new();
        let starts = Cell::new(0);
        let start = || async {
            starts.set(starts.get() + 1);
            shutdown.cancel();
            panic!("broken");
        };
        run(start, &shutdown).await;
        assert_eq!(starts.get(), 1);
    }
}
