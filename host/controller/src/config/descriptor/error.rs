//! The error of an invalid descriptor.

use super::bounds::MAX_DESCRIPTOR;
use crate::logs::printable;

/// Why a descriptor was refused. Each message names the field, the problem and the remedy, in one line
/// whatever the plugin wrote.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptorError {
    /// Not JSON, or not with the structure of a descriptor.
    #[error(
        "the descriptor that the plugin returned is not valid: {}; see docs/plugin.schema.json",
        printable(&.source.to_string())
    )]
    Json {
        /// The parser's message, with line and column.
        source: serde_json::Error,
    },
    /// The text is too long.
    #[error(
        "the descriptor that the plugin returned has {0} bytes, and may have {MAX_DESCRIPTOR}; declare less, or make several plugins of this one (docs/limits.md)"
    )]
    TooLarge(usize),
    /// A field has an invalid value.
    #[error("the plugin's descriptor: {}: {}; {}", printable(.path), printable(.problem), printable(.remedy))]
    Invalid {
        /// The field, such as `watches[0].trigger`.
        path: String,
        /// What is wrong.
        problem: String,
        /// What would be right.
        remedy: String,
    },
}

impl DescriptorError {
    pub(super) fn invalid(
        path: impl Into<String>,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::Invalid { path: path.into(), problem: problem.into(), remedy: remedy.into() }
    }
}
