//! The workers of one plugin: as many tasks as its sidecar says. Lowering their number waits for none of them: a surplus worker ends by
//! itself once it is done with its current key.

use std::future::{Future, pending};

use pilothouse_model::hash::HashMap;
use tokio::sync::watch;
use tokio::task::{Id, JoinSet};

/// A worker's view of the desired number of workers.
#[derive(Clone)]
pub(super) struct WorkerSlot {
    number: usize,
    desired: watch::Receiver<usize>,
}

/// The worker tasks. Dropping this aborts them.
pub(super) struct Workers {
    tasks: JoinSet<()>,
    numbers: HashMap<Id, usize>,
    desired: watch::Sender<usize>,
}

impl Default for Workers {
    fn default() -> Self {
        Self { tasks: JoinSet::new(), numbers: HashMap::default(), desired: watch::Sender::new(0) }
    }
}

impl Workers {
    /// Sets the number of workers, and starts those that are missing.
    pub(super) fn resize<F>(&mut self, desired: usize, start: impl Fn(WorkerSlot) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.desired.send_replace(desired);
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.remove(ended);
        }
        let missing: Vec<_> =
            (0..desired).filter(|number| !self.numbers.values().any(|taken| taken == number)).collect();
        for number in missing {
            let task = self.tasks.spawn(start(WorkerSlot { number, desired: self.desired.subscribe() }));
            self.numbers.insert(task.id(), number);
        }
    }

    /// Returns the desired number of workers.
    pub(super) fn desired(&self) -> usize {
        *self.desired.borrow()
    }

    /// Waits until a worker ends that is not surplus; [`resize`](Self::resize) starts another.
    ///
    /// # Cancellation safety
    /// Safe.
    pub(super) async fn wait_until_missing(&mut self) {
        while let Some(ended) = self.tasks.join_next_with_id().await {
            if self.remove(ended).is_some_and(|number| number < self.desired()) {
                return;
            }
        }
        pending::<()>().await;
    }

    /// Aborts all workers, and waits until they have ended.
    pub(super) async fn shutdown(&mut self) {
        self.desired.send_replace(0);
        self.tasks.shutdown().await;
        self.numbers.clear();
    }

    fn remove(&mut self, ended: Result<(Id, ()), tokio::task::JoinError>) -> Option<usize> {
        let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
        self.numbers.remove(&id)
    }
}

impl WorkerSlot {
    /// Whether there are more workers than desired, and this is one of those to end. Cheap unless the number changed since the last call.
    pub(super) fn is_surplus(&mut self) -> bool {
        match self.desired.has_changed() {
            Ok(false) => false,
            Ok(true) => *self.desired.borrow_and_update() <= self.number,
            // The sender is gone: no worker is desired.
            Err(_) => true,
        }
    }

    /// Waits until the worker is surplus.
    ///
    /// # Cancellation safety
    /// Safe.
    pub(super) async fn wait_until_surplus(&mut self) {
        let number = self.number;
        // An error means that the sender is gone: no worker is desired.
        let _ = self.desired.wait_for(|desired| *desired <= number).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt;
    use tokio::sync::Semaphore;

    use super::*;

    /// Workers that hold a key until there is a permit, then check whether they are surplus.
    #[derive(Clone)]
    struct TestWorkers {
        permits: Arc<Semaphore>,
        working: Arc<AtomicUsize>,
    }

    impl TestWorkers {
        fn start(&self) -> impl Fn(WorkerSlot) -> futures::future::BoxFuture<'static, ()> + use<> {
            let state = self.clone();
            move |mut slot| {
                let state = state.clone();
                Box::pin(async move {
                    state.working.fetch_add(1, Ordering::SeqCst);
                    while !slot.is_surplus() {
                        state.permits.acquire().await.expect("open").forget();
                    }
                    state.working.fetch_sub(1, Ordering::SeqCst);
                })
            }
        }

        async fn until(&self, working: usize) {
            while self.working.load(Ordering::SeqCst) != working {
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn lowering_the_number_does_not_wait_and_ends_surplus_workers_after_their_keys() {
        let state = TestWorkers { permits: Arc::new(Semaphore::new(0)), working: Arc::default() };
        let mut workers = Workers::default();
        workers.resize(3, state.start());
        state.until(3).await;
        workers.resize(1, state.start());
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        assert_eq!(state.working.load(Ordering::SeqCst), 3, "no worker is cancelled");
        state.permits.add_permits(3);
        state.until(1).await;
        let missing = workers.wait_until_missing().now_or_never();
        assert!(missing.is_none(), "surplus workers that ended are not missing");
        workers.resize(2, state.start());
        state.until(2).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_surplus_worker_that_is_needed_again_before_it_ended_continues() {
        let state = TestWorkers { permits: Arc::new(Semaphore::new(0)), working: Arc::default() };
        let mut workers = Workers::default();
        workers.resize(2, state.start());
        state.until(2).await;
        workers.resize(1, state.start());
        workers.resize(2, state.start());
        state.permits.add_permits(2);
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        let started = (state.working.load(Ordering::SeqCst), workers.tasks.len());
        assert_eq!(started, (2, 2), "there is never a third worker");
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_ends_without_being_surplus_is_reported_as_missing() {
        let mut workers = Workers::default();
        workers.resize(1, |_| async {});
        workers.wait_until_missing().await;
        workers.resize(1, |_| pending());
        assert!(workers.wait_until_missing().now_or_never().is_none());
    }
}
