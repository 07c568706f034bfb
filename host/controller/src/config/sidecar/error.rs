//! Why a sidecar was refused, and the path of the field that is wrong.

use pilothouse_yaml::FieldPath;

use super::MAX_SIDECAR;
use crate::config::limits;
use crate::outgoing::PatternError;

/// Why a sidecar was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SidecarError {
    /// The text is not YAML, or does not have the sidecar's structure.
    #[error("{0}")]
    Yaml(String),
    /// The members of a sidecar that is a part of something else do not have its structure.
    #[error("{0}")]
    Members(#[from] pilothouse_yaml::ValueError),
    /// A limit that is invalid.
    #[error("limits.{0}")]
    Limits(#[from] limits::LimitError),
    /// A host that is invalid.
    #[error("grants.http: {0}")]
    Http(#[from] PatternError),
    /// A namespace that is invalid.
    #[error(
        "grants.watches: {0:?} is not the name of a namespace; write a whole name, \"*\" for all, or leave namespaces out"
    )]
    Namespace(String),
    /// A number of workers that is out of range.
    #[error(
        "workers: {0} is not between 1 and 64; leave it out for 1, or write enabled: false to stop the plugin"
    )]
    Workers(u16),
    /// A path of a shadow that is not below the plugins directory.
    #[error(
        "shadow.file: {0:?} is not a path below the plugins directory; write it relative to that, such as \"shadows/new.wasm\""
    )]
    Shadow(String),
    /// A text that is too long.
    #[error(
        "it has {0} bytes, and a sidecar may have {MAX_SIDECAR}; keep large values in a ConfigMap that the plugin reads"
    )]
    TooLarge(usize),
    /// More entries than a limit allows.
    #[error("{member}: there are {count} {what}, and a sidecar may have {bound}")]
    TooMany {
        /// The field.
        member: String,
        /// The number of entries.
        count: usize,
        /// What is counted.
        what: &'static str,
        /// The limit.
        bound: usize,
    },
}

impl SidecarError {
    /// Returns the field that is wrong, such as `limits.memory`. `None` if the whole text is, and the error has the line itself.
    #[must_use]
    pub fn member(&self) -> Option<FieldPath> {
        let names = match self {
            Self::Yaml(_) | Self::TooLarge(_) => return None,
            Self::Members(error) => return Some(error.path.clone()),
            Self::Limits(error) => &format!("limits.{}", error.field),
            Self::Http(_) => "grants.http",
            Self::Namespace(_) => "grants.watches",
            Self::Workers(_) => "workers",
            Self::Shadow(_) => "shadow.file",
            Self::TooMany { member, .. } => member,
        };
        Some(FieldPath::of_members(names))
    }

    /// Returns the error with the path of its member below another one, such as `spec.limits.memory` for `spec`.
    #[must_use]
    pub fn below(&self, outer: &FieldPath) -> String {
        match self {
            Self::Yaml(_) | Self::TooLarge(_) => format!("{outer}: {self}"),
            Self::Members(error) if error.path.steps().is_empty() => format!("{outer}: {self}"),
            _ => format!("{outer}.{self}"),
        }
    }
}
