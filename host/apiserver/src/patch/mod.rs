//! The four patch types: JSON patch (RFC 6902), JSON merge patch (RFC 7386), strategic merge patch and server-side
//! apply.
//!
//! All are pure functions of JSON values. The caller converts, defaults and validates the result.

pub mod apply;
mod json;
mod merge;
mod strategic;

pub use json::json_patch;
pub use merge::merge_patch;
pub use strategic::strategic_merge_patch;
use thiserror::Error;

/// The reason why a patch cannot be applied.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PatchError {
    /// The patch itself is malformed: 400 BadRequest.
    #[error("{0}")]
    Malformed(String),
    /// The patch does not fit the object, such as a failed `test`: 422 Invalid.
    #[error("{0}")]
    Unprocessable(String),
    /// A `test` of a JSON patch failed: 422 Invalid.
    #[error("{0}")]
    TestFailed(String),
    /// An error that kube-apiserver does not classify: 500 without a reason.
    #[error("{0}")]
    Unclassified(String),
    /// The patch has too many operations: 413 RequestEntityTooLarge.
    #[error("{0}")]
    TooLarge(String),
}
