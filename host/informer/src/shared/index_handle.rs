//! The indexes of one subscription, each kept for as long as somebody holds it.

use std::fmt;
use std::sync::{Arc, Weak};

use super::subscriber::Subscriber;
use crate::store::{IndexError, IndexFn};

/// Keeps an index of a subscription; see [`Subscription::acquire_index`](crate::Subscription::acquire_index). The index is dropped with the last
/// of its handles.
#[must_use = "the index is dropped with the last of its handles"]
pub struct IndexHandle {
    subscriber: Weak<Subscriber>,
    name: String,
}

/// An index of one subscription.
pub(crate) struct SubscriberIndex {
    pub(super) name: String,
    pub(super) function: IndexFn,
    /// How many handles there are. `None`: it was added for as long as the subscription lives.
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

    /// Adds an index, or counts one more handle of the one with the same name and function.
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
        // A subscriber that is gone has taken its indexes with it.
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
