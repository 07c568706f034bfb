//! The trait of plugins that receive every change.

use std::fmt;

use serde::de::DeserializeOwned;

use crate::bindings::observe::exports::pilothouse::controller::observe as wit;
pub use crate::bindings::pilothouse::controller::types::Change;
use crate::host::changes::Batch;
use crate::object::decode;
use crate::{Context, DecodeError, Describe, Error, FromObject, Object, ObjectKey};

/// A plugin that receives every change of its watches with [`notify`](crate::Watch::notify).
///
/// All calls go to one instance, one at a time, so the value may keep state. Every new instance (after a panic, a reload or a period of
/// idleness) starts with [`Default`] and first receives an [`Added`](Change::Added) for each existing object, marked as
/// [initial](Notification::is_initial).
pub trait Observer: Describe + Default + 'static {
    /// Handles a batch of notifications, in order.
    ///
    /// # Errors
    /// After [`Error::retry`] (also by `?`) the host delivers the batch again; a notification that keeps failing is set aside until its
    /// object changes. [`Error::terminal`] sets it aside immediately. A panic is logged with its location and counts as a retry.
    fn observe(&mut self, ctx: &Context<'_>, notifications: &[Notification<'_>]) -> Result<(), Error>;
}

/// One change of one object.
#[derive(Clone, Copy)]
pub struct Notification<'b> {
    notification: &'b wit::Notification,
    batch: &'b Batch,
    position: u32,
}

impl<'b> Notification<'b> {
    pub(crate) fn new(notification: &'b wit::Notification, batch: &'b Batch, position: u32) -> Self {
        Self { notification, batch, position }
    }

    /// The name of the watch in the descriptor.
    #[must_use]
    pub fn watch(&self) -> &'b str {
        &self.notification.watch
    }

    /// What happened to the object.
    #[must_use]
    pub fn change(&self) -> Change {
        self.notification.change
    }

    /// The key of the object.
    #[must_use]
    pub fn key(&self) -> &'b ObjectKey {
        &self.notification.key
    }

    /// Returns whether this [`Added`](Change::Added) replays an object that existed before this instance started to observe.
    #[must_use]
    pub fn is_initial(&self) -> bool {
        self.notification.initial
    }

    /// Returns whether the watch missed this [`Deleted`](Change::Deleted), so that the last known state may be older than the object's
    /// final state.
    #[must_use]
    pub fn is_final_state_unknown(&self) -> bool {
        self.notification.final_state_unknown
    }

    /// The object before the change: `None` for an addition, the last known state for a deletion.
    ///
    /// # Errors
    /// When the object cannot be read as `T`.
    pub fn before<T: FromObject>(&self) -> Result<Option<T>, DecodeError> {
        self.batch.before(self.position).map(|object| T::from_owned(Object::new(object))).transpose()
    }

    /// The object after the change; `None` for a deletion.
    ///
    /// # Errors
    /// When the object cannot be read as `T`.
    pub fn after<T: FromObject>(&self) -> Result<Option<T>, DecodeError> {
        self.batch.after(self.position).map(|object| T::from_owned(Object::new(object))).transpose()
    }

    /// Returns the value at a JSON pointer (RFC 6901) of the object after the change. This is the cheapest way to read one value,
    /// because it opens no handle. `None` for a deletion, or when nothing is at the pointer.
    ///
    /// # Errors
    /// When the value cannot be read as `V`.
    pub fn field<V: DeserializeOwned>(&self, pointer: &str) -> Result<Option<V>, DecodeError> {
        let Some(json) = self.batch.after_field(self.position, pointer) else { return Ok(None) };
        decode(&json, || format!("{pointer} of {}", self.notification.key)).map(Some)
    }
}

impl fmt::Debug for Notification<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Notification({} {} {})",
            self.notification.watch, self.notification.change, self.notification.key
        )
    }
}

impl fmt::Display for Change {
    /// The name in the contract, such as `added`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Added => "added",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
            Self::Resync => "resync",
        })
    }
}
