//! API discovery: the groups, versions and resources that are served, one document each or aggregated in one response.

mod aggregated;
mod groups;

use std::collections::BTreeSet;

use http::StatusCode;
use serde_json::{Value, json};

use crate::registry::Registry;
use crate::request::accept::ranges;
use crate::request::{Request, Target};
use crate::respond::{self, ApiResponse};
use crate::status::Status;

/// Handles a request for `/api`, `/apis`, a group or a group version.
pub(crate) fn handle(registry: &Registry, request: &Request) -> Result<ApiResponse, Status> {
    // kube-apiserver answers any method with the versions of a group.
    if request.method != http::Method::GET && !matches!(request.target, Target::Group(_)) {
        return Err(Status::method_not_allowed());
    }
    let aggregated = |core: bool| {
        let version = aggregated_version(request.header("accept"))?;
        Some(aggregated::list(registry, core, version))
    };
    let value = match &request.target {
        Target::CoreVersions => match aggregated(true) {
            Some(response) => return Ok(response),
            None => Some(groups::core_versions(registry)),
        },
        Target::Groups => match aggregated(false) {
            Some(response) => return Ok(response),
            None => Some(groups::groups(registry)),
        },
        Target::Group(group) => match groups::group(registry, group) {
            None => return Ok(respond::page_not_found()),
            found => found,
        },
        Target::GroupVersion(group, version) => {
            if !registry.groups().contains_key(group) {
                return Ok(respond::page_not_found());
            }
            let document =
                groups::resources(registry, group, version).ok_or_else(Status::no_such_resource)?;
            return Ok(respond::json_text(StatusCode::OK, document));
        }
        Target::Object(_) | Target::Other(_) => None,
    };
    value.map(|value: Value| respond::json_value(StatusCode::OK, &value)).ok_or_else(Status::no_such_resource)
}

/// Returns the response to `/`: the served paths (`metav1.RootPaths`).
pub(crate) fn root_paths(registry: &Registry) -> Value {
    let fixed = [
        "/api",
        "/apis",
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
    ];
    let mut paths: BTreeSet<String> = fixed.into_iter().map(str::to_owned).collect();
    for (name, group) in registry.groups() {
        let root = if name.is_empty() { "/api".to_owned() } else { format!("/apis/{name}") };
        paths.extend(group.versions.iter().map(|version| format!("{root}/{}", version.version)));
        paths.insert(root);
    }
    json!({"paths": paths})
}

/// Returns the version of aggregated discovery to respond with, or `None` if the client prefers the unaggregated form.
fn aggregated_version(accept: &str) -> Option<&'static str> {
    for range in ranges(accept).iter().filter(|range| range.takes_json()) {
        match (range.parameter("as"), range.parameter("v")) {
            ("", _) => return None,
            ("APIGroupDiscoveryList", "v2") => return Some("v2"),
            ("APIGroupDiscoveryList", "v2beta1") => return Some("v2beta1"),
            _ => {}
        }
    }
    None
}
