//! The rules of single kinds.

use std::collections::HashSet;
use std::sync::Arc;

use pilothouse_apiserver::ApiServer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::api::{Api, apps, core};
use crate::deployment;

#[tokio::test]
async fn strategies_set_fields_of_secrets_leases_services_and_namespaces() {
    let api = Api::new();
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"a": "hello"}});
    let secret = api.post(&core("secrets"), &secret).await.ok();
    assert_eq!((&secret["data"]["a"], &secret["type"]), (&json!("aGVsbG8="), &json!("Opaque")));
    assert_eq!(secret.get("stringData"), None);
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}});
    assert_eq!(api.put(&format!("{leases}/l"), &lease).await.code, 201, "a PUT creates a lease");
    api.put(&format!("{leases}/l"), &lease).await.fails(422, "Invalid");
    let service = json!({"metadata": {"name": "w"}, "spec": {"ports": [{"port": 80}]}});
    let service = api.post(&core("services"), &service).await.ok();
    assert_eq!(
        (&service["spec"]["type"], &service["spec"]["clusterIPs"][0]),
        (&json!("ClusterIP"), &service["spec"]["clusterIP"])
    );
    let namespace = api.post("/api/v1/namespaces", &json!({"metadata": {"name": "n"}})).await.ok();
    assert_eq!(
        (&namespace["status"]["phase"], &namespace["spec"]["finalizers"][0]),
        (&json!("Active"), &json!("kubernetes"))
    );
    assert_eq!(namespace["metadata"]["labels"]["kubernetes.io/metadata.name"], "n");
}

#[tokio::test]
async fn a_put_with_a_uid_creates_nothing() {
    let api = Api::new();
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    let put = async |uid: &str| api.put(path, &json!({"metadata": {"name": "l", "uid": uid}})).await;
    let refused = put("u").await.fails(409, "Conflict");
    let expected = "Operation cannot be fulfilled on leases.coordination.k8s.io \"l\": StorageError: invalid object, Code: 4, Key: \
         /registry/leases/default/l, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: u, UID in object meta: ";
    assert_eq!(refused["message"], expected);
    assert_eq!(put("").await.code, 201);
}

#[tokio::test]
async fn pod_specification_is_immutable_except_as_in_kubernetes() {
    let api = Api::new();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
    let created = api.post(&core("pods"), &pod).await.ok();
    api.put(&core("pods/p"), &created).await.ok();
    let image = json!({"spec": {"containers": [{"name": "c", "image": "i:2"}], "activeDeadlineSeconds": 60}});
    let patched = api.patch("strategic-merge-patch+json", &core("pods/p"), &image).await.ok();
    assert_eq!(patched["spec"]["containers"][0]["image"], "i:2");
    api.merge(&core("pods/p"), &json!({"metadata": {"labels": {"a": "b"}}})).await.ok();
    let policy = json!({"spec": {"restartPolicy": "Never"}});
    let refused = api.merge(&core("pods/p"), &policy).await.fails(422, "Invalid");
    let cause = &refused["details"]["causes"][0];
    assert_eq!((&cause["field"], &cause["reason"]), (&json!("spec"), &json!("FieldValueForbidden")));
    let message = refused["message"].as_str().expect("text");
    assert!(message.contains("Forbidden: pod updates may not change fields other than"), "{message}");
    assert!(message.ends_with("changed: spec.restartPolicy"), "{message}");
}

#[tokio::test]
async fn events_are_served_in_two_groups() {
    let api = Api::new();
    let event = json!({
        "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "R", "message": "m", "type": "Normal",
    });
    api.post(&core("events"), &event).await.ok();
    let path = "/apis/events.k8s.io/v1/namespaces/default/events";
    let mut newer = api.get(&format!("{path}/e")).await.ok();
    assert_eq!((&newer["note"], &newer["regarding"]["name"]), (&json!("m"), &json!("p")));
    assert_eq!(newer["apiVersion"], "events.k8s.io/v1");
    newer["note"] = json!("changed");
    let refused = api.put(&format!("{path}/e"), &newer).await.fails(422, "Invalid");
    assert_eq!(refused["details"]["causes"][0]["field"], "message");
    newer["note"] = json!("m");
    newer["series"] = json!({"count": 2, "lastObservedTime": "2024-01-01T00:00:00.000000Z"});
    api.put(&format!("{path}/e"), &newer).await.ok();
    let mut older = api.get(&core("events/e")).await.ok();
    assert_eq!(older["series"]["count"], 2);
    older["message"] = json!("changed");
    api.put(&core("events/e"), &older).await.ok();
    let selected = api.get(&format!("{path}?fieldSelector=regarding.name%3Dp")).await.ok();
    assert_eq!(selected["items"][0]["note"], "changed");
}

