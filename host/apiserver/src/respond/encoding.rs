//! Responses in other encodings than JSON.
//!
//! All handlers respond in JSON. The response is encoded again for clients that prefer another encoding.

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};
use http::{HeaderValue, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::{ApiResponse, Listing, ResponseBody};
use crate::cbor;
use crate::registry::Endpoint;
use crate::request::Encoding;
use crate::schema::{encode_protobuf, encode_protobuf_event, encode_protobuf_list};
use crate::status::Status;
use crate::storage::StoredObject;

const CBOR: &str = "application/cbor";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Rewrites a response of one JSON document to another encoding. Other responses stay as they are.
///
/// A document without a protobuf encoding stays JSON.
pub(crate) async fn from_json(answer: ApiResponse, encoding: Encoding) -> Result<ApiResponse, Status> {
    let content_type = answer.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    if encoding == Encoding::Json || content_type.is_none_or(|kind| kind != super::JSON.as_bytes()) {
        return Ok(answer);
    }
    let (mut parts, body) = answer.into_parts();
    let Ok(collected) = body.collect().await;
    let json = collected.to_bytes();
    // A response to `If-None-Match` has no content.
    if json.is_empty() {
        return Ok(ApiResponse::from_parts(parts, ResponseBody::full(json)));
    }
    let value: Value = serde_json::from_slice(&json).map_err(Status::internal)?;
    let (content_type, encoded) = match encoding {
        Encoding::Json => (super::JSON, json),
        Encoding::Yaml => {
            ("application/yaml", Bytes::from(serde_saphyr::to_string(&value).map_err(Status::internal)?))
        }
        Encoding::Cbor => (CBOR, Bytes::from(cbor::encode(&value))),
        Encoding::Protobuf => match encode_protobuf(&value) {
            Ok(encoded) => (PROTOBUF, Bytes::from(encoded)),
            Err(error) => {
                tracing::debug!(%error, "a response has no protobuf encoding");
                (super::JSON, json)
            }
        },
    };
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    parts.headers.append(header::VARY, HeaderValue::from_static("Accept"));
    Ok(ApiResponse::from_parts(parts, ResponseBody::full(encoded)))
}

/// Returns the response with a list of whole objects, or `None` if it is to be JSON or YAML. The objects are encoded one by one, because
/// all of them together may be large.
pub(crate) fn list(endpoint: &Endpoint, listing: &Listing, encoding: Encoding) -> Option<ApiResponse> {
    if matches!(encoding, Encoding::Json | Encoding::Yaml) {
        return None;
    }
    let head = json!({
        "kind": endpoint.resource.names.list_kind, "apiVersion": endpoint.api_version, "metadata": listing.metadata_of_objects(endpoint),
    });
    let items = listing.objects.iter().map(|stored| item(endpoint, stored));
    let (content_type, encoded) = match encoding {
        Encoding::Protobuf => (PROTOBUF, encode_protobuf_list(&head, items).ok()?),
        _ => (CBOR, cbor::encode_list(head.as_object()?, items)),
    };
    let mut response = super::with_body(StatusCode::OK, content_type, ResponseBody::full(encoded));
    response.headers_mut().append(header::VARY, HeaderValue::from_static("Accept"));
    Some(response)
}

/// Returns an item of a list.
fn item(endpoint: &Endpoint, stored: &StoredObject) -> Value {
    let mut json = BytesMut::new();
    endpoint.put_item(&mut json, stored);
    serde_json::from_slice(&json).expect("an item is JSON")
}

/// Returns the content type and the body of a watch, whose events are lines of JSON.
pub(crate) fn watch(
    lines: impl Stream<Item = Bytes> + Send + 'static,
    encoding: Encoding,
) -> (&'static str, ResponseBody) {
    match encoding {
        // A watch in YAML is refused before it starts.
        Encoding::Json | Encoding::Yaml => ("application/json", ResponseBody::stream(lines)),
        Encoding::Cbor => {
            let items = lines.map(|line| event_or_error(&line, |event| Ok(cbor::encode(event))));
            ("application/cbor-seq", ResponseBody::stream(items))
        }
        Encoding::Protobuf => {
            let encode = |event: &Value| {
                encode_protobuf_event(event).map_err(|error| Status::internal(error).to_value())
            };
            let frames = lines.map(move |line| event_or_error(&line, encode));
            ("application/vnd.kubernetes.protobuf;stream=watch", ResponseBody::stream(frames))
        }
    }
}

/// Encodes an event. If it has no encoding, encodes an ERROR event that says so.
fn event_or_error(line: &[u8], encode: impl Fn(&Value) -> Result<Vec<u8>, Value>) -> Bytes {
    let event: Result<Value, Value> =
        serde_json::from_slice(line).map_err(|error| Status::internal(error).to_value());
    let encoded = event.and_then(|event| encode(&event));
    let encoded = encoded.or_else(|status| encode(&json!({"type": "ERROR", "object": status})));
    encoded.map(Bytes::from).unwrap_or_default()
}
