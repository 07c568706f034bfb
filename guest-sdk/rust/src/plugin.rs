//! The plugin's descriptor and its configuration.

use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::{DecodeError, Error, Resource, Watch, WatchRef};

/// The plugin's descriptor: what it watches, indexes and writes. The host reads it once per load.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plugin {
    #[serde(flatten)]
    header: Header,
    name: String,
    version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    summary: String,
    watches: Vec<Watch>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    writes: Vec<WriteRule>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    http: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    crds: Vec<Manifest>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stateful: bool,
    #[serde(skip_serializing_if = "Limits::is_empty")]
    limits: Limits,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    api_version: &'static str,
    kind: &'static str,
}

impl Plugin {
    /// A descriptor without watches. `name` should be the name of the .wasm file.
    #[must_use]
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            header: Header { api_version: "pilothouse.dev/v1alpha1", kind: "Plugin" },
            name: name.into(),
            version: version.into(),
            summary: String::new(),
            watches: Vec::new(),
            writes: Vec::new(),
            http: Vec::new(),
            crds: Vec::new(),
            stateful: false,
            limits: Limits::default(),
        }
    }

    /// Sets a one-sentence summary, which `pilothouse status` shows.
    #[must_use]
    pub fn summary(mut self, summary: impl Into<String>) -> Self {
        self.summary = summary.into();
        self
    }

    /// Adds a watch.
    #[must_use]
    pub fn watch(mut self, watch: Watch) -> Self {
        self.watches.push(watch);
        self
    }

    /// Adds a watch of objects that the plugin's main objects own: a change queues the controlling owner, an object of the most recently
    /// added target watch. `Plugin::owns` corresponds to `Controller::owns` of kube-rs and `Owns` of controller-runtime; it is short for
    /// `.watch(Watch::of(DEPLOYMENTS).triggers_owner(FOOS))`.
    ///
    /// # Panics
    /// When no target watch was added before (one with [`triggers_itself`](Watch::triggers_itself)).
    #[must_use]
    pub fn owns<K: Resource>(self, watch: WatchRef<K>) -> Self {
        let Some(owner) = self.watches.iter().rev().find(|watch| watch.is_target()) else {
            panic!("owns({watch}) needs an owner: add a watch with triggers_itself() before");
        };
        let owner = owner.name().to_owned();
        self.watch(Watch::of(watch).triggers_owner(owner))
    }

    /// Adds a rule for writes. The host rejects writes that no rule covers, or that the operator does not grant.
    #[must_use]
    pub fn writes(mut self, rule: WriteRule) -> Self {
        self.writes.push(rule);
        self
    }

    /// Adds a host to which the plugin sends HTTP requests with `wasi:http`: `api.example.com`, `*.example.com`, `http://10.0.0.7:8080`.
    /// The operator must grant the host too.
    #[must_use]
    pub fn http(mut self, host: impl Into<String>) -> Self {
        self.http.push(host.into());
        self
    }

    /// Adds a CustomResourceDefinition, which the host applies before it starts the watches: `Foo::crd()`.
    #[must_use]
    pub fn crd(mut self, definition: impl Serialize) -> Self {
        self.crds.push(Manifest(serde_json::to_value(definition).map_err(|error| error.to_string())));
        self
    }

    /// Runs all calls on a single instance with one worker, so that they share memory.
    #[must_use]
    pub fn stateful(mut self) -> Self {
        self.stateful = true;
        self
    }

    /// Requests limits other than the defaults; the operator's sidecar takes precedence.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}

/// A manifest, or why it could not be serialized. The error is reported when the whole descriptor is serialized, so that the builder's
/// methods need not return a `Result`.
#[derive(Clone, Debug)]
struct Manifest(Result<Value, String>);

impl Serialize for Manifest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Ok(value) => value.serialize(serializer),
            Err(error) => Err(serde::ser::Error::custom(error)),
        }
    }
}

/// A verb of a request to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read objects page by page.
    List,
    /// Create an object, or post to a subresource.
    Create,
    /// Replace an object.
    Update,
    /// Patch an object; also server-side apply.
    Patch,
    /// Delete an object.
    Delete,
}

