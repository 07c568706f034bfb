//! Verifies signatures on threads that may block, because whoever can push to a repository decides how many signatures there are and how long each takes.

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::error::{Problem, RegistryError};

/// At most one verification runs at a time, so that it takes one core from the host, however many plugins are verified.
static TURN: Semaphore = Semaphore::const_new(1);

/// Runs work on a thread that may block, once it is its turn.
///
/// # Errors
/// Errors if the work panics.
pub(crate) async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RegistryError> {
    let turn = TURN.acquire().await;
    let done = spawn_blocking(move || {
        // Work whose caller has given up keeps its turn.
        let _turn = turn;
        work()
    });
    done.await.map_err(|error| {
        RegistryError::new(Problem::Cache, format!("internal error: {error}; please report this"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_runs_beside_the_caller_and_one_at_a_time() {
        let caller = std::thread::current().id();
        let work =
            |_| tokio::spawn(in_background(|| (TURN.available_permits(), std::thread::current().id())));
        let tasks: Vec<_> = (0..4).map(work).collect();
        for task in tasks {
            let (free_turns, thread) = task.await.expect("it ends").expect("no panic");
            assert_eq!(free_turns, 0);
            assert_ne!(thread, caller);
        }
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_ends_the_turn() {
        let error = in_background(|| -> () { panic!("a hostile signature") }).await.expect_err("a panic");
        assert!(error.to_string().contains("please report this"), "{error}");
        assert_eq!(in_background(|| 1).await, Ok(1));
    }
}
