//! A plugin's cache: its watches by name, its own writes on top.

#[cfg(test)]
pub(crate) mod model_tests;
#[cfg(test)]
mod tests;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

use pilothouse_model::{Notification, Object, ObjectKey};
use pilothouse_plugin::Misuse;
use tokio_util::task::AbortOnDropHandle;

use crate::access::Permission;
use crate::cache::indexer::{Asker, Indexer, NoInstance};
use crate::cache::own_writes::PluginWrites;
use crate::client::Written;
pub(crate) use view::{SharedIndex, View, ViewIndex, WatchCache};

/// All watches of a plugin.
#[derive(Default)]
pub(crate) struct Views {
    /// Whether the plugin may see any of it now.
    pub(crate) permission: Arc<Permission>,
    /// What keeps the permission up to date for as long as anybody can read.
    pub(crate) guard: Option<AbortOnDropHandle<()>>,
    /// Boxed, because a map's node has room for eleven, and most plugins have one or two.
    pub(crate) by_name: BTreeMap<Arc<str>, Box<View>>,
    /// Present when a watch has a computed index.
    pub(crate) indexer: Option<Indexer>,
    pub(crate) writes: PluginWrites,
}

impl Views {
    pub(crate) fn get(&self, watch: &str) -> Result<&View, Misuse> {
        self.by_name.get(watch).map(Box::as_ref).ok_or_else(|| self.unknown(watch))
    }

    fn unknown(&self, watch: &str) -> Misuse {
        Misuse::UnknownWatch {
            watch: watch.to_owned(),
            declared: self.by_name.keys().map(ToString::to_string).collect(),
        }
    }

    /// The watch, if its objects may be read now.
    pub(crate) fn readable(&self, watch: &str) -> Result<&View, Misuse> {
        let view = self.get(watch)?;
        match self.permission.missing(watch) {
            None => Ok(view),
            Some(missing) => Err(Misuse::MayNotRead { watch: watch.to_owned(), missing }),
        }
    }

    /// Whether the cache of a watch holds this very version of the object. An object of a kind is in the caches of that kind's watches
    /// only, and nearly always a plugin has one or two.
    pub(crate) fn has_cached(&self, object: &Object) -> bool {
        self.by_name.values().any(|view| view.cache.has(object))
    }

    /// Whether that is a target watch.
    pub(crate) fn is_target(&self, watch: &str) -> bool {
        self.by_name.get(watch).is_some_and(|view| view.is_target)
    }

    /// The shared name of a target watch.
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

    /// Whether the watch has an index that the plugin computes.
    pub(crate) fn is_computed(&self, watch: &str) -> bool {
        self.indexer.is_some() && self.by_name.get(watch).is_some_and(|view| !view.computed.is_empty())
    }

    /// Has the computed indexes of a watch know these objects as the plugin's reads answer them now. Cancellation safe.
    pub(crate) async fn index<'a>(
        self: &Arc<Self>,
        watch: &str,
        keys: impl IntoIterator<Item = &'a ObjectKey> + Send,
    ) {
        // Only a version that is being loaded gives up.
        let _ = self.index_for(Asker::Batch, watch, keys).await;
    }

    async fn index_for<'a>(
        self: &Arc<Self>,
        asker: Asker,
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
        // The plugin is shown the objects, and what it makes of them comes back.
        if stale.is_empty() || !self.permission.granted().await {
            return Ok(());
        }
        indexer.index(Arc::clone(self), watch, stale, asker).await
    }

    /// [`index`](Self::index) for all objects of all watches, for a version that does not run yet. An error when no
    /// instance can be made.
    pub(crate) async fn index_all(self: &Arc<Self>) -> Result<(), NoInstance> {
        for (watch, view) in self.by_name.iter().filter(|(_, view)| !view.computed.is_empty()) {
            let mut keys: Vec<_> = view.cache.keys().collect();
            // Also those that are gone: they have to be taken out.
            keys.extend(view.computed.objects());
            keys.sort_unstable();
            keys.dedup();
            self.index_for(Asker::Load, watch, &keys).await?;
        }
        Ok(())
    }

    /// Remembers a write, and has it found by the computed indexes when it returns; `before` is as in
    /// [`PluginWrites::record`].
    pub(crate) async fn record(self: &Arc<Self>, written: &Written, before: &str) {
        self.writes.record(written, before);
        for (watch, view) in &self.by_name {
            if view.resource == *written.resource() && view.cache.covers(written.key().namespace()) {
                // Only a version that is being loaded gives up.
                let _ = self.index_for(Asker::OwnWrite, watch, [written.key()]).await;
            }
        }
    }

    /// Takes note of what a watch told of the plugin's own writes, and forgets those that are in all caches now.
    pub(crate) fn hear(&self, watch: &str, batch: &[Notification]) {
        let Some(view) = self.by_name.get(watch).filter(|view| !view.own_writes.is_empty()) else { return };
        let forgotten = view.own_writes.hear(&*view.cache, batch);
        self.take_out(view, &forgotten);
    }

    /// Forgets the own writes that the caches are past; also those that no watch tells of. It looks at all of them: for
    /// now and then, not for each batch.
    pub(crate) fn forget_all(&self) {
        for view in self.by_name.values() {
            let forgotten = view.own_writes.prune();
            self.take_out(view, &forgotten);
        }
    }

    /// Takes objects that are gone out of the indexes that knew of them by an own write to them, which is forgotten.
    fn take_out(&self, view: &View, forgotten: &[ObjectKey]) {
        for key in forgotten {
            // An object that came and went before the watch told of either: nobody else takes it out of the indexes.
            for view in self.by_name.values().filter(|other| Arc::ptr_eq(&other.own_writes, &view.own_writes))
            {
                if !view.computed.is_empty() && view.object(key).is_none() {
                    view.computed.remove(key);
                }
            }
        }
    }
}
