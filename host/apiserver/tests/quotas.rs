//! ResourceQuotas: what they refuse, and their status.

mod api;

use api::{Answer, Api, core};
use pilothouse_apiserver::{ApiServer, TokioClock};
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};
use tokio_util::sync::{CancellationToken, DropGuard};

fn start() -> (Api, DropGuard) {
    let server = ApiServer::builder().build();
    let shutdown = CancellationToken::new();
    let _controllers = server.run_controllers(shutdown.clone());
    (Api { server }, shutdown.drop_guard())
}

async fn create_quota(api: &Api, hard: &Value, more: &Value) {
    let mut quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
    for (name, value) in more.as_object().into_iter().flatten() {
        quota["spec"][name] = value.clone();
    }
    api.post(&core("resourcequotas"), &quota).await.ok();
    api.until(&core("resourcequotas/q"), |answer| answer.body["status"]["hard"].is_object()).await;
}

async fn used(api: &Api) -> Value {
    api.get(&core("resourcequotas/q")).await.ok()["status"]["used"].clone()
}

fn pod(name: &str, resources: &Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}})
}

fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

#[tokio::test(start_paused = true)]
async fn number_of_objects_is_limited() {
    let (api, _running) = start();
    api.post(&core("configmaps"), &config_map("a")).await.ok();
    let before = api.get(&core("configmaps")).await.ok();
    let count = before["items"].as_array().map_or(0, Vec::len);
    let hard =
        json!({"configmaps": (count + 1).to_string(), "count/services": "1", "requests.storage": "1Gi"});
    create_quota(&api, &hard, &json!({})).await;
    assert_eq!(
        used(&api).await,
        json!({"configmaps": count.to_string(), "count/services": "1", "requests.storage": "0"})
    );
    api.post(&core("configmaps"), &config_map("b")).await.ok();
    assert_eq!(used(&api).await["configmaps"], (count + 1).to_string(), "at once");
    let refused = api.post(&core("configmaps"), &config_map("c")).await.fails(403, "Forbidden");
    let limit = count + 1;
    assert_eq!(
        refused["message"],
        format!(
            "configmaps \"c\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps={limit}, limited: \
             configmaps={limit}"
        )
    );
    api.delete(&core("configmaps/b"), &Value::Null).await.ok();
    let count = count.to_string();
    let freed = |answer: &Answer| answer.body["status"]["used"]["configmaps"] == count.as_str();
    api.until(&core("resourcequotas/q"), freed).await;
    api.post(&core("configmaps"), &config_map("c")).await.ok();
    let exists = api.post(&core("configmaps"), &config_map("a")).await;
    assert_eq!(exists.code, 403, "the quota is asked before the object is stored");
}

#[tokio::test(start_paused = true)]
async fn a_creation_that_fails_uses_nothing() {
    let (api, _running) = start();
    create_quota(&api, &json!({"count/secrets": "5"}), &json!({})).await;
    api.post(&core("secrets"), &config_map("s")).await.ok();
    api.post(&core("secrets"), &config_map("s")).await.fails(409, "AlreadyExists");
    api.post(&core("secrets?dryRun=All"), &config_map("t")).await.ok();
    assert_eq!(used(&api).await, json!({"count/secrets": "1"}));
}

