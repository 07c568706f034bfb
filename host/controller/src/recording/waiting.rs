//! Decides which reconciles may wait for the writer. Does no I/O.
//!
//! A plugin may have at most as much waiting as all plugins leave free. So one alone uses half of the limits at most, each of n busy ones an
//! n+1th part, and a plugin with few reconciles finds room beside them.

use pilothouse_model::hash::HashMap;

/// A number of reconciles and their size in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) reconciles: usize,
    pub(super) bytes: usize,
}

/// What waits for the writer, by plugin.
#[derive(Debug)]
pub(super) struct WaitingReconciles {
    limits: Amount,
    total: Amount,
    /// Those of each plugin that has any.
    plugins: HashMap<String, Amount>,
}

impl WaitingReconciles {
    /// Creates an empty queue. The reconcile that reaches the limit of bytes may exceed it.
    pub(super) fn new(limits: Amount) -> Self {
        Self { limits, total: Amount::default(), plugins: HashMap::default() }
    }

    /// Adds a reconcile of a plugin. Returns `false` if it may not wait.
    pub(super) fn add(&mut self, plugin: &str, bytes: usize) -> bool {
        let waiting = self.plugins.get(plugin).copied().unwrap_or_default();
        let has_room = |waiting: usize, total: usize, limit: usize| waiting < limit.saturating_sub(total);
        if !has_room(waiting.reconciles, self.total.reconciles, self.limits.reconciles)
            || !has_room(waiting.bytes, self.total.bytes, self.limits.bytes)
        {
            return false;
        }
        let added =
            |before: Amount| Amount { reconciles: before.reconciles + 1, bytes: before.bytes + bytes };
        self.total = added(self.total);
        self.plugins.insert(plugin.to_owned(), added(waiting));
        true
    }

    /// Removes a reconcile that was added with these arguments.
    pub(super) fn remove(&mut self, plugin: &str, bytes: usize) {
        let Some(waiting) = self.plugins.get_mut(plugin) else { return };
        for amount in [&mut self.total, waiting] {
            amount.reconciles = amount.reconciles.saturating_sub(1);
            amount.bytes = amount.bytes.saturating_sub(bytes);
        }
        if waiting.reconciles == 0 {
            self.plugins.remove(plugin);
        }
    }

    /// Returns what waits of all plugins.
    #[cfg(test)]
    pub(super) fn total(&self) -> Amount {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: Amount = Amount { reconciles: 1_000, bytes: 1_000_000 };

    /// Adds reconciles until the plugin has no room. Returns how many were added.
    fn fill(waiting: &mut WaitingReconciles, plugin: &str, bytes: usize) -> usize {
        (0..).take_while(|_| waiting.add(plugin, bytes)).count()
    }

    #[test]
    fn a_busy_plugin_leaves_room_for_the_others() {
        let mut waiting = WaitingReconciles::new(LIMITS);
        assert_eq!(fill(&mut waiting, "busy", 1), 500);
        assert_eq!(fill(&mut waiting, "second", 1), 250);
        assert!(waiting.add("quiet", 1));
        assert!(!waiting.add("busy", 1));
        // Both have as much in the end as is left free.
        for _ in 0..2_000 {
            waiting.remove("busy", 1);
            fill(&mut waiting, "second", 1);
            fill(&mut waiting, "busy", 1);
        }
        let shares = ["busy", "second"].map(|plugin| waiting.plugins[plugin].reconciles);
        assert!(shares.iter().all(|share| (330..=336).contains(share)), "{shares:?}");
    }

    #[test]
    fn the_bytes_of_a_plugin_are_limited_too() {
        let mut waiting = WaitingReconciles::new(LIMITS);
        assert_eq!(fill(&mut waiting, "large", 100_000), 5);
        assert!(waiting.add("quiet", 100_000));
        waiting.remove("quiet", 100_000);
        for _ in 0..5 {
            waiting.remove("large", 100_000);
        }
        assert_eq!((waiting.total(), waiting.plugins.len()), (Amount::default(), 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_limits_hold_and_nothing_stays_behind(
            added in proptest::collection::vec((0..6_usize, 0..100_000_usize), 0..2_000),
        ) {
            let mut waiting = WaitingReconciles::new(LIMITS);
            let mut present = Vec::new();
            for (plugin, bytes) in added {
                let plugin = plugin.to_string();
                if waiting.add(&plugin, bytes) {
                    present.push((plugin, bytes));
                }
                prop_assert!(waiting.total().reconciles <= LIMITS.reconciles);
                prop_assert!(waiting.total().bytes <= LIMITS.bytes + 100_000);
            }
            present.iter().for_each(|(plugin, bytes)| waiting.remove(plugin, *bytes));
            prop_assert_eq!((waiting.total(), waiting.plugins.len()), (Amount::default(), 0));
        }
    }
}
