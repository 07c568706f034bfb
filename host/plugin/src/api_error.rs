//! Why a request to the API server failed, as a guest sees it.

use thiserror::Error;

/// The outcome of a failed `client` call. Mirrors `api-error` of the WIT package; the display text is for the host's log.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ApiError {
    /// 404: the object, or the whole resource type.
    #[error("not found: {0}")]
    NotFound(String),
    /// 409 AlreadyExists.
    #[error("already exists: {0}")]
    AlreadyExists(String),
    /// 409 Conflict: another state than the one that was read, or a field that another manager owns.
    #[error("conflict: {message}")]
    Conflict {
        /// The server's message.
        message: String,
        /// The object's present resource version, "" when nobody knows.
        resource_version: String,
    },
    /// 422 Invalid.
    #[error("invalid: {}", Causes(.0))]
    Invalid(Vec<Cause>),
    /// 403: refused by the server.
    #[error("forbidden: {0}")]
    Forbidden(String),
    /// Refused by the host before any request was sent.
    #[error("denied: not granted {0:?}")]
    Denied(Rule),
    /// 429, or the host's own limit.
    #[error("too many requests: try again in {retry_after_ms} ms")]
    TooManyRequests {
        /// When to try again, in milliseconds; above 2_147_483_647 the guest is told that maximum.
        retry_after_ms: u32,
    },
    /// No answer; a write may nevertheless have happened.
    #[error("the API server is unavailable: {0}")]
    Unavailable(String),
    /// Any other status.
    #[error("{code} {reason}: {message}")]
    Other {
        /// The HTTP status.
        code: u16,
        /// The `reason` of the server's Status, "" without one.
        reason: String,
        /// The server's message.
        message: String,
    },
}

/// One field that the API server refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// The field's path as the server names it.
    pub field: String,
    /// The server's reason, such as "FieldValueInvalid".
    pub reason: String,
    /// What is wrong with it.
    pub message: String,
}

/// What a grant would have to contain, in the shape of an RBAC PolicyRule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// API groups, "" for the core group.
    pub api_groups: Vec<String>,
    /// Plural resource names, with "/subresource" where one is meant.
    pub resources: Vec<String>,
    /// Verbs in lower case.
    pub verbs: Vec<String>,
    /// Namespaces; empty means all.
    pub namespaces: Vec<String>,
}

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
