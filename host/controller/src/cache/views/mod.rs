//! A plugin's view of the cache: its watches by name, with its own writes on top.

mod index_reads;
#[cfg(test)]
pub(crate) mod model_tests;
#[cfg(test)]
mod tests;
mod view;
mod watch_cache;

use std::collections::BTreeMap;
use std::sync::Arc;

use pilothouse_model::{Notification, Object, ObjectKey};
use pilothouse_plugin::Misuse;
use tokio_util::task::AbortOnDropHandle;

use crate::access::Access;
use crate::cache::indexer::{Indexer, NoInstance, Requester};
use crate::cache::own_writes::PluginWrites;
use crate::client::WriteOutcome;
pub(crate) use index_reads::{SharedIndex, ViewIndex};
pub(crate) use view::View;
pub(crate) use watch_cache::WatchCache;

/// The number of objects that a search in an index looks at for one page.
pub(crate) const INDEX_STEP: usize = 4096;
/// The number of objects that a list looks at for one page: some more than it usually wants, so that a full page is one read.
pub(crate) const PAGE_STEP: usize = 2 * INDEX_STEP;

/// All watches of a plugin.
#[derive(Default)]
pub(crate) struct Views {
    /// Whether the plugin may read now.
    pub(crate) access: Arc<Access>,
    /// The task that keeps the permission up to date for as long as anybody can read.
    pub(crate) access_monitor: Option<AbortOnDropHandle<()>>,
    /// Boxed, because a node of the map has room for eleven values, and most plugins have one or two watches.
    pub(crate) by_name: BTreeMap<Arc<str>, Box<View>>,
    /// Present if a watch has a computed index.
    pub(crate) indexer: Option<Indexer>,
    pub(crate) writes: PluginWrites,
}

impl Views {
    /// Returns the view of a watch. Errors if the descriptor does not declare the watch.
    pub(crate) fn get(&self, watch: &str) -> Result<&View, Misuse> {
        self.by_name.get(watch).map(Box::as_ref).ok_or_else(|| self.unknown(watch))
    }

    fn unknown(&self, watch: &str) -> Misuse {
        Misuse::UnknownWatch {
            watch: watch.to_owned(),
            declared: self.by_name.keys().map(ToString::to_string).collect(),
        }
    }

    /// Returns the view of a watch. Errors if its objects may not be read now.
    pub(crate) fn readable(&self, watch: &str) -> Result<&View, Misuse> {
        let view = self.get(watch)?;
        match self.access.suspension(watch) {
            None => Ok(view),
            Some(missing) => Err(Misuse::ReadForbidden { watch: watch.to_owned(), missing }),
        }
    }

    /// Whether the cache of a watch contains exactly this object. Checks all watches, of which nearly every plugin has one or two.
    pub(crate) fn has_cached(&self, object: &Object) -> bool {
        self.by_name.values().any(|view| view.cache.contains(object))
    }

    /// Whether there is a target watch of this name.
    pub(crate) fn is_target(&self, watch: &str) -> bool {
        self.by_name.get(watch).is_some_and(|view| view.is_target)
    }

    /// Returns the shared name of a target watch. Errors if there is no watch of this name, or if it is not a target.
    pub(crate) fn target(&self, watch: &str) -> Result<Arc<str>, Misuse> {
        match self.by_name.get_key_value(watch) {
            Some((name, view)) if view.is_target => Ok(Arc::clone(name)),
            None => Err(self.unknown(watch)),
            Some(_) => Err(Misuse::NotATarget {
                watch: watch.to_owned(),
                targets: self
                    .by_name
                    .iter()
                    .filter(|(_, view)| view.is_target)
                    .map(|(name, _)| name.to_string())
                    .collect(),
            }),
        }
    }

    /// Whether the watch has a computed index.
    pub(crate) fn has_computed_index(&self, watch: &str) -> bool {
        self.indexer.is_some() && self.by_name.get(watch).is_some_and(|view| !view.computed.is_empty())
    }

