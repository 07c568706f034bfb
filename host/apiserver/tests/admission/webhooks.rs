//! Mutating and validating webhooks.

use std::sync::{Mutex, mpsc};

use pilothouse_apiserver::ApiServer;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::api::{Api, core};
use crate::config_map;
use crate::server::{WebhookServer, patch};

const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// Returns a webhook for all writes of ConfigMaps.
fn webhook(name: &str, client_config: Value) -> Value {
    let mut webhook = json!({
        "name": name, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
    });
    webhook["clientConfig"] = client_config;
    webhook
}

/// Creates a configuration with these webhooks.
async fn configure(api: &Api, collection: &str, name: &str, webhooks: &[Value]) {
    let kind = if collection == MUTATING {
        "MutatingWebhookConfiguration"
    } else {
        "ValidatingWebhookConfiguration"
    };
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "webhooks": webhooks,
    });
    api.post(collection, &configuration).await.ok();
}

#[tokio::test]
async fn mutating_webhook_changes_the_object_before_it_is_stored() {
    let api = Api::new();
    let hook =
        WebhookServer::start(|_, _| patch(&json!([{"op": "add", "path": "/data/added", "value": "x"}])))
            .await;
    configure(&api, MUTATING, "m", &[webhook("a.example.com", hook.client_config("/mutate"))]).await;
    let created = api.post(&core("configmaps"), &config_map("a", &json!({"own": "1"}))).await.ok();
    assert_eq!(created["data"], json!({"own": "1", "added": "x"}));
    assert_eq!(api.get(&core("configmaps/a")).await.ok()["data"]["added"], "x");
    let owned = &created["metadata"]["managedFields"][0]["fieldsV1"]["f:data"];
    assert!(owned.get("f:own").is_some() && owned.get("f:added").is_none(), "{created:#}");

    let (_, request) = hook.reviews().remove(0);
    assert_eq!((&request["operation"], &request["namespace"]), (&json!("CREATE"), &json!("default")));
    assert_eq!(request["resource"], json!({"group": "", "version": "v1", "resource": "configmaps"}));
    assert_eq!(request["kind"], json!({"group": "", "version": "v1", "kind": "ConfigMap"}));
    assert_eq!((&request["object"]["kind"], &request["oldObject"]), (&json!("ConfigMap"), &Value::Null));
    assert_eq!(
        (&request["userInfo"]["username"], &request["dryRun"]),
        (&json!("system:admin"), &json!(false))
    );
    assert_eq!(request["options"], json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}));

    api.merge(&core("configmaps/a"), &json!({"data": {"own": "2"}})).await.ok();
    let (_, request) = hook.reviews().remove(1);
    assert_eq!((&request["operation"], &request["name"]), (&json!("UPDATE"), &json!("a")));
    assert_eq!(
        (&request["oldObject"]["data"]["own"], &request["object"]["data"]["own"]),
        (&json!("1"), &json!("2"))
    );
}

#[tokio::test]
async fn validating_webhook_denies_with_its_own_status() {
    let api = Api::new();
    let hook = WebhookServer::start(|_, request| match request["operation"].as_str() {
        Some("DELETE") => {
            json!({"allowed": false, "status": {"code": 403, "reason": "Forbidden", "message": "keep it"}})
        }
        _ => json!({"allowed": request["object"]["data"]["bad"].is_null(), "warnings": ["be careful"]}),
    })
    .await;
    configure(&api, VALIDATING, "v", &[webhook("v.example.com", hook.client_config("/validate"))]).await;
    let denied = api.post(&core("configmaps"), &config_map("a", &json!({"bad": "1"}))).await;
    assert_eq!(denied.warnings, ["299 - \"be careful\""]);
    assert_eq!(
        (denied.code, denied.body["message"].as_str()),
        (400, Some("admission webhook \"v.example.com\" denied the request without explanation"))
    );
    let allowed = api.post(&core("configmaps"), &config_map("a", &json!({"good": "1"}))).await;
    assert_eq!((allowed.code, allowed.warnings.len()), (201, 1));
    let kept = api.delete(&core("configmaps/a"), &Value::Null).await.fails(403, "Forbidden");
    assert_eq!(kept["message"], "admission webhook \"v.example.com\" denied the request: keep it");
    api.get(&core("configmaps/a")).await.ok();
    let (_, request) = hook.reviews().pop().expect("a review");
    assert_eq!((&request["object"], &request["oldObject"]["data"]["good"]), (&Value::Null, &json!("1")));
}

