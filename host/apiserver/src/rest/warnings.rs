//! The warnings of single kinds, as in the registry strategies of kube-apiserver.

use serde_json::Value;

use super::delete::DeleteOptions;
use crate::registry::Endpoint;

const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";

/// Returns the warnings about a new object.
pub(super) fn on_create(endpoint: &Endpoint, value: &Value) -> Option<String> {
    let is_ingress =
        endpoint.resource.group == "networking.k8s.io" && endpoint.resource.names.plural == "ingresses";
    let has_annotation = || !value["metadata"]["annotations"][INGRESS_CLASS].is_null();
    (is_ingress && has_annotation() && value["spec"]["ingressClassName"].is_null()).then(|| {
        format!("annotation \"{INGRESS_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead")
    })
}

/// Returns the warning about the deletion of an object, or of a collection.
pub(super) fn on_delete(endpoint: &Endpoint, options: &DeleteOptions) -> Option<String> {
    let is_orphaned = endpoint.resource.group == "batch"
        && endpoint.resource.strategy.orphans_by_default
        && options.propagation.is_none();
    is_orphaned.then(|| {
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set \
         propagationPolicy=Orphan to suppress this warning"
            .to_owned()
    })
}
