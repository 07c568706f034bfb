//! What an informer is doing, for `status` commands, metrics and bug reports.

use std::fmt;
use std::sync::Arc;

use crate::failure::Failure;

/// What an informer is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum InformerPhase {
    /// Not started yet.
    #[default]
    Starting,
    /// Reading a list or the initial events of a streaming list.
    Listing,
    /// Watching.
    Watching,
    /// Waiting before the next attempt.
    BackingOff,
    /// Stopped for good.
    Stopped,
}

/// The state of an informer, for `status` commands, metrics and bug reports.
///
/// ```
/// use pilothouse_informer::{InformerPhase, InformerStatus};
///
/// let mut status = InformerStatus::default();
/// status.phase = InformerPhase::Listing;
/// assert_eq!(status.to_string(), "listing, not synced");
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct InformerStatus {
    /// What the informer is doing.
    pub phase: InformerPhase,
    /// Whether the first list has been applied to the cache.
    pub synced: bool,
    /// The last resource version seen: client-go's `LastSyncResourceVersion`.
    pub resource_version: Option<String>,
    /// The failure that keeps the informer from watching; `None` while it lists or watches successfully.
    pub error: Option<Arc<Failure>>,
    /// List requests sent; every page counts.
    pub list_requests: u64,
    /// Watch requests sent, including streaming lists.
    pub watch_requests: u64,
    /// Events read, including bookmarks.
    pub events: u64,
    /// Lists and watches that failed or whose body could not be decoded.
    pub failures: u64,
    /// Events that were ignored because the cached object is newer.
    pub stale_events: u64,
}

impl fmt::Display for InformerStatus {
    /// Formats one line: the phase and, if there is one, the error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = match self.phase {
            InformerPhase::Starting => "starting",
            InformerPhase::Listing => "listing",
            InformerPhase::Watching => "watching",
            InformerPhase::BackingOff => "waiting to try again",
            InformerPhase::Stopped => "stopped",
        };
        f.write_str(phase)?;
        if !self.synced {
            f.write_str(", not synced")?;
        }
        if let Some(error) = &self.error {
            write!(f, ": {error}")?;
        }
        Ok(())
    }
}
