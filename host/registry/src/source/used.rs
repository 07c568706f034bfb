//! What the plugins use of the cache, and what must therefore not be pruned. Pure, except that the records are read.

use std::collections::{BTreeMap, BTreeSet};

use super::MAX_RECORDS;
use crate::cache::Cache;
use crate::client::Limits;
use crate::digest::Digest;
use crate::fetch::CachedPlugin;

/// The content that each plugin uses.
#[derive(Default)]
pub(super) struct UsedContent(BTreeMap<String, Uses>);

#[derive(Default)]
struct Uses {
    /// The content of the version in the folder. After a restart, that of the version that ran before.
    current: Vec<Digest>,
    /// The content of the version that is being pulled.
    pending: Vec<Digest>,
}

impl UsedContent {
    /// Returns the content of the plugins that the cache has records of.
    pub(super) fn recorded(cache: &Cache, limits: Limits) -> Self {
        let uses = cache.records(MAX_RECORDS).into_iter().map(|(name, manifest)| {
            let found = CachedPlugin::described(cache, manifest, limits, &name);
            let current = found.map_or_else(|| vec![manifest], |plugin| plugin.blobs());
            (name, Uses { current, pending: Vec::new() })
        });
        Self(uses.collect())
    }

    /// Replaces what the plugin uses.
    pub(super) fn set(&mut self, plugin: &str, current: Vec<Digest>) {
        self.0.insert(plugin.to_owned(), Uses { current, pending: Vec::new() });
    }

    /// Adds content that the plugin is about to use.
    pub(super) fn set_pending(&mut self, plugin: &str, pending: Vec<Digest>) {
        self.0.entry(plugin.to_owned()).or_default().pending = pending;
    }

    pub(super) fn remove(&mut self, plugin: &str) {
        self.0.remove(plugin);
    }

    /// Forgets the plugins with other names.
    pub(super) fn retain(&mut self, names: &BTreeSet<&str>) {
        self.0.retain(|name, _| names.contains(name.as_str()));
    }

    pub(super) fn all(&self) -> BTreeSet<Digest> {
        self.0.values().flat_map(|uses| uses.current.iter().chain(&uses.pending)).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_is_being_pulled_is_used_beside_the_one_that_runs() {
        let [one, two, three] = [b"1", b"2", b"3"].map(|content| Digest::of(content));
        let mut used = UsedContent::default();
        used.set("p", vec![one]);
        used.set_pending("p", vec![two]);
        assert_eq!(used.all(), BTreeSet::from([one, two]));
        used.set_pending("p", vec![three]);
        assert_eq!(used.all(), BTreeSet::from([one, three]));
        used.set("p", vec![three]);
        used.set("q", vec![one]);
        assert_eq!(used.all(), BTreeSet::from([one, three]));
        used.retain(&BTreeSet::from(["p"]));
        assert_eq!(used.all(), BTreeSet::from([three]));
        used.remove("p");
        assert_eq!(used.all(), BTreeSet::new());
    }
}
