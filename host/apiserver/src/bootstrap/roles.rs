//! The default roles and bindings for users, after
//! `k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy`.
//!
//! The roles of control plane components are left out, because no such components run here.

use serde_json::{Map, Value, json};

use super::create_missing;
use crate::access::GROUP;
use crate::controllers::aggregation;
use crate::state::State;
use crate::user::{AUTHENTICATED, MASTERS, UNAUTHENTICATED};

const API_VERSION: &str = "rbac.authorization.k8s.io/v1";
const CLUSTER_ADMIN: &str = "cluster-admin";
const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
const CREATE: &[&str] = &["create"];
const ALL: &[&str] = &["*"];

/// Verbs on some resources of a group: one rule of a role.
type RuleRow = (&'static [&'static str], &'static str, &'static [&'static str]);

/// The rules of `system:aggregate-to-view`, `-edit` and `-admin`, from which `view`, `edit` and `admin` are aggregated.
const AGGREGATED_ROLES: [(&str, &[RuleRow]); 3] = [
    (
        "view",
        &[
            (
                READ,
                "",
                &[
                    "configmaps",
                    "endpoints",
                    "persistentvolumeclaims",
                    "persistentvolumeclaims/status",
                    "pods",
                    "replicationcontrollers",
                    "replicationcontrollers/scale",
                    "serviceaccounts",
                    "services",
                    "services/status",
                ],
            ),
            (
                READ,
                "",
                &[
                    "bindings",
                    "events",
                    "limitranges",
                    "namespaces/status",
                    "pods/log",
                    "pods/status",
                    "replicationcontrollers/status",
                    "resourcequotas",
                    "resourcequotas/status",
                ],
            ),
            (READ, "", &["namespaces"]),
            (READ, "discovery.k8s.io", &["endpointslices"]),
            (
                READ,
                "apps",
                &[
                    "controllerrevisions",
                    "daemonsets",
                    "daemonsets/status",
                    "deployments",
                    "deployments/scale",
                    "deployments/status",
                    "replicasets",
                    "replicasets/scale",
                    "replicasets/status",
                    "statefulsets",
                    "statefulsets/scale",
                    "statefulsets/status",
                ],
            ),
            (READ, "autoscaling", &["horizontalpodautoscalers", "horizontalpodautoscalers/status"]),
            (READ, "batch", &["cronjobs", "cronjobs/status", "jobs", "jobs/status"]),
            (READ, "policy", &["poddisruptionbudgets", "poddisruptionbudgets/status"]),
            (READ, "networking.k8s.io", &["ingresses", "ingresses/status", "networkpolicies"]),
            (READ, "resource.k8s.io", &["resourceclaims", "resourceclaims/status", "resourceclaimtemplates"]),
        ],
    ),
    (
        "edit",
        &[
            (
                READ,
                "",
                &["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"],
            ),
            (&["impersonate"], "", &["serviceaccounts"]),
            (WRITE, "", &["pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"]),
            (CREATE, "", &["pods/eviction"]),
            (
                WRITE,
                "",
                &[
                    "configmaps",
                    "events",
                    "persistentvolumeclaims",
                    "replicationcontrollers",
                    "replicationcontrollers/scale",
                    "secrets",
                    "serviceaccounts",
                    "services",
                    "services/proxy",
                ],
            ),
            (CREATE, "", &["serviceaccounts/token"]),
            (
                WRITE,
                "apps",
                &[
                    "daemonsets",
                    "deployments",
                    "deployments/rollback",
                    "deployments/scale",
                    "replicasets",
                    "replicasets/scale",
                    "statefulsets",
                    "statefulsets/scale",
                ],
            ),
            (WRITE, "autoscaling", &["horizontalpodautoscalers"]),
            (WRITE, "batch", &["cronjobs", "jobs"]),
            (WRITE, "policy", &["poddisruptionbudgets"]),
            (WRITE, "networking.k8s.io", &["ingresses", "networkpolicies"]),
            (WRITE, "resource.k8s.io", &["resourceclaims", "resourceclaimtemplates"]),
            (READ, "coordination.k8s.io", &["leases"]),
            (WRITE, "coordination.k8s.io", &["leases"]),
        ],
    ),
    (
        "admin",
        &[
            (CREATE, "authorization.k8s.io", &["localsubjectaccessreviews"]),
            (READ, GROUP, &["rolebindings", "roles"]),
            (WRITE, GROUP, &["rolebindings", "roles"]),
        ],
    ),
];

/// Cluster roles that are not aggregated.
const OTHER_ROLES: [(&str, &[RuleRow]); 2] = [
    (
        "system:basic-user",
        &[
            (CREATE, "authorization.k8s.io", &["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
            (CREATE, "authentication.k8s.io", &["selfsubjectreviews"]),
        ],
    ),
    (
        "system:auth-delegator",
        &[
            (CREATE, "authentication.k8s.io", &["tokenreviews"]),
            (CREATE, "authorization.k8s.io", &["subjectaccessreviews"]),
        ],
    ),
];

/// Roles to read non-resource paths.
const NON_RESOURCE_ROLES: [(&str, &[&str]); 2] = [
    (
        "system:discovery",
        &[
            "/api",
            "/api/*",
            "/apis",
            "/apis/*",
            "/healthz",
            "/livez",
            "/openapi",
            "/openapi/*",
            "/readyz",
            "/version",
            "/version/",
        ],
    ),
    ("system:public-info-viewer", &["/healthz", "/livez", "/readyz", "/version", "/version/"]),
];

/// The roles that groups are bound to.
const BINDINGS: [(&str, &[&str]); 3] = [
    ("system:discovery", &[AUTHENTICATED]),
    ("system:basic-user", &[AUTHENTICATED]),
    ("system:public-info-viewer", &[AUTHENTICATED, UNAUTHENTICATED]),
];

/// Creates the role `cluster-admin` and its binding, which tools look for whether roles are enforced or not.
pub(super) fn create_cluster_admin(state: &State) {
    let everything = json!([
        {"apiGroups": ALL, "resources": ALL, "verbs": ALL}, {"nonResourceURLs": ALL, "verbs": ALL},
    ]);
    create_object(state, role(CLUSTER_ADMIN, None, &json!({"rules": everything})));
    bind(state, CLUSTER_ADMIN, &[MASTERS]);
}

/// Creates the other default roles and bindings.
pub(super) fn create_roles_and_bindings(state: &State) {
    for (name, rows) in AGGREGATED_ROLES {
        create_object(
            state,
            role(&format!("system:aggregate-to-{name}"), Some(name), &json!({"rules": rules(rows)})),
        );
    }
    // `admin` includes `edit`, and `edit` includes `view`.
    for (name, part_of) in [("view", Some("edit")), ("edit", Some("admin")), ("admin", None)] {
        let selectors = json!([{"matchLabels": {aggregate_to(name): "true"}}]);
        create_object(
            state,
            role(name, part_of, &json!({"aggregationRule": {"clusterRoleSelectors": selectors}})),
        );
    }
    for (name, rows) in OTHER_ROLES {
        create_object(state, role(name, None, &json!({"rules": rules(rows)})));
    }
    for (name, paths) in NON_RESOURCE_ROLES {
        create_object(
            state,
            role(name, None, &json!({"rules": [{"nonResourceURLs": paths, "verbs": ["get"]}]})),
        );
    }
    for (name, groups) in BINDINGS {
        bind(state, name, groups);
    }
    // Aggregated here, because the first request may arrive before the controllers run.
    while aggregation::aggregate(state) {}
}

/// Binds a role to groups.
fn bind(state: &State, role: &str, groups: &[&str]) {
    let subjects: Vec<Value> =
        groups.iter().map(|group| json!({"kind": "Group", "apiGroup": GROUP, "name": group})).collect();
    let reference = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": role});
    let parts = json!({"roleRef": reference, "subjects": subjects});
    create_object(state, object("ClusterRoleBinding", role, None, &parts));
}

fn rules(rows: &[RuleRow]) -> Vec<Value> {
    let rules = rows.iter();
    rules
        .map(
            |(verbs, group, resources)| json!({"apiGroups": [group], "resources": resources, "verbs": verbs}),
        )
        .collect()
}

fn aggregate_to(role: &str) -> String {
    format!("rbac.authorization.k8s.io/aggregate-to-{role}")
}

/// Returns a ClusterRole; `part_of` is the role that it is aggregated into.
fn role(name: &str, part_of: Option<&str>, parts: &Value) -> Value {
    object("ClusterRole", name, part_of, parts)
}

fn object(kind: &str, name: &str, part_of: Option<&str>, parts: &Value) -> Value {
    let mut labels = Map::new();
    labels.insert("kubernetes.io/bootstrapping".into(), "rbac-defaults".into());
    if let Some(role) = part_of {
        labels.insert(aggregate_to(role), "true".into());
    }
    let mut object = json!({
        "apiVersion": API_VERSION, "kind": kind,
        "metadata": {
            "name": name, "labels": labels,
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        },
    });
    for (field, value) in parts.as_object().into_iter().flatten() {
        object[field] = value.clone();
    }
    object
}

fn create_object(state: &State, object: Value) {
    let registry = state.registry();
    let kind = object["kind"].as_str().unwrap_or_default();
    let Some(endpoint) = registry.by_kind(API_VERSION, kind) else { return };
    create_missing(state, endpoint, None, object);
}
