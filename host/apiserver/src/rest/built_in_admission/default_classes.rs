//! The default class of claims and Ingresses: the admission plugins `DefaultStorageClass` and `DefaultIngressClass` of kube-apiserver.

use serde_json::Value;

use crate::admission_plugins::AdmissionPlugin;
use crate::meta;
use crate::registry::Endpoint;
use crate::state::State;

/// The annotations that make a StorageClass the default one.
const DEFAULT_STORAGE_CLASS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
/// The annotation of a claim that names its class.
pub(super) const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// The annotation that makes an IngressClass the default one.
const DEFAULT_INGRESS_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";
/// The annotation of an Ingress that names its class.
const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";

/// Sets the class of a new claim or Ingress that names none.
pub(super) fn on_create(state: &State, endpoint: &Endpoint, value: &mut Value) {
    let acts = |plugin| state.plugins.acts(plugin);
    if endpoint.is_core("persistentvolumeclaims") && acts(AdmissionPlugin::DefaultStorageClass) {
        set_default(value, "storageClassName", STORAGE_CLASS, || {
            newest_default(&classes(state, "storage.k8s.io", "storageclasses"), &DEFAULT_STORAGE_CLASS)
        });
    } else if is_ingress(endpoint) && acts(AdmissionPlugin::DefaultIngressClass) {
        set_default(value, "ingressClassName", INGRESS_CLASS, || {
            newest_default(&classes(state, "networking.k8s.io", "ingressclasses"), &[DEFAULT_INGRESS_CLASS])
        });
    }
}

/// Whether the endpoint serves Ingresses.
pub(super) fn is_ingress(endpoint: &Endpoint) -> bool {
    endpoint.group == "networking.k8s.io" && endpoint.resource.names.plural == "ingresses"
}

fn classes(state: &State, group: &str, plural: &str) -> Vec<Value> {
    let registry = state.registry();
    let Some(classes) = registry.endpoint(group, "v1", plural) else { return Vec::new() };
    classes.resource.table.list(None).0.iter().map(|class| class.value()).collect()
}

/// Sets the field unless it or the annotation is there. An empty name is one, too: that of no class.
fn set_default(value: &mut Value, field: &str, annotation: &str, default: impl FnOnce() -> Option<String>) {
    if !value["spec"][field].is_null() || !value["metadata"]["annotations"][annotation].is_null() {
        return;
    }
    if let Some(name) = default() {
        value["spec"][field] = name.into();
    }
}

/// Returns the name of the class with one of the annotations. Of several, it is that of the newest one, and then the first by name.
fn newest_default(classes: &[Value], annotations: &[&str]) -> Option<String> {
    let is_default = |class: &&Value| {
        annotations.iter().any(|annotation| class["metadata"]["annotations"][*annotation] == "true")
    };
    let mut defaults: Vec<_> = classes
        .iter()
        .filter(is_default)
        // Times of this form have the order of their texts.
        .map(|class| (meta::text(class, "creationTimestamp"), meta::text(class, "name")))
        .collect();
    defaults.sort_by(|(time, name), (other_time, other)| other_time.cmp(time).then(name.cmp(other)));
    defaults.first().map(|(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn class(name: &str, created: &str, annotation: &str, value: &str) -> Value {
        json!({"metadata": {"name": name, "creationTimestamp": created, "annotations": {annotation: value}}})
    }

    #[test]
    fn the_newest_default_class_is_taken() {
        let [stable, beta] = DEFAULT_STORAGE_CLASS;
        let classes = [
            class("old", "2026-01-01T00:00:00Z", stable, "true"),
            class("b", "2026-01-02T00:00:00Z", beta, "true"),
            class("a", "2026-01-02T00:00:00Z", stable, "true"),
            class("newest", "2026-01-03T00:00:00Z", stable, "false"),
        ];
        assert_eq!(newest_default(&classes, &DEFAULT_STORAGE_CLASS).as_deref(), Some("a"));
        assert_eq!(newest_default(&classes[3..], &DEFAULT_STORAGE_CLASS), None);
        assert_eq!(newest_default(&classes, &[DEFAULT_INGRESS_CLASS]), None);
    }

    #[test]
    fn a_class_that_the_client_named_stays() {
        let claim = |mut claim: Value| {
            set_default(&mut claim, "storageClassName", STORAGE_CLASS, || Some("fast".to_owned()));
            claim["spec"]["storageClassName"].clone()
        };
        assert_eq!(claim(json!({"spec": {}})), "fast");
        assert_eq!(claim(json!({"spec": {"storageClassName": ""}})), "");
        assert_eq!(claim(json!({"spec": {"storageClassName": "slow"}})), "slow");
        let annotated = json!({"metadata": {"annotations": {STORAGE_CLASS: "slow"}}, "spec": {}});
        assert_eq!(claim(annotated), Value::Null);
    }
}
