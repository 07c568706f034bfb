//! The audit log has an event for each request, with the user, the object and the decision of RBAC.

use std::fs;

use serde_json::{Value, json};

use super::*;

/// Returns the events of the requests that a user sent.
fn events_of(log: &str, user: &str) -> Vec<Value> {
    let events = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    events.filter(|event| event["user"]["username"] == user).collect()
}

#[tokio::test]
async fn each_request_has_an_event_with_the_decision() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("audit.log");
    let builder = ApiServer::builder().authorization(Authorization::Rbac);
    let server = builder.audit_log(&file).expect("the file is created").build();
    let admin = UserClient { client: Client::new(server.service(), "default"), headers: Vec::new() };
    admin.grant("maps", subject("User", "x"), rule("", &["configmaps"], &["get", "create"])).await;
    admin.grant("i", subject("User", "x"), rule("", &["serviceaccounts"], &["impersonate"])).await;

    let x = user(&server, "x");
    x.post(MAPS, json!({"metadata": {"name": "a"}})).await.expect("granted");
    x.get(&format!("{MAPS}/a?pretty=true")).await.expect("granted");
    assert_eq!(x.delete(&format!("{MAPS}/a")).await.expect_err("not granted").0, 403);
    x.get("/version").await.expect("everybody may");
    let robot = ("impersonate-user", "system:serviceaccount:default:robot");
    let robot = user_with_headers(&server, User::new("x", &[]), &[robot]);
    assert_eq!(robot.get(MAPS).await.expect_err("not granted").0, 403);
    let eve = user_with_headers(&server, User::new("x", &[]), &[("impersonate-user", "eve")]);
    assert_eq!(eve.get(MAPS).await.expect_err("not granted").0, 403);

    let events = events_of(&fs::read_to_string(&file).expect("the log"), "x");
    let found: Vec<_> = events
        .iter()
        .map(|event| {
            let decision = &event["annotations"]["authorization.k8s.io/decision"];
            (&event["verb"], &event["responseStatus"]["code"], decision)
        })
        .map(|(verb, code, decision)| json!([verb, code, decision]))
        .collect();
    let expected = json!([
        ["create", 201, "allow"],
        ["get", 200, "allow"],
        ["delete", 403, "forbid"],
        ["get", 200, "allow"],
        ["list", 403, "forbid"],
        ["list", 403, "forbid"],
    ]);
    assert_eq!(json!(found), expected);

    let get = &events[1];
    assert_eq!((&get["apiVersion"], &get["stage"]), (&json!("audit.k8s.io/v1"), &json!("ResponseComplete")));
    assert_eq!(get["requestURI"], format!("{MAPS}/a?pretty=true"));
    let object = json!({"resource": "configmaps", "namespace": "default", "name": "a", "apiVersion": "v1"});
    assert_eq!(get["objectRef"], object);
    let reason = &get["annotations"]["authorization.k8s.io/reason"];
    let expected = r#"RBAC: allowed by RoleBinding "maps/default" of Role "maps" to User "x""#;
    assert_eq!(reason, expected);
    assert_eq!((&events[3]["requestURI"], &events[3]["objectRef"]), (&json!("/version"), &Value::Null));
    let impersonated = "system:serviceaccount:default:robot";
    assert_eq!(events[4]["impersonatedUser"]["username"], impersonated);
    assert_eq!(events[5]["impersonatedUser"], Value::Null, "it was refused");
}

#[tokio::test]
async fn a_server_that_allows_everything_records_the_sender_and_appends() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("audit.log");
    for _ in 0..2 {
        let server = ApiServer::builder().audit_log(&file).expect("the file can be written").build();
        let user = user_with_headers(&server, User::new("x", &[]), &[("impersonate-user", "eve")]);
        user.get(MAPS).await.expect("everything is allowed");
    }
    let events = events_of(&fs::read_to_string(&file).expect("the log"), "x");
    assert_eq!(events.len(), 2);
    assert_eq!((&events[0]["verb"], &events[0]["impersonatedUser"]), (&json!("list"), &Value::Null));
    assert_eq!(events[0]["annotations"]["authorization.k8s.io/decision"], "allow");
    assert_ne!(events[0]["auditID"], events[1]["auditID"]);
}

#[tokio::test]
async fn a_folder_is_no_audit_log() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(ApiServer::builder().audit_log(folder.path()).is_err());
}