#[tokio::test]
async fn failed_call_follows_the_failure_policy() {
    let api = Api::new();
    let hook = WebhookServer::start(|_, _| json!(null)).await;
    let mut ignored = webhook("i.example.com", hook.client_config("/absent"));
    ignored["failurePolicy"] = json!("Ignore");
    configure(&api, VALIDATING, "a", &[ignored]).await;
    api.post(&core("configmaps"), &config_map("a", &json!({}))).await.ok();

    let mut untrusted = webhook("u.example.com", hook.client_config("/untrusted"));
    untrusted["clientConfig"]["caBundle"] = WebhookServer::start(|_, _| json!(null)).await.ca_bundle();
    configure(&api, VALIDATING, "b", &[untrusted]).await;
    let failed =
        api.post(&core("configmaps"), &config_map("b", &json!({}))).await.fails(500, "InternalError");
    let message = failed["message"].as_str().unwrap_or_default();
    assert!(
        message.starts_with(
            "Internal error occurred: failed calling webhook \"u.example.com\": failed to call webhook: Post \"https://"
        ),
        "{message}"
    );
    assert!(
        !hook.paths().contains(&"/untrusted".to_owned()),
        "nothing is sent to a server that is not trusted"
    );
}

#[tokio::test]
async fn webhooks_are_called_in_order_and_again_if_they_ask_for_it() {
    let api = Api::new();
    let hook = WebhookServer::start(|path, request| {
        let is_labelled = !request["object"]["metadata"]["labels"]["last"].is_null();
        if path == "/last" && !is_labelled {
            return patch(&json!([{"op": "add", "path": "/metadata/labels", "value": {"last": "x"}}]));
        }
        json!({"allowed": true})
    })
    .await;
    let mut first = webhook("first.example.com", hook.client_config("/first"));
    first["reinvocationPolicy"] = json!("IfNeeded");
    let second = webhook("second.example.com", hook.client_config("/second"));
    let last = webhook("last.example.com", hook.client_config("/last"));
    configure(&api, MUTATING, "b", &[last]).await;
    configure(&api, MUTATING, "a", &[first, second]).await;
    api.post(&core("configmaps"), &config_map("a", &json!({}))).await.ok();
    assert_eq!(hook.paths(), ["/first", "/second", "/last", "/first"]);
}

#[tokio::test]
async fn dry_run_reaches_only_webhooks_without_side_effects() {
    let api = Api::new();
    let hook = WebhookServer::start(|_, _| json!({"allowed": true})).await;
    configure(&api, VALIDATING, "v", &[webhook("v.example.com", hook.client_config("/v"))]).await;
    api.post(&core("configmaps?dryRun=All"), &config_map("a", &json!({}))).await.ok();
    let (_, request) = hook.reviews().remove(0);
    assert_eq!((&request["dryRun"], &request["options"]["dryRun"]), (&json!(true), &json!(["All"])));
    let missing = api.get(&core("configmaps/a")).await;
    assert_eq!(missing.code, 404);
}

#[tokio::test]
async fn webhook_in_a_service_is_reached_at_its_endpoints() {
    let api = Api::new();
    let hook = WebhookServer::start(|_, _| json!({"allowed": false, "status": {"message": "reached"}})).await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook"},
        "spec": {"ports": [{"port": 443, "targetPort": 9443}]},
    });
    api.post(&core("services"), &service).await.ok();
    let client_config = json!({
        "service": {"namespace": "default", "name": "hook", "path": "/v"}, "caBundle": hook.ca_bundle(),
    });
    configure(&api, VALIDATING, "v", &[webhook("v.example.com", client_config)]).await;
    let failed =
        api.post(&core("configmaps"), &config_map("a", &json!({}))).await.fails(500, "InternalError");
    let message = failed["message"].as_str().unwrap_or_default();
    assert!(message.ends_with("no endpoints available for service \"hook\""), "{message}");
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "hook"},
        "subsets": [{"addresses": [{"ip": "127.0.0.1"}], "ports": [{"port": hook.port()}]}],
    });
    api.post(&core("endpoints"), &endpoints).await.ok();
    let denied = api.post(&core("configmaps"), &config_map("a", &json!({}))).await;
    assert_eq!(
        (denied.code, denied.body["message"].as_str()),
        (400, Some("admission webhook \"v.example.com\" denied the request: reached"))
    );
}

