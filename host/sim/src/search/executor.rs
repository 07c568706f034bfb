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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::RunBuilder;

    struct Numbered;

    impl Simulator for Numbered {
        fn run(&mut self, plan: &Plan) -> Result<Run, WorldError> {
            if plan.seed % 10 == 9 {
                return Err(WorldError(format!("no world {}", plan.seed)));
            }
            let mut run = RunBuilder::new().finish();
            run.hash = plan.seed;
            Ok(run)
        }
    }

    fn run_all(threads: usize, seeds: std::ops::Range<u64>) -> Result<Vec<u64>, WorldError> {
        let executor = Executor::new((0..threads).map(|_| Numbered).collect());
        let plans: Vec<_> = seeds.map(|seed| Plan::new(seed, Vec::new())).collect();
        executor.run_all(&plans, &|run| run.hash)
    }

    #[test]
    fn results_come_in_the_order_of_the_plans() {
        for threads in [1, 2, 8] {
            assert_eq!(run_all(threads, 0..9), Ok((0..9).collect()));
            assert_eq!(run_all(threads, 0..0), Ok(Vec::new()));
        }
    }

    #[test]
    fn the_first_error_in_that_order_is_returned() {
        for threads in [1, 4] {
            assert_eq!(run_all(threads, 0..40), Err(WorldError("no world 9".to_owned())));
        }
    }
}