#[tokio::test]
async fn autoscalers_are_served_in_two_versions() {
    let api = Api::new();
    let path =
        |version: &str| format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers");
    let body = json!({
        "metadata": {"name": "h"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
            "minReplicas": 1, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50,
        },
    });
    let created = api.post(&path("v1"), &body).await.ok();
    assert_eq!((&created["apiVersion"], &created["spec"]), (&json!("autoscaling/v1"), &body["spec"]));
    let one = |version: &str| format!("{}/h", path(version));
    let v2 = api.get(&one("v2")).await.ok();
    assert_eq!(v2["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 50);
    assert_eq!(v2["spec"].get("targetCPUUtilizationPercentage"), None);
    api.merge(&one("v1"), &json!({"spec": {"targetCPUUtilizationPercentage": 70}})).await.ok();
    assert_eq!(
        api.get(&one("v2")).await.ok()["spec"]["metrics"],
        json!([{"type": "Resource", "resource": {
            "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70},
        }}])
    );
    let before = api.server.revision();
    let unchanged = api.get(&one("v1")).await.ok();
    api.put(&one("v1"), &unchanged).await.ok();
    assert_eq!(api.server.revision(), before, "a round trip through v1 changes nothing");
    let status = json!({"status": {"currentReplicas": 2, "desiredReplicas": 3, "currentCPUUtilizationPercentage": 90}});
    api.merge(&format!("{}/status", one("v1")), &status).await.ok();
    let v2 = api.get(&one("v2")).await.ok();
    assert_eq!(v2["status"]["currentMetrics"][0]["resource"]["current"]["averageUtilization"], 90);
    let listed = api.get(&path("v1")).await.ok();
    assert_eq!(listed["items"][0]["spec"]["targetCPUUtilizationPercentage"], 70);
}

#[tokio::test]
async fn reviews_are_answered_but_not_stored() {
    let api = Api::new();
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let answer = api.post(path, &review).await;
    assert_eq!((answer.code, &answer.body["status"]["allowed"]), (201, &json!(true)));
    api.get(path).await.fails(405, "MethodNotAllowed");
}

#[tokio::test]
async fn container_subresources_are_rejected_with_the_reason() {
    let api = Api::new();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    api.post(&core("pods"), &pod).await.ok();
    for subresource in ["log", "exec", "attach", "portforward"] {
        let refused = api.get(&core(&format!("pods/p/{subresource}"))).await.fails(400, "BadRequest");
        let wanted =
            format!("the embedded API server runs no containers: pods/{subresource} isn't available");
        assert!(refused["message"].as_str().is_some_and(|text| text.starts_with(&wanted)), "{refused}");
    }
    let missing = api.get(&core("pods/q/log")).await.fails(404, "NotFound");
    assert_eq!(missing["message"], "pods \"q\" not found");
    api.get(&core("configmaps/p/log")).await.fails(404, "NotFound");
}

#[tokio::test]
async fn token_request_issues_a_jwt_for_the_service_account() {
    let api = Api::new();
    api.post(&core("serviceaccounts"), &json!({"metadata": {"name": "a"}})).await.ok();
    let path = core("serviceaccounts/a/token");
    let asked = json!({"spec": {"audiences": ["me"], "expirationSeconds": 600}});
    let answer = api.post(&path, &asked).await;
    assert_eq!(answer.code, 201);
    let body = answer.body;
    assert_eq!((&body["kind"], &body["spec"]["expirationSeconds"]), (&json!("TokenRequest"), &json!(600)));
    let token = body["status"]["token"].as_str().expect("a token");
    let claims = token.split('.').nth(1).expect("claims").replace('-', "+").replace('_', "/");
    let padded = format!("{claims}{}", "=".repeat((4 - claims.len() % 4) % 4));
    let bytes: k8s_openapi::ByteString = serde_json::from_value(json!(padded)).expect("base64");
    let claims: Value = serde_json::from_slice(&bytes.0).expect("JSON");
    assert_eq!((&claims["sub"], &claims["aud"]), (&json!("system:serviceaccount:default:a"), &json!(["me"])));
    assert_eq!(claims["exp"].as_i64().zip(claims["iat"].as_i64()).map(|(end, start)| end - start), Some(600));
    assert!(body["status"]["expirationTimestamp"].is_string());
    api.post(&path, &json!({"spec": {"expirationSeconds": 1}})).await.fails(422, "Invalid");
    api.post(&core("serviceaccounts/b/token"), &asked).await.fails(404, "NotFound");
    api.get(&path).await.fails(405, "MethodNotAllowed");
}

#[tokio::test]
async fn addresses_and_node_ports_of_services_are_unique() {
    let api = Api::new();
    let service = |name: &str, spec: Value| {
        let mut service = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
        for (field, value) in spec.as_object().into_iter().flatten() {
            service["spec"][field] = value.clone();
        }
        service
    };
    let a = api.post(&core("services"), &service("a", json!({"type": "NodePort"}))).await.ok();
    let (ip, port) = (a["spec"]["clusterIP"].clone(), a["spec"]["ports"][0]["nodePort"].clone());
    let b = api.post(&core("services"), &service("b", json!({"type": "NodePort"}))).await.ok();
    assert!(b["spec"]["clusterIP"] != ip && b["spec"]["ports"][0]["nodePort"] != port);
    let taken =
        api.post(&core("services"), &service("c", json!({"clusterIP": ip}))).await.fails(422, "Invalid");
    assert_eq!(taken["details"]["causes"][0]["field"], "spec.clusterIPs");
    let ports = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
    let taken = api.post(&core("services"), &service("c", ports)).await.fails(422, "Invalid");
    assert_eq!(taken["details"]["causes"][0]["field"], "spec.ports[0].nodePort");
    let updated = api.put(&core("services/a"), &service("a", json!({"type": "NodePort"}))).await.ok();
    assert_eq!((&updated["spec"]["clusterIP"], &updated["spec"]["ports"][0]["nodePort"]), (&ip, &port));
    let moved = service("a", json!({"clusterIP": "10.96.9.9"}));
    api.merge(&core("services/a"), &moved).await.fails(422, "Invalid");
}

#[tokio::test]
async fn services_get_addresses_of_the_range_of_the_server() {
    let range = "10.0.0.0/29".parse().expect("a range");
    let api = Api { server: ApiServer::builder().service_cluster_ip_range(range).build() };
    let kubernetes = api.get(&core("services/kubernetes")).await.ok();
    assert_eq!(kubernetes["spec"]["clusterIPs"], json!(["10.0.0.1"]));
    let service = |name: &str, ip: &str| json!({"metadata": {"name": name}, "spec": {"clusterIP": ip, "ports": [{"port": 80}]}});
    api.post(&core("services"), &service("a", "10.0.0.6")).await.ok();
    let foreign = api.post(&core("services"), &service("b", "10.96.0.9")).await.fails(422, "Invalid");
    assert!(
        foreign["message"].as_str().expect("a message").contains("The range of valid IPs is 10.0.0.0/29")
    );
    for name in ["b", "c", "d", "e"] {
        api.post(&core("services"), &service(name, "")).await.ok();
    }
    let full = api.post(&core("services"), &service("f", "")).await.fails(500, "InternalError");
    let message = "Internal error occurred: failed to allocate a serviceIP for Service \"f\": range is full";
    assert_eq!(full["message"], message);
}

#[tokio::test]
async fn services_of_simultaneous_requests_get_different_addresses() {
    let range = "10.0.0.0/25".parse().expect("a range");
    let api = Arc::new(Api { server: ApiServer::builder().service_cluster_ip_range(range).build() });
    // A webhook that does not answer, and is ignored then, keeps all requests waiting between the choice of the address and the write.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("https://{}", listener.local_addr().expect("an address"));
    let webhook = json!({
        "name": "slow.example.com", "clientConfig": {"url": url}, "timeoutSeconds": 1, "failurePolicy": "Ignore",
        "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["services"]}],
    });
    let configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    api.post(configurations, &json!({"metadata": {"name": "slow"}, "webhooks": [webhook]})).await.ok();
    let mut requests = JoinSet::new();
    for index in 0..40 {
        let api = Arc::clone(&api);
        let service = json!({"metadata": {"name": format!("s{index}")}, "spec": {"ports": [{"port": 80}]}});
        requests.spawn(async move { api.post(&core("services"), &service).await.ok() });
    }
    let services = requests.join_all().await;
    let ips: HashSet<&str> =
        services.iter().filter_map(|service| service["spec"]["clusterIP"].as_str()).collect();
    assert_eq!(ips.len(), 40, "{ips:?}");
}

#[tokio::test]
async fn workloads_need_containers_and_cron_jobs_a_valid_schedule() {
    let api = Api::new();
    let mut bare = deployment("d", 1);
    bare["spec"]["template"].as_object_mut().expect("a template").remove("spec");
    let refused = api.post(&apps("deployments"), &bare).await.fails(422, "Invalid");
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.template.spec.containers");
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let job = json!({
        "metadata": {"name": "j"}, "spec": {"schedule": "bad", "jobTemplate": {"spec": {"template": template}}},
    });
    let path = "/apis/batch/v1/namespaces/default/cronjobs";
    let refused = api.post(path, &job).await.fails(422, "Invalid");
    assert_eq!(
        refused["message"],
        "CronJob.batch \"j\" is invalid: spec.schedule: Invalid value: \"bad\": expected exactly 5 fields, found 1: [bad]"
    );
}
