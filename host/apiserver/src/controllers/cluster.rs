//! What controllers read: the objects of the simulated cluster, and its time.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::kind::Kind;
use crate::clock;
use crate::registry::{Endpoint, Registry};
use crate::state::State;
use crate::storage::StoredObject;

/// The number of Pods above which controllers create no more. It bounds the memory and the work that one
/// `spec.replicas` can cause.
pub(super) const MAX_PODS: usize = 10_000;

/// The current objects and time.
pub(super) struct Cluster<'a> {
    pub(super) state: &'a State,
    registry: Arc<Registry>,
    pub(super) now: Timestamp,
}

impl<'a> Cluster<'a> {
    pub(super) fn new(state: &'a State) -> Self {
        Self { registry: state.registry(), now: state.clock.now(), state }
    }

    /// Returns the endpoint of a kind.
    pub(super) fn endpoint(&self, kind: Kind) -> Option<&Arc<Endpoint>> {
        let (group, version, plural) = kind.resource();
        self.registry.endpoint(group, version, plural)
    }

    /// Returns the endpoint of a kind of a group that an autoscaler names. A custom resource is served as it is stored, if that is possible.
    pub(super) fn scalable_endpoint(&self, group: &str, kind: &str) -> Option<Arc<Endpoint>> {
        let is_named = |endpoint: &&Arc<Endpoint>| endpoint.group == group && endpoint.kind() == kind;
        let found = self.registry.endpoints().find(is_named)?;
        let stored = found.resource.custom.as_ref().and_then(|custom| {
            let (group, version) = custom.storage_version.split_once('/')?;
            self.registry.endpoint(group, version, &found.resource.names.plural)
        });
        Some(Arc::clone(stored.unwrap_or(found)))
    }

    /// Returns an object with `apiVersion` and `kind`. `namespace` is "" for a cluster-scoped one.
    pub(super) fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<Value> {
        let endpoint = self.endpoint(kind)?;
        let stored = endpoint.resource.table.get(namespace, name)?;
        Some(endpoint.served_value(&stored))
    }

    /// Returns the objects of a kind, in one namespace or all.
    pub(super) fn list(&self, kind: Kind, namespace: Option<&str>) -> Vec<Arc<StoredObject>> {
        self.endpoint(kind).map(|endpoint| endpoint.resource.table.list(namespace).0).unwrap_or_default()
    }

    /// Returns the objects of a kind in a namespace that meet a condition.
    pub(super) fn select(
        &self,
        kind: Kind,
        namespace: &str,
        is_selected: impl Fn(&StoredObject) -> bool,
    ) -> Vec<Arc<StoredObject>> {
        let select = |endpoint: &Arc<Endpoint>| endpoint.resource.table.select(Some(namespace), is_selected);
        self.endpoint(kind).map(select).unwrap_or_default()
    }

    /// Returns the objects of a kind in a namespace that the object with this UID controls.
    pub(super) fn controlled_by(&self, kind: Kind, namespace: &str, uid: &str) -> Vec<Value> {
        let is_controlled =
            |object: &StoredObject| object.owners.iter().any(|owner| owner.controller && &*owner.uid == uid);
        self.select(kind, namespace, is_controlled).iter().map(|object| object.value()).collect()
    }

    /// Returns how many more Pods controllers may create.
    pub(super) fn pod_allowance(&self) -> usize {
        let count = self.endpoint(Kind::Pod).map_or(0, |pods| pods.resource.table.count(None));
        MAX_PODS.saturating_sub(count)
    }

    /// Returns the current time in the format of `metav1.Time`.
    pub(super) fn now_text(&self) -> String {
        clock::rfc3339_seconds(self.now)
    }
}
