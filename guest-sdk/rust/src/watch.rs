//! Declaring watches: which objects the host caches, and which work their changes queue.

use std::borrow::Cow;
use std::time::Duration;

use serde::Serialize;

use crate::reconciler::milliseconds;
use crate::{ObjectType, Resource, WatchName};

/// A kind of object to watch, and the work that its changes queue.
///
/// Without one of the `triggers_…` methods the objects are only cached. Work always is for an object of a *target watch*, that is, a
/// watch with [`triggers_itself`](Self::triggers_itself). Arguments named `watch` are a [`WatchRef`](crate::WatchRef) or a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Watch {
    name: String,
    #[serde(flatten)]
    object_type: Type,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    namespaces: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label_selector: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    field_selector: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    projection: Option<Projection>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger: Option<Trigger>,
    #[serde(skip_serializing_if = "Option::is_none")]
    predicate: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    notify: bool,
    /// Milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    resync: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    indexes: Vec<Index>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Type {
    api_version: String,
    kind: String,
}

/// How much of each object the host caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Projection {
    /// The whole object.
    Full,
    /// `apiVersion`, `kind` and `metadata`.
    Metadata,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Trigger {
    #[serde(rename = "self")]
    Itself,
    Owner {
        watch: String,
    },
    OwnerAny {
        watch: String,
    },
    Label {
        key: String,
        watch: String,
    },
    Field {
        path: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace_path: Option<String>,
        watch: String,
    },
    Index {
        watch: String,
        index: String,
    },
    Namespace {
        watch: String,
    },
}

/// An index over the objects of a watch, for lookups by `cache.by_index(name, value)`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    name: String,
    #[serde(flatten)]
    source: IndexSource,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum IndexSource {
    Label(String),
    Annotation(String),
    Field(String),
    Owner(bool),
    Computed(bool),
}

impl Index {
    /// Indexes objects by the value of a label.
    #[must_use]
    pub fn by_label(name: impl Into<String>, key: impl Into<String>) -> Self {
        Self { name: name.into(), source: IndexSource::Label(key.into()) }
    }

    /// Indexes objects by the value of an annotation.
    #[must_use]
    pub fn by_annotation(name: impl Into<String>, key: impl Into<String>) -> Self {
        Self { name: name.into(), source: IndexSource::Annotation(key.into()) }
    }

    /// Indexes objects by a field, given as JSONPath: `{.spec.containers[*].image}`. An object with several values is listed under each.
    #[must_use]
    pub fn by_field(name: impl Into<String>, path: impl Into<String>) -> Self {
        Self { name: name.into(), source: IndexSource::Field(path.into()) }
    }

    /// Indexes objects by the UIDs of their owners.
    #[must_use]
    pub fn by_owner(name: impl Into<String>) -> Self {
        Self { name: name.into(), source: IndexSource::Owner(true) }
    }

    /// Indexes objects by values that the plugin computes as an [`Indexer`](crate::Indexer).
    #[must_use]
    pub fn computed(name: impl Into<String>) -> Self {
        Self { name: name.into(), source: IndexSource::Computed(true) }
    }
}

