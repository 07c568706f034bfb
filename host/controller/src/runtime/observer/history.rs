//! What a plugin's observers were told of, from one observer to the next.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use pilothouse_model::{Object, ObjectKey, ResourceType};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::ledger::Ledger;
use crate::load::version::{Feed, Version};

/// Held by one observer at a time: the next waits until it has ended. Cheap to clone.
#[derive(Clone, Default)]
pub(in crate::runtime) struct Memory(Arc<Mutex<Kept>>);

#[derive(Default)]
pub(super) struct Kept {
    /// Whose ledgers they are.
    version: Weak<Version>,
    ledgers: Vec<(Source, Ledger)>,
    gone: Vec<Inherited>,
}

/// What a feed tells of.
#[derive(Clone)]
struct Source {
    watch: Arc<str>,
    resource: ResourceType,
}

/// Objects that observers of earlier versions were told of. The present one has to be told of the end of those that are
/// gone, once it was told of what there is.
pub(super) struct Inherited {
    source: Source,
    pub(super) objects: HashMap<ObjectKey, Object>,
}

impl Source {
    fn of(feed: &Feed) -> Self {
        Self { watch: Arc::clone(&feed.watch), resource: feed.subscription.key().resource.clone() }
    }

    fn is_same(&self, feed: &Feed) -> bool {
        crate::runtime::handover::is_same(&self.resource, &feed.subscription.key().resource)
    }
}

impl Memory {
    /// Forgets everything: there is no observer any more.
    pub(in crate::runtime) fn clear(&self) {
        // One that still holds it is at its end, and leaves no more than the next observer can tell of.
        if let Ok(mut kept) = self.0.try_lock() {
            *kept = Kept::default();
        }
    }

    /// Waits until the observer before has ended.
    pub(super) async fn take(&self) -> OwnedMutexGuard<Kept> {
        Arc::clone(&self.0).lock_owned().await
    }
}

impl Kept {
    /// What the observer of this version begins with: its own ledgers when it is started again, else what its predecessors
    /// were told of.
    pub(super) fn begin(&mut self, version: &Arc<Version>) -> (Vec<Ledger>, Vec<Inherited>) {
        let before = std::mem::take(self);
        let is_same = std::ptr::eq(before.version.as_ptr(), Arc::as_ptr(version));
        let mut gone = before.gone;
        if is_same && before.ledgers.len() == version.feeds.len() {
            return (before.ledgers.into_iter().map(|(_, ledger)| ledger).collect(), gone);
        }
        let inherited = before.ledgers.into_iter();
        gone.extend(inherited.map(|(source, ledger)| Inherited { source, objects: ledger.into_told() }));
        gone.retain(|inherited| !inherited.objects.is_empty());
        (version.feeds.iter().map(|_| Ledger::default()).collect(), gone)
    }

    /// Keeps what an observer leaves.
    pub(super) fn end(&mut self, version: &Arc<Version>, ledgers: Vec<Ledger>, gone: Vec<Inherited>) {
        let sources = version.feeds.iter().map(Source::of);
        *self = Self { version: Arc::downgrade(version), ledgers: sources.zip(ledgers).collect(), gone };
    }
}

impl Inherited {
    /// The feeds that tell of these objects now: those of the same watch and resource, or else all of the same resource.
    pub(super) fn feeds(&self, feeds: &[Feed]) -> Vec<usize> {
        let same = || (0..feeds.len()).filter(|position| self.source.is_same(&feeds[*position]));
        let named: Vec<_> = same().filter(|position| feeds[*position].watch == self.source.watch).collect();
        if named.is_empty() { same().collect() } else { named }
    }
}
