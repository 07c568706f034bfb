//! Calls of a guest's exports: their arguments and their results.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_model::{Notification, ObjectKey};
use thiserror::Error;
use tokio::time::Instant;

use crate::Fault;

/// Why a key is in the work queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// An object that maps to the key was created.
    Created,
    /// Such an object was updated.
    Updated,
    /// Such an object was deleted.
    Deleted,
    /// The watch's resync period has passed.
    Resync,
    /// The plugin queued the key.
    Requeue,
    /// The last attempt failed.
    Retry,
    /// The host started, or a new version of the plugin was loaded.
    Startup,
    /// Any reason that the contract does not name.
    Other,
}

/// The argument of `reconcile`: one object of one target watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The target watch.
    pub watch: Arc<str>,
    /// The object's key. The object may not exist any more.
    pub key: ObjectKey,
    /// All reasons for which the key was queued.
    pub reasons: Vec<Reason>,
    /// How many times in a row this key has failed.
    pub attempt: u32,
    /// Reserved for information from later versions of the host.
    pub extra: Vec<(String, String)>,
    /// When the host received the oldest of the changes among the reasons; `None` if there is none. For the host's metrics: the guest does
    /// not receive it.
    pub event_at: Option<Instant>,
    /// Data of the host that its functions find in the call; the guest does not receive it.
    pub host_context: Option<HostContext>,
}

/// Data of the host that accompanies a call. Two values are equal if they are the same one.
#[derive(Clone)]
pub struct HostContext(Arc<dyn Any + Send + Sync>);

impl HostContext {
    /// Wraps a value.
    #[must_use]
    pub fn new<T: Any + Send + Sync>(value: Arc<T>) -> Self {
        Self(value)
    }

    /// Returns the value; `None` if it is of another type.
    #[must_use]
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(&self.0).downcast().ok()
    }
}

impl PartialEq for HostContext {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for HostContext {}

impl fmt::Debug for HostContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostContext")
    }
}

/// The result of a successful `reconcile`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing to do until something changes.
    Done,
    /// Reconcile the same key again after this time (at most [`MAX_MILLISECONDS`](crate::MAX_MILLISECONDS)).
    RequeueAfter(Duration),
}

/// One notification for `observe`.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The name of the watch in the descriptor.
    pub watch: Arc<str>,
    /// What happened. The guest reads the objects through handles.
    pub notification: Notification,
}

/// Why `reconcile` or `observe` failed: an error that the guest returned, or a fault of its instance.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum Failure {
    /// The guest asks for a retry, with backoff.
    #[error("{0}")]
    Retry(String),
    /// The guest says that a retry cannot help before the object changes.
    #[error("{0}")]
    Terminal(String),
    /// The instance failed and must be replaced. The key is retried.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Why `describe` returned no descriptor.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum DescribeError {
    /// The plugin returned this error, so it is not loaded.
    #[error("the plugin answered with an error: {0}")]
    Refused(String),
    /// The instance failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// The call that a guest is in when it calls the host. Every function of [`Host`](crate::Host) gets it, for log lines, traces and
/// recordings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// The module's start code, which runs before any export.
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
    /// Returns the name of the exported function for messages.
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
