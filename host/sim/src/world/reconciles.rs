//! The reconciles that run, and the keys whose last one failed. Pure.

use std::collections::BTreeMap;

use super::requeues::Requeues;

/// The longest time in virtual milliseconds after which the host repeats a failed reconcile.
const MAX_RETRY: u64 = 20 * 60 * 1000;

/// A plugin, one of its watches, and a key.
pub(super) type Subject = (String, String, String);

/// When a key is reconciled again that was just reconciled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextReconcile {
    /// It is reconciled at its next event.
    Unplanned,
    /// It failed, and the host repeats it later.
    Retry,
    /// The plugin wants it again after this many virtual milliseconds.
    After(u64),
}

/// The reconciles of one host. Their numbers go on from host to host.
#[derive(Default)]
pub(super) struct Reconciles {
    running: BTreeMap<Subject, u64>,
    /// The number of the last one that began.
    last: u64,
    /// The keys whose last reconcile failed and is repeated, with the time at which it ended.
    failing: BTreeMap<Subject, u64>,
    /// The keys that the plugins want again later.
    pub(super) requeues: Requeues,
}

impl Reconciles {
    /// Returns the number of a reconcile that begins at `now`.
    pub(super) fn begin(&mut self, plugin: &str, watch: &str, key: &str, now: u64) -> u64 {
        self.last += 1;
        let subject = subject(plugin, watch, key);
        self.requeues.begin(&subject, now);
        self.running.insert(subject, self.last);
        self.last
    }

    /// Returns the reconcile that runs for a key.
    pub(super) fn of_key(&self, plugin: &str, watch: &str, key: &str) -> Option<u64> {
        self.running.get(&subject(plugin, watch, key)).copied()
    }

    /// Returns the reconcile that runs, if it is the only one.
    pub(super) fn only(&self) -> Option<u64> {
        let mut running = self.running.values().copied();
        running.next().filter(|_| running.next().is_none())
    }

    /// Whether a plugin reconciles a key.
    pub(super) fn is_reconciling(&self, plugin: &str) -> bool {
        self.running.keys().any(|(running, ..)| running == plugin)
    }

    /// Ends the reconcile of a key at `now`, and returns it.
    pub(super) fn end(
        &mut self,
        (plugin, watch, key): (&str, &str, &str),
        next: NextReconcile,
        now: u64,
    ) -> Option<u64> {
        let subject = subject(plugin, watch, key);
        let reconcile = self.running.remove(&subject);
        self.failing.remove(&subject);
        match next {
            NextReconcile::Unplanned => {}
            NextReconcile::Retry => {
                self.failing.insert(subject, now);
            }
            NextReconcile::After(delay) => self.requeues.add(subject, now.saturating_add(delay)),
        }
        reconcile
    }

    /// Ends all reconciles, and returns them in the order of plugin, watch and key.
    pub(super) fn abandon(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.running).into_values().collect()
    }

    /// Forgets what runs and what has failed, because a new host starts.
    pub(super) fn begin_host(&mut self) {
        self.running.clear();
        self.forget_plans();
    }

    /// Forgets what has failed and what is wanted again, because a new version reconciles all keys at once.
    pub(super) fn forget_plans(&mut self) {
        self.failing.clear();
        self.requeues.forget();
    }

    /// Returns the time by which the host has repeated the reconciles whose last failure was at `time` or before; `None` if there are none.
    pub(super) fn retry_of_failures_until(&self, time: u64) -> Option<u64> {
        let failed = self.failing.values().filter(|failed| **failed <= time).max()?;
        Some(failed.saturating_add(MAX_RETRY))
    }
}

fn subject(plugin: &str, watch: &str, key: &str) -> Subject {
    (plugin.to_owned(), watch.to_owned(), key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reconciles_are_numbered_over_all_hosts() {
        let mut reconciles = Reconciles::default();
        assert_eq!(reconciles.begin("p", "zoos", "a", 0), 1);
        assert_eq!((reconciles.only(), reconciles.of_key("p", "zoos", "a")), (Some(1), Some(1)));
        assert_eq!(reconciles.begin("p", "zoos", "b", 0), 2);
        assert_eq!(reconciles.only(), None);
        assert!(reconciles.is_reconciling("p") && !reconciles.is_reconciling("q"));
        assert_eq!(reconciles.abandon(), [1, 2]);
        reconciles.begin_host();
        assert_eq!(reconciles.begin("p", "zoos", "a", 0), 3);
    }

    #[test]
    fn the_last_failure_that_is_repeated_counts() {
        let mut reconciles = Reconciles::default();
        let (done, retry) = (NextReconcile::Unplanned, NextReconcile::Retry);
        for (key, next, now) in [("a", retry, 10), ("b", retry, 20), ("c", done, 30), ("d", retry, 40)] {
            reconciles.begin("p", "zoos", key, now);
            assert!(reconciles.end(("p", "zoos", key), next, now).is_some());
        }
        assert_eq!(reconciles.retry_of_failures_until(30), Some(20 + MAX_RETRY));
        reconciles.end(("p", "zoos", "b"), done, 50);
        assert_eq!(reconciles.retry_of_failures_until(30), Some(10 + MAX_RETRY));
        reconciles.forget_plans();
        assert_eq!(reconciles.retry_of_failures_until(60), None);
    }
}
