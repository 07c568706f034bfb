use serde_json::{Value, json};

use crate::registry::{Endpoint, Group, Registry};

/// `/api`
pub(super) fn core_versions(registry: &Registry) -> Value {
    let core = registry.groups().get("");
    let versions: Vec<&str> =
        core.into_iter().flat_map(|core| &core.versions).map(|v| v.version.as_str()).collect();
    json!({"kind": "APIVersions", "versions": versions, "serverAddressByClientCIDRs": []})
}

/// `/apis`
pub(super) fn groups(registry: &Registry) -> Value {
    let groups = registry.groups().iter().filter(|(name, _)| !name.is_empty());
    let groups: Vec<Value> = groups.map(|(name, found)| describe(name, found)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`
pub(super) fn group(registry: &Registry, name: &str) -> Option<Value> {
    let mut described = describe(name, registry.groups().get(name)?);
    described["kind"] = "APIGroup".into();
    described["apiVersion"] = "v1".into();
    Some(described)
}

fn describe(name: &str, group: &Group) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| json!({"groupVersion": format!("{name}/{}", version.version), "version": version.version}))
        .collect();
    json!({"name": name, "versions": versions, "preferredVersion": versions.first()})
}

/// `/api/v1` and `/apis/GROUP/VERSION`
pub(super) fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let found = registry.group_version(group, version)?;
    let resources: Vec<Value> =
        found.endpoints.values().flat_map(|endpoint| describe_resource(endpoint)).collect();
    let name = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Some(json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources}))
}

fn describe_resource(endpoint: &Endpoint) -> Vec<Value> {
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
        let mut described = json!({
            "name": format!("{}/{}", names.plural, sub.name), "singularName": "", "namespaced": resource.namespaced,
            "kind": sub.kind, "verbs": sub.verbs,
        });
        if sub.group != endpoint.group {
            described["group"] = sub.group.into();
            described["version"] = sub.version.into();
        }
        all.push(described);
    }
    all
}
