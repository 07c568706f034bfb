//! CertificateSigningRequests, APIServices and ComponentStatuses.

mod api;

use api::{Api, names};
use http::Method;
use k8s_openapi::ByteString;
use serde_json::{Value, json};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

/// Returns a CertificateSigningRequest for a client certificate of `organization`.
fn signing_request(organization: &str) -> Value {
    let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).expect("no names");
    params.distinguished_name.push(rcgen::DnType::OrganizationName, organization);
    let key = rcgen::KeyPair::generate().expect("a key");
    let pem = params.serialize_request(&key).expect("a request").pem().expect("PEM");
    json!({
        "metadata": {"name": "jane"},
        "spec": {
            "request": ByteString(pem.into_bytes()), "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"], "username": "somebody-else",
        },
        "status": {"conditions": [{"type": "Approved", "status": "True"}]},
    })
}

fn condition(ty: &str) -> Value {
    json!({"type": ty, "status": "True", "reason": "Tested", "message": "by a test"})
}

#[tokio::test]
async fn new_signing_request_records_its_user_and_is_pending() {
    let api = Api::new();
    let created = api.post(REQUESTS, &signing_request("developers")).await.ok();
    assert_eq!(created["spec"]["username"], "system:admin");
    assert_eq!(created["spec"]["groups"], json!(["system:masters", "system:authenticated"]));
    assert_eq!(created["status"], json!({}));
    let malformed =
        json!({"metadata": {"name": "bad"}, "spec": {"request": "eA==", "signerName": "x", "usages": []}});
    let failure = api.post(REQUESTS, &malformed).await.fails(422, "Invalid");
    let causes = failure["details"]["causes"].as_array().expect("causes").iter();
    let fields: Vec<&str> = causes.filter_map(|cause| cause["field"].as_str()).collect();
    assert_eq!(fields, ["spec.request", "spec.usages", "spec.signerName"]);
    api.post(REQUESTS, &signing_request("system:masters")).await.fails(403, "Forbidden");
}

#[tokio::test]
async fn approval_and_status_change_only_their_own_fields() {
    let api = Api::new();
    let mut request = api.post(REQUESTS, &signing_request("developers")).await.ok();
    let path = format!("{REQUESTS}/jane");
    request["status"]["conditions"] = json!([condition("Approved")]);
    request["spec"]["usages"] = json!(["server auth"]);
    api.put(&format!("{path}/status"), &request).await.fails(422, "Invalid");
    let unchanged = api.put(&path, &request).await.ok();
    assert_eq!((&unchanged["status"], &unchanged["spec"]["usages"]), (&json!({}), &json!(["client auth"])));
    let approved = api.put(&format!("{path}/approval"), &request).await.ok();
    let first = &approved["status"]["conditions"][0];
    assert!(first["lastUpdateTime"].is_string() && first["lastTransitionTime"].is_string(), "{first}");
    assert_eq!(approved["spec"]["usages"], json!(["client auth"]));
    let both = json!({"status": {"conditions": [condition("Approved"), condition("Denied")]}});
    api.merge(&format!("{path}/approval"), &both).await.fails(422, "Invalid");
    let none = json!({"status": {"conditions": []}});
    api.merge(&format!("{path}/approval"), &none).await.fails(422, "Invalid");
    let text = json!({"status": {"certificate": "bm8="}});
    api.merge(&format!("{path}/status"), &text).await.fails(422, "Invalid");
    let failed = json!({"status": {"conditions": [first, condition("Failed")]}});
    let written = api.merge(&format!("{path}/status"), &failed).await.ok();
    assert_eq!(written["status"]["conditions"][1]["type"], "Failed");
}

#[tokio::test]
async fn groups_have_local_api_services_while_they_are_served() {
    let api = Api::new();
    let core = api.get(&format!("{SERVICES}/v1.")).await.ok();
    assert_eq!(core["spec"]["groupPriorityMinimum"], 18000);
    assert_eq!(core["status"]["conditions"][0]["reason"], "Local");
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    api.post(crds, &crd).await.ok();
    let custom = api.get(&format!("{SERVICES}/v1.example.com")).await.ok();
    assert_eq!(
        (&custom["spec"]["groupPriorityMinimum"], &custom["spec"]["versionPriority"]),
        (&json!(1000), &json!(100))
    );
    api.delete(&format!("{crds}/foos.example.com"), &Value::Null).await.ok();
    api.get(&format!("{SERVICES}/v1.example.com")).await.fails(404, "NotFound");
}

#[tokio::test]
async fn api_service_of_another_server_is_stored_but_not_available() {
    let api = Api::new();
    let service = json!({
        "metadata": {"name": "v1beta1.metrics.k8s.io"},
        "spec": {
            "group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "insecureSkipTLSVerify": true, "service": {"namespace": "kube-system", "name": "metrics-server"},
        },
    });
    let created = api.post(SERVICES, &service).await.ok();
    assert_eq!(created["spec"]["service"]["port"], 443);
    let available = &created["status"]["conditions"][0];
    assert_eq!((&available["status"], &available["reason"]), (&json!("False"), &json!("ProxyNotSupported")));
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let (answer, _) = api.get_as(&format!("{SERVICES}/v1beta1.metrics.k8s.io"), table).await;
    assert_eq!(answer.body["rows"][0]["cells"][2], "False (ProxyNotSupported)");
    let mut misnamed = service;
    misnamed["metadata"]["name"] = "metrics".into();
    api.post(SERVICES, &misnamed).await.fails(422, "Invalid");
}

#[tokio::test]
async fn component_statuses_can_only_be_read() {
    let api = Api::new();
    let list = api.get("/api/v1/componentstatuses").await.ok();
    assert_eq!(names(&list), ["controller-manager", "etcd-0", "scheduler"]);
    let scheduler = api.get("/api/v1/componentstatuses/scheduler").await;
    assert_eq!(scheduler.body["conditions"][0]["type"], "Healthy");
    assert!(scheduler.warnings[0].contains("deprecated"), "{:?}", scheduler.warnings);
    for method in [Method::PUT, Method::DELETE, Method::PATCH] {
        let answer =
            api.send(method, "/api/v1/componentstatuses/scheduler", "application/json", "{}".into()).await;
        answer.fails(405, "MethodNotAllowed");
    }
}

#[tokio::test]
async fn status_updates_of_some_kinds_keep_all_metadata_of_users() {
    let api = Api::new();
    let service = json!({"metadata": {"name": "v1.other.example.com"}, "spec": {
        "group": "other.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1,
        "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "other"},
    }});
    let range = json!({"metadata": {"name": "range"}, "spec": {"cidrs": ["10.0.0.0/24"]}});
    let ranges = "/apis/networking.k8s.io/v1/servicecidrs";
    for (collection, object) in [(SERVICES, service), (ranges, range)] {
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        api.post(collection, &object).await.ok();
        let metadata = json!({"labels": {"a": "b"}, "annotations": {"a": "b"}, "finalizers": ["a/b"]});
        let patch = json!({"metadata": metadata, "status": {"conditions": [condition_with_time("Ready")]}});
        let written = api.merge(&format!("{collection}/{name}/status"), &patch).await.ok();
        for field in ["labels", "annotations", "finalizers"] {
            assert_eq!(written["metadata"].get(field), None, "{collection} {field}");
        }
        assert_eq!(written["status"]["conditions"][0]["type"], "Ready");
    }
}

fn condition_with_time(ty: &str) -> Value {
    let mut condition = condition(ty);
    condition["lastTransitionTime"] = "2024-01-01T00:00:00Z".into();
    condition
}
