//! The rules and warnings of single kinds, as in the registry strategies of kube-apiserver.
//!
//! - `strategy` is the entry: what a creation and an update of a kind set and check. Kinds with many rules have a file: `api_services`,
//!   `certificates`, `daemon_sets`, `jobs`, `pods`, `services`.
//! - `param_rights`: who may refer to the parameters of admission policies. `review`: access and token reviews, which are not stored.
//! - `warnings` is the entry of what kinds warn about, with `pods::warnings`, `services::warnings` and `storage_warnings`.
//! - `crd_sync` keeps the registry in step with the CRDs, and `api_services` the local APIServices in step with the registry.

pub(crate) mod api_services;
pub(crate) mod certificates;
pub(crate) mod crd_sync;
pub(super) mod daemon_sets;
mod jobs;
pub(super) mod param_rights;
pub(super) mod pods;
pub(super) mod review;
pub(super) mod services;
pub(super) mod storage_warnings;
pub(crate) mod strategy;
pub(super) mod warnings;
