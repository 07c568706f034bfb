//! Errors of requests to the API server.

use std::fmt;
use std::ops::RangeInclusive;

use http::StatusCode;
use hyper_util::client::legacy::Error as HttpError;
use kube::core::Status;
use pilothouse_plugin::{ApiError, Cause};

use crate::logs::printable;

/// Bounds in seconds for how long a plugin is told to wait after a 429, whatever `Retry-After` says: with 0
/// it would retry in a busy loop, and with a year its work would stop.
const RETRY_AFTER: RangeInclusive<u32> = 1..=60;

/// The part of a message of the server that is shown, in bytes.
const MAX_SHOWN: usize = 4 << 10;

/// Why a request failed.
#[derive(Clone, Debug)]
pub(crate) enum RequestError {
    /// The server answered with an error.
    Answered {
        code: u16,
        reason: String,
        message: String,
        causes: Vec<Cause>,
        retry_after_seconds: Option<u32>,
        /// Whether the server names the object that the error is about. A 404 for a resource that is not
        /// served names none.
        names_object: bool,
    },
    /// The request succeeded, but the response exceeds the limit of `limit` bytes.
    ResponseTooLarge { limit: usize },
    /// No connection could be made, so nothing was sent.
    Unsent(String),
    /// No complete response: the connection failed, or the response was cut off.
    Transport(String),
}

impl std::error::Error for RequestError {}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Whoever controls the server would control the terminal that shows the host's log.
            Self::Answered { code, message, .. } => {
                let shown = printable(&message[..message.floor_char_boundary(MAX_SHOWN)]);
                write!(f, "the API server answered {code}: {shown}")
            }
            Self::ResponseTooLarge { limit } => f.write_str(&too_large_text(*limit)),
            Self::Unsent(problem) | Self::Transport(problem) => {
                write!(f, "the API server cannot be reached: {problem}")
            }
        }
    }
}

impl RequestError {
    pub(super) fn transport(error: impl std::error::Error) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        let mut is_unsent = false;
        while let Some(cause) = source {
            is_unsent |= cause.downcast_ref::<HttpError>().is_some_and(HttpError::is_connect);
            let cause_text = cause.to_string();
            if !text.contains(&cause_text) {
                text.push_str(": ");
                text.push_str(&cause_text);
            }
            source = cause.source();
        }
        if is_unsent { Self::Unsent(text) } else { Self::Transport(text) }
    }

    pub(super) fn answered(code: StatusCode, body: &[u8], retry_after: Option<u32>) -> Self {
        let status = serde_json::from_slice::<Status>(body).unwrap_or_default();
        let names_object = status.details.as_ref().is_some_and(|details| !details.name.is_empty());
        let (causes, in_body) =
            status.details.map(|details| (details.causes, details.retry_after_seconds)).unwrap_or_default();
        let message = if status.message.is_empty() {
            String::from_utf8_lossy(body).trim().chars().take(200).collect()
        } else {
            status.message
        };
        let causes = causes
            .into_iter()
            .map(|cause| Cause { field: cause.field, reason: cause.reason, message: cause.message })
            .collect();
        let in_body = (in_body > 0).then_some(in_body);
        Self::Answered {
            code: code.as_u16(),
            reason: status.reason,
            message,
            causes,
            retry_after_seconds: retry_after.or(in_body),
            names_object,
        }
    }

    /// The HTTP status, if the server answered.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Answered { code, .. } => Some(*code),
            Self::ResponseTooLarge { .. } => Some(StatusCode::PAYLOAD_TOO_LARGE.as_u16()),
            Self::Unsent(_) | Self::Transport(_) => None,
        }
    }

    /// Whether the request may have been carried out despite the error: there was no response, or one that a
    /// server or a proxy sends when it does not know either. A request that was not sent was not carried out.
    pub(crate) fn leaves_outcome_open(&self) -> bool {
        match self {
            Self::Answered { code, .. } => *code >= 500,
            Self::Unsent(_) => false,
            Self::Transport(_) | Self::ResponseTooLarge { .. } => true,
        }
    }

    /// Whether the same request may succeed later.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Answered { code, .. } => *code >= 500 || *code == 429,
            Self::ResponseTooLarge { .. } => false,
            Self::Unsent(_) | Self::Transport(_) => true,
        }
    }

    /// Whether the server does not serve the resource; `false` if only the object does not exist.
    pub(crate) fn is_unknown_resource(&self) -> bool {
        matches!(self, Self::Answered { code: 404, names_object: false, .. })
    }

    /// Converts to the error type that guests see.
    pub(crate) fn into_api_error(self) -> ApiError {
        let (code, reason, message, causes, retry_after) = match self {
            Self::Unsent(problem) | Self::Transport(problem) => return ApiError::Unavailable(problem),
            Self::ResponseTooLarge { limit } => {
                let (code, reason) = (StatusCode::PAYLOAD_TOO_LARGE.as_u16(), "RequestEntityTooLarge".into());
                return ApiError::Other { code, reason, message: too_large_text(limit) };
            }
            Self::Answered { code, reason, message, causes, retry_after_seconds, .. } => {
                (code, reason, message, causes, retry_after_seconds)
            }
        };
        match (code, reason.as_str()) {
            (404, _) => ApiError::NotFound(message),
            (409, "AlreadyExists") => ApiError::AlreadyExists(message),
            (409, _) => ApiError::Conflict { message, resource_version: String::new() },
            (422, _) if causes.is_empty() => {
                ApiError::Invalid(vec![Cause { field: String::new(), reason, message }])
            }
            (422, _) => ApiError::Invalid(causes),
            (403, _) => ApiError::Forbidden(message),
            (429, _) => {
                let seconds = retry_after.unwrap_or(1).clamp(*RETRY_AFTER.start(), *RETRY_AFTER.end());
                ApiError::TooManyRequests { retry_after_ms: seconds * 1000 }
            }
            (502..=504, _) => ApiError::Unavailable(message),
            _ => ApiError::Other { code, reason, message },
        }
    }
}

