//! The REST verbs, and the rules of kube-apiserver for what they store.
//!
//! HTTP requests and the simulated controllers call the same functions. Those of requests are asynchronous, because webhooks may decide about
//! a write; `write_steps::internal` completes them for the server's own writes.
//!
//! - `dispatch` finds the function for a request.
//! - `verbs` has a file for each verb, `subresources` those of the subresources that are not a part of their object.
//! - `write_steps`: steps that several verbs share.
//! - `built_in_admission`: the built-in admission plugins, with a file for each one that is more than a few lines.
//! - `kinds`: the rules and warnings of single kinds.
//! - `restore` fills the tables from a data directory or a snapshot.

pub(crate) mod built_in_admission;
pub(crate) mod dispatch;
pub(crate) mod kinds;
pub(crate) mod restore;
pub(crate) mod subresources;
pub(crate) mod verbs;
mod write_steps;

use std::sync::Arc;

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

/// Adds warnings before those of a write, whether it succeeded or not.
pub(crate) fn with_warnings(
    written: Result<WriteResult, Status>,
    warnings: Vec<String>,
) -> Result<WriteResult, Status> {
    match written {
        Ok(mut written) => {
            drop(written.warnings.splice(..0, warnings));
            Ok(written)
        }
        Err(status) => Err(status.with_warnings(warnings)),
    }
}
