//! Runs plans on several threads. The results come in the order of the plans, whatever the number of threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Plan, Run, Simulator, WorldError};

/// Simulators of the same world, one for each thread.
pub struct Executor<S> {
    simulators: Vec<Mutex<S>>,
}

impl<S: Simulator + Send> Executor<S> {
    /// Creates an executor with as many threads as there are simulators.
    ///
    /// # Panics
    /// Panics without a simulator.
    #[must_use]
    pub fn new(simulators: Vec<S>) -> Self {
        assert!(!simulators.is_empty(), "an executor needs a simulator");
        Self { simulators: simulators.into_iter().map(Mutex::new).collect() }
    }

    /// Runs one plan.
    ///
    /// # Errors
    /// Returns an error if the world cannot be built.
    pub fn run(&self, plan: &Plan) -> Result<Run, WorldError> {
        lock(&self.simulators[0]).run(plan)
    }

    /// Runs all plans and examines each run on the thread that made it, so that runs need not be kept.
    ///
    /// # Errors
    /// Returns the error of the first plan, in their order, whose world cannot be built.
    pub fn run_all<T: Send>(
        &self,
        plans: &[Plan],
        examine: &(dyn Fn(Run) -> T + Sync),
    ) -> Result<Vec<T>, WorldError> {
        let next = AtomicUsize::new(0);
        let results: Vec<Mutex<Option<Result<T, WorldError>>>> =
            plans.iter().map(|_| Mutex::new(None)).collect();
        let work = |simulator: &Mutex<S>| {
            let mut simulator = lock(simulator);
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(plan) = plans.get(index) else { return };
                *lock(&results[index]) = Some(simulator.run(plan).map(examine));
            }
        };
        if let [simulator] = self.simulators.as_slice() {
            work(simulator);
        } else {
            std::thread::scope(|scope| {
                for simulator in self.simulators.iter().take(plans.len()) {
                    scope.spawn(|| work(simulator));
                }
            });
        }
        let taken = |result: Mutex<Option<_>>| {
            result
                .into_inner()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .expect("a result for each plan")
        };
        results.into_iter().map(taken).collect()
    }
}

/// Locks without regard to a panic of another holder, which is passed on when its thread is joined.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
