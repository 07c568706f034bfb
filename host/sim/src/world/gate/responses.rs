//! Reads the responses of the server, and makes those that the plan has in their place.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::{AnswerBody, whole};
use crate::world::record::Answer;

/// Reads an answer of the server.
pub(in crate::world) fn answer(status: StatusCode, body: &Bytes) -> Answer {
    let mut answer = Answer { status: status.as_u16(), ..Answer::default() };
    if !status.is_success()
        && let Ok(body) = serde_json::from_slice::<Value>(body)
    {
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        (answer.reason, answer.message) = (text("reason"), text("message"));
    }
    answer
}

/// Returns the answer to a request that is refused with this code.
pub(super) fn refusal(code: u16) -> (Response<AnswerBody>, Answer) {
    let reason = match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        409 => "Conflict",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    };
    let message = format!("refused with {code} by the simulation");
    let answer = Answer { status: code, reason: reason.to_owned(), message: message.clone() };
    (status_response(code, reason, &message), answer)
}

/// Returns the answer to a watch whose history is gone, so that the host lists again.
pub(super) fn expired() -> Response<AnswerBody> {
    status_response(410, "Expired", "too old resource version")
}

fn status_response(code: u16, reason: &str, message: &str) -> Response<AnswerBody> {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
    });
    let mut response = Response::new(whole(body.to_string().into()));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}
