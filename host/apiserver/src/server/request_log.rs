//! Counts of requests by verb and resource.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde::Serialize;

use crate::request::{ObjectPath, Verb};

/// Counts how often each verb was used on each resource, for tests that check what a client requests.
#[derive(Debug, Default)]
pub struct RequestLog {
    counts: Mutex<BTreeMap<Key, u64>>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    verb: Verb,
    resource: String,
    namespace: String,
}

/// The number of requests with one verb for one resource in one namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RequestCount {
    /// The verb: `get`, `list`, `watch`, ….
    pub verb: &'static str,
    /// `v1/pods`, `apps/v1/deployments`, `apps/v1/deployments/scale`.
    pub resource: String,
    /// The namespace; empty for requests across namespaces and for cluster-scoped resources.
    pub namespace: String,
    /// The number of requests, including failed ones.
    pub count: u64,
}

impl RequestLog {
    pub(crate) fn record(&self, verb: Verb, path: &ObjectPath) {
        let mut resource = String::new();
        for part in [&path.group, &path.version, &path.plural] {
            if !part.is_empty() {
                resource.push_str(if resource.is_empty() { "" } else { "/" });
                resource.push_str(part);
            }
        }
        if let Some(subresource) = &path.subresource {
            resource.push('/');
            resource.push_str(subresource);
        }
        let key = Key { verb, resource, namespace: path.namespace.clone().unwrap_or_default() };
        *self.counts.lock().entry(key).or_default() += 1;
    }

    /// Returns the number of requests with this verb for a resource, over all namespaces. `resource` has the form
    /// `v1/pods`, `apps/v1/deployments` or `apps/v1/deployments/scale`.
    #[must_use]
    pub fn count(&self, verb: Verb, resource: &str) -> u64 {
        let counts = self.counts.lock();
        counts
            .iter()
            .filter(|(key, _)| key.verb == verb && key.resource == resource)
            .map(|(_, count)| count)
            .sum()
    }

    /// Returns all counts, sorted by verb, resource and namespace.
    #[must_use]
    pub fn counts(&self) -> Vec<RequestCount> {
        let counts = self.counts.lock();
        counts
            .iter()
            .map(|(key, count)| RequestCount {
                verb: key.verb.as_str(),
                resource: key.resource.clone(),
                namespace: key.namespace.clone(),
                count: *count,
            })
            .collect()
    }

    /// Sets all counts to 0.
    pub fn reset(&self) {
        self.counts.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_verb_and_resource() {
        let log = RequestLog::default();
        let path = |namespace: Option<&str>| ObjectPath {
            version: "v1".into(),
            plural: "pods".into(),
            namespace: namespace.map(str::to_owned),
            ..ObjectPath::default()
        };
        log.record(Verb::Watch, &path(None));
        log.record(Verb::Watch, &path(Some("a")));
        log.record(Verb::List, &path(None));
        assert_eq!((log.count(Verb::Watch, "v1/pods"), log.count(Verb::List, "v1/pods")), (2, 1));
        assert_eq!(log.counts().len(), 3);
        log.reset();
        assert_eq!(log.count(Verb::Watch, "v1/pods"), 0);
    }
}
