//! The resources that one API version serves, from the server's resource list, and a cache of such lists.
//! Pure.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_model::hash::HashMap;
use pilothouse_model::names::{is_dns_1035_label, is_dns_subdomain, is_kind};
use pilothouse_model::{GroupVersionKind, ResourceType};
use serde::Deserialize;
use tokio::time::Instant;

/// The maximum number of resources in one list: several times as many as in the largest known group.
const MAX_RESOURCES: usize = 4096;

/// The resources and subresources of one API version.
#[derive(Debug, Default)]
pub(crate) struct ServedResources {
    resources: Vec<ResourceType>,
    subresources: Vec<Subresource>,
}

/// A subresource with a kind of its own, such as `pods/eviction`.
#[derive(Debug)]
struct Subresource {
    parent: String,
    name: String,
    group: String,
    version: String,
    kind: String,
}

#[derive(Deserialize)]
struct ApiResourceList {
    resources: Vec<ApiResource>,
}

#[derive(Deserialize)]
struct ApiResource {
    name: String,
    kind: String,
    namespaced: bool,
    #[serde(default)]
    group: String,
    #[serde(default)]
    version: String,
}

#[derive(Deserialize)]
struct ApiGroup {
    versions: Vec<ApiGroupVersion>,
}

#[derive(Deserialize)]
struct ApiGroupVersion {
    version: String,
}

/// Returns the versions in an `APIGroup`; none if the body is not one.
pub(super) fn versions(body: &[u8]) -> Vec<String> {
    let versions = serde_json::from_slice::<ApiGroup>(body).map(|group| group.versions).unwrap_or_default();
    versions.into_iter().map(|version| version.version).filter(|version| is_dns_1035_label(version)).collect()
}

impl ServedResources {
    /// Parses an `APIResourceList`. Entries with invalid names are left out, because URLs are made from them.
    ///
    /// # Errors
    /// Returns the reason if the list is invalid.
    pub(super) fn parse(body: &[u8], group: &str, version: &str) -> Result<Self, String> {
        let list: ApiResourceList = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        if list.resources.len() > MAX_RESOURCES {
            return Err(format!("it has more than {MAX_RESOURCES} resources"));
        }
        let mut served = Self::default();
        for resource in list.resources.into_iter().filter(|resource| is_kind(&resource.kind)) {
            let ApiResource { name, kind, namespaced, .. } = resource;
            match name.split_once('/') {
                None if is_dns_1035_label(&name) => served.resources.push(ResourceType {
                    group: group.to_owned(),
                    version: version.to_owned(),
                    kind,
                    plural: name,
                    namespaced,
                }),
                Some((parent, name)) if is_dns_1035_label(parent) && is_dns_1035_label(name) => {
                    // Absent fields default to those of the list.
                    let or_own =
                        |given: String, own: &str| if given.is_empty() { own.to_owned() } else { given };
                    let group_version = (or_own(resource.group, group), or_own(resource.version, version));
                    if group_version.0.is_empty() || is_dns_subdomain(&group_version.0) {
                        served.subresources.push(Subresource {
                            parent: parent.to_owned(),
                            name: name.to_owned(),
                            group: group_version.0,
                            version: group_version.1,
                            kind,
                        });
                    }
                }
                _ => {}
            }
        }
        served.resources.shrink_to_fit();
        served.subresources.shrink_to_fit();
        Ok(served)
    }

    /// Returns the resource of a kind, with this plural name if one is given.
    pub(crate) fn resource(&self, kind: &str, plural: Option<&str>) -> Option<&ResourceType> {
        self.resources
            .iter()
            .find(|resource| resource.kind == kind && plural.is_none_or(|plural| resource.plural == plural))
    }

    /// Returns the resource with a plural name.
    pub(crate) fn plural(&self, plural: &str) -> Option<&ResourceType> {
        self.resources.iter().find(|resource| resource.plural == plural)
    }

    /// Returns the only resource that has this subresource for manifests of this type; `None` if there are
    /// several.
    pub(crate) fn parent(&self, of: GroupVersionKind<'_>, subresource: &str) -> Option<&ResourceType> {
        let mut parents = self.subresources.iter().filter(|known| {
            known.name == subresource
                && (known.group.as_str(), known.version.as_str(), known.kind.as_str())
                    == (of.group(), of.version(), of.kind())
        });
        let parent = parents.next().filter(|_| parents.next().is_none())?;
        self.plural(&parent.parent)
    }

    /// All kinds, sorted.
    pub(super) fn kinds(&self) -> Vec<String> {
        let mut kinds: Vec<_> = self.resources.iter().map(|resource| resource.kind.clone()).collect();
        kinds.sort();
        kinds
    }

    fn size(&self) -> usize {
        self.resources.len() + self.subresources.len()
    }
}

/// A cache of resource lists by API version. It holds only what a server serves, so requests for other
/// versions cannot fill it.
#[derive(Debug, Default)]
pub(super) struct ListCache {
    lists: HashMap<String, CachedList>,
}

