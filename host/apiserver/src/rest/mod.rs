//! The REST verbs: a file for each, and files for what several of them share.
//!
//! HTTP requests and the simulated controllers call the same functions. Those of requests are asynchronous, because webhooks may decide about
//! a write; the server's own writes bypass admission and complete at once.

pub(crate) mod admit;
pub(crate) mod crd_sync;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod dispatch;
pub(crate) mod list;
pub(crate) mod patch;
pub(crate) mod pods;
pub(crate) mod review;
pub(crate) mod scale;
pub(crate) mod strategy;
pub(crate) mod token;
pub(crate) mod update;

use std::sync::Arc;

use futures::FutureExt;

use crate::status::Status;
use crate::storage::StoredObject;

/// The result of a create, update or patch; for a dry run, what the result would be.
#[derive(Debug)]
pub(crate) struct WriteResult {
    pub object: Arc<StoredObject>,
    /// Whether the object was created.
    pub created: bool,
    /// The texts of the response's `Warning` headers.
    pub warnings: Vec<String>,
}

/// Completes a write without admission, which waits for nothing.
fn complete<T>(write: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    write.now_or_never().unwrap_or_else(|| Err(Status::internal("a write of the server itself had to wait")))
}
