//! Which resources are served: the built-in ones, from a table, and those of CRDs.

mod builtin;
mod endpoint;
mod resource;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::storage::Storage;

pub(crate) use endpoint::{Conversion, Endpoint, ScalePaths};
pub(crate) use resource::{Custom, Names, Resource, Rules, select};

/// Everything that is served at one moment. A snapshot: a CRD's change makes a new one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registry {
    groups: BTreeMap<String, Group>,
}

/// One API group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    /// Its versions, the preferred one first.
    pub versions: Vec<GroupVersion>,
}

/// The resources of one version of a group, by plural name.
#[derive(Clone, Debug)]
pub(crate) struct GroupVersion {
    pub version: String,
    pub endpoints: BTreeMap<String, Arc<Endpoint>>,
}

impl Registry {
    /// The registry of the built-in resources.
    pub(crate) fn built_in(storage: &Storage) -> Self {
        let mut registry = Self::default();
        for endpoint in builtin::endpoints(storage) {
            registry.insert(Arc::new(endpoint));
        }
        registry
    }

    /// Serves an endpoint, in place of one with the same path.
    pub(crate) fn insert(&mut self, endpoint: Arc<Endpoint>) {
        let group = self.groups.entry(endpoint.group.clone()).or_default();
        let at =
            group.versions.iter().position(|known| known.version == endpoint.version).unwrap_or_else(|| {
                group
                    .versions
                    .push(GroupVersion { version: endpoint.version.clone(), endpoints: BTreeMap::new() });
                group.versions.len() - 1
            });
        group.versions[at].endpoints.insert(endpoint.resource.names.plural.clone(), endpoint);
        group.versions.sort_by_key(|version| Reverse(priority(&version.version)));
    }

    /// Stops serving all versions of a resource.
    pub(crate) fn remove(&mut self, group: &str, plural: &str) {
        let Some(found) = self.groups.get_mut(group) else { return };
        for version in &mut found.versions {
            version.endpoints.remove(plural);
        }
        found.versions.retain(|version| !version.endpoints.is_empty());
        if found.versions.is_empty() {
            self.groups.remove(group);
        }
    }

    /// The groups by name; core is "".
    pub(crate) fn groups(&self) -> &BTreeMap<String, Group> {
        &self.groups
    }

    /// One version of one group.
    pub(crate) fn group_version(&self, group: &str, version: &str) -> Option<&GroupVersion> {
        self.groups.get(group)?.versions.iter().find(|known| known.version == version)
    }

    /// What serves a path.
    pub(crate) fn endpoint(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Endpoint>> {
        self.group_version(group, version)?.endpoints.get(plural)
    }

    /// What serves a kind, as owner references and apply need it.
    pub(crate) fn by_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Endpoint>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.group_version(group, version)?
            .endpoints
            .values()
            .find(|endpoint| endpoint.resource.names.kind == kind)
    }

    /// Every stored resource once, by its preferred endpoint.
    pub(crate) fn resources(&self) -> Vec<Arc<Endpoint>> {
        let mut found: BTreeMap<(String, String), Arc<Endpoint>> = BTreeMap::new();
        for endpoint in self.endpoints() {
            let resource = &endpoint.resource;
            if endpoint.group == resource.group {
                found
                    .entry((resource.group.clone(), resource.names.plural.clone()))
                    .or_insert_with(|| Arc::clone(endpoint));
            }
        }
        found.into_values().collect()
    }

    /// Every endpoint, a group's preferred version first.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        self.groups.values().flat_map(|group| &group.versions).flat_map(|version| version.endpoints.values())
    }
}

/// Orders versions as Kubernetes does: stable before beta before alpha, then higher numbers first; anything that is
/// not of that form comes last, alphabetically.
pub(crate) fn priority(version: &str) -> (bool, u8, u64, u64, Reverse<String>) {
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

    #[test]
    fn versions_are_ordered_as_kubernetes_orders_them() {
        let mut versions =
            ["foo1", "v1alpha1", "v2", "v1beta10", "v1", "v11alpha2", "v10", "foo10", "v1beta2"];
        versions.sort_by_key(|version| Reverse(priority(version)));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v1beta10", "v1beta2", "v11alpha2", "v1alpha1", "foo1", "foo10"]
        );
    }
}
