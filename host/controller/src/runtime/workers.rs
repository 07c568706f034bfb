//! The workers of one plugin: as many tasks as its sidecar says. Lowering their number waits for none of them: those that
//! are too many end by themselves when they are done with the key that they hold.

use std::collections::HashMap;
use std::future::{Future, pending};

use tokio::sync::watch;
use tokio::task::{Id, JoinSet};

/// Tells one worker whether it is still wanted.
#[derive(Clone)]
pub(super) struct Place {
    number: usize,
    wanted: watch::Receiver<usize>,
}

/// The tasks. Dropping them aborts them.
pub(super) struct Workers {
    tasks: JoinSet<()>,
    numbers: HashMap<Id, usize>,
    wanted: watch::Sender<usize>,
}

impl Default for Workers {
    fn default() -> Self {
        Self { tasks: JoinSet::new(), numbers: HashMap::new(), wanted: watch::Sender::new(0) }
    }
}

impl Workers {
    /// From now on so many are wanted. Those that are missing are started.
    pub(super) fn set<F>(&mut self, wanted: usize, start: impl Fn(Place) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.wanted.send_replace(wanted);
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.forget(ended);
        }
        let missing: Vec<_> =
            (0..wanted).filter(|number| !self.numbers.values().any(|taken| taken == number)).collect();
        for number in missing {
            let task = self.tasks.spawn(start(Place { number, wanted: self.wanted.subscribe() }));
            self.numbers.insert(task.id(), number);
        }
    }

    /// How many are wanted.
    pub(super) fn wanted(&self) -> usize {
        *self.wanted.borrow()
    }

    /// Waits for one to end though it is wanted; [`set`](Self::set) starts another. Cancellation safe.
    pub(super) async fn lacking(&mut self) {
        while let Some(ended) = self.tasks.join_next_with_id().await {
            if self.forget(ended).is_some_and(|number| number < self.wanted()) {
                return;
            }
        }
        pending::<()>().await;
    }

    /// Aborts all, and waits until they are gone.
    pub(super) async fn shutdown(&mut self) {
        self.wanted.send_replace(0);
        self.tasks.shutdown().await;
        self.numbers.clear();
    }

    fn forget(&mut self, ended: Result<(Id, ()), tokio::task::JoinError>) -> Option<usize> {
        let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
        self.numbers.remove(&id)
    }
}

impl Place {
    /// Whether the worker is one too many now. Looks only where something has changed since the last call.
    pub(super) fn is_surplus(&mut self) -> bool {
        match self.wanted.has_changed() {
            Ok(false) => false,
            Ok(true) => *self.wanted.borrow_and_update() <= self.number,
            // Nobody wants any.
            Err(_) => true,
        }
    }

    /// Waits until the worker is one too many. Cancellation safe.
    pub(super) async fn surplus(&mut self) {
        let number = self.number;
        // An error means that nobody wants any.
        let _ = self.wanted.wait_for(|wanted| *wanted <= number).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt;
    use tokio::sync::Semaphore;

    use super::*;

    /// Workers that hold a key until there is a permit, then look whether they are wanted.
    #[derive(Clone)]
    struct Stage {
        permits: Arc<Semaphore>,
        working: Arc<AtomicUsize>,
    }

    impl Stage {
        fn start(&self) -> impl Fn(Place) -> futures::future::BoxFuture<'static, ()> + use<> {
            let stage = self.clone();
            move |mut place| {
                let stage = stage.clone();
                Box::pin(async move {
                    stage.working.fetch_add(1, Ordering::SeqCst);
                    while !place.is_surplus() {
                        stage.permits.acquire().await.expect("open").forget();
                    }
                    stage.working.fetch_sub(1, Ordering::SeqCst);
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
    async fn lowering_the_number_waits_for_nobody_and_ends_the_surplus_after_their_keys() {
        let stage = Stage { permits: Arc::new(Semaphore::new(0)), working: Arc::default() };
        let mut workers = Workers::default();
        workers.set(3, stage.start());
        stage.until(3).await;
        workers.set(1, stage.start());
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        assert_eq!(stage.working.load(Ordering::SeqCst), 3, "none is cut off");
        stage.permits.add_permits(3);
        stage.until(1).await;
        assert!(workers.lacking().now_or_never().is_none(), "those that ended are not missed");
        workers.set(2, stage.start());
        stage.until(2).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_is_wanted_again_before_it_ended_goes_on() {
        let stage = Stage { permits: Arc::new(Semaphore::new(0)), working: Arc::default() };
        let mut workers = Workers::default();
        workers.set(2, stage.start());
        stage.until(2).await;
        workers.set(1, stage.start());
        workers.set(2, stage.start());
        stage.permits.add_permits(2);
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        assert_eq!((stage.working.load(Ordering::SeqCst), workers.tasks.len()), (2, 2), "never a third");
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_ended_though_it_is_wanted_is_missed() {
        let mut workers = Workers::default();
        workers.set(1, |_| async {});
        workers.lacking().await;
        workers.set(1, |_| pending());
        assert!(workers.lacking().now_or_never().is_none());
    }
}
