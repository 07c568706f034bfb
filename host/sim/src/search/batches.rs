//! The order in which the plans of several tasks are run.

/// The number of batches of the whole task that come before the others. They are its first single faults.
const HEAD_START: usize = 2;

/// Takes batches of plans of several tasks in turn. Every other one is of the first task, as long as it has plans. A task without further plans drops
/// out.
pub(super) struct Batches<P> {
    /// The plans of each task; `None` if they are used up.
    tasks: Vec<Option<P>>,
    /// The number of batches taken.
    taken: usize,
    /// The task after the first that had a turn last.
    last: usize,
}

impl<T, P: Iterator<Item = T>> Batches<P> {
    pub(super) fn new(tasks: Vec<P>) -> Self {
        Self { tasks: tasks.into_iter().map(Some).collect(), taken: 0, last: 0 }
    }

    /// Returns the next plans, all of one task. None if all are used up, or if `size` is 0.
    pub(super) fn next_batch(&mut self, size: usize) -> Vec<T> {
        while let Some(task) = self.next_task() {
            let plans = self.tasks[task].as_mut();
            let batch: Vec<_> = plans.into_iter().flat_map(|plans| plans.by_ref().take(size)).collect();
            if !batch.is_empty() || size == 0 {
                self.taken += 1;
                return batch;
            }
            self.tasks[task] = None;
        }
        Vec::new()
    }

    fn next_task(&mut self) -> Option<usize> {
        let has_plans = |task: &usize| self.tasks.get(*task).is_some_and(Option::is_some);
        let is_turn_of_first = self.taken < HEAD_START || self.taken.is_multiple_of(2);
        let others = self.tasks.len().max(1) - 1;
        let next = (0..others).map(|offset| 1 + (self.last + offset) % others).find(has_plans);
        let first = Some(0).filter(has_plans);
        let task = if is_turn_of_first { first.or(next) } else { next.or(first) }?;
        if task > 0 {
            self.last = task;
        }
        Some(task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the tasks of the batches, for tasks with so many batches.
    fn order(sizes: &[usize]) -> Vec<usize> {
        let tasks: Vec<_> =
            sizes.iter().enumerate().map(|(task, batches)| std::iter::repeat_n(task, 2 * batches)).collect();
        let mut batches = Batches::new(tasks);
        let mut order = Vec::new();
        loop {
            let batch = batches.next_batch(2);
            let Some(task) = batch.first() else { return order };
            assert_eq!(batch, [*task, *task], "all of one task");
            order.push(*task);
        }
    }

    #[test]
    fn the_first_task_begins_and_has_every_other_batch() {
        assert_eq!(order(&[5, 2, 2]), [0, 0, 0, 1, 0, 2, 0, 1, 2]);
    }

    #[test]
    fn tasks_without_plans_drop_out() {
        assert_eq!(order(&[3]), [0, 0, 0]);
        assert_eq!(order(&[1, 0, 3]), [0, 2, 2, 2]);
        assert_eq!(order(&[]), Vec::<usize>::new());
    }
}
