//! Values for fields that were left out: `default` in the schema of a custom resource, Kubernetes' own for built-in
//! kinds.

use std::collections::HashMap;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::node::{Node, SchemaRef};
use super::{Schema, quantity};

/// The type whose values have a canonical form.
pub(super) const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";

impl Schema {
    /// Fills in what `object` leaves out, and writes the quantities of built-in kinds in their canonical form. Applying
    /// it again changes nothing.
    pub fn apply_defaults(&self, object: &mut Value) {
        if self.is_built_in() {
            quantities(object, self.root());
            built_in(object, self.root());
        } else {
            structural(object, self.root());
        }
    }
}

impl Schema {
    /// Writes the quantities of a built-in kind in their canonical form, without defaulting anything: an applied
    /// configuration must not own what it does not say.
    pub(crate) fn canonicalize(&self, object: &mut Value) {
        if self.is_built_in() {
            quantities(object, self.root());
        }
    }
}

fn quantities(value: &mut Value, schema: SchemaRef<'_>) {
    if schema.node().definition.as_deref() == Some(QUANTITY) {
        if let Some(canonical) = quantity::canonical(value) {
            *value = canonical.into();
        }
        return;
    }
    match value {
        Value::Object(object) => {
            for (name, child) in object.iter_mut() {
                if let Some(of_child) = schema.field(name) {
                    quantities(child, of_child);
                }
            }
        }
        Value::Array(items) => {
            let Some(of_items) = schema.items() else { return };
            items.iter_mut().for_each(|item| quantities(item, of_items));
        }
        _ => {}
    }
}

/// Defaulting of custom resources, as `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting` does it: a
/// `null` that the schema does not allow counts as absent.
fn structural(value: &mut Value, schema: SchemaRef<'_>) {
    match value {
        Value::Object(object) => {
            for (name, property) in &schema.node().properties {
                let node = schema.at(property.node).node();
                let absent = object.get(name).is_none_or(|value| value.is_null() && !node.nullable);
                match &node.default {
                    Some(default) if absent => drop(object.insert(name.clone(), default.clone())),
                    None if absent && !keeps_null(node) => drop(object.remove(name)),
                    _ => {}
                }
            }
            for (name, child) in object.iter_mut() {
                let Some(of_child) = schema.field(name) else { continue };
                replace_null(child, of_child.node());
                structural(child, of_child);
            }
        }
        Value::Array(items) => {
            let Some(of_items) = schema.items() else { return };
            for item in items {
                replace_null(item, of_items.node());
                structural(item, of_items);
            }
        }
        _ => {}
    }
}

fn keeps_null(node: &Node) -> bool {
    node.nullable || node.preserve_unknown
}

fn replace_null(value: &mut Value, node: &Node) {
    if value.is_null()
        && !node.nullable
        && let Some(default) = &node.default
    {
        *value = default.clone();
    }
}

fn built_in(value: &mut Value, schema: SchemaRef<'_>) {
    match value {
        Value::Object(object) => {
            if let Some(definition) = &schema.node().definition {
                fill(definition, object);
            }
            for (name, child) in object.iter_mut() {
                if let Some(of_child) = schema.field(name) {
                    built_in(child, of_child);
                }
            }
        }
        Value::Array(items) => {
            let Some(of_items) = schema.items() else { return };
            items.iter_mut().for_each(|item| built_in(item, of_items));
        }
        _ => {}
    }
}

fn fill(definition: &str, object: &mut Map<String, Value>) {
    conditional(definition, object);
    for (name, default) in table().get(definition).into_iter().flatten() {
        if object.get(*name).is_none_or(Value::is_null) {
            object.insert((*name).to_owned(), default.clone());
        }
    }
}

/// The default of the field `name` of such an object, where it does not depend on other fields: keys of list items may
/// be left out if they have one.
pub(crate) fn default_of(schema: SchemaRef<'_>, name: &str) -> Option<Value> {
    let node = schema.node();
    if let Some(definition) = &node.definition {
        let fields = table().get(definition.as_str())?;
        return fields.iter().find(|(field, _)| *field == name).map(|(_, default)| default.clone());
    }
    schema.field(name)?.node().default.clone()
}

fn table() -> &'static HashMap<&'static str, Vec<(&'static str, Value)>> {
    static TABLE: OnceLock<HashMap<&'static str, Vec<(&'static str, Value)>>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table: HashMap<_, Vec<_>> = HashMap::new();
        for line in include_str!("defaults.txt").lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.splitn(3, ' ');
            if let (Some(definition), Some(name), Some(text)) = (words.next(), words.next(), words.next()) {
                let default = serde_json::from_str(text).expect("defaults.txt holds JSON");
                table.entry(definition).or_default().push((name, default));
            }
        }
        table
    })
}

