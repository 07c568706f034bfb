//! The steps of a write that several verbs share.
//!
//! - `admit`: decodes what a client sent, sets defaults and validates.
//! - `owner_references`: removes equal owner references.
//! - `tracking`: when managed fields are recorded.
//! - `unchanged`: whether an update changes the object.
//! - `internal`: completes writes of the server itself.

pub(super) mod admit;
pub(super) mod internal;
pub(super) mod owner_references;
pub(super) mod tracking;
pub(super) mod unchanged;
