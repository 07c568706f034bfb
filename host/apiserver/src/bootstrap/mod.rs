//! The objects that exist before the first request: namespaces, the Service `kubernetes`, APIServices, the statuses of
//! components, the role `cluster-admin` and,
//! under RBAC, the other roles and bindings.

mod roles;

use serde_json::{Value, json};

use crate::meta;
use crate::registry::Endpoint;
use crate::request::options::WriteOptions;
use crate::rest::kinds::api_services;
use crate::rest::verbs::create::create;
use crate::state::State;

/// The field manager of the initial objects.
const MANAGER: &str = "kube-apiserver";

/// The namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Creates the initial objects. Those that an earlier process stored stay as they are.
pub(crate) fn create_initial_objects(state: &State) {
    create_namespaces(state);
    create_kubernetes_service(state);
    create_component_statuses(state);
    api_services::sync(state);
    roles::create_cluster_admin(state);
    if state.access.is_enforced() {
        roles::create_roles_and_bindings(state);
    }
}

/// The components that `kubectl get componentstatuses` lists.
const COMPONENTS: [&str; 3] = ["controller-manager", "etcd-0", "scheduler"];

/// Creates the statuses of the components that this process stands for. Like those of kube-apiserver, they have no UID and no
/// time of creation.
fn create_component_statuses(state: &State) {
    let registry = state.registry();
    let Some(endpoint) = registry.endpoint("", "v1", "componentstatuses") else { return };
    for name in COMPONENTS {
        if endpoint.resource.table.get("", name).is_some() {
            continue;
        }
        let healthy = json!({"type": "Healthy", "status": "True", "message": "ok"});
        let status = json!({"metadata": {"name": name}, "conditions": [healthy]});
        if endpoint.resource.table.create(endpoint.draft(status)).is_err() {
            tracing::error!(name, "cannot create the status of a component: it exists already");
        }
    }
}

/// Creates the Service under which Pods reach the API server.
fn create_kubernetes_service(state: &State) {
    let registry = state.registry();
    let Some(services) = registry.endpoint("", "v1", "services") else { return };
    let port = json!({"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443});
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {"type": "ClusterIP", "clusterIP": state.cluster_ips.first(), "ports": [port]},
    });
    create_missing(state, services, Some("default"), service);
}

/// Creates an object unless it exists.
fn create_missing(state: &State, endpoint: &Endpoint, namespace: Option<&str>, object: Value) {
    let name = meta::text(&object, "name").to_owned();
    // Checked here, because admission configurations of an earlier process would review the creation.
    if endpoint.resource.table.get(namespace.unwrap_or_default(), &name).is_some() {
        return;
    }
    if let Err(error) = create(state, endpoint, namespace, object, &WriteOptions::internal(MANAGER)) {
        tracing::error!(%error, kind = endpoint.kind(), name, "cannot create an initial object");
    }
}

fn create_namespaces(state: &State) {
    let registry = state.registry();
    let Some(namespaces) = registry.endpoint("", "v1", "namespaces") else { return };
    for name in NAMESPACES {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        create_missing(state, namespaces, None, namespace);
    }
}