impl AsRef<str> for Verb {
    /// The name in an RBAC rule, such as `create`.
    fn as_ref(&self) -> &str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }
}

/// A rule for requests that a plugin sends, with the fields of an RBAC PolicyRule plus namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteRule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    namespaces: Vec<String>,
}

impl WriteRule {
    /// Allows these verbs on a kind: `WriteRule::of::<Deployment>(&[Verb::Create, Verb::Update])`. The names of verbs as strings are
    /// accepted too, but misspelled ones are found only when the host loads the plugin.
    #[must_use]
    pub fn of<K: Resource>(verbs: &[impl AsRef<str>]) -> Self {
        Self::untyped(&K::group(&()), &K::plural(&()), verbs)
    }

    /// Allows `update` and `patch` on the status of a kind.
    #[must_use]
    pub fn status_of<K: Resource>() -> Self {
        Self::untyped(&K::group(&()), &format!("{}/status", K::plural(&())), &[Verb::Update, Verb::Patch])
    }

    /// Allows these verbs on a resource by its names: the API group ("" for the core group), and the plural name in URLs, with a
    /// subresource if any (`deployments`, `deployments/scale`).
    #[must_use]
    pub fn untyped(group: &str, resource: &str, verbs: &[impl AsRef<str>]) -> Self {
        Self {
            api_groups: vec![group.to_owned()],
            resources: vec![resource.to_owned()],
            verbs: verbs.iter().map(|verb| verb.as_ref().to_owned()).collect(),
            namespaces: Vec::new(),
        }
    }

    /// Applies the rule to a subresource instead of the object: `status`, `scale`, `eviction`.
    #[must_use]
    pub fn subresource(mut self, name: &str) -> Self {
        for resource in &mut self.resources {
            *resource = format!("{resource}/{name}");
        }
        self
    }

    /// Restricts the rule to these namespaces. The default is all namespaces.
    #[must_use]
    pub fn in_namespaces(mut self, namespaces: &[&str]) -> Self {
        self.namespaces = namespaces.iter().map(|namespace| (*namespace).to_owned()).collect();
        self
    }
}

/// The limits that a plugin requests. A limit that is not set keeps the host's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reconcile_timeout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    observe_timeout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    handles: Option<u32>,
}

impl Limits {
    /// The host's defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the memory of one instance, in MiB.
    #[must_use]
    pub fn memory_mebibytes(mut self, mebibytes: u32) -> Self {
        self.memory = Some(format!("{mebibytes}Mi"));
        self
    }

    /// Sets the time that one reconcile may take, including its requests.
    #[must_use]
    pub fn reconcile_timeout(mut self, timeout: std::time::Duration) -> Self {
        self.reconcile_timeout = Some(crate::watch::duration_text(timeout));
        self
    }

    /// Sets the time that one call of `observe` may take.
    #[must_use]
    pub fn observe_timeout(mut self, timeout: std::time::Duration) -> Self {
        self.observe_timeout = Some(crate::watch::duration_text(timeout));
        self
    }

    /// Sets the number of object handles that one instance may hold.
    #[must_use]
    pub fn handles(mut self, handles: u32) -> Self {
        self.handles = Some(handles);
        self
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The `config` of the plugin's sidecar.
#[derive(Clone, Debug, Default)]
pub struct Config(Value);

impl Config {
    /// Parses the JSON document that the host passes.
    pub(crate) fn parse(json: &str) -> Result<Self, Error> {
        let value = crate::object::decode(json, || "config".to_owned())?;
        Ok(Self(value))
    }

    /// Returns one top-level entry; `None` when it is missing or null.
    ///
    /// # Errors
    /// When the entry cannot be read as `T`.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, DecodeError> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => read(value, format!("config.{name}")).map(Some),
        }
    }

    /// Returns the whole configuration.
    ///
    /// # Errors
    /// When the configuration cannot be read as `T`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, DecodeError> {
        read(&self.0, "config".to_owned())
    }
}

