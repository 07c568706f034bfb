//! The errors of requests, of decoding and of a call as a whole.

use std::any::Any;
use std::fmt;

use thiserror::Error as ThisError;

use crate::bindings::pilothouse::controller::types as wit;
use crate::{Cause, Rule};

/// Why a request to the API server failed.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum ApiError {
    /// 404: the object, or its kind, does not exist.
    #[error("not found: {0}")]
    NotFound(String),
    /// 409: the object to create already exists.
    #[error("already exists: {0}")]
    AlreadyExists(String),
    /// 409: the object changed since it was read, or another field manager owns a field of a server-side apply.
    #[error("conflict: {message}")]
    Conflict {
        /// The server's explanation.
        message: String,
        /// The object's current resource version; `None` when neither the server's answer nor the cache has it.
        resource_version: Option<String>,
    },
    /// 422: the server rejected fields.
    #[error("invalid: {}", join_causes(.0))]
    Invalid(Vec<Cause>),
    /// 403: rejected by RBAC or by admission on the server.
    #[error("forbidden: {0}")]
    Forbidden(String),
    /// Rejected by the host; nothing was sent. The descriptor or the operator's grant lacks this rule.
    #[error("denied by the host: the descriptor's `writes` and the grant need {}", describe_rule(.0))]
    Denied(Rule),
    /// 429. The host's own rate limit is no error: the request waits.
    #[error("too many requests: try again in {retry_after_ms} ms")]
    TooManyRequests {
        /// The time to wait, in milliseconds.
        retry_after_ms: u32,
    },
    /// There was no usable answer: connection refused, timeout, 502, 503 or 504. A write may have been applied nevertheless.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// Any other status.
    #[error("{code} {reason}: {message}")]
    Other {
        /// The HTTP status.
        code: u16,
        /// The `reason` of the server's Status object; empty when it has none.
        reason: String,
        /// The `message` of the server's Status object.
        message: String,
    },
    /// The server's answer cannot be read as the Rust type.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The object cannot be serialized as JSON; nothing was sent.
    #[error("the object cannot be written as JSON: {0}")]
    Encode(#[source] serde_json::Error),
}

impl ApiError {
    /// Returns whether the object, or its kind, does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound(_))
    }

    /// Returns whether the object to create already exists.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        matches!(self, Self::AlreadyExists(_))
    }

    /// Returns whether the object changed since it was read. Read it again and repeat the change.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }
}

impl From<wit::ApiError> for ApiError {
    fn from(error: wit::ApiError) -> Self {
        match error {
            wit::ApiError::NotFound(message) => Self::NotFound(message),
            wit::ApiError::AlreadyExists(message) => Self::AlreadyExists(message),
            wit::ApiError::Conflict(info) => Self::Conflict {
                message: info.message,
                resource_version: Some(info.resource_version).filter(|version| !version.is_empty()),
            },
            wit::ApiError::Invalid(causes) => Self::Invalid(causes),
            wit::ApiError::Forbidden(message) => Self::Forbidden(message),
            wit::ApiError::Denied(rule) => Self::Denied(rule),
            wit::ApiError::TooManyRequests(milliseconds) => {
                Self::TooManyRequests { retry_after_ms: milliseconds }
            }
            wit::ApiError::Unavailable(message) => Self::Unavailable(message),
            wit::ApiError::Other(status) => {
                Self::Other { code: status.code, reason: status.reason, message: status.message }
            }
        }
    }
}

fn join_causes(causes: &[Cause]) -> String {
    let text = |cause: &Cause| {
        if cause.field.is_empty() {
            cause.message.clone()
        } else {
            format!("{}: {}", cause.field, cause.message)
        }
    };
    causes.iter().map(text).collect::<Vec<_>>().join("; ")
}

fn describe_rule(rule: &Rule) -> String {
    let groups: Vec<_> = rule
        .api_groups
        .iter()
        .map(|group| if group.is_empty() { "the core group" } else { group.as_str() })
        .collect();
    let place = if rule.namespaces.is_empty() {
        String::new()
    } else {
        format!(" in {}", rule.namespaces.join(", "))
    };
    format!("{} on {} of {}{place}", rule.verbs.join(", "), rule.resources.join(", "), groups.join(", "))
}

