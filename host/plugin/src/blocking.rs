//! Work that blocks its thread, such as reading files and compiling: on a thread of its own, or, in a simulation, on the current one.

use std::any::Any;
use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

use thiserror::Error;
use tokio::task::{JoinError, spawn_blocking};

thread_local! {
    /// Whether work runs on the current thread.
    static IS_INLINE: Cell<bool> = const { Cell::new(false) };
}

/// The work panicked, or the runtime has ended.
#[derive(Debug, Error)]
pub enum BlockingError {
    /// The error of the thread for blocking work.
    #[error(transparent)]
    Thread(#[from] JoinError),
    /// The panic of work that ran on the current thread.
    #[error("the work panicked: {0}")]
    Panicked(String),
}

/// While this exists, [`run`] does the work on the current thread.
#[must_use = "dropping it ends its effect"]
#[derive(Debug)]
pub struct InlineGuard {
    was_inline: bool,
    /// The guard belongs to its thread.
    _not_send: PhantomData<*const ()>,
}

/// Lets [`run`] do the work of this thread's tasks on this thread until the guard is dropped. When other
/// threads do the work, the operating system decides when it ends, so a simulation could not repeat its schedule.
pub fn run_inline() -> InlineGuard {
    InlineGuard { was_inline: IS_INLINE.replace(true), _not_send: PhantomData }
}

impl Drop for InlineGuard {
    fn drop(&mut self) {
        IS_INLINE.set(self.was_inline);
    }
}

/// Runs work on a thread for blocking work, or on this one after [`run_inline`]. A panic becomes an error.
///
/// # Errors
/// If the work panics, or if the runtime ends before the work begins.
///
/// # Panics
/// Outside a tokio runtime, unless the work runs on this thread.
pub async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, BlockingError> {
    if IS_INLINE.get() {
        return catch_unwind(AssertUnwindSafe(work)).map_err(|panic| BlockingError::Panicked(text(&*panic)));
    }
    Ok(spawn_blocking(work).await?)
}

/// Returns the message of a panic.
fn text(panic: &(dyn Any + Send)) -> String {
    let message =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    message.unwrap_or("without a message").to_owned()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn work_runs_on_another_thread_by_default() {
        assert_ne!(run(|| thread::current().id()).await.expect("done"), thread::current().id());
        let error = run(|| panic!("broken")).await.map(|()| "done").expect_err("a panic");
        assert!(
            matches!(&error, BlockingError::Thread(_)) && error.to_string().contains("broken"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn work_runs_on_this_thread_while_a_guard_exists() {
        let guard = run_inline();
        drop(run_inline());
        assert_eq!(run(|| thread::current().id()).await.expect("done"), thread::current().id());
        let error = run(|| panic!("broken")).await.map(|()| "done").expect_err("a panic");
        assert_eq!(error.to_string(), "the work panicked: broken");
        drop(guard);
        assert_ne!(run(|| thread::current().id()).await.expect("done"), thread::current().id());
    }
}
