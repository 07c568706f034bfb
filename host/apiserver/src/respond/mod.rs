//! Responses, in the representation that the client asked for.

mod body;
pub(crate) mod encoding;
mod listing;

use std::sync::Arc;

use http::{Response, StatusCode, header};
use jiff::Timestamp;
use pilothouse_model::hash::HashSet;
use serde_json::{Value, json};

pub use body::ResponseBody;
pub(crate) use listing::Listing;

use crate::meta;
use crate::registry::Endpoint;
use crate::request::{Form, MetaVersion, View};
use crate::status::Status;
use crate::storage::StoredObject;

/// A response of the server.
pub(crate) type ApiResponse = Response<ResponseBody>;

const JSON: &str = "application/json";

/// The characters of all warnings of a response, as in kube-apiserver.
const MAX_WARNINGS: usize = 4 * 1024;

/// The characters of a warning of a response that has too many, as in kube-apiserver.
const MAX_SHORTENED_WARNING: usize = 256;

/// Returns a response with JSON text.
pub(crate) fn json_text(code: StatusCode, body: impl Into<bytes::Bytes>) -> ApiResponse {
    with_body(code, JSON, ResponseBody::full(body))
}

/// Returns a response with a JSON value.
pub(crate) fn json_value(code: StatusCode, value: &Value) -> ApiResponse {
    json_text(code, value.to_string())
}

/// Returns a response with any body.
pub(crate) fn with_body(code: StatusCode, content_type: &'static str, body: ResponseBody) -> ApiResponse {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, http::HeaderValue::from_static("no-cache, private"));
    response
}

/// Returns the response to a request for a path that no handler has, which is a text as in Kubernetes.
pub(crate) fn page_not_found() -> ApiResponse {
    with_body(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", ResponseBody::full("404 page not found\n"))
}

/// Returns the response for a failed request.
pub(crate) fn failure(status: &Status) -> ApiResponse {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json_value(code, &status.to_value());
    if let Some(seconds) = status.retry_after() {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    add_warnings(&mut response, &status.warnings);
    response
}

/// Returns the response with one object, and a `Warning` header for each warning.
pub(crate) fn object(
    endpoint: &Endpoint,
    stored: &StoredObject,
    view: View,
    now: Timestamp,
    code: StatusCode,
    warnings: &[String],
) -> ApiResponse {
    let mut response = match view.form {
        Form::Plain => json_text(code, endpoint.object_bytes(stored)),
        Form::Table | Form::Metadata => json_value(code, &render_object(endpoint, stored, view, now, true)),
    };
    add_warnings(&mut response, warnings);
    response
}

/// Adds a `Warning` header for each warning that the response does not have yet. An object may have as many as it has fields: of too many, as in
/// kube-apiserver, each is shortened, and the last ones are left out.
pub(crate) fn add_warnings<'a>(response: &mut ApiResponse, warnings: impl IntoIterator<Item = &'a String>) {
    for text in limited(warnings) {
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        let Ok(value) = http::HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) else {
            continue;
        };
        let headers = response.headers_mut();
        let is_known = headers.get_all(header::WARNING).iter().any(|known| *known == value);
        // A response has a limited number of headers.
        if !is_known && headers.try_append(header::WARNING, value).is_err() {
            return;
        }
    }
}

/// Returns different warnings that together have about [`MAX_WARNINGS`] characters at most.
fn limited<'a>(warnings: impl IntoIterator<Item = &'a String>) -> Vec<&'a str> {
    let (mut kept, mut known) = (Vec::new(), HashSet::default());
    let (mut length, mut is_shortening) = (0, false);
    for warning in warnings {
        if is_shortening && length >= MAX_WARNINGS {
            break;
        }
        if warning.is_empty() || warning.chars().any(char::is_control) || !known.insert(warning) {
            continue;
        }
        kept.push(if is_shortening { shortened(warning) } else { warning.as_str() });
        length += kept.last().map_or(0, |text| text.chars().count());
        if !is_shortening && length > MAX_WARNINGS {
            is_shortening = true;
            kept.iter_mut().for_each(|text| *text = shortened(text));
            length = kept.iter().map(|text| text.chars().count()).sum();
        }
    }
    kept
}

fn shortened(text: &str) -> &str {
    text.char_indices().nth(MAX_SHORTENED_WARNING).map_or(text, |(end, _)| &text[..end])
}

/// Adds a `Warning` header before the others of the response.
pub(crate) fn add_first_warning(response: &mut ApiResponse, warning: &String) {
    let others: Vec<http::HeaderValue> =
        response.headers().get_all(header::WARNING).iter().cloned().collect();
    response.headers_mut().remove(header::WARNING);
    add_warnings(response, [warning]);
    for other in others {
        if response.headers_mut().try_append(header::WARNING, other).is_err() {
            return;
        }
    }
}