fn read<T: DeserializeOwned>(value: &Value, what: String) -> Result<T, DecodeError> {
    T::deserialize(value).map_err(|source| DecodeError { what, as_type: std::any::type_name::<T>(), source })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_smallest_descriptor_has_no_optional_fields() {
        let plugin = Plugin::new("tiny", "0.1.0").watch(Watch::of::<ConfigMap>("configmaps"));
        assert_eq!(
            serde_json::to_value(plugin).unwrap(),
            json!({
                "apiVersion": "pilothouse.dev/v1alpha1",
                "kind": "Plugin",
                "name": "tiny",
                "version": "0.1.0",
                "watches": [{"name": "configmaps", "apiVersion": "v1", "kind": "ConfigMap"}],
            })
        );
    }

    #[test]
    fn every_option_is_serialized() {
        let limits = Limits::new()
            .memory_mebibytes(32)
            .reconcile_timeout(Duration::from_secs(10))
            .observe_timeout(Duration::from_millis(1500))
            .handles(500);
        let plugin = Plugin::new("full", "1.2.3")
            .summary("Sets every option")
            .writes(WriteRule::of::<Deployment>(&[Verb::Create, Verb::Patch]).in_namespaces(&["default"]))
            .writes(WriteRule::status_of::<Deployment>())
            .writes(WriteRule::untyped("", "pods/eviction", &["create"]))
            .http("api.example.com")
            .crd(json!({"kind": "CustomResourceDefinition"}))
            .stateful()
            .limits(limits);
        assert_eq!(
            serde_json::to_value(plugin).unwrap(),
            json!({
                "apiVersion": "pilothouse.dev/v1alpha1",
                "kind": "Plugin",
                "name": "full",
                "version": "1.2.3",
                "summary": "Sets every option",
                "watches": [],
                "writes": [
                    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["create", "patch"], "namespaces": ["default"]},
                    {"apiGroups": ["apps"], "resources": ["deployments/status"], "verbs": ["update", "patch"]},
                    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
                ],
                "http": ["api.example.com"],
                "crds": [{"kind": "CustomResourceDefinition"}],
                "stateful": true,
                "limits": {"memory": "32Mi", "reconcileTimeout": "10s", "observeTimeout": "1500ms", "handles": 500},
            })
        );
    }

    #[test]
    fn a_manifest_that_cannot_be_serialized_fails_the_descriptor() {
        let not_json = std::collections::BTreeMap::from([((1, 2), 3)]);
        let error = serde_json::to_string(&Plugin::new("bad", "1").crd(not_json)).unwrap_err();
        assert!(error.to_string().contains("key must be a string"), "{error}");
    }

    #[test]
    fn an_owned_watch_queues_the_owner_in_the_last_target_watch() {
        const MAPS: WatchRef<ConfigMap> = WatchRef::new("maps");
        const DEPLOYMENTS: WatchRef<Deployment> = WatchRef::new("deployments");
        let plugin = Plugin::new("owner", "1").watch(Watch::of(MAPS).triggers_itself()).owns(DEPLOYMENTS);
        let watches = serde_json::to_value(plugin).unwrap()["watches"].clone();
        assert_eq!(watches[1]["name"], json!("deployments"));
        assert_eq!(watches[1]["trigger"], json!({"owner": {"watch": "maps"}}));
    }

    #[test]
    #[should_panic(expected = "owns(maps) needs an owner")]
    fn an_owned_watch_without_a_target_watch_panics() {
        const MAPS: WatchRef<ConfigMap> = WatchRef::new("maps");
        let _ = Plugin::new("owner", "1").owns(MAPS);
    }

    #[test]
    fn config_entries_are_typed_and_null_counts_as_missing() {
        let config = Config::parse(r#"{"replicas": 3, "image": null}"#).unwrap();
        assert_eq!(config.get::<u32>("replicas").unwrap(), Some(3));
        assert_eq!(config.get::<String>("image").unwrap(), None);
        assert_eq!(config.get::<String>("missing").unwrap(), None);
        let error = config.get::<String>("replicas").unwrap_err().to_string();
        assert!(error.starts_with("config.replicas cannot be read as"), "{error}");
    }
}
