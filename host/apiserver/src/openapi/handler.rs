//! Handles requests below `/openapi/`.

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};

use super::{Document, DocumentCache, ServedResource};
use crate::registry::{Endpoint, GroupVersion, Registry};
use crate::request::Request;
use crate::request::accept::{MediaRange, ranges};
use crate::respond::{self, ApiResponse, ResponseBody};
use crate::status::Status;

/// The media type with which clients request OpenAPI v2 as protobuf, up to the version (which follows `@` or `.`).
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2";
/// The content type of OpenAPI v2 as protobuf. client-go cannot parse a content type with an `@` in it.
const V2_PROTOBUF_CONTENT_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Handles a request for `/openapi/v2`, `/openapi/v3` or a document below it.
///
/// Documents are served as JSON, and v2 also as protobuf, in which client-go requests it.
pub(crate) fn handle(
    documents: &DocumentCache,
    registry: &Registry,
    path: &str,
    request: &Request,
) -> Result<ApiResponse, Status> {
    if request.method != Method::GET {
        return Err(Status::method_not_allowed());
    }
    let accepted = ranges(request.header("accept"));
    let path = path.trim_end_matches('/');
    let takes_json = accepted.is_empty() || accepted.iter().any(MediaRange::takes_json);
    if path == "/openapi/v2"
        && !takes_json
        && accepted.iter().any(|range| range.kind.starts_with(V2_PROTOBUF))
    {
        return Ok(protobuf_response(documents.v2_protobuf(&served_resources(registry)), request));
    }
    if !takes_json {
        return Err(Status::not_acceptable(&["application/json"]));
    }
    let rest = path.trim_start_matches("/openapi/");
    match rest.split('/').collect::<Vec<_>>().as_slice() {
        ["v2"] => Ok(document_response(documents.v2(&served_resources(registry)), request)),
        ["v3"] => {
            let versions = registry.groups().iter().flat_map(|(name, group)| {
                group
                    .versions
                    .iter()
                    .map(move |version| (name.as_str(), version.version.as_str(), served_by(version)))
            });
            Ok(respond::json_value(StatusCode::OK, &documents.index(versions)))
        }
        ["v3", "api", version] => v3_document(documents, registry, "", version, request),
        ["v3", "apis", group, version] => v3_document(documents, registry, group, version, request),
        _ => Err(Status::no_such_resource()),
    }
}

fn served_resources(registry: &Registry) -> Vec<ServedResource<'_>> {
    registry.endpoints().map(|endpoint| served_resource(endpoint.as_ref())).collect()
}

/// Returns the response with a document as protobuf and its entity tag.
fn protobuf_response(document: Document, request: &Request) -> ApiResponse {
    let tag = format!("\"{}\"", document.hash);
    let (code, body) = match request.header("if-none-match") == tag {
        true => (StatusCode::NOT_MODIFIED, Bytes::new()),
        false => (StatusCode::OK, document.body),
    };
    let mut response = respond::with_body(code, V2_PROTOBUF_CONTENT_TYPE, ResponseBody::full(body));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

fn v3_document(
    documents: &DocumentCache,
    registry: &Registry,
    group: &str,
    version: &str,
    request: &Request,
) -> Result<ApiResponse, Status> {
    let group_version = registry.group_version(group, version).ok_or_else(Status::no_such_resource)?;
    Ok(document_response(documents.v3(group, version, &served_by(group_version)), request))
}

fn served_by(version: &GroupVersion) -> Vec<ServedResource<'_>> {
    version.endpoints.values().map(|endpoint| served_resource(endpoint.as_ref())).collect()
}

fn served_resource(endpoint: &Endpoint) -> ServedResource<'_> {
    let resource = &endpoint.resource;
    ServedResource {
        group: &endpoint.group,
        version: &endpoint.version,
        kind: &resource.names.kind,
        list_kind: &resource.names.list_kind,
        plural: &resource.names.plural,
        namespaced: resource.namespaced,
        has_status: endpoint.has_status,
        has_scale: endpoint.scale.is_some(),
        create_only: resource.strategy.is_review,
        crd_schema: endpoint.open_api.as_ref(),
        is_custom: resource.custom.is_some(),
    }
}

/// Returns the response with a document, its entity tag and, if the URL has the document's hash, permission to cache it
/// forever.
fn document_response(document: Document, request: &Request) -> ApiResponse {
    let tag = format!("\"{}\"", document.hash);
    let mut response = if request.header("if-none-match") == tag {
        respond::json_text(StatusCode::NOT_MODIFIED, "")
    } else {
        respond::json_text(StatusCode::OK, document.body)
    };
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    if request.query.get("hash") == Some(document.hash.as_str()) {
        let immutable = HeaderValue::from_static("public, immutable");
        response.headers_mut().insert(header::CACHE_CONTROL, immutable);
    }
    response
}
