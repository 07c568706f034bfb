//! The resources that the server serves: the built-in kinds and those that CRDs define.

mod builtin;
mod convert;
mod endpoint;
mod resource;
mod service_addresses;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::storage::Storage;

pub(crate) use endpoint::{
    Conversion, CustomForms, Endpoint, EndpointDefinition, SELECTABLE_FIELDS, ScalePaths, schema_identity,
};
pub(crate) use resource::{CrdInfo, Names, Resource, ResourceDefinition, Strategy, field_selector_value};
pub(crate) use service_addresses::{Addresses, ReservedIp, ServiceAddresses, node_port, protocol};

/// An immutable snapshot of the served resources. A change of a CRD replaces it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registry {
    groups: BTreeMap<String, Group>,
}

/// One API group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    /// The served versions, the preferred one first.
    pub versions: Vec<GroupVersion>,
}

/// The resources of one version of a group, by plural name.
#[derive(Clone, Debug)]
pub(crate) struct GroupVersion {
    pub version: String,
    pub endpoints: BTreeMap<String, Arc<Endpoint>>,
    /// The discovery document of these endpoints. It is rendered at the first request.
    document: Document,
}

/// A document that is rendered at most once.
type Document = Arc<OnceLock<Bytes>>;

/// The discovery documents of the built-in resources, by group and version. They are the same in all servers of a process: a simulation
/// starts thousands, and each host reads these documents first.
static BUILT_IN_DOCUMENTS: OnceLock<BTreeMap<(String, String), Document>> = OnceLock::new();

impl GroupVersion {
    fn new(version: &str) -> Self {
        Self { version: version.to_owned(), endpoints: BTreeMap::new(), document: Arc::default() }
    }

    /// Returns the discovery document, which `render` creates if there is none yet.
    pub(crate) fn document(&self, render: impl FnOnce() -> String) -> Bytes {
        self.document.get_or_init(|| render().into()).clone()
    }
}

impl Registry {
    /// Creates a registry of the built-in resources.
    pub(crate) fn built_in(storage: &Storage) -> Self {
        let mut registry = Self::default();
        for endpoint in builtin::endpoints(storage) {
            registry.insert(Arc::new(endpoint));
        }
        let documents = BUILT_IN_DOCUMENTS.get_or_init(|| {
            let versions = registry
                .groups
                .iter()
                .flat_map(|(name, group)| group.versions.iter().map(move |version| (name, version)));
            versions
                .map(|(name, version)| {
                    ((name.clone(), version.version.clone()), Arc::clone(&version.document))
                })
                .collect()
        });
        for (name, group) in &mut registry.groups {
            for version in &mut group.versions {
                if let Some(document) = documents.get(&(name.clone(), version.version.clone())) {
                    version.document = Arc::clone(document);
                }
            }
        }
        registry
    }

    /// Adds an endpoint, replacing the one with the same path.
    pub(crate) fn insert(&mut self, endpoint: Arc<Endpoint>) {
        let group = self.groups.entry(endpoint.group.clone()).or_default();
        let index =
            group.versions.iter().position(|known| known.version == endpoint.version).unwrap_or_else(|| {
                group.versions.push(GroupVersion::new(&endpoint.version));
                group.versions.len() - 1
            });
        let version = &mut group.versions[index];
        version.document = Arc::default();
        version.endpoints.insert(endpoint.resource.names.plural.clone(), endpoint);
        group.versions.sort_by_key(|version| Reverse(version_priority(&version.version)));
    }

    /// Removes all versions of a resource.
    pub(crate) fn remove(&mut self, group: &str, plural: &str) {
        let Some(versions) = self.groups.get_mut(group).map(|group| &mut group.versions) else { return };
        for version in versions.iter_mut() {
            if version.endpoints.remove(plural).is_some() {
                version.document = Arc::default();
            }
        }
        versions.retain(|version| !version.endpoints.is_empty());
        if versions.is_empty() {
            self.groups.remove(group);
        }
    }

    /// Returns the groups by name. The core group's name is empty.
    pub(crate) fn groups(&self) -> &BTreeMap<String, Group> {
        &self.groups
    }

    /// Returns one version of a group.
    pub(crate) fn group_version(&self, group: &str, version: &str) -> Option<&GroupVersion> {
        self.groups.get(group)?.versions.iter().find(|known| known.version == version)
    }

