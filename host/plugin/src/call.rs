//! What the host asks of a guest, and what the guest answers.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_model::{Notification, ObjectKey};
use thiserror::Error;

use crate::Fault;

/// Why a key is in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// An object that maps to the key appeared.
    Created,
    /// Such an object changed.
    Updated,
    /// Such an object is gone.
    Deleted,
    /// The watch's resync period passed.
    Resync,
    /// The plugin asked for it.
    Requeue,
    /// The last attempt failed.
    Retry,
    /// The host started, or a new version of the plugin was loaded.
    Startup,
    /// Anything that the contract doesn't name.
    Other,
}

/// Work: one object of one target watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The target watch.
    pub watch: Arc<str>,
    /// The object's key; the object may be gone.
    pub key: ObjectKey,
    /// Every reason merged into this item.
    pub reasons: Vec<Reason>,
    /// How many times in a row this key has failed.
    pub attempt: u32,
    /// What later versions of the host tell.
    pub extra: Vec<(String, String)>,
}

/// What a reconcile that succeeded wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing until something changes.
    Done,
    /// The same key again after this long (at most [`MAX_MILLISECONDS`](crate::MAX_MILLISECONDS)).
    RequeueAfter(Duration),
}

/// One notification for `observe`.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The watch of the descriptor.
    pub watch: Arc<str>,
    /// What happened; the guest reads the objects through handles.
    pub notification: Notification,
}

/// Why `reconcile` or `observe` didn't succeed: an answer of the guest, or a fault of its instance.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum Failure {
    /// The guest asks to be tried again, with backoff.
    #[error("{0}")]
    Retry(String),
    /// The guest says that trying again cannot help before the object changes.
    #[error("{0}")]
    Terminal(String),
    /// The instance failed and must be replaced; to the queue it is a retry.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Why `describe` gave no descriptor.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum DescribeError {
    /// The plugin answered with an error: the load is refused, in its own words.
    #[error("the plugin answered with an error: {0}")]
    Refused(String),
    /// The instance failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// What a guest is doing while it calls the host: passed to every function of [`Host`](crate::Host), for log lines, traces and recordings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Start code of the module, before any export.
    Instantiate,
    /// `plugin.describe`.
    Describe,
    /// `reconcile.reconcile`.
    Reconcile(Arc<Request>),
    /// `observe.observe`, with a batch of this watch.
    Observe(Arc<str>),
    /// `index.values` of the named index.
    IndexValues(Arc<str>),
}

impl Call {
    /// The exported function, as a person knows it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Instantiate => "instantiation",
            Self::Describe => "describe",
            Self::Reconcile(_) => "reconcile",
            Self::Observe(_) => "observe",
            Self::IndexValues(_) => "index.values",
        }
    }
}