#[tokio::test(start_paused = true)]
async fn pods_need_the_resources_that_a_quota_limits() {
    let (api, _running) = start();
    let hard = json!({"requests.cpu": "1", "limits.memory": "1Gi", "pods": "3"});
    create_quota(&api, &hard, &json!({"scopes": ["NotTerminating"]})).await;
    let refused = api.post(&core("pods"), &pod("p", &json!({}))).await.fails(403, "Forbidden");
    assert_eq!(
        refused["message"],
        "pods \"p\" is forbidden: failed quota: q: must specify limits.memory for: c; requests.cpu for: c"
    );
    let resources = |cpu: &str| json!({"requests": {"cpu": cpu}, "limits": {"memory": "256Mi"}});
    api.post(&core("pods"), &pod("p", &resources("600m"))).await.ok();
    assert_eq!(used(&api).await, json!({"limits.memory": "256Mi", "pods": "1", "requests.cpu": "600m"}));
    let refused = api.post(&core("pods"), &pod("r", &resources("500m"))).await.fails(403, "Forbidden");
    assert_eq!(
        refused["message"],
        "pods \"r\" is forbidden: exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=600m, limited: \
         requests.cpu=1"
    );
    let mut terminating = pod("t", &json!({}));
    terminating["spec"]["activeDeadlineSeconds"] = 60.into();
    api.post(&core("pods"), &terminating).await.ok();
    api.delete(&core("pods/p"), &json!({"gracePeriodSeconds": 0})).await.ok();
    api.until(&core("resourcequotas/q"), |answer| answer.body["status"]["used"]["pods"] == "0").await;
}

#[tokio::test]
async fn without_the_controller_a_quota_limits_nothing() {
    let api = Api::new();
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "0"}}});
    api.post(&core("resourcequotas"), &quota).await.ok();
    api.post(&core("configmaps"), &config_map("a")).await.ok();
    let status = json!({"status": {"hard": {"configmaps": "0"}}});
    api.merge(&core("resourcequotas/q/status"), &status).await.ok();
    let refused = api.post(&core("configmaps"), &config_map("b")).await.fails(403, "Forbidden");
    assert_eq!(
        refused["message"],
        "configmaps \"b\" is forbidden: status unknown for quota: q, resources: configmaps"
    );
}

#[tokio::test(start_paused = true)]
async fn claims_are_charged_when_more_is_allocated_and_events_never() {
    let (api, _running) = start();
    create_quota(&api, &json!({"requests.storage": "2Gi", "count/events": "0"}), &json!({})).await;
    let claim = json!({"metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }});
    api.post(&core("persistentvolumeclaims"), &claim).await.ok();
    let allocate = async |storage: &str| {
        let status = json!({"status": {"allocatedResources": {"storage": storage}}});
        api.merge(&core("persistentvolumeclaims/c/status"), &status).await
    };
    allocate("2Gi").await.ok();
    assert_eq!(used(&api).await, json!({"requests.storage": "2Gi"}));
    allocate("3Gi").await.ok();
    assert_eq!(used(&api).await, json!({"requests.storage": "3Gi"}), "a status says what has happened");
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}});
    api.post(&core("events"), &event).await.ok();
}

/// Creates a quota with a status, for servers without the controller.
async fn create_measured(api: &Api, name: &str, hard: &Value, used: &Value) {
    let quota = json!({"metadata": {"name": name}, "spec": {"hard": hard}});
    api.post(&core("resourcequotas"), &quota).await.ok();
    let status = json!({"status": {"hard": hard, "used": used}});
    api.merge(&core(&format!("resourcequotas/{name}/status")), &status).await.ok();
}

#[tokio::test]
async fn custom_resource_is_converted_before_a_quota_is_charged() {
    let api = Api::new();
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object"}},
        })
    };
    let crd = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1", false), version("v2", true)],
            "conversion": {"strategy": "Webhook", "webhook": {
                // Nothing listens there, so each conversion fails.
                "clientConfig": {"url": "https://127.0.0.1:1/convert"}, "conversionReviewVersions": ["v1"],
            }},
        },
    });
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await.ok();
    let count = |count: &str| json!({"count/widgets.example.com": count});
    create_measured(&api, "q", &count("1"), &count("0")).await;
    let before = api.get(&core("resourcequotas/q")).await.ok();
    let widget = |version: &str| json!({"apiVersion": version, "kind": "Widget", "metadata": {"name": "w"}});
    let failed = api.post("/apis/example.com/v1/namespaces/default/widgets", &widget("example.com/v1")).await;
    assert_eq!(failed.code, 500, "{failed:?}");
    assert_eq!(api.get(&core("resourcequotas/q")).await.ok(), before, "never charged");
    api.post("/apis/example.com/v2/namespaces/default/widgets", &widget("example.com/v2")).await.ok();
    assert_eq!(used(&api).await, count("1"));
}

