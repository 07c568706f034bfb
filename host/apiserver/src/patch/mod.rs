//! The four kinds of patch: JSON (RFC 6902), merge (RFC 7386), strategic merge, and server-side apply.
//!
//! All are pure functions over JSON values; conversion, defaulting and validation of the result are the caller's.

pub mod apply;
mod json;
mod merge;
mod strategic;

pub use json::json_patch;
pub use merge::merge_patch;
pub use strategic::strategic_merge_patch;
use thiserror::Error;

/// A patch that cannot be applied.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PatchError {
    /// The patch itself is malformed: 400 BadRequest.
    #[error("{0}")]
    Malformed(String),
    /// The patch does not fit the object, such as a failed `test`: 422 Invalid.
    #[error("{0}")]
    Unprocessable(String),
}
