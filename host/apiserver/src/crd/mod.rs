//! Custom resource definitions: their own rules, and the endpoints that they make.
//!
//! kube-apiserver does this in several controllers that write the CRD again and again; here its names are accepted and
//! it is served before its creation is answered.

mod check;
pub(crate) mod endpoints;
mod prepare;

pub(crate) use check::check;
pub(crate) use prepare::{mark_deleting, prepare};

/// The finalizer of a CRD whose objects are still there.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
