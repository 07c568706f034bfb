//! The roles and bindings that every cluster has, after `k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy`:
//! those for people. Those of the control plane's own parts have nobody here to hold them.

use serde_json::{Map, Value, json};

use super::GROUP;
use super::user::{AUTHENTICATED, MASTERS, UNAUTHENTICATED};
use crate::controllers::aggregation;
use crate::request::options::WriteOptions;
use crate::rest::create::create;
use crate::server::State;

const API_VERSION: &str = "rbac.authorization.k8s.io/v1";
const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
const CREATE: &[&str] = &["create"];
const ALL: &[&str] = &["*"];

/// What may be done to some resources of a group.
type Row = (&'static [&'static str], &'static str, &'static [&'static str]);

/// The roles that a namespace's roles `view`, `edit` and `admin` are made of.
const PARTS: [(&str, &[Row]); 3] = [
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

/// Roles of their own.
const OTHERS: [(&str, &[Row]); 2] = [
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

/// Roles to read paths that are no resources.
const PATHS: [(&str, &[&str]); 2] = [
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

/// Who has which role from the beginning.
const BINDINGS: [(&str, &[&str]); 4] = [
    ("cluster-admin", &[MASTERS]),
    ("system:discovery", &[AUTHENTICATED]),
    ("system:basic-user", &[AUTHENTICATED]),
    ("system:public-info-viewer", &[AUTHENTICATED, UNAUTHENTICATED]),
];

/// Creates them.
pub(crate) fn bootstrap(state: &State) {
    let everything = json!([
        {"apiGroups": ALL, "resources": ALL, "verbs": ALL}, {"nonResourceURLs": ALL, "verbs": ALL},
    ]);
    put(state, role("cluster-admin", None, &json!({"rules": everything})));
    for (name, rows) in PARTS {
        put(state, role(&format!("system:aggregate-to-{name}"), Some(name), &json!({"rules": rules(rows)})));
    }
    // An administrator may do what an editor may, and an editor what a viewer may.
    for (name, part_of) in [("view", Some("edit")), ("edit", Some("admin")), ("admin", None)] {
        let selectors = json!([{"matchLabels": {aggregate_to(name): "true"}}]);
        put(state, role(name, part_of, &json!({"aggregationRule": {"clusterRoleSelectors": selectors}})));
    }
    for (name, rows) in OTHERS {
        put(state, role(name, None, &json!({"rules": rules(rows)})));
    }
    for (name, paths) in PATHS {
        put(state, role(name, None, &json!({"rules": [{"nonResourceURLs": paths, "verbs": ["get"]}]})));
    }
    for (name, groups) in BINDINGS {
        let subjects: Vec<Value> =
            groups.iter().map(|group| json!({"kind": "Group", "apiGroup": GROUP, "name": group})).collect();
        let reference = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": name});
        let parts = json!({"roleRef": reference, "subjects": subjects});
        put(state, object("ClusterRoleBinding", name, None, &parts));
    }
    // The first request may come before the controllers run.
    while aggregation::aggregate(state) {}
}

fn rules(rows: &[Row]) -> Vec<Value> {
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

/// A ClusterRole; `part_of` is the role that it is to be gathered into.
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

fn put(state: &State, object: Value) {
    let registry = state.registry();
    let kind = object["kind"].as_str().unwrap_or_default();
    let Some(endpoint) = registry.by_kind(API_VERSION, kind) else { return };
    let name = object["metadata"]["name"].to_string();
    if let Err(error) = create(state, endpoint, None, object, &WriteOptions::internal("kube-apiserver")) {
        tracing::error!(%error, name, "a standard role or binding could not be created");
    }
}
