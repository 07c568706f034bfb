//! The admission plugin `ServiceAccount`, enabled, disabled and by default.

mod api;

use api::{Api, core};
use pilothouse_apiserver::AdmissionPlugin::{Priority, ServiceAccount};
use pilothouse_apiserver::{ApiServer, ControllerOptions};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

fn with_plugin() -> Api {
    Api { server: ApiServer::builder().enable_admission_plugins([ServiceAccount]).build() }
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

async fn create_account(api: &Api, name: &str, members: Value) {
    let mut account = json!({"metadata": {"name": name}});
    for (name, value) in members.as_object().into_iter().flatten() {
        account[name] = value.clone();
    }
    api.post(&core("serviceaccounts"), &account).await.ok();
}

#[tokio::test(start_paused = true)]
async fn pod_without_its_account_is_refused() {
    let api = with_plugin();
    let refused = api.post(&core("pods"), &pod("p")).await.fails(403, "Forbidden");
    assert_eq!(
        refused["message"],
        "pods \"p\" is forbidden: error looking up service account default/default: serviceaccount \"default\" not found"
    );
    let mut named = pod("p");
    named["spec"]["serviceAccountName"] = json!("robot");
    let refused = api.post(&core("pods"), &named).await.fails(403, "Forbidden");
    assert_eq!(
        refused["message"],
        "pods \"p\" is forbidden: error looking up service account default/robot: serviceaccount \"robot\" not found"
    );
}

#[tokio::test(start_paused = true)]
async fn pod_right_after_its_namespace_waits_for_the_account() {
    let api = with_plugin();
    let shutdown = CancellationToken::new();
    let options = ControllerOptions::default()
        .with_controllers("serviceaccount".parse().expect("the name of a controller"));
    let _controllers = api.server.run_controllers_with(options, shutdown.clone());
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": "new"}})).await.ok();
    let created = api.post("/api/v1/namespaces/new/pods", &pod("p")).await.ok();
    assert_eq!(created["spec"]["serviceAccountName"], "default");
    shutdown.cancel();
}

#[tokio::test]
async fn pod_gets_the_token_and_the_pull_secrets_of_its_account() {
    let api = with_plugin();
    create_account(&api, "default", json!({"imagePullSecrets": [{"name": "registry"}]})).await;
    let created = api.post(&core("pods"), &pod("p")).await.ok();
    let spec = &created["spec"];
    assert_eq!(
        (&spec["serviceAccountName"], &spec["serviceAccount"], &spec["imagePullSecrets"]),
        (&json!("default"), &json!("default"), &json!([{"name": "registry"}]))
    );
    let name = spec["volumes"][0]["name"].as_str().expect("a volume");
    assert_eq!(
        spec["volumes"][0]["projected"],
        json!({"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
        ]})
    );
    let path = "/var/run/secrets/kubernetes.io/serviceaccount";
    assert_eq!(
        spec["containers"][0]["volumeMounts"],
        json!([{"name": name, "readOnly": true, "mountPath": path}])
    );
    let managed = created["metadata"]["managedFields"].to_string();
    assert!(!managed.contains("f:volumes") && !managed.contains("f:serviceAccount"), "{managed}");
}

#[tokio::test]
async fn pod_decides_about_its_token_before_the_account() {
    let api = with_plugin();
    create_account(&api, "default", json!({"automountServiceAccountToken": false})).await;
    let without = api.post(&core("pods"), &pod("a")).await.ok();
    assert!(without["spec"]["volumes"].is_null(), "{without:#}");
    let mut with = pod("b");
    with["spec"]["automountServiceAccountToken"] = json!(true);
    let with = api.post(&core("pods"), &with).await.ok();
    assert_eq!(with["spec"]["volumes"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn account_may_restrict_the_secrets_of_its_pods() {
    let api = with_plugin();
    let account = json!({
        "metadata": {"name": "default", "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}},
        "secrets": [{"name": "own"}],
    });
    api.post(&core("serviceaccounts"), &account).await.ok();
    let with = |secret: &str| {
        let mut pod = pod("p");
        pod["spec"]["volumes"] = json!([{"name": "v", "secret": {"secretName": secret}}]);
        pod
    };
    let refused = api.post(&core("pods"), &with("other")).await.fails(403, "Forbidden");
    assert_eq!(
        refused["message"],
        "pods \"p\" is forbidden: volume with secret.secretName=\"other\" is not allowed because service account default does not \
         reference that secret"
    );
    api.post(&core("pods"), &with("own")).await.ok();
    let debug = json!({"spec": {"ephemeralContainers": [
        {"name": "d", "image": "i", "envFrom": [{"secretRef": {"name": "other"}}]},
    ]}});
    let path = core("pods/p/ephemeralcontainers");
    let refused = api.patch("strategic-merge-patch+json", &path, &debug).await.fails(403, "Forbidden");
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("ephemeral container d with envFrom referencing secret.secretName=\"other\""),
        "{message}"
    );
}

#[tokio::test]
async fn mirror_pod_refers_to_no_account_and_no_secret() {
    let api = with_plugin();
    let mirror = |spec: Value| {
        let mut pod = pod("m");
        pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
        pod["spec"]["nodeName"] = json!("n");
        for (name, value) in spec.as_object().into_iter().flatten() {
            pod["spec"][name] = value.clone();
        }
        pod
    };
    let cases = [
        (json!({"serviceAccountName": "default"}), "a mirror pod may not reference service accounts"),
        (json!({"imagePullSecrets": [{"name": "s"}]}), "a mirror pod may not reference secrets"),
    ];
    for (spec, problem) in cases {
        let refused = api.post(&core("pods"), &mirror(spec)).await.fails(403, "Forbidden");
        assert_eq!(refused["message"], format!("pods \"m\" is forbidden: {problem}"));
    }
    let created = api.post(&core("pods"), &mirror(json!({}))).await.ok();
    assert!(created["spec"]["serviceAccountName"].is_null(), "{created:#}");
}

#[tokio::test]
async fn by_default_only_the_name_is_set() {
    let created = Api::new().post(&core("pods"), &pod("p")).await.ok();
    assert_eq!(created["spec"]["serviceAccountName"], "default");
    assert!(created["spec"]["volumes"].is_null());
}

#[tokio::test]
async fn disabled_plugins_change_nothing() {
    let server = ApiServer::builder().disable_admission_plugins([ServiceAccount, Priority]).build();
    let created = Api { server }.post(&core("pods"), &pod("p")).await.ok();
    assert!(
        created["spec"]["serviceAccountName"].is_null() && created["spec"]["priority"].is_null(),
        "{created:#}"
    );
}