#[tokio::test]
async fn quotas_are_charged_only_if_all_of_them_allow_the_write() {
    let api = Api::new();
    let one = json!({"count/secrets": "1"});
    create_measured(&api, "a", &json!({"count/secrets": "5"}), &one).await;
    create_measured(&api, "b", &one, &one).await;
    let before = api.get(&core("resourcequotas/a")).await.ok();
    let refused = api.post(&core("secrets"), &config_map("s")).await.fails(403, "Forbidden");
    assert_eq!(
        refused["message"],
        "secrets \"s\" is forbidden: exceeded quota: b, requested: count/secrets=1, used: count/secrets=1, limited: \
         count/secrets=1"
    );
    assert_eq!(api.get(&core("resourcequotas/a")).await.ok(), before, "never charged");
}

#[tokio::test]
async fn constraints_of_all_quotas_are_checked_before_their_limits() {
    let api = Api::new();
    create_measured(&api, "a", &json!({"pods": "0"}), &json!({"pods": "0"})).await;
    create_measured(&api, "b", &json!({"requests.cpu": "1"}), &json!({"requests.cpu": "0"})).await;
    let refused = api.post(&core("pods"), &pod("p", &json!({}))).await.fails(403, "Forbidden");
    assert_eq!(
        refused["message"],
        "pods \"p\" is forbidden: failed quota: b: must specify requests.cpu for: c"
    );
}

#[tokio::test(start_paused = true)]
async fn change_of_usage_is_measured_later_and_change_of_limits_at_once() {
    let (api, _running) = start();
    create_quota(&api, &json!({"count/secrets": "5"}), &json!({})).await;
    let start = Instant::now();
    let wrong = json!({"status": {"used": {"count/secrets": "3"}}});
    api.merge(&core("resourcequotas/q/status"), &wrong).await.ok();
    let is_measured = |answer: &Answer| answer.body["status"]["used"]["count/secrets"] == "0";
    api.until(&core("resourcequotas/q"), is_measured).await;
    let elapsed = start.elapsed();
    assert!((900..1200).contains(&elapsed.as_millis()), "{elapsed:?}");
    let start = Instant::now();
    api.merge(&core("resourcequotas/q"), &json!({"spec": {"hard": {"count/secrets": "6"}}})).await.ok();
    let has_limits = |answer: &Answer| answer.body["status"]["hard"]["count/secrets"] == "6";
    api.until(&core("resourcequotas/q"), has_limits).await;
    assert!(start.elapsed() < Duration::from_millis(200), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn pod_past_its_grace_period_uses_no_resources() {
    let clock = TokioClock::starting_at("2026-01-01T00:00:00Z".parse().expect("a time"));
    let server = ApiServer::builder().clock(clock).build();
    let shutdown = CancellationToken::new();
    let _controllers = server.run_controllers(shutdown.clone());
    let (api, _running) = (Api { server }, shutdown.drop_guard());
    create_quota(&api, &json!({"pods": "1", "count/pods": "5"}), &json!({})).await;
    let mut stuck = pod("p", &json!({}));
    stuck["metadata"]["finalizers"] = json!(["example.com/stuck"]);
    api.post(&core("pods"), &stuck).await.ok();
    assert_eq!(used(&api).await, json!({"pods": "1", "count/pods": "1"}));
    api.delete(&core("pods/p"), &json!({"gracePeriodSeconds": 0})).await.ok();
    api.until(&core("resourcequotas/q"), |answer| answer.body["status"]["used"]["pods"] == "0").await;
    assert_eq!(used(&api).await["count/pods"], "1");
    let phase = api.get(&core("pods/p")).await.ok()["status"]["phase"].clone();
    assert!(phase == "Pending" || phase == "Running", "{phase}");
    api.post(&core("pods"), &pod("r", &json!({}))).await.ok();
}