#[tokio::test]
async fn scale_is_reviewed_as_a_scale() {
    let api = Api::new();
    let hook = WebhookServer::start(|_, request| {
        assert_eq!(request["kind"]["kind"], "Scale");
        json!({"allowed": request["object"]["spec"]["replicas"].as_i64() < Some(5), "status": {"message": "too many"}})
    })
    .await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let template = json!({
        "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    });
    api.post(deployments, &deployment).await.ok();
    let mut webhook = webhook("v.example.com", hook.client_config("/v"));
    webhook["rules"] = json!([{
        "operations": ["UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments/scale"],
    }]);
    configure(&api, VALIDATING, "v", &[webhook]).await;
    let path = format!("{deployments}/d/scale");
    api.merge(&path, &json!({"spec": {"replicas": 4}})).await.ok();
    assert_eq!(api.merge(&path, &json!({"spec": {"replicas": 5}})).await.code, 400);
    assert_eq!(api.get(&path).await.ok()["spec"]["replicas"], 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_of_controllers_are_reviewed() {
    let api = Api::new();
    let hook = WebhookServer::start(|_, _| {
        patch(&json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]))
    })
    .await;
    let mut webhook = webhook("m.example.com", hook.client_config("/mutate"));
    webhook["rules"] = json!([{
        "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["serviceaccounts"],
    }]);
    configure(&api, MUTATING, "m", &[webhook]).await;
    let mut accounts = api.watch("/api/v1/namespaces/n/serviceaccounts").await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    api.post("/api/v1/namespaces", &namespace).await.ok();
    let shutdown = CancellationToken::new();
    let controllers = api.server.run_controllers(shutdown.clone());
    let event = accounts.next().await.expect("the default service account");
    assert_eq!(event["object"]["metadata"]["labels"], json!({"a": "b"}));
    let (_, request) =
        hook.reviews().into_iter().find(|(_, request)| request["namespace"] == "n").expect("a review");
    assert_eq!(request["userInfo"]["username"], "system:kube-controller-manager");
    shutdown.cancel();
    controllers.await.expect("no panic");
}

/// The handler blocks a thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn slow_webhook_does_not_delay_controllers_that_do_not_call_it() {
    let api = Api::new();
    let (open, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let hook = WebhookServer::start(move |_, _| {
        // Returns when the test drops the sender. The worker's other tasks move to another thread.
        let _ = tokio::task::block_in_place(|| gate.lock().expect("not poisoned").recv());
        json!({"allowed": true})
    })
    .await;
    let mut webhook = webhook("v.example.com", hook.client_config("/validate"));
    webhook["timeoutSeconds"] = json!(30);
    webhook["rules"] = json!([{
        "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["serviceaccounts"],
    }]);
    configure(&api, VALIDATING, "v", &[webhook]).await;
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    let deployment =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec});
    api.post("/apis/apps/v1/namespaces/default/deployments", &deployment).await.ok();
    let mut pods = api.watch(&core("pods")).await;
    let mut accounts = api.watch(&core("serviceaccounts")).await;
    let shutdown = CancellationToken::new();
    let controllers = api.server.run_controllers(shutdown.clone());
    while pods.next().await.expect("an event")["object"]["status"]["phase"] != "Running" {}
    let found = api.get("/api/v1/serviceaccounts").await.ok();
    assert_eq!(found["items"], json!([]), "the webhook has not answered yet");
    drop(open);
    assert_eq!(accounts.next_summary().await, "ADDED default");
    shutdown.cancel();
    controllers.await.expect("no panic");
}

#[tokio::test]
async fn token_requests_are_reviewed_with_their_own_kind() {
    let api = Api::new();
    let hook =
        WebhookServer::start(|_, _| json!({"allowed": false, "status": {"message": "no tokens"}})).await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}});
    api.post(&core("serviceaccounts"), &account).await.ok();
    let mut webhook = webhook("v.example.com", hook.client_config("/v"));
    webhook["rules"] = json!([{
        "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["serviceaccounts/token"],
    }]);
    configure(&api, VALIDATING, "v", &[webhook]).await;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let denied = api.post(&core("serviceaccounts/a/token"), &request).await;
    assert_eq!(
        (denied.code, denied.body["message"].as_str()),
        (400, Some("admission webhook \"v.example.com\" denied the request: no tokens"))
    );
    let (_, request) = hook.reviews().remove(0);
    let kind = json!({"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"});
    assert_eq!(
        (&request["kind"], &request["subResource"], &request["name"]),
        (&kind, &json!("token"), &json!("a"))
    );
}

#[tokio::test]
async fn missing_namespace_is_reported_before_webhooks_are_called() {
    let api = Api::new();
    let hook = WebhookServer::start(|_, _| json!({"allowed": false})).await;
    configure(&api, VALIDATING, "v", &[webhook("v.example.com", hook.client_config("/v"))]).await;
    let missing = api.post("/api/v1/namespaces/none/configmaps", &config_map("a", &json!({}))).await;
    assert_eq!(missing.fails(404, "NotFound")["message"], "namespaces \"none\" not found");
    assert!(hook.reviews().is_empty());
}

