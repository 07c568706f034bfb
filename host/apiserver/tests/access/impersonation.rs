//! Impersonation.

use pilothouse_apiserver::User;
use serde_json::json;

use super::{MAPS, RBAC, account, expect_forbidden, map, rule, start, subject, user_with_headers};

const PLUGIN: &str = "system:serviceaccount:default:plugin";

#[tokio::test]
async fn impersonated_service_account_has_only_its_own_rights() {
    let (server, admin) = start();
    admin.grant("r", account("plugin"), rule("", &["configmaps"], &["list"])).await;
    let plugin = user_with_headers(&server, User::admin(), &[("impersonate-user", PLUGIN)]);
    plugin.get(MAPS).await.expect("granted to the account");
    let denied = expect_forbidden(plugin.post(MAPS, map("a")).await);
    assert!(denied.contains(&format!("User {PLUGIN:?} cannot create")), "{denied}");
    let (name, groups) = plugin.whoami().await;
    assert_eq!(name, PLUGIN);
    assert_eq!(groups, ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]);
    // Also through its groups, and only until the right is revoked.
    let group = subject("Group", "system:serviceaccounts:default");
    admin.grant("g", group, rule("", &["secrets"], &["list"])).await;
    plugin.get("/api/v1/namespaces/default/secrets").await.expect("granted to the group");
    admin.delete(&format!("{RBAC}/namespaces/default/rolebindings/r")).await.expect("deleted");
    expect_forbidden(plugin.get(MAPS).await);
}

#[tokio::test]
async fn impersonation_requires_a_right_that_can_be_revoked() {
    let (server, admin) = start();
    let x = |headers: &[(&'static str, &str)]| user_with_headers(&server, User::new("x", &[]), headers);
    let plugin = [("impersonate-user", PLUGIN)];
    let problem = "serviceaccounts \"plugin\" is forbidden: User \"x\" cannot impersonate resource \"serviceaccounts\" in \
                   API group \"\" in the namespace \"default\"";
    assert_eq!(expect_forbidden(x(&plugin).get("/version").await), problem);
    admin.grant("i", subject("User", "x"), rule("", &["serviceaccounts"], &["impersonate"])).await;
    assert_eq!(x(&plugin).whoami().await.0, PLUGIN);
    let masters = [("impersonate-user", PLUGIN), ("impersonate-group", "system:masters")];
    let denied = expect_forbidden(x(&masters).get("/version").await);
    assert!(
        denied.starts_with("groups \"system:masters\" is forbidden: User \"x\" cannot impersonate"),
        "{denied}"
    );
    admin.delete(&format!("{RBAC}/namespaces/default/rolebindings/i")).await.expect("deleted");
    assert_eq!(expect_forbidden(x(&plugin).get("/version").await), problem);
}

#[tokio::test]
async fn users_groups_uids_and_extras_each_require_a_right() {
    let (server, admin) = start();
    let rules = json!([
        {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"], "resourceNames": ["bob"]},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["uids", "userextras/team"], "verbs": ["impersonate"]},
    ]);
    admin.grant_cluster_wide("r", subject("User", "x"), rules).await;
    let x = |headers: &[(&'static str, &str)]| user_with_headers(&server, User::new("x", &[]), headers);
    let bob = ("impersonate-user", "bob");
    let known = x(&[bob, ("impersonate-uid", "7"), ("impersonate-extra-team", "blue")]);
    let review = known.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({})).await;
    assert_eq!(
        review.expect("granted")["status"]["userInfo"],
        json!({"username": "bob", "uid": "7", "groups": ["system:authenticated"], "extra": {"team": ["blue"]}})
    );
    let other = "resource \"userextras/other\" in API group \"authentication.k8s.io\"";
    for (headers, resource) in [
        (&[("impersonate-user", "eve")][..], "resource \"users\" in API group \"\""),
        (&[bob, ("impersonate-group", "g")], "resource \"groups\" in API group \"\""),
        (&[bob, ("impersonate-extra-other", "v")], other),
    ] {
        let denied = expect_forbidden(x(headers).get("/version").await);
        assert!(denied.contains(&format!("cannot impersonate {resource} at the cluster scope")), "{denied}");
    }
    assert_eq!(x(&[("impersonate-group", "g")]).get("/version").await.expect_err("no user").0, 500);
}
