//! The objects that exist before the first request: namespaces and, under RBAC, roles and bindings.

mod roles;

use serde_json::json;

use crate::request::options::WriteOptions;
use crate::rest::create::create;
use crate::state::State;

/// The field manager of the initial objects.
const MANAGER: &str = "kube-apiserver";

/// The namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Creates the initial objects.
pub(crate) fn create_initial_objects(state: &State) {
    create_namespaces(state);
    if state.access.is_enforced() {
        roles::create_roles_and_bindings(state);
    }
}

fn create_namespaces(state: &State) {
    let registry = state.registry();
    let options = WriteOptions::internal(MANAGER);
    let Some(namespaces) = registry.endpoint("", "v1", "namespaces") else { return };
    for name in NAMESPACES {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        if let Err(error) = create(state, namespaces, None, namespace, &options) {
            tracing::error!(%error, name, "cannot create a standard namespace");
        }
    }
}
