//! CustomResourceDefinitions: their validation, their status and the endpoints that they define.
//!
//! kube-apiserver spreads this over several controllers, each of which updates the CRD. Here the names are accepted and
//! the custom resource is served before the response to the CRD's creation is sent.

mod approval;
mod conversion;
pub(crate) mod endpoints;
mod prepare;
mod validate;

pub(crate) use prepare::{mark_deleting, prepare};
pub(crate) use validate::validate;

/// The finalizer that keeps a CRD until its custom resources are deleted (`CustomResourceCleanupFinalizer`).
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
