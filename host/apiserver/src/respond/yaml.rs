//! Responses in YAML, for clients that ask for `application/yaml`.

use http::{HeaderValue, header};
use http_body_util::BodyExt;
use serde_json::Value;

use super::{Answer, ResponseBody};
use crate::status::Status;

/// Rewrites a response of one JSON document to YAML. Other responses stay as they are.
pub(crate) async fn from_json(answer: Answer) -> Result<Answer, Status> {
    let content_type = answer.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    if content_type.is_none_or(|kind| kind != super::JSON.as_bytes()) {
        return Ok(answer);
    }
    let (mut parts, body) = answer.into_parts();
    let Ok(collected) = body.collect().await;
    let value: Value = serde_json::from_slice(&collected.to_bytes()).map_err(Status::internal)?;
    let text = serde_saphyr::to_string(&value).map_err(Status::internal)?;
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/yaml"));
    parts.headers.append(header::VARY, HeaderValue::from_static("Accept"));
    Ok(Answer::from_parts(parts, ResponseBody::full(text)))
}
