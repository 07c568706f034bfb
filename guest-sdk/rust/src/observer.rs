use std::fmt;

use serde::de::DeserializeOwned;

use crate::bindings::observe::exports::pilothouse::controller::observe as wit;
use crate::bindings::pilothouse::controller::changes::Batch;
pub use crate::bindings::pilothouse::controller::types::Change;
use crate::object::decode;
use crate::{Context, DecodeError, Describe, Error, FromObject, Object, ObjectKey};

/// A plugin that is told every change of its watches with [`notify`](crate::Watch::notify).
///
/// All calls go to one instance, one at a time, so the value may hold what it learns. Every new instance (after a panic, a
/// reload, or idleness) begins with [`Default`], and is first told an [`Added`](Change::Added) for each object there is, marked
/// as [initial](Notification::is_initial).
pub trait Observer: Describe + Default + 'static {
    /// Takes a batch of notifications, in their order.
    ///
    /// # Errors
    /// [`Error::retry`] (also by `?`) has the batch told again; a notification that goes on failing is set aside until its object
    /// changes. [`Error::terminal`] sets it aside at once. A panic is logged with its place, and counts as a retry.
    fn observe(&mut self, ctx: &Context<'_>, notifications: &[Notification<'_>]) -> Result<(), Error>;
}

/// One change of one object.
#[derive(Clone, Copy)]
pub struct Notification<'b> {
    told: &'b wit::Notification,
    batch: &'b Batch,
    position: u32,
}

impl<'b> Notification<'b> {
    pub(crate) fn new(told: &'b wit::Notification, batch: &'b Batch, position: u32) -> Self {
        Self { told, batch, position }
    }

    /// The name of the watch in the descriptor.
    #[must_use]
    pub fn watch(&self) -> &'b str {
        &self.told.watch
    }

    /// What happened.
    #[must_use]
    pub fn change(&self) -> Change {
        self.told.change
    }

    /// To which object.
    #[must_use]
    pub fn key(&self) -> &'b ObjectKey {
        &self.told.key
    }

    /// An [`Added`](Change::Added) that replays what was there before this instance saw it.
    #[must_use]
    pub fn is_initial(&self) -> bool {
        self.told.initial
    }

    /// A [`Deleted`](Change::Deleted) that the watch missed: the last state known may be older than the last one there was.
    #[must_use]
    pub fn is_final_state_unknown(&self) -> bool {
        self.told.final_state_unknown
    }

    /// The state before; `None` for an addition. Of a deletion, the last state known.
    ///
    /// # Errors
    /// When it is of another shape than `T`.
    pub fn before<T: FromObject>(&self) -> Result<Option<T>, DecodeError> {
        self.batch.before(self.position).map(|object| T::from_owned(Object::new(object))).transpose()
    }

    /// The state after; `None` for a deletion.
    ///
    /// # Errors
    /// When it is of another shape than `T`.
    pub fn after<T: FromObject>(&self) -> Result<Option<T>, DecodeError> {
        self.batch.after(self.position).map(|object| T::from_owned(Object::new(object))).transpose()
    }

    /// The value at an RFC 6901 pointer of the state after, without taking the object: the cheapest way to one value.
    ///
    /// # Errors
    /// When something of another type is there.
    pub fn field<V: DeserializeOwned>(&self, pointer: &str) -> Result<Option<V>, DecodeError> {
        let Some(json) = self.batch.after_field(self.position, pointer) else { return Ok(None) };
        decode(&json, || format!("{pointer} of {}", self.told.key)).map(Some)
    }
}

impl fmt::Debug for Notification<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Notification({} {} {})", self.told.watch, self.told.change, self.told.key)
    }
}

impl fmt::Display for Change {
    /// As in the contract: `added`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Added => "added",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
            Self::Resync => "resync",
        })
    }
}
