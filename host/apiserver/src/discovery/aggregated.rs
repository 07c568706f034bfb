use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use crate::registry::{Endpoint, GroupVersion, Registry};
use crate::respond::{self, Answer};

/// A subresource as discovery shows it.
pub(super) struct Subresource<'a> {
    pub name: &'static str,
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    pub verbs: &'static [&'static str],
}

/// The subresources of an endpoint.
pub(super) fn subresources(endpoint: &Endpoint) -> Vec<Subresource<'_>> {
    let own = |name, verbs| Subresource {
        name,
        group: &endpoint.group,
        version: &endpoint.version,
        kind: endpoint.kind(),
        verbs,
    };
    let mut found = Vec::new();
    if endpoint.require_subresource("finalize").is_ok() {
        found.push(own("finalize", &["update"]));
    }
    if endpoint.scale.is_some() {
        found.push(Subresource {
            name: "scale",
            group: "autoscaling",
            version: "v1",
            kind: "Scale",
            verbs: &["get", "patch", "update"],
        });
    }
    if endpoint.require_subresource("token").is_ok() {
        found.push(Subresource {
            name: "token",
            group: "authentication.k8s.io",
            version: "v1",
            kind: "TokenRequest",
            verbs: &["create"],
        });
    }
    if endpoint.status {
        found.push(own("status", &["get", "patch", "update"]));
    }
    found
}

/// `apidiscovery.k8s.io APIGroupDiscoveryList` of the core group, or of all others.
pub(super) fn list(registry: &Registry, core: bool, version: &'static str) -> Answer {
    let groups = registry.groups().iter().filter(|(name, _)| name.is_empty() == core);
    let items: Vec<Value> = groups
        .map(|(name, group)| {
            let versions: Vec<Value> = group.versions.iter().map(describe).collect();
            json!({"metadata": {"name": name, "creationTimestamp": null}, "versions": versions})
        })
        .collect();
    let list = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"), "metadata": {},
        "items": items,
    });
    let mut answer = respond::json_value(StatusCode::OK, &list);
    // Clients look at the content type to see whether they got the aggregated form.
    let content_type = match version {
        "v2" => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        _ => "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
    };
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    answer
}

fn describe(version: &GroupVersion) -> Value {
    let resources: Vec<Value> = version.endpoints.values().map(|endpoint| resource(endpoint)).collect();
    json!({"version": version.version, "resources": resources, "freshness": "Current"})
}

fn resource(endpoint: &Endpoint) -> Value {
    let found = &endpoint.resource;
    let kind =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let mut described = json!({
        "resource": found.names.plural,
        "responseKind": kind(&endpoint.group, &endpoint.version, endpoint.kind()),
        "scope": if found.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": found.names.singular,
        "verbs": endpoint.verbs(),
    });
    if !found.names.short.is_empty() {
        described["shortNames"] = found.names.short.clone().into();
    }
    if !found.names.categories.is_empty() {
        described["categories"] = found.names.categories.clone().into();
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
        described["subresources"] = subresources.into();
    }
    described
}
