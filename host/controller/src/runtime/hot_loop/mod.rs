//! Finds plugins that start themselves again and again, says so, and slows down the keys in question, no others.
//!
//! A plugin that does not write costs nothing here, an event of one that does costs a look-up, and what is kept is
//! bounded: the keys whose reconciles wrote in the last minute.

mod authors;
mod chain;
mod difference;
mod report;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_model::Notification;
use pilothouse_plugin::{HostMemory, Reason};
use tokio::time::Instant;

pub(crate) use authors::Authors;
use chain::Chain;
pub(crate) use chain::HotLoop;
pub(crate) use report::report;

use crate::client::Written;
use crate::runtime::queue::Item;

/// Keys that are looked at, at most.
const KEYS: usize = 2048;

/// What is known of one plugin's keys. Cheap to clone.
#[derive(Clone)]
pub(crate) struct HotLoops {
    plugin: Arc<str>,
    authors: Authors,
    /// How many keys there are, to be asked without a lock.
    count: Arc<AtomicUsize>,
    chains: Arc<Mutex<HashMap<Item, Watched>>>,
    memory: HostMemory,
}

struct Watched {
    chain: Chain,
    /// What the status says of it, while it is in a loop.
    trouble: Option<String>,
}

impl HotLoops {
    pub(crate) fn new(plugin: Arc<str>, authors: Authors) -> Self {
        let memory = HostMemory::default();
        Self { plugin, authors, count: Arc::default(), chains: Arc::default(), memory }
    }

    /// The same, whose states of objects are charged to this account.
    pub(crate) fn charged_to(self, memory: &HostMemory) -> Self {
        Self { memory: memory.clone(), ..self }
    }

    /// A write was answered. To be called before whoever asked for it learns of that.
    pub(crate) fn wrote(&self, item: Option<&Item>, written: &Written) {
        self.authors.wrote(&self.plugin, written);
        let Some(item) = item else { return };
        let mut chains = self.chains.lock();
        let now = Instant::now();
        if chains.len() >= KEYS && !chains.contains_key(item) {
            // `forget_old` makes room: to look for it here, at each write, would cost more than the write.
            return;
        }
        let new = || Watched { chain: Chain::new(now, self.memory.clone()), trouble: None };
        let version = match written {
            Written::Object(_, object) | Written::Ended(_, object) => object.resource_version(),
            Written::Deleted(..) | Written::Answer(..) => "",
        };
        chains.entry(item.clone()).or_insert_with(new).chain.wrote(written.key(), version);
        self.count.store(chains.len(), Ordering::Relaxed);
    }

    /// A notification is about to queue the key.
    pub(crate) fn woken(&self, item: &Item, notification: &Notification) {
        if self.is_idle() {
            return;
        }
        if let Some(watched) = self.chains.lock().get_mut(item) {
            watched.chain.woken(self.authors.told(notification), notification);
        }
    }

    /// A worker has the key: how long it has to wait, if its reconcile would be another round of a loop.
    pub(crate) fn begin(&self, item: &Item, reasons: &[Reason]) -> Option<Duration> {
        if self.is_idle() {
            return None;
        }
        let is_event =
            |reason: &Reason| matches!(reason, Reason::Created | Reason::Updated | Reason::Deleted);
        let otherwise = !reasons.iter().all(is_event);
        let mut chains = self.chains.lock();
        let watched = chains.get_mut(item)?;
        watched.chain.begin(&self.plugin, &self.authors, otherwise, Instant::now())
    }

    /// The reconcile of the key has ended; the loop that it is a round of.
    pub(crate) fn end(&self, item: &Item) -> Option<HotLoop> {
        if self.is_idle() {
            return None;
        }
        let mut chains = self.chains.lock();
        let watched = chains.get_mut(item)?;
        let found = watched.chain.end(Instant::now());
        match &found {
            Some(found) => watched.trouble = Some(found.to_string()),
            None if !watched.chain.is_hot() => watched.trouble = None,
            None => {}
        }
        found
    }

    /// What the status says: one of the loops that go on.
    pub(crate) fn trouble(&self) -> Option<String> {
        if self.is_idle() {
            return None;
        }
        let now = Instant::now();
        let chains = self.chains.lock();
        let hot = chains.values().filter(|watched| !watched.chain.is_over(now));
        hot.filter_map(|watched| watched.trouble.clone()).min()
    }

    /// Forgets the keys of which there is nothing to be known any more.
    pub(crate) fn forget_old(&self) {
        let now = Instant::now();
        self.retain(|watched| !watched.chain.is_over(now));
    }

    /// A new version may do better.
    pub(crate) fn forget_all(&self) {
        self.retain(|_| false);
    }

    fn retain(&self, keep: impl Fn(&Watched) -> bool) {
        if self.is_idle() {
            return;
        }
        let mut chains = self.chains.lock();
        chains.retain(|_, watched| keep(watched));
        self.count.store(chains.len(), Ordering::Relaxed);
    }

    fn is_idle(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }
}
