use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::{DecodeError, Error, Resource, Watch};

/// What a plugin watches, indexes and writes: the document that the host reads once per load.
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
    /// A plugin; the name should be that of its .wasm file.
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

    /// One sentence for `pilothouse status`.
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

    /// Adds a kind of write. What is not listed here, or not granted by the operator, is refused by the host.
    #[must_use]
    pub fn writes(mut self, rule: WriteRule) -> Self {
        self.writes.push(rule);
        self
    }

    /// Adds a host to which the plugin sends HTTP requests by `wasi:http`: `api.example.com`, `*.example.com`, `http://10.0.0.7:8080`. Only
    /// what the operator grants, too, is reached.
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

    /// Puts everything on one instance with one worker, so that memory is shared between calls.
    #[must_use]
    pub fn stateful(mut self) -> Self {
        self.stateful = true;
        self
    }

    /// Wishes for limits; the operator decides.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}

/// A manifest, or why it could not be made: told when the whole document is written, so that the builder stays free of
/// results.
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

/// Writes that a plugin will make: an RBAC PolicyRule, with namespaces.
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
    /// These verbs (`create`, `update`, `patch`, `delete`, `get`, `list`) on a kind.
    #[must_use]
    pub fn of<K: Resource>(verbs: &[&str]) -> Self {
        Self::untyped(&K::group(&()), &K::plural(&()), verbs)
    }

    /// `update` and `patch` on the status of a kind.
    #[must_use]
    pub fn status_of<K: Resource>() -> Self {
        Self::untyped(&K::group(&()), &format!("{}/status", K::plural(&())), &["update", "patch"])
    }

    /// The same by names: a group ("" for core), a resource in URLs (`deployments`, `deployments/scale`), verbs.
    #[must_use]
    pub fn untyped(group: &str, resource: &str, verbs: &[&str]) -> Self {
        Self {
            api_groups: vec![group.to_owned()],
            resources: vec![resource.to_owned()],
            verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
            namespaces: Vec::new(),
        }
    }

    /// A subresource of the kind in its place: `status`, `scale`, `eviction`.
    #[must_use]
    pub fn subresource(mut self, name: &str) -> Self {
        for resource in &mut self.resources {
            *resource = format!("{resource}/{name}");
        }
        self
    }

    /// Only in these namespaces; without a call, in all.
    #[must_use]
    pub fn in_namespaces(mut self, namespaces: &[&str]) -> Self {
        self.namespaces = namespaces.iter().map(|namespace| (*namespace).to_owned()).collect();
        self
    }
}

/// Limits that a plugin wishes for. What is not set keeps the host's default.
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
    /// Nothing but the host's defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Memory of one instance, in MiB.
    #[must_use]
    pub fn memory_mebibytes(mut self, mebibytes: u32) -> Self {
        self.memory = Some(format!("{mebibytes}Mi"));
        self
    }

    /// How long one reconcile may take, its requests included.
    #[must_use]
    pub fn reconcile_timeout(mut self, timeout: std::time::Duration) -> Self {
        self.reconcile_timeout = Some(crate::watch::duration_text(timeout));
        self
    }

    /// How long one call of `observe` may take.
    #[must_use]
    pub fn observe_timeout(mut self, timeout: std::time::Duration) -> Self {
        self.observe_timeout = Some(crate::watch::duration_text(timeout));
        self
    }

    /// How many object handles one instance may hold.
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
    /// Reads the JSON document that the host gives.
    pub(crate) fn parse(json: &str) -> Result<Self, Error> {
        let value = crate::object::decode(json, || "config".to_owned())?;
        Ok(Self(value))
    }

    /// One entry at the top; `None` when it is absent or null.
    ///
    /// # Errors
    /// When it is of another type.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, DecodeError> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => read(value, format!("config.{name}")).map(Some),
        }
    }

    /// All of it.
    ///
    /// # Errors
    /// When it is of another shape.
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
    fn the_smallest_plugin_has_only_what_was_said() {
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
    fn everything_that_can_be_said_is_written() {
        let limits = Limits::new()
            .memory_mebibytes(32)
            .reconcile_timeout(Duration::from_secs(10))
            .observe_timeout(Duration::from_millis(1500))
            .handles(500);
        let plugin = Plugin::new("full", "1.2.3")
            .summary("Says all")
            .writes(WriteRule::of::<Deployment>(&["create", "patch"]).in_namespaces(&["default"]))
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
                "summary": "Says all",
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
    fn a_manifest_that_is_no_json_refuses_the_document() {
        let not_json = std::collections::BTreeMap::from([((1, 2), 3)]);
        let error = serde_json::to_string(&Plugin::new("bad", "1").crd(not_json)).unwrap_err();
        assert!(error.to_string().contains("key must be a string"), "{error}");
    }

    #[test]
    fn config_entries_are_read_by_type_and_null_is_absent() {
        let config = Config::parse(r#"{"replicas": 3, "image": null}"#).unwrap();
        assert_eq!(config.get::<u32>("replicas").unwrap(), Some(3));
        assert_eq!(config.get::<String>("image").unwrap(), None);
        assert_eq!(config.get::<String>("missing").unwrap(), None);
        let error = config.get::<String>("replicas").unwrap_err().to_string();
        assert!(error.starts_with("config.replicas cannot be read as"), "{error}");
    }
}
