//! Aggregated discovery (`apidiscovery.k8s.io`).

use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use super::groups;
use crate::registry::{Endpoint, GroupVersion, Registry};
use crate::respond::{self, ApiResponse};

/// A subresource in a discovery document.
pub(super) struct Subresource<'a> {
    pub name: &'static str,
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    pub verbs: &'static [&'static str],
}

/// Returns the subresources of an endpoint.
pub(super) fn subresources(endpoint: &Endpoint) -> Vec<Subresource<'_>> {
    let of_kind = |name, verbs: &'static [&'static str]| Subresource {
        name,
        group: &endpoint.group,
        version: &endpoint.version,
        kind: endpoint.kind(),
        verbs,
    };
    let mut subresources = Vec::new();
    if endpoint.is_core("pods") {
        subresources.push(Subresource { kind: "Binding", ..of_kind("binding", &["create"]) });
        subresources.push(of_kind("ephemeralcontainers", &["get", "patch", "update"]));
        let eviction = of_kind("eviction", &["create"]);
        subresources.push(Subresource { group: "policy", kind: "Eviction", ..eviction });
        subresources.push(of_kind("resize", &["get", "patch", "update"]));
    }
    if endpoint.require_subresource("approval").is_ok() {
        subresources.push(of_kind("approval", &["get", "patch", "update"]));
    }
    if endpoint.require_subresource("finalize").is_ok() {
        subresources.push(of_kind("finalize", &["update"]));
    }
    if endpoint.scale.is_some() {
        subresources.push(Subresource {
            name: "scale",
            group: "autoscaling",
            version: "v1",
            kind: "Scale",
            verbs: &["get", "patch", "update"],
        });
    }
    if endpoint.require_subresource("token").is_ok() {
        subresources.push(Subresource {
            name: "token",
            group: "authentication.k8s.io",
            version: "v1",
            kind: "TokenRequest",
            verbs: &["create"],
        });
    }
    if endpoint.has_status {
        subresources.push(of_kind("status", &["get", "patch", "update"]));
    }
    if endpoint.resource.custom.is_some() {
        // As in Kubernetes, the status precedes the scale of custom resources, and follows that of built-in ones.
        subresources.reverse();
    }
    subresources
}

/// Returns the `APIGroupDiscoveryList` of the core group or of all other groups, in `version` of
/// `apidiscovery.k8s.io`.
pub(super) fn list(registry: &Registry, core: bool, version: &'static str) -> ApiResponse {
    let groups = if core {
        registry.groups().get("").map(|group| ("", group)).into_iter().collect()
    } else {
        groups::in_order(registry)
    };
    let items: Vec<Value> = groups
        .into_iter()
        .map(|(name, group)| {
            let versions: Vec<Value> = group.versions.iter().map(version_discovery).collect();
            let metadata = if name.is_empty() { json!({}) } else { json!({"name": name}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    let list = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"), "metadata": {},
        "items": items,
    });
    let mut response = respond::json_value(StatusCode::OK, &list);
    // Clients recognise the aggregated form by the content type.
    let content_type = match version {
        "v2" => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        _ => "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
    };
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    response
}

fn version_discovery(version: &GroupVersion) -> Value {
    let resources: Vec<Value> =
        version.endpoints.values().map(|endpoint| resource_discovery(endpoint)).collect();
    json!({"version": version.version, "resources": resources, "freshness": "Current"})
}

fn resource_discovery(endpoint: &Endpoint) -> Value {
    let resource = &endpoint.resource;
    let is_custom = resource.custom.is_some();
    // As in Kubernetes, the kind of a built-in resource has a group and a version only if it is in another group.
    let kind = |group: &str, version: &str, kind: &str| {
        let (group, version) = if is_custom || group != endpoint.group { (group, version) } else { ("", "") };
        json!({"group": group, "version": version, "kind": kind})
    };
    let mut discovery = json!({
        "resource": resource.names.plural,
        "responseKind": kind(&endpoint.group, &endpoint.version, endpoint.kind()),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.names.singular,
        "verbs": endpoint.verbs(),
    });
    if !resource.names.short.is_empty() {
        discovery["shortNames"] = resource.names.short.clone().into();
    }
    if !resource.names.categories.is_empty() {
        discovery["categories"] = resource.names.categories.clone().into();
    }
    let subresources: Vec<Value> = subresources(endpoint)
        .into_iter()
        .map(|sub| {
            json!({
                "subresource": sub.name, "responseKind": kind(sub.group, sub.version, sub.kind), "verbs": sub.verbs,
            })
        })
        .collect();
    if !subresources.is_empty() {
        discovery["subresources"] = subresources.into();
    }
    discovery
}
