//! Writes of roles and bindings.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{RBAC, expect_forbidden, rule, start, subject, user};

const GROUP: &str = "rbac.authorization.k8s.io";
const BINDINGS: &str = "namespaces/default/rolebindings";

#[tokio::test]
async fn users_cannot_grant_rights_they_do_not_hold() {
    let (server, admin) = start();
    let rules = json!([
        {"apiGroups": [GROUP], "resources": ["roles", "rolebindings"], "verbs": ["create", "update"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    ]);
    admin.grant("r", subject("User", "x"), rules).await;
    let x = user(&server, "x");
    let roles = format!("{RBAC}/namespaces/default/roles");
    let role =
        |verbs: &[&str]| json!({"metadata": {"name": "new"}, "rules": rule("", &["configmaps"], verbs)});
    assert_eq!(
        expect_forbidden(x.post(&roles, role(&["get", "delete"])).await),
        "roles.rbac.authorization.k8s.io \"new\" is forbidden: user \"x\" (groups=[\"system:authenticated\"]) is attempting \
         to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"configmaps\"], Verbs:[\"delete\"]}"
    );
    x.post(&roles, role(&["get"])).await.expect("held");
    expect_forbidden(x.put(&format!("{roles}/new"), role(&["list"])).await);
    x.bind(BINDINGS, "mine", ("Role", "new"), subject("User", "y")).await.expect("held");
    expect_forbidden(x.bind(BINDINGS, "edit", ("ClusterRole", "edit"), subject("User", "y")).await);
    let absent = x.bind(BINDINGS, "absent", ("Role", "absent"), subject("User", "y")).await;
    assert_eq!(absent.expect_err("no such role").0, 404);
}

#[tokio::test]
async fn escalate_and_bind_verbs_allow_granting_more_rights() {
    let (server, admin) = start();
    let x = user(&server, "x");
    let rules = rule(GROUP, &["roles", "rolebindings"], &["create", "update"]);
    admin.grant("r", subject("User", "x"), rules).await;
    let role = json!({"metadata": {"name": "new"}, "rules": rule("", &["secrets"], &["get"])});
    let roles = format!("{RBAC}/namespaces/default/roles");
    expect_forbidden(x.post(&roles, role.clone()).await);
    admin.grant("escalator", subject("User", "x"), rule(GROUP, &["roles"], &["escalate"])).await;
    x.post(&roles, role).await.expect("may escalate");
    expect_forbidden(x.bind(BINDINGS, "new", ("Role", "new"), subject("User", "x")).await);
    let may = json!([
        {"apiGroups": [GROUP], "resources": ["clusterroles"], "verbs": ["bind"], "resourceNames": ["edit"]},
    ]);
    admin.grant("binder", subject("User", "x"), may).await;
    x.bind(BINDINGS, "edit", ("ClusterRole", "edit"), subject("User", "y")).await.expect("may bind this one");
    expect_forbidden(x.bind(BINDINGS, "admin", ("ClusterRole", "admin"), subject("User", "y")).await);
}

/// `admin` includes the rights of `edit` and `view`, so a namespace admin can grant these.
#[tokio::test]
async fn namespace_admin_can_grant_only_namespace_roles() {
    let (server, admin) = start();
    admin.bind(BINDINGS, "x", ("ClusterRole", "admin"), subject("User", "x")).await.expect("bound");
    let x = user(&server, "x");
    for role in ["view", "edit", "admin"] {
        x.bind(BINDINGS, role, ("ClusterRole", role), subject("User", "y")).await.expect("held");
    }
    expect_forbidden(x.bind(BINDINGS, "all", ("ClusterRole", "cluster-admin"), subject("User", "y")).await);
    expect_forbidden(
        x.bind("namespaces/kube-system/rolebindings", "view", ("ClusterRole", "view"), subject("User", "y"))
            .await,
    );
    expect_forbidden(
        x.bind("clusterrolebindings", "view", ("ClusterRole", "view"), subject("User", "y")).await,
    );
    let y = user(&server, "y");
    y.get("/api/v1/namespaces/default/secrets").await.expect("granted");
    expect_forbidden(y.get("/api/v1/namespaces/kube-system/secrets").await);
}

#[tokio::test]
async fn roles_and_bindings_are_validated() {
    let (_server, admin) = start();
    let role = |rules: Value| json!({"metadata": {"name": "r"}, "rules": rules});
    let roles = format!("{RBAC}/namespaces/default/roles");
    for (rules, problem) in [
        (json!([{"apiGroups": [""], "resources": ["pods"], "verbs": []}]), "rules[0].verbs: Required value"),
        (json!([{"resources": ["pods"], "verbs": ["get"]}]), "rules[0].apiGroups: Required value"),
        (json!([{"apiGroups": [""], "verbs": ["get"]}]), "rules[0].resources: Required value"),
        (
            json!([{"nonResourceURLs": ["/x"], "verbs": ["get"]}]),
            "namespaced rules cannot apply to non-resource",
        ),
    ] {
        let (code, message) = admin.post(&roles, role(rules)).await.expect_err("invalid");
        assert!(code == 422 && message.contains(problem), "{message}");
    }
    let bind = |kind, subject| admin.bind("clusterrolebindings", "b", (kind, "view"), subject);
    for (kind, subject, problem) in [
        (
            "Role",
            subject("User", "x"),
            "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
        ),
        ("ClusterRole", subject("Robot", "x"), "subjects[0].kind: Unsupported value: \"Robot\""),
        ("ClusterRole", subject("ServiceAccount", "x"), "subjects[0].namespace: Required value"),
        ("ClusterRole", subject("User", ""), "subjects[0].name: Required value"),
    ] {
        let (code, message) = bind(kind, subject).await.expect_err("invalid");
        assert!(code == 422 && message.contains(problem), "{message}");
    }
    let mut bound = bind("ClusterRole", subject("User", "x")).await.expect("valid");
    bound["roleRef"]["name"] = "edit".into();
    let changed = admin.put(&format!("{RBAC}/clusterrolebindings/b"), bound).await.expect_err("immutable");
    assert!(changed.0 == 422 && changed.1.contains("cannot change roleRef"), "{changed:?}");
}

#[tokio::test(start_paused = true)]
async fn aggregated_role_gets_the_rules_of_selected_roles() {
    let (server, admin) = start();
    let stop = CancellationToken::new();
    let _controllers = server.run_controllers(stop.clone());
    let bound = admin.bind("clusterrolebindings", "b", ("ClusterRole", "view"), subject("User", "x")).await;
    bound.expect("bound");
    let x = user(&server, "x");
    x.get("/api/v1/pods").await.expect("viewers may");
    expect_forbidden(x.get("/api/v1/secrets").await);
    let foos = "/apis/example.com/v1/foos";
    expect_forbidden(x.get(foos).await);
    let rules = rule("example.com", &["foos"], &["list"]);
    let labels = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    let part = json!({"metadata": {"name": "foo-viewer", "labels": labels}, "rules": rules});
    admin.post(&format!("{RBAC}/clusterroles"), part).await.expect("created");
    // The kind is not served: an authorized request gets 404, others get 403.
    let wait_for_rule = async |role: &str, expected: bool| {
        for _ in 0..1000 {
            let found = admin.get(&format!("{RBAC}/clusterroles/{role}")).await.expect("there");
            if found["rules"].as_array().expect("a list").contains(&rules[0]) == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("the rules of {role} do not change");
    };
    // `admin` aggregates `edit`, which aggregates `view`.
    wait_for_rule("admin", true).await;
    assert_eq!(x.get(foos).await.expect_err("no such kind").0, 404);
    admin.delete(&format!("{RBAC}/clusterroles/foo-viewer")).await.expect("deleted");
    wait_for_rule("admin", false).await;
    expect_forbidden(x.get(foos).await);
    stop.cancel();
}

#[tokio::test]
async fn only_cluster_admins_can_create_aggregated_roles() {
    let (server, admin) = start();
    admin.grant_cluster_wide("r", subject("User", "x"), rule(GROUP, &["clusterroles"], &["create"])).await;
    let selectors = json!([{"matchLabels": {"a": "b"}}]);
    let role = json!({"metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": selectors}});
    let denied = expect_forbidden(user(&server, "x").post(&format!("{RBAC}/clusterroles"), role).await);
    assert!(denied.ends_with("must have cluster-admin privileges to use the aggregationRule"), "{denied}");
}
