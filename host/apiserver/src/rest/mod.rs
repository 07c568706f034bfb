//! What the verbs do: one file for each, and for each thing that several of them share.
//!
//! The functions named like verbs are called by HTTP requests and by the server's own controllers alike.

pub(crate) mod admit;
pub(crate) mod autoscalers;
pub(crate) mod core_events;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod dispatch;
pub(crate) mod kinds;
pub(crate) mod list;
pub(crate) mod meta;
pub(crate) mod patch;
pub(crate) mod pods;
pub(crate) mod respond;
pub(crate) mod review;
pub(crate) mod scale;
pub(crate) mod selection;
pub(crate) mod token;
pub(crate) mod update;

use std::sync::Arc;

use crate::storage::Stored;

/// A write that was done, or would have been.
#[derive(Debug)]
pub(crate) struct Written {
    pub object: Arc<Stored>,
    /// Whether the object is new.
    pub created: bool,
    /// For the `Warning` headers.
    pub warnings: Vec<String>,
}
