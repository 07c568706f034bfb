use std::fmt;
use std::sync::Arc;

use crate::failure::Failure;

/// What an informer is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum InformerPhase {
    /// Not started yet.
    #[default]
    Starting,
    /// Reading a list, or the initial events of a streaming list.
    Listing,
    /// Watching.
    Watching,
    /// Waiting before the next try.
    BackingOff,
    /// Stopped for good.
    Stopped,
}

/// The state of an informer, for `status` commands, metrics and bug reports.
///
/// ```
/// use pilothouse_informer::{InformerPhase, InformerStatus};
///
/// let status = InformerStatus { phase: InformerPhase::Listing, ..InformerStatus::default() };
/// assert_eq!(status.to_string(), "listing, not synced");
/// ```
#[derive(Clone, Debug, Default)]
pub struct InformerStatus {
    /// What it is doing.
    pub phase: InformerPhase,
    /// Whether the first list has been processed whole.
    pub synced: bool,
    /// The last resource version seen (`last_sync_resource_version`).
    pub resource_version: Option<String>,
    /// What keeps it from watching; `None` while it lists or watches without trouble.
    pub error: Option<Arc<Failure>>,
    /// Requests for a list, each page counted.
    pub list_requests: u64,
    /// Requests for a watch, streaming lists included.
    pub watch_requests: u64,
    /// Events read, bookmarks included.
    pub events: u64,
    /// Lists and watches that failed, or that could not be read.
    pub failures: u64,
    /// Events older than the cached object, which were passed over.
    pub stale_events: u64,
}

impl fmt::Display for InformerStatus {
    /// One line: the phase, and what it waits for.
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
