//! What policies and built-in plugins add to the audit log.

use std::fs;

use pilothouse_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::api::{Api, core};
use crate::config_map;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// Runs requests on a server with an audit log, and returns the annotations of the events with this URI.
async fn annotations_of(uri: &str, requests: impl AsyncFnOnce(&Api)) -> Vec<Value> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("audit.log");
    let api = Api { server: ApiServer::builder().audit_log(&file).expect("the file is created").build() };
    requests(&api).await;
    let log = fs::read_to_string(&file).expect("the log");
    let events = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    events.filter(|event| event["requestURI"] == uri).map(|event| event["annotations"].clone()).collect()
}

async fn create_policy(api: &Api, annotation: &str) {
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [{
            "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
        }]},
        "validations": [{"expression": "true"}, {"expression": "object.metadata.name == 'a'", "message": "no"}],
        "auditAnnotations": [{"key": "name", "valueExpression": annotation}],
    }});
    api.post(&format!("{GROUP}/validatingadmissionpolicies"), &policy).await.ok();
    let binding =
        json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Audit"]}});
    api.post(&format!("{GROUP}/validatingadmissionpolicybindings"), &binding).await.ok();
}

#[tokio::test]
async fn policies_annotate_the_audit_event() {
    let annotations = annotations_of(&core("configmaps"), async |api| {
        create_policy(api, "'new ' + object.metadata.name").await;
        api.post(&core("configmaps"), &config_map("b", &json!({}))).await.ok();
        api.post(&core("configmaps"), &config_map("a", &json!({}))).await.ok();
    })
    .await;
    assert_eq!(annotations[0]["p/name"], "new b");
    let failure =
        r#"[{"message":"no","policy":"p","binding":"b","expressionIndex":1,"validationActions":["Audit"]}]"#;
    assert_eq!(annotations[0]["validation.policy.admission.k8s.io/validation_failure"], failure);
    assert_eq!(annotations[1]["p/name"], "new a");
    assert_eq!(annotations[1].as_object().map(serde_json::Map::len), Some(3), "{:#}", annotations[1]);
}

#[tokio::test]
async fn annotation_that_fails_denies_the_request_whatever_the_actions_are() {
    let api = Api::new();
    create_policy(&api, "string(object.data.missing)").await;
    let denied = api.post(&core("configmaps"), &config_map("a", &json!({}))).await.fails(422, "Invalid");
    let problem = "expression 'string(object.data.missing)' resulted in error: no such key: data";
    assert_eq!(
        denied["details"]["causes"][0]["message"],
        format!("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: {problem}")
    );
}

#[tokio::test]
async fn levels_of_pod_security_annotate_the_audit_event() {
    let namespace = json!({"metadata": {"name": "n", "labels": {
        "pod-security.kubernetes.io/enforce": "privileged", "pod-security.kubernetes.io/audit": "baseline",
    }}});
    let uri = "/api/v1/namespaces/n/pods";
    let annotations = annotations_of(uri, async |api| {
        api.post("/api/v1/namespaces", &namespace).await.ok();
        let pod = json!({"metadata": {"name": "p"}, "spec": {
            "hostNetwork": true, "containers": [{"name": "c", "image": "i"}],
        }});
        api.post(uri, &pod).await.ok();
    })
    .await;
    assert_eq!(annotations[0]["pod-security.kubernetes.io/enforce-policy"], "privileged:latest");
    assert_eq!(
        annotations[0]["pod-security.kubernetes.io/audit-violations"],
        "would violate PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)"
    );
}

#[tokio::test]
async fn warnings_are_sent_with_a_refusal_by_a_later_plugin() {
    let api = Api::new();
    let labels = json!({"pod-security.kubernetes.io/warn": "baseline"});
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": "n", "labels": labels}})).await.ok();
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [{
            "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"],
        }]},
        "validations": [{"expression": "false"}],
    }});
    api.post(&format!("{GROUP}/validatingadmissionpolicies"), &policy).await.ok();
    let binding =
        json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    api.post(&format!("{GROUP}/validatingadmissionpolicybindings"), &binding).await.ok();
    let pod = json!({"metadata": {"name": "p.q"}, "spec": {
        "hostNetwork": true, "containers": [{"name": "c", "image": "i"}],
    }});
    let refused = api.post("/api/v1/namespaces/n/pods", &pod).await;
    assert_eq!(refused.code, 422, "{:#}", refused.body);
    let warnings = refused.warnings.join("\n");
    assert!(warnings.contains("would violate PodSecurity"), "{warnings}");
}
