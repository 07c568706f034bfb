//! Signatures of plugins, as cosign makes them, and the policy that says which are required. Nothing but the registry is contacted.
//!
//! Signatures are collected first ([`SignatureMaterial`]), and judged without a network afterwards. What was collected is kept in the cache, so that
//! a host that starts without the registry judges again, by the policy that it has then.

mod background;
mod collect;
mod crypto;
mod key;
mod keyless;
mod material;
mod pattern;
mod payload;
mod policy;
mod policy_document;
mod verify;

pub(crate) use background::in_background;
pub use collect::collect_signatures;
pub use material::{SignatureMaterial, load_signatures, store_signatures};
pub use policy::SignaturePolicy;
pub use verify::{Decision, verify};
