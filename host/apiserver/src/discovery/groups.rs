//! Unaggregated discovery: `APIVersions`, `APIGroupList`, `APIGroup` and `APIResourceList`.

use bytes::Bytes;
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::registry::{Conversion, Endpoint, Group, Registry};

/// The groups of kube-apiserver in the order of their priorities. Groups of custom resources follow.
const ORDER: [&str; 20] = [
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];

/// Returns all groups except for the core group in the order in which clients prefer them.
pub(super) fn in_order(registry: &Registry) -> Vec<(&str, &Group)> {
    let groups = registry.groups().iter().filter(|(name, _)| !name.is_empty());
    let mut groups: Vec<(&str, &Group)> = groups.map(|(name, group)| (name.as_str(), group)).collect();
    // Groups without a position keep their alphabetical order.
    groups.sort_by_key(|(name, _)| ORDER.iter().position(|known| known == name).unwrap_or(ORDER.len()));
    groups
}

/// Returns the response to `/api`.
pub(super) fn core_versions(registry: &Registry) -> Value {
    let core = registry.groups().get("");
    let versions: Vec<&str> =
        core.into_iter().flat_map(|core| &core.versions).map(|v| v.version.as_str()).collect();
    json!({"kind": "APIVersions", "versions": versions, "serverAddressByClientCIDRs": []})
}

/// Returns the response to `/apis`.
pub(super) fn groups(registry: &Registry) -> Value {
    let groups: Vec<Value> =
        in_order(registry).into_iter().map(|(name, group)| api_group(name, group)).collect();
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
        if group.is_empty() {
            // As in Kubernetes, the document of the core group has no apiVersion.
            json!({"kind": "APIResourceList", "groupVersion": version, "resources": resources}).to_string()
        } else {
            let name = format!("{group}/{version}");
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources})
                .to_string()
        }
    };
    Some(group_version.document(render))
}

/// Returns the hash by which clients notice that the version changes in which a resource is stored; `None` if this version of a custom resource is
/// another one, or the resource is not stored.
fn storage_version_hash(endpoint: &Endpoint) -> Option<Value> {
    let resource = &endpoint.resource;
    if resource.strategy.is_review || resource.strategy.is_read_only {
        return None;
    }
    let stored = match (&resource.custom, endpoint.conversion) {
        (Some(custom), _) if custom.storage_version != endpoint.api_version => return None,
        (_, Conversion::Events) => "/v1".to_owned(),
        (_, Conversion::Autoscaling) => format!("{}/v2", endpoint.group),
        // kube-apiserver still stores these as v1beta1.
        _ if is_stored_as_beta(endpoint) => format!("{}/v1beta1", endpoint.group),
        _ => format!("{}/{}", endpoint.group, endpoint.version),
    };
    let hash = Sha256::digest(format!("{stored}/{}", resource.names.kind));
    serde_json::to_value(ByteString(hash[..8].to_vec())).ok()
}

fn is_stored_as_beta(endpoint: &Endpoint) -> bool {
    matches!(
        (endpoint.group.as_str(), endpoint.resource.names.plural.as_str()),
        ("apiextensions.k8s.io", "customresourcedefinitions")
            | (
                "admissionregistration.k8s.io",
                "mutatingadmissionpolicies" | "mutatingadmissionpolicybindings"
            )
    )
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
    if let Some(hash) = storage_version_hash(endpoint) {
        main["storageVersionHash"] = hash;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{HistoryLimits, Storage};

    #[test]
    fn every_built_in_group_has_a_position() {
        let registry = Registry::built_in(&Storage::new(HistoryLimits { events: 1, bytes: 1 }, 1));
        let groups: Vec<&str> = in_order(&registry).into_iter().map(|(name, _)| name).collect();
        assert_eq!(groups, ORDER);
    }

    #[test]
    fn hashes_of_storage_versions_are_those_of_kubernetes() {
        let registry = Registry::built_in(&Storage::new(HistoryLimits { events: 1, bytes: 1 }, 1));
        for (group, version, plural, hash) in [
            ("", "v1", "pods", Some("xPOwRZ+Yhw8=")),
            ("apps", "v1", "deployments", Some("8aSe+NMegvE=")),
            ("events.k8s.io", "v1", "events", Some("r2yiGXH7wu8=")),
            ("autoscaling", "v1", "horizontalpodautoscalers", Some("qwQve8ut294=")),
            ("autoscaling", "v2", "horizontalpodautoscalers", Some("qwQve8ut294=")),
            ("apiextensions.k8s.io", "v1", "customresourcedefinitions", Some("jfWCUB31mvA=")),
            ("admissionregistration.k8s.io", "v1", "mutatingadmissionpolicies", Some("LYmCf+UMVdg=")),
            ("", "v1", "componentstatuses", None),
        ] {
            let endpoint = registry.endpoint(group, version, plural).expect("it is built in");
            assert_eq!(storage_version_hash(endpoint), hash.map(Value::from), "{plural}");
        }
    }
}
