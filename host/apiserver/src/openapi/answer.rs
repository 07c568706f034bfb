//! Requests below `/openapi/`, answered for what a registry serves.

use http::{HeaderValue, Method, StatusCode, header};

use super::{Document, Documents, Served};
use crate::registry::{Endpoint, GroupVersion, Registry};
use crate::request::Request;
use crate::request::accept::{MediaRange, ranges};
use crate::rest::respond::{self, Answer};
use crate::status::Status;

/// Answers `/openapi/v2`, `/openapi/v3` and the documents below it.
///
/// Only JSON is served: kubectl reads v3 as JSON, and falls back to the protobuf form of v2 only where there is no v3.
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
    if !accepted.is_empty() && !accepted.iter().any(MediaRange::takes_json) {
        return Err(Status::not_acceptable(&["application/json"]));
    }
    let rest = path.trim_start_matches("/openapi/").trim_end_matches('/');
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
