//! Pods: the subresources that need a running container, and the changes that an update of a Pod or of one of its subresources may make, after
//! `k8s.io/kubernetes/pkg/apis/core/validation` and `k8s.io/kubernetes/pkg/registry/core/pod`.

mod ephemeral;
mod gated;
mod label_keys;
pub(in crate::rest) mod profiles;
mod resize;
mod status;
mod update;
pub(super) mod warnings;

use serde_json::Value;

use crate::registry::Endpoint;
use crate::status::Status;

pub(in crate::rest) use ephemeral::{copy_ephemeral_containers, validate_ephemeral_containers};
pub(in crate::rest) use gated::initial_conditions;
pub(in crate::rest) use label_keys::merge_label_keys;
pub(in crate::rest) use resize::{copy_resources, validate_resize};
pub(in crate::rest) use status::keep_fields as keep_status_fields;
pub(in crate::rest) use update::validate_update;

/// The subresources that a kubelet serves.
const CONTAINER_SUBRESOURCES: [&str; 4] = ["log", "exec", "attach", "portforward"];

/// Errors for a subresource that needs a running container. The code is 400, as in Kubernetes for a pod without a running
/// container: the pod exists, so 404 would be wrong.
pub(crate) fn reject_container_subresource(
    endpoint: &Endpoint,
    key: (&str, &str),
    subresource: &str,
) -> Result<(), Status> {
    if !endpoint.is_core("pods") || !CONTAINER_SUBRESOURCES.contains(&subresource) {
        return Ok(());
    }
    let (namespace, name) = key;
    if endpoint.resource.table.get(namespace, name).is_none() {
        return Err(Status::not_found(endpoint.resource_ref(), name));
    }
    Err(Status::bad_request(format!(
        "the embedded API server runs no containers: pods/{subresource} isn't available; use a cluster with nodes for it"
    )))
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

/// Whether two lists, maps or objects are the same. As in Kubernetes, an empty one is as good as none.
fn is_same(one: &Value, other: &Value) -> bool {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    one == other || (is_empty(one) && is_empty(other))
}