/// An object, or a value in it, cannot be read as the requested Rust type.
#[derive(Debug, ThisError)]
#[error("{what} cannot be read as {as_type}: {source}")]
pub struct DecodeError {
    /// The object or value that was read.
    pub(crate) what: String,
    /// The Rust type.
    pub(crate) as_type: &'static str,
    /// Where in the JSON the mismatch is, and what was expected there.
    pub(crate) source: serde_json::Error,
}

/// Why a reconcile failed, and whether the host retries it.
///
/// `?` converts any error into one that is retried with backoff. A [`DecodeError`] becomes a terminal one instead, because the object
/// stays unreadable until it changes. Like `anyhow::Error`, this type does not implement `std::error::Error`.
#[derive(Debug)]
pub struct Error {
    message: String,
    terminal: bool,
}

impl Error {
    /// An error after which the host retries the key with exponential backoff.
    #[must_use]
    pub fn retry(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), terminal: false }
    }

    /// An error that is not retried until the object changes, because a retry cannot succeed before.
    #[must_use]
    pub fn terminal(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), terminal: true }
    }

    /// Prepends what was being done to the message.
    #[must_use]
    pub fn context(mut self, what: impl fmt::Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// Returns whether the error is not retried until the object changes.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: std::error::Error + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        let any = &error as &dyn Any;
        let terminal = any.is::<DecodeError>() || matches!(any.downcast_ref(), Some(ApiError::Decode(_)));
        Self { message: with_sources(&error), terminal }
    }
}

/// Joins an error and its sources into one text, without sources that the text already contains.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode_error() -> DecodeError {
        let source = serde_json::from_str::<u32>("true").unwrap_err();
        DecodeError { what: "v1 Pod default/web".into(), as_type: "u32", source }
    }

    #[test]
    fn the_question_mark_operator_makes_an_error_that_is_retried() {
        let error = Error::from(ApiError::Unavailable("connection refused".into()));
        assert_eq!(error.to_string(), "unavailable: connection refused");
        assert!(!error.is_terminal());
    }

    #[test]
    fn a_decode_error_is_terminal() {
        assert!(Error::from(decode_error()).is_terminal());
        let error = Error::from(ApiError::from(decode_error()));
        assert!(error.is_terminal());
        let text = error.to_string();
        assert!(text.starts_with("v1 Pod default/web cannot be read as u32: invalid type"), "{text}");
        assert_eq!(text.matches("invalid type").count(), 1, "each cause once: {text}");
    }

    #[test]
    fn context_precedes_the_message() {
        let error = Error::terminal("no image").context("create deployment web");
        assert_eq!(error.to_string(), "create deployment web: no image");
        assert!(error.is_terminal());
    }

    #[test]
    fn a_conflict_with_an_empty_version_has_no_version() {
        let info = wit::ConflictInfo { message: "changed".into(), resource_version: String::new() };
        let error = ApiError::from(wit::ApiError::Conflict(info));
        assert!(error.is_conflict());
        assert!(matches!(error, ApiError::Conflict { resource_version: None, .. }));
    }

    #[test]
    fn a_denied_write_names_the_missing_rule() {
        let rule = Rule {
            api_groups: vec![String::new()],
            resources: vec!["configmaps".into()],
            verbs: vec!["delete".into()],
            namespaces: vec!["default".into()],
        };
        let text = ApiError::Denied(rule).to_string();
        assert!(text.contains("need delete on configmaps of the core group in default"), "{text}");
    }

    #[test]
    fn an_invalid_object_lists_its_fields() {
        let cause =
            |field: &str| Cause { field: field.into(), reason: "Invalid".into(), message: "bad".into() };
        let error = ApiError::Invalid(vec![cause("spec.replicas"), cause("")]);
        assert_eq!(error.to_string(), "invalid: spec.replicas: bad; bad");
    }
}
