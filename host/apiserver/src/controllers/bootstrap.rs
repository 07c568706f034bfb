use serde_json::json;

use crate::request::options::WriteOptions;
use crate::rest::create::create;
use crate::server::State;

/// The namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Creates what is there before the first request.
pub(crate) fn bootstrap(state: &State) {
    let registry = state.registry();
    let options = WriteOptions::internal("kube-apiserver");
    let Some(namespaces) = registry.endpoint("", "v1", "namespaces") else { return };
    for name in NAMESPACES {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        if let Err(error) = create(state, namespaces, None, namespace, &options) {
            tracing::error!(%error, name, "a standard namespace could not be created");
        }
    }
}