/// Returns an object as JSON: whole, as a table of one row, or as its metadata alone. `with_columns` says whether a table
/// includes the column definitions.
pub(crate) fn render_object(
    endpoint: &Endpoint,
    stored: &StoredObject,
    view: View,
    now: Timestamp,
    with_columns: bool,
) -> Value {
    let object = endpoint.served_value(stored);
    match view.form {
        Form::Plain => object,
        Form::Metadata => metadata_only(object, view.meta_version),
        Form::Table => {
            let object = as_in_table(endpoint, object);
            let table = endpoint.columns.event_table(&object, with_columns, view.include, now);
            table_in_version(table, view.meta_version)
        }
    }
}

/// Returns the response with a list.
pub(crate) fn list(endpoint: &Arc<Endpoint>, listing: Listing, view: View, now: Timestamp) -> ApiResponse {
    if view.form == Form::Plain {
        if let Some(answer) = encoding::list(endpoint, &listing, view.encoding) {
            return answer;
        }
        let body = ResponseBody::chunks(listing.into_chunks(Arc::clone(endpoint)));
        return with_body(StatusCode::OK, JSON, body);
    }
    let metadata = listing.metadata();
    let objects: Vec<Value> = listing.objects.iter().map(|stored| endpoint.served_value(stored)).collect();
    let list = if view.form == Form::Table {
        let objects: Vec<Value> = objects.into_iter().map(|object| as_in_table(endpoint, object)).collect();
        table_in_version(endpoint.columns.table(&objects, metadata, view.include, now), view.meta_version)
    } else {
        let version = view.meta_version;
        let items: Vec<Value> = objects.into_iter().map(|object| metadata_only(object, version)).collect();
        json!({
            "kind": "PartialObjectMetadataList", "apiVersion": version.api_version(), "metadata": metadata, "items": items,
        })
    };
    json_value(StatusCode::OK, &list)
}

/// Returns an object as a table shows its metadata: as in Kubernetes, that of a DaemonSet lacks the annotation with the generation of the template.
fn as_in_table(endpoint: &Endpoint, mut object: Value) -> Value {
    if endpoint.group == "apps"
        && endpoint.resource.names.plural == "daemonsets"
        && let Some(annotations) = object["metadata"]["annotations"].as_object_mut()
    {
        annotations.remove("deprecated.daemonset.template.generation");
        if annotations.is_empty() {
            meta::metadata_mut(&mut object).remove("annotations");
        }
    }
    object
}

fn metadata_only(mut object: Value, version: MetaVersion) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": version.api_version(), "metadata": object["metadata"].take(),
    })
}

/// Returns a table, and the metadata in its rows, in another version.
fn table_in_version(mut table: Value, version: MetaVersion) -> Value {
    if version != MetaVersion::V1 {
        table["apiVersion"] = version.api_version().into();
        for row in table["rows"].as_array_mut().into_iter().flatten() {
            if row["object"]["kind"] == "PartialObjectMetadata" {
                row["object"]["apiVersion"] = version.api_version().into();
            }
        }
    }
    table
}

/// Returns the response with the `Status` of a request that has no other result.
pub(crate) fn success(code: StatusCode) -> ApiResponse {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code.as_u16(),
    });
    json_value(code, &status)
}

/// Returns the response with the `Status` of a completed deletion.
pub(crate) fn deletion_status(endpoint: &Endpoint, last: &StoredObject) -> ApiResponse {
    let about = endpoint.resource_ref();
    let mut details = json!({"name": &*last.name, "kind": about.plural, "uid": &*last.uid});
    if !about.group.is_empty() {
        details["group"] = about.group.into();
    }
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
    });
    json_value(StatusCode::OK, &status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_warnings_are_sent_once() {
        let mut answer = success(StatusCode::OK);
        let texts = ["a", "b \"c\" é", "a", "", "line\nbreak"].map(str::to_owned);
        add_warnings(&mut answer, &texts);
        add_warnings(&mut answer, &texts[..1]);
        let headers: Vec<_> = answer.headers().get_all(header::WARNING).iter().collect();
        assert_eq!(headers, ["299 - \"a\"".as_bytes(), "299 - \"b \\\"c\\\" é\"".as_bytes()]);
    }

    #[test]
    fn too_many_warnings_are_shortened() {
        let long: Vec<String> = (0..100).map(|number| format!("{number:03}{}", "é".repeat(997))).collect();
        assert_eq!(limited(&long[..4]), long[..4]);
        let kept = limited(&long);
        assert_eq!(kept.len(), 16, "the first to have 4,096 characters");
        assert!(kept.iter().all(|text| text.chars().count() == 256));
        let one = "x".repeat(5000);
        assert_eq!(limited([&one]), ["x".repeat(256)]);
    }
}
