//! Access reviews.

use pilothouse_apiserver::{ApiServer, User};
use serde_json::{Value, json};

use super::{MAPS, RBAC, REVIEWS, account, expect_forbidden, rule, start, subject, user_with_headers};

const PLUGIN: &str = "system:serviceaccount:default:plugin";

fn maps(verb: &str, namespace: &str) -> Value {
    json!({"verb": verb, "resource": "configmaps", "group": "", "namespace": namespace})
}

fn review(spec: &Value) -> Value {
    json!({"spec": spec})
}

#[tokio::test]
async fn subject_access_review_matches_the_authorization_of_a_request() {
    let (_server, admin) = start();
    admin.grant("r", account("plugin"), rule("", &["configmaps"], &["list"])).await;
    let ask = async |groups: &[&str], attributes: Value| {
        let spec = json!({"user": PLUGIN, "groups": groups, "resourceAttributes": attributes});
        let answer = admin.post(&format!("{REVIEWS}/subjectaccessreviews"), review(&spec)).await;
        answer.expect("an answer")["status"].clone()
    };
    let why = r#"RBAC: allowed by RoleBinding "r/default" of Role "r" to ServiceAccount "plugin/default""#;
    assert_eq!(ask(&[], maps("list", "default")).await, json!({"allowed": true, "reason": why}));
    for (verb, namespace) in [("watch", "default"), ("list", ""), ("list", "other")] {
        assert_eq!(
            ask(&[], maps(verb, namespace)).await,
            json!({"allowed": false}),
            "{verb} in {namespace:?}"
        );
    }
    // The rights of a group apply if the review lists the group.
    let everyone = "system:serviceaccounts";
    admin.grant("g", subject("Group", everyone), rule("", &["configmaps"], &["watch"])).await;
    assert_eq!(ask(&[], maps("watch", "default")).await["allowed"], false);
    assert_eq!(ask(&[everyone], maps("watch", "default")).await["allowed"], true);
    // After the role is deleted.
    admin.delete(&format!("{RBAC}/namespaces/default/roles/r")).await.expect("deleted");
    let why = r#"RBAC: role.rbac.authorization.k8s.io "r" not found"#;
    assert_eq!(ask(&[], maps("list", "default")).await, json!({"allowed": false, "reason": why}));
}

#[tokio::test]
async fn users_can_review_only_their_own_access() {
    let (server, admin) = start();
    admin.grant("r", account("plugin"), rule("", &["configmaps"], &["watch"])).await;
    let plugin = user_with_headers(&server, User::service_account("default", "plugin"), &[]);
    let about_others = json!({"user": "x", "resourceAttributes": maps("list", "default")});
    let denied = expect_forbidden(
        plugin.post(&format!("{REVIEWS}/subjectaccessreviews"), review(&about_others)).await,
    );
    assert!(denied.contains("cannot create resource \"subjectaccessreviews\""), "{denied}");
    let ask = async |spec: Value| {
        let answer = plugin.post(&format!("{REVIEWS}/selfsubjectaccessreviews"), review(&spec)).await;
        answer.expect("everybody may")["status"]["allowed"].clone()
    };
    assert_eq!(ask(json!({"resourceAttributes": maps("watch", "default")})).await, true);
    assert_eq!(ask(json!({"resourceAttributes": maps("watch", "other")})).await, false);
    assert_eq!(ask(json!({"nonResourceAttributes": {"verb": "get", "path": "/version"}})).await, true);
    assert_eq!(ask(json!({"nonResourceAttributes": {"verb": "get", "path": "/metrics"}})).await, false);
    let spec = review(&json!({"namespace": "default"}));
    let answer = plugin.post(&format!("{REVIEWS}/selfsubjectrulesreviews"), spec).await;
    let rules = answer.expect("everybody may")["status"]["resourceRules"].clone();
    assert!(rules.as_array().expect("a list").contains(&rule("", &["configmaps"], &["watch"])[0]), "{rules}");
}

