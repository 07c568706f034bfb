//! The errors of the API server.

use crate::bindings::pilothouse::controller::types as wit;

pub(in crate::testing) fn conflict(message: &str, version: &str) -> wit::ApiError {
    let (message, resource_version) = (message.to_owned(), version.to_owned());
    wit::ApiError::Conflict(wit::ConflictInfo { message, resource_version })
}

pub(in crate::testing) fn invalid(field: &str, reason: &str, message: &str) -> wit::ApiError {
    let [field, reason, message] = [field, reason, message].map(str::to_owned);
    wit::ApiError::Invalid(vec![wit::Cause { field, reason, message }])
}

pub(in crate::testing) fn other(code: u16, reason: &str, message: &str) -> wit::ApiError {
    let [reason, message] = [reason, message].map(str::to_owned);
    wit::ApiError::Other(wit::HttpStatus { code, reason, message })
}
