//! The URLs of a run's objects.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::analysis::RunView;

/// Where a resource is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Served {
    /// The path before the namespace: `/apis/apps/v1`.
    prefix: String,
    /// The plural name.
    plural: String,
    /// Whether its objects are in namespaces.
    namespaced: bool,
}

/// The resources of a run, as `plural.group`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(super) struct Paths(BTreeMap<String, Served>);

impl Paths {
    /// Collects the resources whose objects occur in a run.
    pub(super) fn of(view: &RunView<'_>) -> Self {
        let mut paths = Self::default();
        for (_, _, request) in view.requests() {
            for object in [&request.before, &request.after].into_iter().flatten() {
                paths.add(&request.resource, &request.namespace, object);
            }
        }
        for stored in &view.run.objects {
            paths.add(&stored.resource, &stored.namespace, &stored.object);
        }
        paths
    }

    fn add(&mut self, resource: &str, namespace: &str, object: &Value) {
        let Some(version) = object["apiVersion"].as_str() else { return };
        let prefix =
            if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
        let plural = resource.split('.').next().unwrap_or_default().to_owned();
        let served = Served { prefix, plural, namespaced: !namespace.is_empty() };
        self.0.entry(resource.to_owned()).or_insert(served);
    }

    /// Keeps only the resources that `is_needed` accepts.
    pub(super) fn retain(&mut self, is_needed: impl Fn(&str) -> bool) {
        self.0.retain(|resource, _| is_needed(resource));
    }

    /// Returns the path of a collection, or of an object if `name` is not "".
    pub(super) fn path(&self, resource: &str, namespace: &str, name: &str) -> Option<String> {
        let Served { prefix, plural, .. } = self.0.get(resource)?;
        let namespace = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
        let name = if name.is_empty() { String::new() } else { format!("/{name}") };
        Some(format!("{prefix}{namespace}/{plural}{name}"))
    }
}
