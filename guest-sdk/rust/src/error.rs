use std::any::Any;
use std::fmt;

use thiserror::Error as ThisError;

use crate::bindings::pilothouse::controller::types as wit;
use crate::{Cause, Rule};

/// Why a request to the API server failed.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum ApiError {
    /// 404: there is no such object, or no such kind.
    #[error("not found: {0}")]
    NotFound(String),
    /// 409 on create: the name is taken.
    #[error("already exists: {0}")]
    AlreadyExists(String),
    /// 409: the object changed since it was read, or a server-side apply met another field manager.
    #[error("conflict: {message}")]
    Conflict {
        /// The server's explanation.
        message: String,
        /// The object's present version; `None` when neither the server nor the cache knows it.
        resource_version: Option<String>,
    },
    /// 422: the server refused fields.
    #[error("invalid: {}", join_causes(.0))]
    Invalid(Vec<Cause>),
    /// 403: refused by RBAC or admission on the server.
    #[error("forbidden: {0}")]
    Forbidden(String),
    /// Refused by the host, nothing was sent: the descriptor or the operator's grant lacks this rule.
    #[error("denied by the host: the descriptor's `writes` and the grant need {}", describe_rule(.0))]
    Denied(Rule),
    /// 429, or the host's own limit.
    #[error("too many requests: try again in {retry_after_ms} ms")]
    TooManyRequests {
        /// How long to wait, in milliseconds.
        retry_after_ms: u32,
    },
    /// No answer; a write may nevertheless have happened.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// Any other status.
    #[error("{code} {reason}: {message}")]
    Other {
        /// The HTTP status.
        code: u16,
        /// The `reason` of the server's Status; empty without one.
        reason: String,
        /// The `message` of the server's Status.
        message: String,
    },
    /// The server answered, but the answer does not fit the Rust type.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The object to send cannot be written as JSON, so nothing was sent.
    #[error("the object cannot be written as JSON: {0}")]
    Encode(#[source] serde_json::Error),
}

impl ApiError {
    /// The object, or its kind, does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound(_))
    }

    /// The name was taken.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        matches!(self, Self::AlreadyExists(_))
    }

    /// The object changed since it was read: read again and repeat.
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

/// An object, or a value in it, is of another shape than the Rust type that it was read as.
#[derive(Debug, ThisError)]
#[error("{what} cannot be read as {as_type}: {source}")]
pub struct DecodeError {
    /// The object or value that was read.
    pub(crate) what: String,
    /// The Rust type.
    pub(crate) as_type: &'static str,
    /// Where in the JSON, and what was expected there.
    pub(crate) source: serde_json::Error,
}

/// Why a reconcile failed, and whether trying again can help.
///
/// `?` makes one of any error: retried with backoff, except a [`DecodeError`], which stays until the object changes.
/// Like `anyhow::Error` it is no `std::error::Error` itself.
#[derive(Debug)]
pub struct Error {
    message: String,
    terminal: bool,
}

impl Error {
    /// A failure to try again, with exponential backoff per key.
    #[must_use]
    pub fn retry(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), terminal: false }
    }

    /// A failure that stays until the object changes: nothing is tried before.
    #[must_use]
    pub fn terminal(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), terminal: true }
    }

    /// Says first what was being done.
    #[must_use]
    pub fn context(mut self, what: impl fmt::Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// Whether it stays until the object changes.
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

/// The error and what caused it, leaving out causes that the text has already.
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
    fn a_question_mark_makes_errors_that_are_retried() {
        let error = Error::from(ApiError::Unavailable("connection refused".into()));
        assert_eq!(error.to_string(), "unavailable: connection refused");
        assert!(!error.is_terminal());
    }

    #[test]
    fn an_object_of_the_wrong_shape_stays_wrong_until_it_changes() {
        assert!(Error::from(decode_error()).is_terminal());
        let error = Error::from(ApiError::from(decode_error()));
        assert!(error.is_terminal());
        let text = error.to_string();
        assert!(text.starts_with("v1 Pod default/web cannot be read as u32: invalid type"), "{text}");
        assert_eq!(text.matches("invalid type").count(), 1, "each cause once: {text}");
    }

    #[test]
    fn context_comes_first() {
        let error = Error::terminal("no image").context("create deployment web");
        assert_eq!(error.to_string(), "create deployment web: no image");
        assert!(error.is_terminal());
    }

    #[test]
    fn a_conflict_without_a_known_version_has_none() {
        let info = wit::ConflictInfo { message: "changed".into(), resource_version: String::new() };
        let error = ApiError::from(wit::ApiError::Conflict(info));
        assert!(error.is_conflict());
        assert!(matches!(error, ApiError::Conflict { resource_version: None, .. }));
    }

    #[test]
    fn a_denied_write_says_what_the_grant_lacks() {
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
