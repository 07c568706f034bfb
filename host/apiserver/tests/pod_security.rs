//! What the labels `pod-security.kubernetes.io/…` of a namespace demand of its Pods.

mod api;

use api::Api;
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/n/pods";

async fn create_namespace(api: &Api, labels: &Value) {
    let mut all = json!({});
    for (name, value) in labels.as_object().into_iter().flatten() {
        all[format!("pod-security.kubernetes.io/{name}")] = value.clone();
    }
    let namespace = json!({"metadata": {"name": "n", "labels": all}});
    api.post("/api/v1/namespaces", &namespace).await.ok();
}

fn pod(name: &str, spec: &Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (name, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][name] = value.clone();
    }
    pod
}

#[tokio::test]
async fn baseline_forbids_what_reaches_the_node() {
    let api = Api::new();
    create_namespace(&api, &json!({"enforce": "baseline"})).await;
    api.post(PODS, &pod("plain", &json!({}))).await.ok();
    let spec = json!({
        "hostNetwork": true,
        "volumes": [{"name": "v", "hostPath": {"path": "/"}}],
        "containers": [
            {"name": "a", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]},
            {"name": "b", "image": "i", "securityContext": {"privileged": true, "capabilities": {"add": ["NET_ADMIN", "KILL"]}}},
        ],
    });
    let refused = api.post(PODS, &pod("p", &spec)).await.fails(403, "Forbidden");
    assert_eq!(
        refused["message"],
        "pods \"p\" is forbidden: violates PodSecurity \"baseline:latest\": non-default capabilities (container \"b\" must not \
         include \"NET_ADMIN\" in securityContext.capabilities.add), host namespaces (hostNetwork=true), hostPath volumes \
         (volume \"v\"), hostPort (container \"a\" uses hostPort 80), privileged (container \"b\" must not set \
         securityContext.privileged=true)"
    );
}

#[tokio::test]
async fn restricted_demands_settings() {
    let api = Api::new();
    create_namespace(&api, &json!({"enforce": "restricted", "enforce-version": "v1.30"})).await;
    let refused = api.post(PODS, &pod("p", &json!({}))).await.fails(403, "Forbidden");
    assert_eq!(
        refused["message"],
        "pods \"p\" is forbidden: violates PodSecurity \"restricted:v1.30\": allowPrivilegeEscalation != false (container \"c\" \
         must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"c\" must set \
         securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"c\" must set \
         securityContext.runAsNonRoot=true), seccompProfile (pod or container \"c\" must set \
         securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")"
    );
    let spec = json!({
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "c", "image": "i", "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}],
    });
    api.post(PODS, &pod("p", &spec)).await.ok();
}

#[tokio::test]
async fn workloads_and_changed_labels_get_warnings() {
    let api = Api::new();
    create_namespace(&api, &json!({"warn": "baseline"})).await;
    let host = json!({"hostPID": true});
    let warning =
        "299 - \"would violate PodSecurity \\\"baseline:latest\\\": host namespaces (hostPID=true)\"";
    let created = api.post(PODS, &pod("p", &host)).await;
    assert_eq!((created.code, &created.warnings), (201, &vec![warning.to_owned()]));
    let deployment = json!({"metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"app": "d"}},
        "template": {"metadata": {"labels": {"app": "d"}}, "spec": pod("", &host)["spec"]},
    }});
    let created = api.post("/apis/apps/v1/namespaces/n/deployments", &deployment).await;
    assert_eq!((created.code, &created.warnings), (201, &vec![warning.to_owned()]));
    let enforce = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}});
    let changed = api.merge("/api/v1/namespaces/n", &enforce).await;
    assert_eq!(
        changed.warnings,
        [
            "299 - \"existing pods in namespace \\\"n\\\" violate the new PodSecurity enforce level \\\"baseline:latest\\\"\"",
            "299 - \"p: host namespaces\"",
        ]
    );
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let relabeled = api.merge(&format!("{PODS}/p"), &label).await;
    assert_eq!(
        (relabeled.code, relabeled.warnings.len()),
        (200, 0),
        "such an update changes nothing that is checked"
    );
    let invalid = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "strict"}}});
    let refused = api.merge("/api/v1/namespaces/n", &invalid).await.fails(422, "Invalid");
    assert_eq!(
        refused["details"]["causes"][0]["message"],
        "Invalid value: \"strict\": must be one of privileged, baseline, restricted"
    );
}