impl Watch {
    /// Watches a kind by its Rust type, in all namespaces: `Watch::of(FOOS)` with a [`WatchRef`](crate::WatchRef), or
    /// `Watch::of::<Foo>(name)`.
    #[must_use]
    pub fn of<'n, K: Resource>(watch: impl WatchName<'n, K>) -> Self {
        let name: Cow<'n, str> = watch.into();
        Self::untyped(name, ObjectType::of::<K>())
    }

    /// Watches a kind by its names, in all namespaces; the host finds its URL by discovery.
    #[must_use]
    pub fn untyped(name: impl Into<String>, object_type: ObjectType) -> Self {
        let ObjectType { api_version, kind } = object_type;
        Self {
            name: name.into(),
            object_type: Type { api_version, kind },
            resource: None,
            namespaces: Vec::new(),
            label_selector: None,
            field_selector: None,
            projection: None,
            trigger: None,
            predicate: None,
            notify: false,
            resync: None,
            indexes: Vec::new(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether this is a target watch, whose changes queue the changed object itself.
    pub(crate) fn is_target(&self) -> bool {
        self.trigger == Some(Trigger::Itself)
    }

    /// Sets the plural name in URLs, which is needed where several resources have the kind. By default the host finds it by discovery.
    #[must_use]
    pub fn resource(mut self, plural: impl Into<String>) -> Self {
        self.resource = Some(plural.into());
        self
    }

    /// Restricts the watch to these namespaces.
    #[must_use]
    pub fn namespaces(mut self, namespaces: &[&str]) -> Self {
        self.namespaces = namespaces.iter().map(|namespace| (*namespace).to_owned()).collect();
        self
    }

    /// Restricts the watch to objects that match a label selector in kubectl's syntax.
    #[must_use]
    pub fn label_selector(mut self, selector: impl Into<String>) -> Self {
        self.label_selector = Some(selector.into());
        self
    }

    /// Restricts the watch to objects that match a field selector in kubectl's syntax. The server decides which fields it supports.
    #[must_use]
    pub fn field_selector(mut self, selector: impl Into<String>) -> Self {
        self.field_selector = Some(selector.into());
        self
    }

    /// Caches only `apiVersion`, `kind` and `metadata`.
    #[must_use]
    pub fn metadata_only(mut self) -> Self {
        self.projection = Some(Projection::Metadata);
        self
    }

    /// A change queues the object itself, which makes this a target watch.
    #[must_use]
    pub fn triggers_itself(mut self) -> Self {
        self.trigger = Some(Trigger::Itself);
        self
    }

    /// A change queues the controlling owner, an object of the target watch `watch`. [`Plugin::owns`](crate::Plugin::owns) is shorter.
    #[must_use]
    pub fn triggers_owner(mut self, watch: impl Into<String>) -> Self {
        self.trigger = Some(Trigger::Owner { watch: watch.into() });
        self
    }

    /// A change queues every owner that is an object of the target watch `watch`.
    #[must_use]
    pub fn triggers_every_owner(mut self, watch: impl Into<String>) -> Self {
        self.trigger = Some(Trigger::OwnerAny { watch: watch.into() });
        self
    }

    /// A change queues the object of `watch` that the label's value names, in the same namespace.
    #[must_use]
    pub fn triggers_label(mut self, key: impl Into<String>, watch: impl Into<String>) -> Self {
        self.trigger = Some(Trigger::Label { key: key.into(), watch: watch.into() });
        self
    }

    /// A change queues the objects of `watch` that the field's values name, in the same namespace. `path` is a JSONPath.
    #[must_use]
    pub fn triggers_field(mut self, path: impl Into<String>, watch: impl Into<String>) -> Self {
        self.trigger = Some(Trigger::Field { path: path.into(), namespace_path: None, watch: watch.into() });
        self
    }

    /// Like [`triggers_field`](Self::triggers_field), with the namespace in another field.
    #[must_use]
    pub fn triggers_namespaced_field(
        mut self,
        path: impl Into<String>,
        namespace_path: impl Into<String>,
        watch: impl Into<String>,
    ) -> Self {
        let namespace_path = Some(namespace_path.into());
        self.trigger = Some(Trigger::Field { path: path.into(), namespace_path, watch: watch.into() });
        self
    }

    /// A change queues every object of `watch` that has this object's key as a value of `index`: for a Secret, the Ingresses that use
    /// it.
    #[must_use]
    pub fn triggers_index(mut self, watch: impl Into<String>, index: impl Into<String>) -> Self {
        self.trigger = Some(Trigger::Index { watch: watch.into(), index: index.into() });
        self
    }

    /// A change queues every object of `watch` in this object's namespace; a change of a Namespace, every one in that namespace.
    #[must_use]
    pub fn triggers_namespace(mut self, watch: impl Into<String>) -> Self {
        self.trigger = Some(Trigger::Namespace { watch: watch.into() });
        self
    }

    /// Ignores changes for which this CEL expression over `object`, `old` and `event` is false:
    /// `generationChanged() || labelsChanged()`.
    #[must_use]
    pub fn predicate(mut self, cel: impl Into<String>) -> Self {
        self.predicate = Some(cel.into());
        self
    }

    /// Delivers every change to the plugin's [`Observer`](crate::Observer).
    #[must_use]
    pub fn notify(mut self) -> Self {
        self.notify = true;
        self
    }

    /// Queues every object again at this interval, whether it changed or not. By default there is no resync.
    #[must_use]
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(milliseconds(period));
        self
    }

    /// Adds an index.
    #[must_use]
    pub fn index(mut self, index: Index) -> Self {
        self.indexes.push(index);
        self
    }
}

/// Formats a duration as Kubernetes does (Go's `time.Duration`): `10s`, `1500ms`. Rounds up to milliseconds.
pub(crate) fn duration_text(duration: Duration) -> String {
    if duration.subsec_nanos() == 0 {
        format!("{}s", duration.as_secs())
    } else {
        format!("{}ms", duration.as_nanos().div_ceil(1_000_000))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{Pod, Secret};
    use serde_json::{Value, json};

    use super::*;

    fn serialized(watch: Watch) -> Value {
        serde_json::to_value(watch).unwrap()
    }

    fn trigger(watch: Watch) -> Value {
        serialized(watch)["trigger"].clone()
    }

    #[test]
    fn a_typed_watch_has_a_kind_and_only_on_request_a_resource() {
        assert_eq!(
            serialized(Watch::of::<Deployment>("deployments")),
            json!({"name": "deployments", "apiVersion": "apps/v1", "kind": "Deployment"})
        );
        let watch = Watch::untyped("scales", ObjectType::new("example.com/v1", "Scale")).resource("scales");
        assert_eq!(serialized(watch)["resource"], json!("scales"));
    }

    #[test]
    fn every_restriction_of_a_watch_is_serialized() {
        let watch = Watch::untyped("pods", ObjectType::new("v1", "Pod"))
            .namespaces(&["default", "kube-system"])
            .label_selector("app=web")
            .field_selector("spec.nodeName=node-1")
            .metadata_only()
            .predicate("generationChanged()")
            .notify()
            .resync(Duration::from_secs(600));
        assert_eq!(
            serialized(watch),
            json!({
                "name": "pods",
                "apiVersion": "v1",
                "kind": "Pod",
                "namespaces": ["default", "kube-system"],
                "labelSelector": "app=web",
                "fieldSelector": "spec.nodeName=node-1",
                "projection": "metadata",
                "predicate": "generationChanged()",
                "notify": true,
                "resync": 600_000,
            })
        );
    }

    #[test]
    fn triggers_are_serialized_as_in_the_schema() {
        let watch = || Watch::of::<Secret>("secrets");
        assert_eq!(trigger(watch()), Value::Null);
        assert_eq!(trigger(watch().triggers_itself()), json!("self"));
        assert_eq!(trigger(watch().triggers_owner("foos")), json!({"owner": {"watch": "foos"}}));
        assert_eq!(trigger(watch().triggers_every_owner("foos")), json!({"ownerAny": {"watch": "foos"}}));
        assert_eq!(
            trigger(watch().triggers_label("app", "foos")),
            json!({"label": {"key": "app", "watch": "foos"}})
        );
        assert_eq!(
            trigger(watch().triggers_field("{.spec.foo}", "foos")),
            json!({"field": {"path": "{.spec.foo}", "watch": "foos"}})
        );
        assert_eq!(
            trigger(watch().triggers_namespaced_field("{.spec.foo}", "{.spec.namespace}", "foos")),
            json!({"field": {"path": "{.spec.foo}", "namespacePath": "{.spec.namespace}", "watch": "foos"}})
        );
        assert_eq!(
            trigger(watch().triggers_index("ingresses", "bySecret")),
            json!({"index": {"watch": "ingresses", "index": "bySecret"}})
        );
        assert_eq!(trigger(watch().triggers_namespace("foos")), json!({"namespace": {"watch": "foos"}}));
    }

    #[test]
    fn indexes_are_serialized_as_in_the_schema() {
        let watch = Watch::of::<Pod>("pods")
            .index(Index::by_label("byApp", "app"))
            .index(Index::by_annotation("byTeam", "example.com/team"))
            .index(Index::by_field("byImage", "{.spec.containers[*].image}"))
            .index(Index::by_owner("byOwner"))
            .index(Index::computed("byPhase"));
        assert_eq!(
            serialized(watch)["indexes"],
            json!([
                {"name": "byApp", "label": "app"},
                {"name": "byTeam", "annotation": "example.com/team"},
                {"name": "byImage", "field": "{.spec.containers[*].image}"},
                {"name": "byOwner", "owner": true},
                {"name": "byPhase", "computed": true},
            ])
        );
    }

    #[test]
    fn durations_are_formatted_as_in_kubernetes() {
        assert_eq!(duration_text(Duration::from_secs(90)), "90s");
        assert_eq!(duration_text(Duration::from_millis(1500)), "1500ms");
        assert_eq!(duration_text(Duration::from_micros(1)), "1ms");
    }
}
