//! Rights: granting, scope and revocation.

use futures::TryStreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, Patch, PatchParams, WatchParams};
use pilothouse_apiserver::User;
use serde_json::json;

use super::{MAPS, RBAC, expect_forbidden, map, rule, start, subject, user, user_with_headers};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";

#[tokio::test]
async fn right_applies_from_grant_until_revocation() {
    let (server, admin) = start();
    let x = user(&server, "x");
    let problem = "configmaps is forbidden: User \"x\" cannot list resource \"configmaps\" in API group \"\" in the \
                   namespace \"default\"";
    assert_eq!(expect_forbidden(x.get(MAPS).await), problem);
    admin.grant("r", subject("User", "x"), rule("", &["configmaps"], &["list", "watch", "create"])).await;
    x.get(MAPS).await.expect("granted");
    x.post(MAPS, map("a")).await.expect("granted");
    assert_eq!(
        expect_forbidden(x.get("/api/v1/configmaps").await),
        "configmaps is forbidden: User \"x\" cannot list resource \"configmaps\" in API group \"\" at the cluster scope"
    );
    let denied = expect_forbidden(x.delete(&format!("{MAPS}/a")).await);
    assert!(denied.starts_with("configmaps \"a\" is forbidden: User \"x\" cannot delete"), "{denied}");
    admin.delete(&format!("{RBAC}/namespaces/default/rolebindings/r")).await.expect("deleted");
    assert_eq!(expect_forbidden(x.get(MAPS).await), problem);
}

/// As in Kubernetes, a watch is authorized when it starts.
#[tokio::test]
async fn open_watch_continues_after_the_right_is_revoked() {
    let (server, admin) = start();
    admin.grant("r", subject("User", "x"), rule("", &["configmaps"], &["list", "watch"])).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(user(&server, "x").client);
    let list = maps.list(&ListParams::default()).await.expect("granted");
    let version = list.metadata.resource_version.unwrap_or_default();
    let watch = maps.watch(&WatchParams::default(), &version).await.expect("granted");
    let mut events = std::pin::pin!(watch);
    admin.delete(&format!("{RBAC}/namespaces/default/rolebindings/r")).await.expect("deleted");
    admin.post(MAPS, map("a")).await.expect("created");
    assert!(events.try_next().await.expect("an event").is_some());
    let again = maps.watch(&WatchParams::default(), &version).await.map(|_| ());
    assert!(matches!(&again, Err(kube::Error::Api(status)) if status.code == 403), "{again:?}");
}

#[tokio::test]
async fn subresources_and_resource_names_require_their_own_rights() {
    let (server, admin) = start();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    admin.post(pods, pod).await.expect("created");
    for name in ["a", "b"] {
        admin.post(MAPS, map(name)).await.expect("created");
    }
    let rules = json!([
        {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
        {"apiGroups": ["apps"], "resources": ["*/scale"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"], "resourceNames": ["a"]},
    ]);
    admin.grant("r", subject("User", "x"), rules).await;
    let x = user(&server, "x");
    expect_forbidden(x.get(&format!("{pods}/p")).await);
    // The request is allowed, but the pod has no container.
    assert_eq!(x.get(&format!("{pods}/p/log")).await.expect_err("no container").0, 400);
    let deployment = "/apis/apps/v1/namespaces/default/deployments/w";
    assert_eq!(x.get(&format!("{deployment}/scale")).await.expect_err("none is there").0, 404);
    let denied = expect_forbidden(x.get(&format!("{deployment}/status")).await);
    assert!(denied.contains(r#"resource "deployments/status" in API group "apps""#), "{denied}");
    x.get(&format!("{MAPS}/a")).await.expect("granted");
    expect_forbidden(x.get(&format!("{MAPS}/b")).await);
    expect_forbidden(x.get(MAPS).await);
    let one = x.get(&format!("{MAPS}?fieldSelector=metadata.name%3Da")).await.expect("granted");
    assert_eq!(one["items"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn unauthorized_requests_do_not_reveal_what_exists() {
    let (server, admin) = start();
    let x = user(&server, "x");
    expect_forbidden(x.get("/apis/nothing.example.com/v1/foos").await);
    expect_forbidden(x.get(&format!("{MAPS}/absent")).await);
    let denied = expect_forbidden(x.get("/debug/requests").await);
    assert_eq!(denied, r#"forbidden: User "x" cannot get path "/debug/requests""#);
    for path in ["/api", "/apis/apps/v1", "/openapi/v3", "/version", "/healthz"] {
        x.get(path).await.expect("every user may");
    }
    let nobody = user_with_headers(&server, User::anonymous(), &[]);
    nobody.get("/version").await.expect("everybody may");
    let denied = expect_forbidden(nobody.get("/apis").await);
    assert_eq!(denied, r#"forbidden: User "system:anonymous" cannot get path "/apis""#);
    // A role in a namespace can allow reading that Namespace.
    admin.grant("r", subject("User", "x"), rule("", &["namespaces"], &["get"])).await;
    x.get("/api/v1/namespaces/default").await.expect("granted");
    let denied = expect_forbidden(x.get("/api/v1/namespaces/kube-system").await);
    assert!(denied.ends_with("in the namespace \"kube-system\""), "{denied}");
}

#[tokio::test]
async fn update_that_creates_requires_the_create_right() {
    let (server, admin) = start();
    let rules = rule("coordination.k8s.io", &["leases"], &["update", "patch"]);
    admin.grant("r", subject("User", "x"), rules).await;
    let x = user(&server, "x");
    let lease = json!({"metadata": {"name": "l"}, "spec": {}});
    let denied = expect_forbidden(x.put(LEASE, lease.clone()).await);
    assert!(denied.contains("cannot create resource \"leases\""), "{denied}");
    let leases: Api<Lease> = Api::default_namespaced(x.client.clone());
    let applied = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}});
    let apply =
        async || leases.patch("l", &PatchParams::apply("x"), &Patch::Apply(&applied)).await.map(|_| ());
    let denied = apply().await;
    assert!(matches!(&denied, Err(kube::Error::Api(status)) if status.code == 403), "{denied:?}");
    admin.put(LEASE, lease).await.expect("created");
    apply().await.expect("granted");
}