#[tokio::test]
async fn webhook_cannot_change_what_an_object_is() {
    let api = Api::new();
    let hook = WebhookServer::start(|_, request| match request["object"]["data"]["change"].as_str() {
        Some("kind") => patch(&json!([{"op": "replace", "path": "/kind", "value": "Secret"}])),
        Some("name") => patch(&json!([{"op": "replace", "path": "/metadata/name", "value": "other"}])),
        Some("everything") => patch(&json!([{"op": "replace", "path": "", "value": 1}])),
        _ => json!({"allowed": true}),
    })
    .await;
    configure(&api, MUTATING, "m", &[webhook("m.example.com", hook.client_config("/m"))]).await;
    let path = core("configmaps/a");
    api.post(&core("configmaps"), &config_map("a", &json!({}))).await.ok();
    let change = |what: &str| json!({"data": {"change": what}});
    let renamed = api.merge(&path, &change("name")).await.fails(422, "Invalid");
    assert_eq!(renamed["details"]["causes"][0]["field"], "metadata.name");
    api.merge(&path, &change("everything")).await.fails(500, "InternalError");
    assert_eq!(api.merge(&path, &change("kind")).await.ok()["kind"], "ConfigMap");
    assert_eq!(api.get(&path).await.ok()["data"], json!({"change": "kind"}));
}

#[tokio::test]
async fn configurations_themselves_are_never_reviewed() {
    let api = Api::new();
    let mut webhook = webhook("v.example.com", json!({"url": "https://127.0.0.1:1/"}));
    webhook["rules"] =
        json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]);
    configure(&api, VALIDATING, "v", &[webhook]).await;
    assert_eq!(api.post(&core("configmaps"), &config_map("a", &json!({}))).await.code, 500);
    api.delete(&format!("{VALIDATING}/v"), &Value::Null).await.ok();
    api.post(&core("configmaps"), &config_map("a", &json!({}))).await.ok();
}

#[tokio::test]
async fn server_without_webhooks_ignores_configurations() {
    let api = Api { server: ApiServer::builder().webhooks(false).build() };
    let hook = WebhookServer::start(|_, _| json!({"allowed": false})).await;
    configure(&api, VALIDATING, "v", &[webhook("v.example.com", hook.client_config("/v"))]).await;
    api.post(&core("configmaps"), &config_map("a", &json!({}))).await.ok();
    assert!(hook.reviews().is_empty());
}

#[tokio::test]
async fn invalid_configuration_is_refused_with_the_path_of_its_field() {
    let api = Api::new();
    let mut webhook = webhook("v.example.com", json!({"url": "http://127.0.0.1/"}));
    webhook["matchConditions"] = json!([{"name": "c", "expression": "object."}]);
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "v"}, "webhooks": [webhook],
    });
    let refused = api.post(VALIDATING, &configuration).await.fails(422, "Invalid");
    let causes = refused["details"]["causes"].as_array().cloned().unwrap_or_default();
    let fields: Vec<_> = causes.iter().map(|cause| cause["field"].as_str().unwrap_or_default()).collect();
    assert_eq!(fields, ["webhooks[0].clientConfig.url", "webhooks[0].matchConditions[0].expression"]);
}

#[tokio::test]
async fn mutating_webhook_sees_the_managed_fields_of_the_request_and_may_change_them() {
    let api = Api::new();
    let hook = WebhookServer::start(|path, request| {
        let manager = if path == "/valid" { "hook" } else { "" };
        match request["object"]["metadata"]["managedFields"][0]["manager"].as_str() {
            Some(_) if manager.is_empty() => {
                patch(&json!([{"op": "remove", "path": "/metadata/managedFields/0/apiVersion"}]))
            }
            Some(_) => patch(
                &json!([{"op": "replace", "path": "/metadata/managedFields/0/manager", "value": manager}]),
            ),
            None => json!({"allowed": false}),
        }
    })
    .await;
    configure(&api, MUTATING, "m", &[webhook("a.example.com", hook.client_config("/valid"))]).await;
    let created = api.post(&core("configmaps"), &config_map("a", &json!({"x": "1"}))).await.ok();
    assert_eq!(created["metadata"]["managedFields"][0]["manager"], "hook");
    let (_, request) = hook.reviews().remove(0);
    let owned = &request["object"]["metadata"]["managedFields"][0]["fieldsV1"]["f:data"];
    assert!(owned.get("f:x").is_some(), "{request:#}");
    api.delete(&format!("{MUTATING}/m"), &Value::Null).await.ok();
    configure(&api, MUTATING, "n", &[webhook("a.example.com", hook.client_config("/invalid"))]).await;
    let changed = api.merge(&core("configmaps/a"), &json!({"data": {"y": "2"}})).await;
    let (_, request) = hook.reviews().remove(1);
    let managers = request["object"]["metadata"]["managedFields"].to_string();
    assert!(managers.contains("f:y"), "{managers}");
    let warning = changed.warnings.join("");
    assert!(
        warning.contains(".metadata.managedFields was in an invalid state after admission")
            && warning.contains("please fix your requests: apiVersion must not be empty"),
        "{warning}"
    );
    let stored = changed.ok();
    assert_eq!(stored["metadata"]["managedFields"], request["object"]["metadata"]["managedFields"]);
}