    /// Updates the computed indexes of a watch for these objects, as the plugin's reads see them now.
    ///
    /// # Cancellation safety
    /// Safe.
    pub(crate) async fn index<'a>(
        self: &Arc<Self>,
        watch: &str,
        keys: impl IntoIterator<Item = &'a ObjectKey> + Send,
    ) {
        // Only a load fails.
        let _ = self.index_for(Requester::Batch, watch, keys).await;
    }

    async fn index_for<'a>(
        self: &Arc<Self>,
        requester: Requester,
        watch: &str,
        keys: impl IntoIterator<Item = &'a ObjectKey> + Send,
    ) -> Result<(), NoInstance> {
        let Some(indexer) = &self.indexer else { return Ok(()) };
        let Some((watch, view)) = self.by_name.get_key_value(watch) else { return Ok(()) };
        if view.computed.is_empty() {
            return Ok(());
        }
        let is_stale = |key: &&ObjectKey| !view.computed.is_current(key, view.object(key).as_ref());
        let stale: Vec<ObjectKey> = keys.into_iter().filter(is_stale).cloned().collect();
        // The index function reads the objects, so the plugin needs the permission.
        if stale.is_empty() || !self.access.wait_until_resumed().await {
            return Ok(());
        }
        indexer.index(Arc::clone(self), watch, stale, requester).await
    }

    /// Updates the computed indexes for all objects of all watches, for a version that does not run yet. Errors if no instance can be
    /// created.
    pub(crate) async fn index_all(self: &Arc<Self>) -> Result<(), NoInstance> {
        for (watch, view) in self.by_name.iter().filter(|(_, view)| !view.computed.is_empty()) {
            // The own writes are read before the cache, so that one that is forgotten meanwhile is in the cache. Nothing else would index an
            // object that no watch has delivered yet.
            let own_writes = view.own_writes.entries(|_| true).into_iter();
            let mut keys: Vec<_> = own_writes.map(|(key, _)| key).collect();
            keys.extend(view.cache.keys());
            // Objects that do not exist any more must be removed.
            keys.extend(view.computed.indexed_keys());
            keys.sort_unstable();
            keys.dedup();
            self.index_for(Requester::Load, watch, &keys).await?;
        }
        Ok(())
    }

    /// Records an own write, and waits until the computed indexes contain it. `uid_before` is as in [`PluginWrites::record`].
    pub(crate) async fn record(self: &Arc<Self>, written: &WriteOutcome, uid_before: &str) {
        self.writes.record(written, uid_before);
        for (watch, view) in &self.by_name {
            if view.resource == *written.resource() && view.cache.covers(written.key().namespace()) {
                // Only a load fails.
                let _ = self.index_for(Requester::OwnWrite, watch, [written.key()]).await;
            }
        }
    }

    /// Forgets the own writes with which all caches have caught up, among the objects of a batch of the watch.
    pub(crate) fn confirm_own_writes(&self, watch: &str, batch: &[Notification]) {
        let Some(view) = self.by_name.get(watch).filter(|view| !view.own_writes.is_empty()) else { return };
        let forgotten = view.own_writes.confirm(&*view.cache, batch);
        self.remove_absent_from_indexes(view, &forgotten);
    }

    /// Forgets all own writes with which all caches have caught up, including those that no notification mentions. Checks every own write,
    /// so it is called now and then rather than for each batch.
    pub(crate) fn prune_own_writes(&self) {
        for view in self.by_name.values() {
            let forgotten = view.own_writes.prune();
            self.remove_absent_from_indexes(view, &forgotten);
        }
    }

    /// Removes objects from the computed indexes that were in them only because of an own write, which is forgotten now.
    fn remove_absent_from_indexes(&self, view: &View, forgotten: &[ObjectKey]) {
        for key in forgotten {
            // An object that was created and deleted before a watch reported it has no notification that would remove it.
            for view in self.by_name.values().filter(|other| Arc::ptr_eq(&other.own_writes, &view.own_writes))
            {
                if !view.computed.is_empty() && view.object(key).is_none() {
                    view.computed.remove(key);
                }
            }
        }
    }
}