#[tokio::test]
async fn incomplete_and_contradictory_reviews_are_rejected() {
    let (_server, admin) = start();
    let local = "namespaces/default/localsubjectaccessreviews";
    let path = json!({"verb": "get", "path": "/"});
    let namespace = "spec.resourceAttributes.namespace";
    for (resource, spec, field) in [
        ("subjectaccessreviews", json!({"resourceAttributes": maps("get", "other")}), "spec.user"),
        ("subjectaccessreviews", json!({"user": "x"}), "spec.resourceAttributes"),
        ("selfsubjectaccessreviews", json!({}), "spec.resourceAttributes"),
        (local, json!({"user": "x", "resourceAttributes": maps("get", "other")}), namespace),
        (local, json!({"user": "x", "nonResourceAttributes": path}), "spec.nonResourceAttributes"),
    ] {
        let answer = admin.post(&format!("{REVIEWS}/{resource}"), review(&spec)).await;
        let (code, message) = answer.expect_err("invalid");
        assert!(code == 422 && message.contains(&format!("{field}: Invalid value")), "{code} {message}");
    }
    let spec = json!({"user": "x", "resourceAttributes": maps("get", "default")});
    let answer = admin.post(&format!("{REVIEWS}/{local}"), review(&spec)).await.expect("valid");
    assert_eq!(answer["status"], json!({"allowed": false}));
    let rules = admin.post(&format!("{REVIEWS}/selfsubjectrulesreviews"), review(&json!({}))).await;
    assert_eq!(rules.expect_err("no namespace").0, 400);
}

#[tokio::test]
async fn always_allow_allows_every_review_and_supports_impersonation() {
    let server = ApiServer::builder().build();
    let headers = [("impersonate-user", "bob"), ("authorization", "Bearer x")];
    let nobody = user_with_headers(&server, User::anonymous(), &headers);
    nobody.get(MAPS).await.expect("allowed");
    assert_eq!(nobody.whoami().await, ("bob".into(), vec!["system:authenticated".into()]));
    let spec = json!({"user": "x", "resourceAttributes": {"verb": "delete", "resource": "nodes"}});
    let answer = nobody.post(&format!("{REVIEWS}/subjectaccessreviews"), review(&spec)).await;
    assert_eq!(answer.expect("an answer")["status"]["allowed"], true);
    let roles = nobody.get(&format!("{RBAC}/clusterroles")).await.expect("allowed");
    let names: Vec<_> =
        roles["items"].as_array().expect("a list").iter().map(|role| &role["metadata"]["name"]).collect();
    assert_eq!(names, ["cluster-admin"]);
}

#[tokio::test]
async fn a_review_may_name_the_subresource_in_its_resource() {
    let (_server, admin) = start();
    admin.grant("r", account("plugin"), rule("", &["pods/log"], &["get"])).await;
    let ask = async |resource: &str, subresource: &str| {
        let attributes =
            json!({"verb": "get", "namespace": "default", "resource": resource, "subresource": subresource});
        let spec = json!({"user": PLUGIN, "resourceAttributes": attributes});
        let answer = admin.post(&format!("{REVIEWS}/subjectaccessreviews"), review(&spec)).await;
        answer.expect("an answer")["status"]["allowed"].clone()
    };
    assert_eq!(ask("pods", "log").await, true);
    assert_eq!(ask("pods/log", "").await, true);
    assert_eq!(ask("pods", "").await, false);
}

#[tokio::test]
async fn self_subject_review_returns_nothing_of_the_request() {
    let (server, _) = start();
    let body = json!({"metadata": {"name": "a", "labels": {"b": "c"}}});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let x = user_with_headers(&server, User::new("x", &[]), &[]);
    let review = x.post(path, body).await.expect("everyone may ask");
    let metadata = review["metadata"].as_object().expect("metadata");
    assert_eq!(metadata.keys().collect::<Vec<_>>(), ["creationTimestamp"]);
    assert_eq!(review["status"]["userInfo"]["username"], "x");
}
