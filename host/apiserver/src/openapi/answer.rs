//! Requests below `/openapi/`, answered for what a registry serves.

use http::{HeaderValue, Method, StatusCode, header};

use super::{Document, Documents, Served};
use crate::registry::{Endpoint, GroupVersion, Registry};
use crate::request::Request;
use crate::request::accept::{MediaRange, ranges};
use crate::respond::ResponseBody;
use crate::respond::{self, Answer};
use crate::status::Status;

/// The protobuf form of an OpenAPI v2 document: as clients ask for it (before an `@` or a dot and the version), and as
/// it is answered. client-go cannot parse a content type with an `@` in it.
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2";
const V2_PROTOBUF_ANSWER: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// A `gnostic` Document of version "2.0" with no paths and no definitions.
const EMPTY_V2_PROTOBUF: &[u8] = b"\x0a\x032.0";

/// Answers `/openapi/v2`, `/openapi/v3` and the documents below it.
///
/// Documents are served as JSON. kubectl reads v3 so; for a kind that it does not find there it asks for v2, in its
/// protobuf form only. What v3 lacks, v2 lacks, too: an empty document tells kubectl that there is no such kind, so
/// that it says what to do, where a refusal would only make it say that it could not validate.
pub(crate) fn answer(
    documents: &Documents,
    registry: &Registry,
    path: &str,
    request: &Request,
) -> Result<Answer, Status> {
    if request.method != Method::GET {
        return Err(Status::method_not_allowed(request.method.as_str()));
    }
    let accepted = ranges(request.header("accept"));
    let path = path.trim_end_matches('/');
    let takes_json = accepted.is_empty() || accepted.iter().any(MediaRange::takes_json);
    if path == "/openapi/v2"
        && !takes_json
        && accepted.iter().any(|range| range.kind.starts_with(V2_PROTOBUF))
    {
        let empty = ResponseBody::full(EMPTY_V2_PROTOBUF);
        return Ok(respond::with_body(StatusCode::OK, V2_PROTOBUF_ANSWER, empty));
    }
    if !takes_json {
        return Err(Status::not_acceptable(&["application/json"]));
    }
    let rest = path.trim_start_matches("/openapi/");
    match rest.split('/').collect::<Vec<_>>().as_slice() {
        ["v2"] => {
            let served: Vec<_> = registry.endpoints().map(|endpoint| served(endpoint.as_ref())).collect();
            Ok(document(documents.v2(&served), request))
        }
        ["v3"] => {
            let versions = registry.groups().iter().flat_map(|(group, found)| {
                let all = found.versions.iter();
                all.map(move |version| (group.as_str(), version.version.as_str(), of_version(version)))
            });
            Ok(respond::json_value(StatusCode::OK, &documents.index(versions)))
        }
        ["v3", "api", version] => of(documents, registry, "", version, request),
        ["v3", "apis", group, version] => of(documents, registry, group, version, request),
        _ => Err(Status::no_such_resource()),
    }
}

fn of(
    documents: &Documents,
    registry: &Registry,
    group: &str,
    version: &str,
    request: &Request,
) -> Result<Answer, Status> {
    let found = registry.group_version(group, version).ok_or_else(Status::no_such_resource)?;
    Ok(document(documents.v3(group, version, &of_version(found)), request))
}

fn of_version(version: &GroupVersion) -> Vec<Served<'_>> {
    version.endpoints.values().map(|endpoint| served(endpoint.as_ref())).collect()
}

fn served(endpoint: &Endpoint) -> Served<'_> {
    let resource = &endpoint.resource;
    Served {
        group: &endpoint.group,
        version: &endpoint.version,
        kind: &resource.names.kind,
        list_kind: &resource.names.list_kind,
        plural: &resource.names.plural,
        namespaced: resource.namespaced,
        status: endpoint.status,
        scale: endpoint.scale.is_some(),
        create_only: resource.rules.review,
        custom: endpoint.open_api.as_ref(),
        is_custom: resource.custom.is_some(),
    }
}

/// A document with its entity tag. One that was asked for by its hash never changes.
fn document(document: Document, request: &Request) -> Answer {
    let tag = format!("\"{}\"", document.hash);
    let mut answer = if request.header("if-none-match") == tag {
        respond::json_text(StatusCode::NOT_MODIFIED, "")
    } else {
        respond::json_text(StatusCode::OK, document.body)
    };
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        answer.headers_mut().insert(header::ETAG, tag);
    }
    if request.query.get("hash") == Some(document.hash.as_str()) {
        let forever = HeaderValue::from_static("public, immutable");
        answer.headers_mut().insert(header::CACHE_CONTROL, forever);
    }
    answer
}
