//! The REST verbs: a file for each, and files for what several of them share.
//!
//! HTTP requests and the simulated controllers call the same functions. Those of requests are asynchronous, because webhooks may decide about
//! a write; `internal` completes them for the server's own writes.

pub(crate) mod admit;
pub(crate) mod api_services;
mod built_in;
pub(crate) mod certificates;
mod claims;
pub(crate) mod crd_sync;
pub(crate) mod create;
mod daemon_sets;
mod default_classes;
pub(crate) mod defaults;
pub(crate) mod delete;
pub(crate) mod dispatch;
mod internal;
pub(crate) mod jobs;
mod limit_ranges;
pub(crate) mod list;
mod owner_references;
mod param_rights;
pub(crate) mod patch;
mod pod_actions;
mod pod_profiles;
mod pod_resize;
mod pod_security;
mod pod_warnings;
pub(crate) mod pods;
pub(crate) mod quota;
pub(crate) mod restore;
pub(crate) mod review;
mod runtime_class;
pub(crate) mod scale;
mod service_accounts;
mod service_type_fields;
mod service_warnings;
mod services;
mod storage_warnings;
pub(crate) mod strategy;
pub(crate) mod token;
pub(crate) mod topology_labels;
mod tracking;
mod unchanged;
pub(crate) mod update;
mod warnings;

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