#[derive(Debug)]
struct CachedList {
    served: Arc<ServedResources>,
    fetched: Instant,
    used: Instant,
}

/// Limit for the resources and subresources of all lists together: about 4 MiB.
const MAX_CACHED: usize = 16_384;

impl ListCache {
    /// Returns the list of an API version, unless it is older than `max_age`.
    pub(super) fn get(
        &mut self,
        api_version: &str,
        max_age: Duration,
        now: Instant,
    ) -> Option<Arc<ServedResources>> {
        let entry = self.lists.get_mut(api_version)?;
        if now.duration_since(entry.fetched) > max_age {
            return None;
        }
        entry.used = now;
        Some(Arc::clone(&entry.served))
    }

    /// Caches a list. If the cache is full, the least recently used lists are evicted.
    pub(super) fn insert(&mut self, api_version: String, served: Arc<ServedResources>, now: Instant) {
        self.lists.insert(api_version, CachedList { served, fetched: now, used: now });
        while self.lists.len() > 1 && self.size() > MAX_CACHED {
            let oldest = self.lists.iter().min_by_key(|(name, entry)| (entry.used, *name));
            let Some(oldest) = oldest.map(|(api_version, _)| api_version.clone()) else { return };
            self.lists.remove(&oldest);
        }
    }

    pub(super) fn invalidate(&mut self, api_version: &str) {
        self.lists.remove(api_version);
    }

    pub(super) fn size(&self) -> usize {
        self.lists.values().map(|entry| entry.served.size().max(1)).sum()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn served(resources: &serde_json::Value) -> ServedResources {
        ServedResources::parse(json!({"resources": resources}).to_string().as_bytes(), "", "v1")
            .expect("a list")
    }

    #[test]
    fn an_entry_that_would_change_a_url_is_left_out() {
        let served = served(&json!([
            {"name": "pods", "kind": "Pod", "namespaced": true},
            {"name": "../secrets", "kind": "Odd", "namespaced": true},
            {"name": "odds?watch=true", "kind": "Odd", "namespaced": true},
            {"name": "odds", "kind": "Odd Kind", "namespaced": true},
        ]));
        assert_eq!(served.kinds(), ["Pod"]);
        assert_eq!(served.resource("Pod", Some("pods")), served.plural("pods"));
        assert_eq!(served.resource("Pod", Some("secrets")), None);
    }

    #[test]
    fn a_subresources_parent_is_found_by_its_own_type() {
        let served = served(&json!([
            {"name": "pods", "kind": "Pod", "namespaced": true},
            {"name": "pods/eviction", "kind": "Eviction", "group": "policy", "version": "v1", "namespaced": true},
            {"name": "pods/status", "kind": "Pod", "namespaced": true},
            {"name": "jobs", "kind": "Job", "namespaced": true},
            {"name": "jobs/scale", "kind": "Scale", "group": "autoscaling", "version": "v1", "namespaced": true},
            {"name": "pods/scale", "kind": "Scale", "group": "autoscaling", "version": "v1", "namespaced": true},
        ]));
        let parent = |api_version, kind, subresource| {
            let of = GroupVersionKind::parse(api_version, kind).expect("a type");
            served.parent(of, subresource).map(|parent| parent.plural.as_str())
        };
        assert_eq!(parent("policy/v1", "Eviction", "eviction"), Some("pods"));
        assert_eq!(parent("v1", "Pod", "status"), Some("pods"));
        assert_eq!(parent("policy/v1", "Eviction", "status"), None);
        assert_eq!(parent("autoscaling/v1", "Scale", "scale"), None, "two have it");
    }

    #[test]
    fn resource_lists_expire_and_are_evicted() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let list = |count: usize| {
            let resources: Vec<_> = (0..count)
                .map(|at| json!({"name": format!("r{at}"), "kind": format!("R{at}"), "namespaced": true}))
                .collect();
            Arc::new(served(&json!(resources)))
        };
        let mut cache = ListCache::default();
        cache.insert("v1".into(), list(1), start);
        let minute = Duration::from_secs(60);
        assert!(cache.get("v1", minute, after(60)).is_some());
        assert!(cache.get("v1", minute, after(61)).is_none());
        for at in 0..8 {
            cache.insert(format!("v{}", at + 2), list(4096), after(70 + at));
            // The list is used repeatedly, so others are evicted.
            assert!(cache.get("v2", minute, after(70 + at)).is_some());
        }
        assert!(cache.size() <= MAX_CACHED, "{}", cache.size());
        assert!(cache.get("v9", minute, after(80)).is_some());
        assert!(cache.get("v3", minute, after(80)).is_none());
        let too_many: Vec<_> =
            (0..5000).map(|at| json!({"name": format!("r{at}"), "kind": "R", "namespaced": true})).collect();
        let body = json!({"resources": too_many}).to_string();
        assert!(ServedResources::parse(body.as_bytes(), "", "v1").expect_err("too many").contains("4096"));
    }
}