/// Defaults that depend on other fields. They run before the table's.
fn conditional(definition: &str, object: &mut Map<String, Value>) {
    match definition {
        "io.k8s.api.core.v1.Container" | "io.k8s.api.core.v1.EphemeralContainer" => {
            let image = object.get("image").and_then(Value::as_str).unwrap_or_default();
            let policy = if is_latest(image) { "Always" } else { "IfNotPresent" };
            absent(object, "imagePullPolicy", || policy.into());
        }
        "io.k8s.api.core.v1.Pod" => requests_from_limits(object),
        "io.k8s.api.core.v1.PodSpec" => pod_spec(object),
        "io.k8s.api.core.v1.Volume" if object.keys().all(|name| name == "name") => {
            object.insert("emptyDir".into(), json!({}));
        }
        "io.k8s.api.core.v1.ServiceSpec" => service(object),
        "io.k8s.api.core.v1.ServicePort" => {
            if let Some(port) = object.get("port").cloned() {
                absent(object, "targetPort", || port);
            }
        }
        "io.k8s.api.core.v1.Secret" => string_data(object),
        "io.k8s.api.apps.v1.DeploymentStrategy" => {
            rolling(object, || json!({"maxSurge": "25%", "maxUnavailable": "25%"}));
        }
        "io.k8s.api.apps.v1.DaemonSetUpdateStrategy" => {
            rolling(object, || json!({"maxSurge": 0, "maxUnavailable": 1}));
        }
        "io.k8s.api.apps.v1.StatefulSetUpdateStrategy" => rolling(object, || json!({"partition": 0})),
        "io.k8s.api.batch.v1.JobSpec" if !object.contains_key("parallelism") => {
            absent(object, "completions", || 1.into());
        }
        "io.k8s.api.networking.v1.NetworkPolicySpec" => {
            let egress = object.contains_key("egress");
            absent(object, "policyTypes", || {
                if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) }
            });
        }
        "io.k8s.api.rbac.v1.RoleRef"
            if object.get("apiGroup").and_then(Value::as_str).is_none_or(str::is_empty) =>
        {
            object.insert("apiGroup".into(), "rbac.authorization.k8s.io".into());
        }
        "io.k8s.api.rbac.v1.Subject" => {
            let group = match object.get("kind").and_then(Value::as_str) {
                Some("User" | "Group") => "rbac.authorization.k8s.io",
                _ => return,
            };
            absent(object, "apiGroup", || group.into());
        }
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionNames" => {
            let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
            absent(object, "singular", || kind.to_lowercase().into());
            absent(object, "listKind", || format!("{kind}List").into());
        }
        _ => {}
    }
}

fn absent(object: &mut Map<String, Value>, name: &str, default: impl FnOnce() -> Value) {
    if object.get(name).is_none_or(Value::is_null) {
        object.insert(name.to_owned(), default());
    }
}

/// Sets `rollingUpdate` for the strategy of that name, which is the default one, and its parts that are absent.
fn rolling(object: &mut Map<String, Value>, defaults: impl FnOnce() -> Value) {
    if object.get("type").and_then(Value::as_str).is_some_and(|kind| kind != "RollingUpdate") {
        return;
    }
    absent(object, "rollingUpdate", || json!({}));
    if let (Some(Value::Object(present)), Value::Object(defaults)) =
        (object.get_mut("rollingUpdate"), defaults())
    {
        for (name, value) in defaults {
            present.entry(name).or_insert(value);
        }
    }
}

/// Whether an image's tag is `latest`, written or implied.
fn is_latest(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let last = image.rsplit('/').next().unwrap_or(image);
    last.rsplit_once(':').is_none_or(|(_, tag)| tag == "latest")
}

/// On the host's network, the host's ports are those of the containers; the two names of the service account agree.
fn pod_spec(spec: &mut Map<String, Value>) {
    for (from, to) in [("serviceAccountName", "serviceAccount"), ("serviceAccount", "serviceAccountName")] {
        if let Some(name) =
            spec.get(from).filter(|name| name.as_str().is_some_and(|name| !name.is_empty())).cloned()
        {
            absent(spec, to, || name);
        }
    }
    if spec.get("hostNetwork").and_then(Value::as_bool) != Some(true) {
        return;
    }
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for port in containers.filter_map(|one| one.get_mut("ports")?.as_array_mut()).flatten() {
            if let (Some(number), Some(port)) = (port.get("containerPort").cloned(), port.as_object_mut()) {
                absent(port, "hostPort", || number);
            }
        }
    }
}

/// A pod's container requests what it is limited to, where it says nothing else.
fn requests_from_limits(pod: &mut Map<String, Value>) {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    absent(spec, "enableServiceLinks", || true.into());
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for resources in containers.filter_map(|container| container.get_mut("resources")?.as_object_mut()) {
            let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { continue };
            absent(resources, "requests", || json!({}));
            if let Some(requests) = resources.get_mut("requests").and_then(Value::as_object_mut) {
                for (name, limit) in limits {
                    requests.entry(name).or_insert(limit);
                }
            }
        }
    }
}

fn service(spec: &mut Map<String, Value>) {
    let kind = spec.get("type").and_then(Value::as_str).unwrap_or("ClusterIP").to_owned();
    if kind != "ExternalName" {
        absent(spec, "internalTrafficPolicy", || "Cluster".into());
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        absent(spec, "externalTrafficPolicy", || "Cluster".into());
    }
    if kind == "LoadBalancer" {
        absent(spec, "allocateLoadBalancerNodePorts", || true.into());
    }
    if spec.get("sessionAffinity").and_then(Value::as_str) == Some("ClientIP") {
        absent(spec, "sessionAffinityConfig", || json!({"clientIP": {"timeoutSeconds": 10800}}));
    }
}

/// `stringData` is for writing only: its values move to `data`, encoded.
fn string_data(secret: &mut Map<String, Value>) {
    let Some(Value::Object(plain)) = secret.remove("stringData") else { return };
    absent(secret, "data", || json!({}));
    let Some(data) = secret.get_mut("data").and_then(Value::as_object_mut) else { return };
    for (key, value) in plain {
        if let Value::String(text) = value {
            let bytes = k8s_openapi::ByteString(text.into_bytes());
            data.insert(key, serde_json::to_value(bytes).unwrap_or_default());
        }
    }
}
