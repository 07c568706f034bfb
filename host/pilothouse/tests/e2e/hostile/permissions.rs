//! Attempts to exceed a grant for one namespace.

use serde_json::{Value, json};

use super::{Attack, HostUnderAttack};

/// Returns an attack with a grant for all verbs on all resources in the test's namespace.
fn granted_one_namespace(name: &'static str) -> Attack {
    let rule = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "namespaces": ["{namespace}"]});
    Attack::new(name).sidecar("grants", json!({"writes": [rule]}))
}

/// Returns an attack with one call and the error that must reject it.
fn rejected(name: &'static str, step: &Value, error: &str) -> Attack {
    granted_one_namespace(name).script(json!([step])).expect_message(error)
}

/// Returns attacks that access cluster-scoped kinds with a namespace in the request.
pub(super) fn cluster_scoped() -> Vec<Attack> {
    let node = json!({"apiVersion": "v1", "kind": "Node", "namespace": "{namespace}", "name": "victim"});
    let with = |mut target: Value, members: Value| {
        target.as_object_mut().expect("an object").extend(members.as_object().expect("members").clone());
        target
    };
    let namespace = with(node.clone(), json!({"kind": "Namespace"}));
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "namespace": "{namespace}", "name": "victim"
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "hostile", "namespace": "{namespace}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "hostile"}]
    });
    let manifest = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "victim", "namespace": "{namespace}", "labels": {"hostile": "was-here"}}
    });
    vec![
        rejected("node", &with(node.clone(), json!({"do": "client.delete"})), "client.delete: "),
        rejected("read-node", &with(node.clone(), json!({"do": "client.get"})), "client.get: "),
        rejected("list-nodes", &with(node, json!({"do": "client.list"})), "client.list: "),
        rejected("namespace", &with(namespace.clone(), json!({"do": "client.delete"})), "client.delete: "),
        rejected("list-namespaces", &with(namespace.clone(), json!({"do": "client.list"})), "client.list: "),
        rejected(
            "patch-namespace",
            &with(
                namespace.clone(),
                json!({
                    "do": "client.patch", "form": "merge", "body": r#"{"metadata":{"labels":{"hostile":"was-here"}}}"#
                }),
            ),
            "client.patch: ",
        ),
        rejected(
            "apply-namespace",
            &with(
                namespace.clone(),
                json!({
                    "do": "client.patch", "form": "apply", "force": true, "body": manifest.to_string()
                }),
            ),
            "client.patch: ",
        ),
        rejected(
            "finalize-namespace",
            &with(
                namespace,
                json!({"do": "client.patch", "form": "merge", "body": "{}", "subresource": "finalize"}),
            ),
            "client.patch: ",
        ),
        rejected(
            "update-namespace",
            &json!({"do": "client.update", "manifest": manifest.to_string()}),
            "client.update: ",
        ),
        rejected("cluster-role", &with(role, json!({"do": "client.delete"})), "client.delete: "),
        rejected(
            "cluster-admin",
            &json!({"do": "client.create", "manifest": binding.to_string()}),
            "client.create: ",
        ),
    ]
}

fn other_namespaces() -> Vec<Attack> {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "namespace": "elsewhere", "name": "key"});
    let with = |members: Value| {
        let mut step = secret.clone();
        step.as_object_mut().expect("an object").extend(members.as_object().expect("members").clone());
        step
    };
    let token = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "metadata": {"name": "default", "namespace": "elsewhere"}, "spec": {"audiences": []}
    });
    vec![
        rejected(
            "read-elsewhere",
            &with(json!({"do": "client.get"})),
            "client.get: denied get /secrets in elsewhere",
        ),
        rejected(
            "list-elsewhere",
            &with(json!({"do": "client.list"})),
            "client.list: denied list /secrets in elsewhere",
        ),
        rejected(
            "list-everywhere",
            &with(json!({"do": "client.list", "namespace": ""})),
            "client.list: denied list /secrets in",
        ),
        rejected(
            "token-elsewhere",
            &json!({"do": "client.create", "manifest": token.to_string(), "subresource": "token"}),
            "client.create: denied create ",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_for_a_namespace_allows_nothing_outside_it() {
    let mut target = HostUnderAttack::start().await;
    let server = &target.host.server;
    for (path, manifest) in [
        ("/api/v1/nodes", json!({"metadata": {"name": "victim"}})),
        ("/api/v1/namespaces", json!({"metadata": {"name": "victim"}})),
        ("/api/v1/namespaces", json!({"metadata": {"name": "elsewhere"}})),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            json!({"metadata": {"name": "victim"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
        ),
        (
            "/api/v1/namespaces/elsewhere/secrets",
            json!({"metadata": {"name": "key"}, "stringData": {"key": "a-secret"}}),
        ),
    ] {
        server.post(path, &manifest).await;
    }
    for attack in cluster_scoped().into_iter().chain(other_namespaces()) {
        target.run_attack(&attack).await;
        let messages = target.host.log_messages(attack.name()).await;
        let is_success = |line: &String| line.ends_with(": ok") || line.starts_with("client.list: 0");
        assert!(!messages.iter().any(is_success), "{}: {messages:#?}", attack.name());
    }
    let server = &target.host.server;
    for path in [
        "/api/v1/nodes/victim",
        "/api/v1/namespaces/victim",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/victim",
    ] {
        let victim = server.get(path).await;
        assert!(victim["metadata"]["name"].is_string(), "{path} is gone");
        assert!(victim["metadata"]["deletionTimestamp"].is_null(), "{path} is being deleted");
        assert!(victim["metadata"]["labels"]["hostile"].is_null(), "{path} was changed");
    }
    let binding = server.get("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/hostile").await;
    assert!(binding.is_null(), "{binding:#}");
    assert!(!target.host.log().contains("a-secret"));
    target.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_cannot_apply_under_another_field_manager() {
    let mut target = HostUnderAttack::start().await;
    let managers = ["pilothouse-crds", "pilothouse", "kubectl", "healthy", "kube-controller-manager"];
    for (name, manager) in
        ["as-crds", "as-host", "as-kubectl", "as-neighbour", "as-cluster"].into_iter().zip(managers)
    {
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied", "namespace": "{namespace}"},
            "data": {"by": name}
        });
        let step = json!({
            "do": "client.patch", "apiVersion": "v1", "kind": "ConfigMap", "namespace": "{namespace}",
            "name": "applied", "form": "apply", "force": true, "manager": manager, "body": body.to_string()
        });
        target.run_attack(&rejected(name, &step, "client.patch: invalid")).await;
    }
    assert_eq!(target.host.server.data("applied").await, Default::default());
    target.stop().await;
}
