//! Finds the cluster-scoped resources in a plugin's write rules: a rule with namespaces grants nothing on
//! them.

use std::collections::{BTreeMap, BTreeSet};

use super::permissions::resources;
use crate::client::{Discovery, RequestError};
use crate::config::descriptor::{Descriptor, Rule};
use crate::config::rule_intersection::intersect;
use crate::config::rule_match::includes_all_namespaces;
use crate::config::sidecar::Sidecar;

/// The cluster-scoped resources, by API group and plural name, as far as a server knows them.
#[derive(Debug, Default)]
pub(super) struct Scopes {
    cluster: BTreeSet<(String, String)>,
}

impl Scopes {
    /// Queries the server, if there is one, about each resource in a rule with namespaces; the plugin's own
    /// CRDs are known from their manifests.
    pub(super) async fn from_descriptor(
        descriptor: &Descriptor,
        sidecar: &Sidecar,
        discovery: Option<&Discovery>,
    ) -> Result<Self, RequestError> {
        let mut namespaced = BTreeMap::new();
        for crd in &descriptor.crds {
            let text =
                |pointer: &str| crd.pointer(pointer).and_then(|text| text.as_str()).unwrap_or_default();
            let name = (text("/spec/group").to_owned(), text("/spec/names/plural").to_owned());
            namespaced.insert(name, text("/spec/scope") != "Cluster");
        }
        for (_, rule) in
            rules(descriptor, sidecar).iter().filter(|(_, rule)| !includes_all_namespaces(&rule.namespaces))
        {
            for (group, resource) in resources(rule) {
                let plural = plural(resource);
                let name = (group.to_owned(), plural.to_owned());
                if group == "*" || plural == "*" || namespaced.contains_key(&name) {
                    continue;
                }
                let Some(discovery) = discovery else { continue };
                if let Some(is_namespaced) = discovery.is_namespaced(group, plural).await? {
                    namespaced.insert(name, is_namespaced);
                }
            }
        }
        let cluster = namespaced.into_iter().filter(|(_, namespaced)| !namespaced);
        Ok(Self { cluster: cluster.map(|(name, _)| name).collect() })
    }

    /// Whether the rule grants nothing on the resource, because that is cluster-scoped and the rule has
    /// namespaces.
    pub(super) fn grants_nothing(&self, rule: &Rule, group: &str, resource: &str) -> bool {
        let name = (group.to_owned(), plural(resource).to_owned());
        !includes_all_namespaces(&rule.namespaces) && self.cluster.contains(&name)
    }

    /// Returns a warning for each resource on which a rule grants nothing.
    pub(super) fn warnings(&self, descriptor: &Descriptor, sidecar: &Sidecar) -> Vec<String> {
        let mut warnings = Vec::new();
        for (position, rule) in rules(descriptor, sidecar) {
            for (group, resource) in
                resources(&rule).filter(|(group, resource)| self.grants_nothing(&rule, group, resource))
            {
                warnings.push(format!(
                    "writes[{position}]: {resource} of group {group:?} are cluster-scoped, and a rule with namespaces grants nothing on \
                     them; give them a rule without namespaces, in the descriptor and the sidecar"
                ));
            }
        }
        warnings
    }
}

/// The rules of the descriptor, restricted by the sidecar, with their positions in the descriptor.
fn rules(descriptor: &Descriptor, sidecar: &Sidecar) -> Vec<(usize, Rule)> {
    let granted = sidecar.grants.writes.as_deref();
    let declared = descriptor.writes.iter().enumerate();
    declared.flat_map(|(at, rule)| intersect(rule, granted).into_iter().map(move |rule| (at, rule))).collect()
}

/// Returns the name without its subresource.
fn plural(resource: &str) -> &str {
    resource.split_once('/').map_or(resource, |(plural, _)| plural)
}

#[cfg(test)]
mod tests {
    use kube::client::Body;
    use serde_json::json;

    use super::super::permissions::needed;
    use super::*;
    use crate::client::ApiClient;

    fn discovery() -> Discovery {
        let service = tower::service_fn(|request: http::Request<Body>| async move {
            let rbac = "/apis/rbac.authorization.k8s.io";
            let (code, body) = match request.uri().path() {
                "/api/v1" => (
                    200,
                    json!({"resources": [
                        {"name": "nodes", "kind": "Node", "namespaced": false},
                        {"name": "pods", "kind": "Pod", "namespaced": true},
                    ]}),
                ),
                path if path == rbac => (200, json!({"versions": [{"version": "v1"}]})),
                path if path == format!("{rbac}/v1") => (
                    200,
                    json!({"resources": [
                        {"name": "clusterroles", "kind": "ClusterRole", "namespaced": false},
                    ]}),
                ),
                _ => (404, json!({})),
            };
            let response =
                http::Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
            Ok::<_, std::convert::Infallible>(response.expect("a response"))
        });
        Discovery::new(ApiClient::new(kube::Client::new(service, "default")))
    }

    #[tokio::test]
    async fn a_rule_with_namespaces_on_nodes_needs_no_permission_and_causes_a_warning() {
        let descriptor = json!({"apiVersion": "x", "kind": "Plugin", "writes": [
            {"apiGroups": [""], "resources": ["pods", "nodes/status"], "verbs": ["patch"], "namespaces": ["shop"]},
            {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["get"], "namespaces": ["shop"]},
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
        ]});
        let descriptor: Descriptor = serde_json::from_value(descriptor).expect("a descriptor");
        let sidecar = Sidecar::default();
        let scopes =
            Scopes::from_descriptor(&descriptor, &sidecar, Some(&discovery())).await.expect("answered");
        let warnings = scopes.warnings(&descriptor, &sidecar);
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(
            warnings[0].starts_with("writes[0]: nodes/status of group \"\" are cluster-scoped"),
            "{warnings:?}"
        );
        let permissions = needed(&descriptor, &[], &sidecar, &scopes, false);
        let asked: Vec<_> = permissions
            .iter()
            .map(|permission| (permission.resource.as_str(), permission.namespace.as_str()))
            .collect();
        assert!(asked.contains(&("pods", "shop")) && asked.contains(&("nodes", "")), "{asked:?}");
        assert!(!asked.contains(&("nodes/status", "shop")), "{asked:?}");
    }
}