fn too_large_text(limit: usize) -> String {
    if limit >= super::MAX_RESPONSE_SIZE {
        return format!("its response exceeds {limit} bytes, and was not read");
    }
    format!(
        "its response exceeds limits.messageSize of {limit} bytes: ask for less at once, such as pages with a limit"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: u16, body: &str) -> ApiError {
        let code = StatusCode::from_u16(code).expect("a code");
        RequestError::answered(code, body.as_bytes(), Some(3)).into_api_error()
    }

    #[test]
    fn a_message_of_the_server_is_shown_as_one_line_of_printable_characters() {
        let message = format!("a\u{1b}[2J\nb\u{202e}{}", "x".repeat(10_000));
        let body =
            serde_json::json!({"kind": "Status", "status": "Failure", "message": message, "code": 500});
        let error =
            RequestError::answered(StatusCode::INTERNAL_SERVER_ERROR, body.to_string().as_bytes(), None);
        let text = error.to_string();
        assert!(text.starts_with(r"the API server answered 500: a\u{1b}[2J\nb\u{202e}xx"), "{text:.100}");
        assert!(text.len() < 5_000, "{}", text.len());
    }

    #[test]
    fn error_responses_become_matchable_errors() {
        let status = |reason: &str| {
            format!(r#"{{"kind":"Status","status":"Failure","message":"m","reason":"{reason}","code":1}}"#)
        };
        assert_eq!(error(404, &status("NotFound")), ApiError::NotFound("m".into()));
        assert_eq!(error(409, &status("AlreadyExists")), ApiError::AlreadyExists("m".into()));
        assert!(matches!(error(409, &status("Conflict")), ApiError::Conflict { .. }));
        assert_eq!(error(403, &status("Forbidden")), ApiError::Forbidden("m".into()));
        assert_eq!(
            error(429, &status("TooManyRequests")),
            ApiError::TooManyRequests { retry_after_ms: 3000 }
        );
        assert_eq!(error(503, "upstream gone"), ApiError::Unavailable("upstream gone".into()));
        assert!(
            matches!(error(500, "<html>"), ApiError::Other { code: 500, message, .. } if message == "<html>")
        );
    }

    #[test]
    fn a_plugin_is_told_to_wait_between_a_second_and_a_minute() {
        let retry_after_ms = |header: Option<u32>, body: &str| {
            let error = RequestError::answered(StatusCode::TOO_MANY_REQUESTS, body.as_bytes(), header);
            let ApiError::TooManyRequests { retry_after_ms } = error.into_api_error() else {
                panic!("another error")
            };
            retry_after_ms
        };
        assert_eq!(retry_after_ms(None, ""), 1000);
        assert_eq!(retry_after_ms(Some(0), ""), 1000);
        assert_eq!(retry_after_ms(Some(7), ""), 7000);
        assert_eq!(retry_after_ms(Some(61), ""), 60_000);
        assert_eq!(retry_after_ms(Some(u32::MAX), ""), 60_000);
        for (seconds, milliseconds) in
            [("0", 1000), ("9", 9000), ("4000000000", 60_000), ("-1", 1000), ("1e99", 1000)]
        {
            let body = format!(r#"{{"kind":"Status","details":{{"retryAfterSeconds":{seconds}}}}}"#);
            assert_eq!(retry_after_ms(None, &body), milliseconds, "{seconds}");
        }
    }

    #[test]
    fn causes_of_an_invalid_object_are_kept() {
        let body = r#"{"kind":"Status","reason":"Invalid","message":"m","details":{"causes":[
            {"reason":"FieldValueInvalid","message":"must be positive","field":"spec.replicas"}]}}"#;
        let ApiError::Invalid(causes) = error(422, body) else { panic!("another error") };
        assert_eq!(
            (causes[0].field.as_str(), causes[0].message.as_str()),
            ("spec.replicas", "must be positive")
        );
    }
}
