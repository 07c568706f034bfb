//! The reconciles that run, and the keys whose last one failed. Pure.

use std::collections::BTreeMap;

/// The longest time in virtual milliseconds after which the host repeats a failed reconcile.
const MAX_RETRY: u64 = 20 * 60 * 1000;

/// A plugin, one of its watches, and a key.
type Subject = (String, String, String);

/// The reconciles of one host. Their numbers go on from host to host.
#[derive(Default)]
pub(super) struct Reconciles {
    running: BTreeMap<Subject, u64>,
    /// The number of the last one that began.
    last: u64,
    /// The keys whose last reconcile failed and is repeated, with the time at which it ended.
    failing: BTreeMap<Subject, u64>,
}

impl Reconciles {
    /// Returns the number of a reconcile that begins.
    pub(super) fn begin(&mut self, plugin: &str, watch: &str, key: &str) -> u64 {
        self.last += 1;
        self.running.insert(subject(plugin, watch, key), self.last);
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

    /// Ends the reconcile of a key at `now`, and returns it. `is_repeated`: it failed, and the host repeats it later.
    pub(super) fn end(
        &mut self,
        (plugin, watch, key): (&str, &str, &str),
        is_repeated: bool,
        now: u64,
    ) -> Option<u64> {
        let subject = subject(plugin, watch, key);
        let reconcile = self.running.remove(&subject);
        if is_repeated {
            self.failing.insert(subject, now);
        } else {
            self.failing.remove(&subject);
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
        self.failing.clear();
    }

    /// Forgets what has failed, because all keys are reconciled at once.
    pub(super) fn forget_failures(&mut self) {
        self.failing.clear();
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
        assert_eq!(reconciles.begin("p", "zoos", "a"), 1);
        assert_eq!((reconciles.only(), reconciles.of_key("p", "zoos", "a")), (Some(1), Some(1)));
        assert_eq!(reconciles.begin("p", "zoos", "b"), 2);
        assert_eq!(reconciles.only(), None);
        assert!(reconciles.is_reconciling("p") && !reconciles.is_reconciling("q"));
        assert_eq!(reconciles.abandon(), [1, 2]);
        reconciles.begin_host();
        assert_eq!(reconciles.begin("p", "zoos", "a"), 3);
    }

    #[test]
    fn the_last_failure_that_is_repeated_counts() {
        let mut reconciles = Reconciles::default();
        for (key, is_repeated, now) in [("a", true, 10), ("b", true, 20), ("c", false, 30), ("d", true, 40)] {
            reconciles.begin("p", "zoos", key);
            assert!(reconciles.end(("p", "zoos", key), is_repeated, now).is_some());
        }
        assert_eq!(reconciles.retry_of_failures_until(30), Some(20 + MAX_RETRY));
        reconciles.end(("p", "zoos", "b"), false, 50);
        assert_eq!(reconciles.retry_of_failures_until(30), Some(10 + MAX_RETRY));
        reconciles.forget_failures();
        assert_eq!(reconciles.retry_of_failures_until(60), None);
    }
}
