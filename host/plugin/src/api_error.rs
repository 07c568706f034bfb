//! Errors of requests to the API server, as guests get them.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a `client` call failed. Mirrors `api-error` of the WIT package; the display text is for the host's log.
#[derive(Clone, Debug, Error, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ApiError {
    /// 404: the object or its resource type does not exist.
    #[error("not found: {0}")]
    NotFound(String),
    /// 409 AlreadyExists.
    #[error("already exists: {0}")]
    AlreadyExists(String),
    /// 409 Conflict: the object was changed since it was read, or another field manager owns a field.
    #[error("conflict: {message}")]
    Conflict {
        /// The server's message.
        message: String,
        /// The object's current resource version, "" if it is unknown.
        resource_version: String,
    },
    /// 422 Invalid.
    #[error("invalid: {}", Causes(.0))]
    Invalid(Vec<Cause>),
    /// 403: the server refused the request.
    #[error("forbidden: {0}")]
    Forbidden(String),
    /// The host refused the request without sending it, because it is not granted.
    #[error("denied: not granted {0:?}")]
    Denied(Rule),
    /// 429, or the host's own rate limit.
    #[error("too many requests: try again in {retry_after_ms} ms")]
    TooManyRequests {
        /// When to try again, in milliseconds. Guests get at most [`MAX_MILLISECONDS`](crate::MAX_MILLISECONDS).
        retry_after_ms: u32,
    },
    /// The server did not answer. A write may nevertheless have happened.
    #[error("the API server is unavailable: {0}")]
    Unavailable(String),
    /// Any other status.
    #[error("{code} {reason}: {message}")]
    Other {
        /// The HTTP status.
        code: u16,
        /// The `reason` of the server's Status, "" if it has none.
        reason: String,
        /// The server's message.
        message: String,
    },
}

impl ApiError {
    /// Returns the HTTP status; `None` if there was no response, or if nothing was sent.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::NotFound(_) => Some(404),
            Self::AlreadyExists(_) | Self::Conflict { .. } => Some(409),
            Self::Invalid(_) => Some(422),
            Self::Forbidden(_) => Some(403),
            Self::TooManyRequests { .. } => Some(429),
            Self::Other { code, .. } => Some(*code),
            Self::Denied(_) | Self::Unavailable(_) => None,
        }
    }
}

/// One cause of an `Invalid` error, like `StatusCause` of Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cause {
    /// The path of the invalid field.
    pub field: String,
    /// The server's reason, such as "FieldValueInvalid".
    pub reason: String,
    /// What is wrong with the field.
    pub message: String,
}

/// The missing grant of a denied request, in the form of an RBAC PolicyRule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// API groups, "" for the core group.
    pub api_groups: Vec<String>,
    /// Plural resource names, with "/subresource" for a subresource.
    pub resources: Vec<String>,
    /// Verbs in lower case.
    pub verbs: Vec<String>,
    /// Namespaces; an empty list means all.
    pub namespaces: Vec<String>,
}

/// Displays causes in one line.
struct Causes<'a>(&'a [Cause]);

impl std::fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (position, cause) in self.0.iter().enumerate() {
            let separator = if position == 0 { "" } else { "; " };
            write!(f, "{separator}{}: {}", cause.field, cause.message)?;
        }
        Ok(())
    }
}
