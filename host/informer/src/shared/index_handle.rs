//! The indexes of one subscription, and the handles that keep an index alive.

use std::fmt;
use std::sync::{Arc, Weak};

use super::subscriber::Subscriber;
use crate::store::{IndexError, IndexFn};

/// Keeps an index of a subscription alive; see [`Subscription::acquire_index`](crate::Subscription::acquire_index). The index
/// is dropped with its last handle.
#[must_use = "the index is dropped with its last handle"]
pub struct IndexHandle {
    subscriber: Weak<Subscriber>,
    name: String,
}

/// An index of one subscription.
pub(crate) struct SubscriberIndex {
    pub(super) name: String,
    pub(super) function: IndexFn,
    /// The number of live handles; `None` if the index lives as long as the subscription.
    handles: Option<usize>,
}

impl Subscriber {
    /// Adds an index for as long as the subscription lives.
    pub(super) fn add_index(&self, name: &str, function: IndexFn) -> Result<(), IndexError> {
        let mut indexes = self.indexes.lock();
        self.source.load().store.add_scoped_index(self.id, name, function.clone())?;
        indexes.push(SubscriberIndex { name: name.to_owned(), function, handles: None });
        Ok(())
    }

    /// Adds an index, or another handle to an existing one with the same name and function.
    pub(super) fn acquire_index(
        self: &Arc<Self>,
        name: &str,
        function: IndexFn,
    ) -> Result<IndexHandle, IndexError> {
        let mut indexes = self.indexes.lock();
        match indexes.iter_mut().find(|index| index.name == name) {
            Some(index) if index.function.is_equivalent(&function) => {
                if let Some(handles) = &mut index.handles {
                    *handles += 1;
                }
            }
            Some(_) => return Err(IndexError::Exists { name: name.to_owned() }),
            None => {
                self.source.load().store.add_scoped_index(self.id, name, function.clone())?;
                indexes.push(SubscriberIndex { name: name.to_owned(), function, handles: Some(1) });
            }
        }
        Ok(IndexHandle { subscriber: Arc::downgrade(self), name: name.to_owned() })
    }

    fn release_index(&self, name: &str) {
        let mut indexes = self.indexes.lock();
        let Some(position) = indexes.iter().position(|index| index.name == name) else { return };
        let Some(handles) = &mut indexes[position].handles else { return };
        *handles -= 1;
        if *handles == 0 {
            indexes.swap_remove(position);
            self.source.load().store.drop_index(self.id, name);
        }
    }
}

impl Drop for IndexHandle {
    fn drop(&mut self) {
        // The indexes of a dropped subscriber are already gone.
        if let Some(subscriber) = self.subscriber.upgrade() {
            subscriber.release_index(&self.name);
        }
    }
}

impl fmt::Debug for IndexHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IndexHandle({})", self.name)
    }
}
