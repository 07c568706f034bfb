//! Notices when the host replaces an instance of a plugin. Pure.

use std::collections::BTreeSet;

/// The instances of the plugins of one host, as far as their calls show them. An instance is created just before its first call.
#[derive(Default)]
pub(super) struct Instances {
    /// The plugins that have reconciled something in this process and version.
    has_reconciled: BTreeSet<String>,
    /// The plugin whose instance was created just now.
    created: Option<String>,
}

impl Instances {
    /// Notes that a call begins that is no reconcile.
    pub(super) fn call(&mut self, plugin: &str, is_creation: bool) {
        self.created = is_creation.then(|| plugin.to_owned());
    }

    /// Notes that a reconcile begins, and returns whether its instance replaces another one. While others run, it is a further one.
    pub(super) fn reconcile(&mut self, plugin: &str, others_run: bool) -> bool {
        let is_new = self.created.take().is_some_and(|created| created == plugin);
        let is_first = self.has_reconciled.insert(plugin.to_owned());
        is_new && !is_first && !others_run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_that_is_neither_the_first_nor_a_further_one_replaces_another() {
        let mut instances = Instances::default();
        let mut new = |others_run| {
            instances.call("p", true);
            instances.reconcile("p", others_run)
        };
        assert!(!new(false), "the first one");
        assert!(!new(true), "a further one");
        assert!(new(false));
        assert!(!instances.reconcile("p", false), "an idle one");
        instances.call("p", true);
        instances.call("p", false);
        assert!(!instances.reconcile("p", false), "an instance that computes index values");
        instances.call("p", true);
        assert!(!instances.reconcile("q", false), "another plugin");
    }
}