    /// Returns the endpoint of a resource in a group and version.
    pub(crate) fn endpoint(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Endpoint>> {
        self.group_version(group, version)?.endpoints.get(plural)
    }

    /// Returns whether any version of a resource is served.
    pub(crate) fn serves(&self, group: &str, plural: &str) -> bool {
        let mut versions = self.groups.get(group).into_iter().flat_map(|group| &group.versions);
        versions.any(|version| version.endpoints.contains_key(plural))
    }

    /// Returns the endpoint of a kind, as owner references and role references name it.
    pub(crate) fn by_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Endpoint>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.group_version(group, version)?
            .endpoints
            .values()
            .find(|endpoint| endpoint.resource.names.kind == kind)
    }

    /// Returns one endpoint for each stored resource: that of its preferred version. They are sorted by group and plural name.
    pub(crate) fn preferred_endpoints(&self) -> Vec<Arc<Endpoint>> {
        let mut preferred = Vec::new();
        for (name, group) in &self.groups {
            let is_stored = |endpoint: &&Arc<Endpoint>| endpoint.resource.group == *name;
            if let [version] = group.versions.as_slice() {
                preferred.extend(version.endpoints.values().filter(is_stored).cloned());
                continue;
            }
            let mut by_plural: BTreeMap<&str, &Arc<Endpoint>> = BTreeMap::new();
            let endpoints = group.versions.iter().flat_map(|version| version.endpoints.values());
            for endpoint in endpoints.filter(is_stored) {
                by_plural.entry(&endpoint.resource.names.plural).or_insert(endpoint);
            }
            preferred.extend(by_plural.into_values().cloned());
        }
        preferred
    }

    /// Iterates over all endpoints, each group's preferred version first.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        self.groups.values().flat_map(|group| &group.versions).flat_map(|version| version.endpoints.values())
    }
}

/// Returns the sort key of a version, the greatest for the preferred one, after `CompareKubeAwareVersionStrings` of
/// `k8s.io/apimachinery/pkg/version`: stable versions before beta before alpha, then higher numbers first. Versions of
/// another form come last, alphabetically.
pub(crate) fn version_priority(version: &str) -> (bool, u8, u64, u64, Reverse<String>) {
    let unknown = (false, 0, 0, 0, Reverse(version.to_owned()));
    let Some(rest) = version.strip_prefix('v') else { return unknown };
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let Ok(major) = rest[..digits].parse::<u64>() else { return unknown };
    let (stage, minor) = match &rest[digits..] {
        "" => (3, Some(0)),
        tail => match (tail.strip_prefix("beta"), tail.strip_prefix("alpha")) {
            (Some(minor), _) => (2, minor.parse().ok()),
            (_, Some(minor)) => (1, minor.parse().ok()),
            _ => (0, None),
        },
    };
    match minor {
        Some(minor) => (true, stage, major, minor, Reverse(String::new())),
        None => unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::HistoryLimits;

    #[test]
    fn a_discovery_document_is_rendered_again_after_a_change() {
        let built_in = Registry::built_in(&Storage::new(HistoryLimits { events: 1, bytes: 1 }, 1));
        let endpoint = |plural| Arc::clone(built_in.endpoint("apps", "v1", plural).expect("it is built in"));
        let document = |registry: &Registry, text: &str| {
            let version = registry.group_version("apps", "v1").expect("it has an endpoint");
            String::from_utf8_lossy(&version.document(|| text.to_owned())).into_owned()
        };
        let mut registry = Registry::default();
        registry.insert(endpoint("deployments"));
        assert_eq!(document(&registry, "first"), "first");
        let mut changed = registry.clone();
        assert_eq!(document(&changed, "second"), "first", "nothing has changed");
        changed.insert(endpoint("replicasets"));
        assert_eq!(document(&changed, "third"), "third");
        changed.remove("apps", "deployments");
        assert_eq!(document(&changed, "fourth"), "fourth");
        assert_eq!(document(&registry, "fifth"), "first", "a snapshot keeps its document");
    }

    #[test]
    fn versions_sort_in_kubernetes_order() {
        let mut versions =
            ["foo1", "v1alpha1", "v2", "v1beta10", "v1", "v11alpha2", "v10", "foo10", "v1beta2"];
        versions.sort_by_key(|version| Reverse(version_priority(version)));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v1beta10", "v1beta2", "v11alpha2", "v1alpha1", "foo1", "foo10"]
        );
    }
}
