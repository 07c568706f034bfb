//! Restarts tasks that panic, so that a bug in one task does not take down the process.
//!
//! [`RestartBackoff`] computes the delays and does no I/O; [`supervise`] catches the panic, waits and restarts the task.

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::{Instant, sleep};

use crate::work_queue::ExponentialBackoff;

/// The delay after the first panic.
const FIRST_DELAY: Duration = Duration::from_millis(100);
/// The longest delay.
const MAX_DELAY: Duration = Duration::from_secs(60);
/// A task that ran this long without a panic starts with the shortest delay again.
const RESET_AFTER: Duration = Duration::from_secs(120);

/// Counts the panics of one task and computes the delay before each restart: 100 ms · 2ⁿ, at most 60 s.
///
/// ```
/// use std::time::Duration;
/// use pilothouse_informer::supervise::RestartBackoff;
/// use tokio::time::Instant;
///
/// let (mut restarts, now) = (RestartBackoff::default(), Instant::now());
/// assert_eq!(restarts.record_panic(now), Duration::from_millis(100));
/// assert_eq!(restarts.record_panic(now), Duration::from_millis(200));
/// assert_eq!(restarts.record_panic(now + Duration::from_secs(600)), Duration::from_millis(100));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct RestartBackoff {
    panics: u32,
    next_start: Option<Instant>,
}

impl RestartBackoff {
    /// Records a panic at `now`. Returns the delay before the task is restarted.
    pub fn record_panic(&mut self, now: Instant) -> Duration {
        let ran_well =
            self.next_start.is_some_and(|start| now.saturating_duration_since(start) >= RESET_AFTER);
        self.panics = if ran_well { 1 } else { self.panics.saturating_add(1) };
        let wait = ExponentialBackoff::new(FIRST_DELAY, MAX_DELAY).delay(self.panics - 1);
        self.next_start = Some(now + wait);
        wait
    }

    /// Returns the number of consecutive panics.
    #[must_use]
    pub fn panics(&self) -> u32 {
        self.panics
    }
}

/// A panic of a supervised task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskPanic {
    /// The panic message.
    pub message: String,
    /// Consecutive panics of this task, including this one.
    pub panics: u32,
    /// The delay before the task is restarted.
    pub wait: Duration,
}

impl fmt::Display for TaskPanic {
    /// Formats the panic and the restart delay in one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panicked: {}; started again in {:?}", self.message, self.wait)?;
        if self.panics > 1 {
            write!(f, " (panic {} in a row)", self.panics)?;
        }
        f.write_str("; this is a defect of the host, please report it")
    }
}

/// Returns the text of a panic's payload, at most 500 characters.
#[must_use]
pub fn panic_message(payload: &(dyn Any + Send)) -> String {
    const MAX_CHARS: usize = 500;
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").chars().take(MAX_CHARS).collect()
}

/// Runs a task on its state until the task ends by itself. After a panic, `report` is called and the task is restarted on
/// the same state, so everything that must survive a panic belongs in the state.
///
/// # Cancellation safety
/// Dropping the future drops the task.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// use pilothouse_informer::supervise::supervise;
///
/// let mut tries = 0;
/// let mut reported = Vec::new();
/// async fn task(tries: &mut u32) -> &'static str {
///     *tries += 1;
///     assert!(*tries > 1, "not at the first try");
///     "done"
/// }
/// let report = |panic: &pilothouse_informer::supervise::TaskPanic| reported.push(panic.message.clone());
/// let outcome = supervise(&mut tries, |tries| Box::pin(task(tries)), report).await;
/// assert_eq!((outcome, reported), ("done", vec!["not at the first try".to_owned()]));
/// # });
/// ```
pub async fn supervise<S: ?Sized, T>(
    state: &mut S,
    mut task: impl for<'a> FnMut(&'a mut S) -> BoxFuture<'a, T>,
    mut report: impl FnMut(&TaskPanic),
) -> T {
    let mut restarts = RestartBackoff::default();
    loop {
        let payload = match AssertUnwindSafe(task(state)).catch_unwind().await {
            Ok(outcome) => return outcome,
            Err(payload) => payload,
        };
        let wait = restarts.record_panic(Instant::now());
        let panic = TaskPanic { message: panic_message(&*payload), panics: restarts.panics(), wait };
        drop(payload);
        report(&panic);
        sleep(wait).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restart_delays_double_up_to_a_minute() {
        let (mut restarts, now) = (RestartBackoff::default(), Instant::now());
        let waits: Vec<_> = (0..12).map(|_| restarts.record_panic(now).as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 51200, 60000, 60000]);
        assert_eq!(restarts.panics(), 12);
    }

    #[test]
    fn two_minutes_without_a_panic_reset_the_delay() {
        let (mut restarts, now) = (RestartBackoff::default(), Instant::now());
        restarts.record_panic(now);
        restarts.record_panic(now);
        assert_eq!(
            restarts.record_panic(now + RESET_AFTER),
            FIRST_DELAY * 4,
            "it ran less than that since its start"
        );
        assert_eq!(restarts.record_panic(now + 3 * RESET_AFTER), FIRST_DELAY);
    }

    #[tokio::test(start_paused = true)]
    async fn a_panicking_task_is_restarted_on_its_state() {
        let mut state = 0_u32;
        let mut reported = Vec::new();
        let start = Instant::now();
        async fn task(state: &mut u32) -> u32 {
            *state += 1;
            tokio::task::yield_now().await;
            assert!(*state > 2, "panic {state}");
            *state
        }
        let report = |panic: &TaskPanic| reported.push(panic.to_string());
        let outcome = supervise(&mut state, |state| Box::pin(task(state)), report).await;
        assert_eq!(outcome, 3);
        assert_eq!(start.elapsed().as_millis(), 300);
        assert!(reported[0].starts_with("panicked: panic 1; started again in 100ms; "), "{reported:?}");
        assert!(reported[1].contains("panic 2; started again in 200ms (panic 2 in a row)"), "{reported:?}");
    }
}
