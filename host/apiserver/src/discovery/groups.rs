//! Unaggregated discovery: `APIVersions`, `APIGroupList`, `APIGroup` and `APIResourceList`.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::registry::{Endpoint, Group, Registry};

/// Returns the response to `/api`.
pub(super) fn core_versions(registry: &Registry) -> Value {
    let core = registry.groups().get("");
    let versions: Vec<&str> =
        core.into_iter().flat_map(|core| &core.versions).map(|v| v.version.as_str()).collect();
    json!({"kind": "APIVersions", "versions": versions, "serverAddressByClientCIDRs": []})
}

/// Returns the response to `/apis`.
pub(super) fn groups(registry: &Registry) -> Value {
    let groups = registry.groups().iter().filter(|(name, _)| !name.is_empty());
    let groups: Vec<Value> = groups.map(|(name, group)| api_group(name, group)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Returns the response to `/apis/GROUP`; `None` if there is no such group.
pub(super) fn group(registry: &Registry, name: &str) -> Option<Value> {
    let mut group = api_group(name, registry.groups().get(name)?);
    group["kind"] = "APIGroup".into();
    group["apiVersion"] = "v1".into();
    Some(group)
}

fn api_group(name: &str, group: &Group) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| json!({"groupVersion": format!("{name}/{}", version.version), "version": version.version}))
        .collect();
    json!({"name": name, "versions": versions, "preferredVersion": versions.first()})
}

/// Returns the response to `/api/v1` and `/apis/GROUP/VERSION`; `None` if there is no such version.
pub(super) fn resources(registry: &Registry, group: &str, version: &str) -> Option<Bytes> {
    let group_version = registry.group_version(group, version)?;
    let render = || {
        let resources: Vec<Value> =
            group_version.endpoints.values().flat_map(|endpoint| api_resources(endpoint)).collect();
        let name = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources})
            .to_string()
    };
    Some(group_version.document(render))
}

/// Returns the `APIResource` of an endpoint and of its subresources.
fn api_resources(endpoint: &Endpoint) -> Vec<Value> {
    let resource = &endpoint.resource;
    let names = &resource.names;
    let mut main = json!({
        "name": names.plural, "singularName": names.singular, "namespaced": resource.namespaced, "kind": names.kind,
        "verbs": endpoint.verbs(),
    });
    if !names.short.is_empty() {
        main["shortNames"] = names.short.clone().into();
    }
    if !names.categories.is_empty() {
        main["categories"] = names.categories.clone().into();
    }
    let mut all = vec![main];
    for sub in super::aggregated::subresources(endpoint) {
        let mut resource = json!({
            "name": format!("{}/{}", names.plural, sub.name), "singularName": "", "namespaced": resource.namespaced,
            "kind": sub.kind, "verbs": sub.verbs,
        });
        if sub.group != endpoint.group {
            resource["group"] = sub.group.into();
            resource["version"] = sub.version.into();
        }
        all.push(resource);
    }
    all
}
