//! Discovery and non-resource paths.

mod api;

use api::Api;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tower::ServiceExt;

#[tokio::test]
async fn groups_and_resources_are_listed() {
    let api = Api::new();
    assert_eq!(api.get("/api").await.ok()["versions"][0], "v1");
    let groups = api.get("/apis").await.ok();
    let names: Vec<&str> = groups["groups"]
        .as_array()
        .expect("groups")
        .iter()
        .filter_map(|group| group["name"].as_str())
        .collect();
    for group in ["apps", "batch", "apiextensions.k8s.io", "events.k8s.io", "rbac.authorization.k8s.io"] {
        assert!(names.contains(&group), "{group} is not among {names:?}");
    }
    let resources = api.get("/api/v1").await.ok();
    let pods = resources["resources"].as_array().expect("resources").iter().find(|one| one["name"] == "pods");
    let pods = pods.expect("pods");
    assert_eq!((&pods["shortNames"][0], &pods["categories"][0]), (&Value::from("po"), &Value::from("all")));
    api.get("/apis/nothing.example.com").await.is_page_not_found();
    api.get("/apis/apps/v9").await.fails(404, "NotFound");
}

#[tokio::test]
async fn aggregated_discovery_is_served_on_request() {
    let api = Api::new();
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                  application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
    let (answer, content_type) = api.get_as("/apis", accept).await;
    assert_eq!(content_type, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    let items = answer.body["items"].as_array().expect("items");
    let apps = items.iter().find(|item| item["metadata"]["name"] == "apps").expect("apps");
    let resources = apps["versions"][0]["resources"].as_array().expect("resources");
    let deployments = resources.iter().find(|one| one["resource"] == "deployments").expect("deployments");
    assert_eq!(deployments["responseKind"]["kind"], "Deployment");
    let subresources = deployments["subresources"].as_array().expect("subresources");
    assert!(
        subresources
            .iter()
            .any(|one| one["subresource"] == "scale" && one["responseKind"]["kind"] == "Scale")
    );
    let (plain, content_type) = api.get_as("/apis", "application/json").await;
    assert_eq!(
        (content_type.as_str(), &plain.body["kind"]),
        ("application/json", &Value::from("APIGroupList"))
    );
}

#[tokio::test]
async fn health_and_version_are_served_and_unknown_paths_get_404() {
    let api = Api::new();
    for path in ["/healthz", "/readyz", "/livez"] {
        assert_eq!(api.get(path).await.code, 200);
    }
    assert_eq!(api.get("/version").await.ok()["minor"], "36");
    api.get("/nothing").await.is_page_not_found();
    api.get("/api/v1/namespaces/default/nothings").await.fails(404, "NotFound");
    api.get("/api/v1/namespaces/default/configmaps/a/nothing").await.fails(404, "NotFound");
}

#[tokio::test]
async fn health_is_reported_by_check() {
    let api = Api::new();
    for path in ["/livez/ping", "/readyz/shutdown", "/healthz?verbose", "/readyz?exclude=etcd"] {
        assert_eq!(api.get(path).await.code, 200, "{path}");
    }
    api.get("/livez/nothing").await.is_page_not_found();
}

#[tokio::test]
async fn metrics_count_requests_watches_and_objects() {
    let api = Api::new();
    api.get("/api/v1/namespaces/default").await.ok();
    let watch = api.watch("/api/v1/pods").await;
    let text = metrics(&api).await;
    let request = "apiserver_request_total{verb=\"GET\",group=\"\",version=\"v1\",resource=\"namespaces\",subresource=\"\",\
                   scope=\"resource\",code=\"200\"} 1";
    assert!(text.contains(request), "{text}");
    assert!(text.contains("apiserver_storage_objects{resource=\"namespaces\"} 4"), "{text}");
    let open = |text: &str, count: u8| {
        let labels =
            "{verb=\"WATCH\",group=\"\",version=\"v1\",resource=\"pods\",subresource=\"\",scope=\"cluster\"}";
        text.contains(&format!("apiserver_longrunning_requests{labels} {count}"))
    };
    assert!(open(&text, 1), "{text}");
    drop(watch);
    let text = metrics(&api).await;
    assert!(open(&text, 0), "{text}");
}

async fn metrics(api: &Api) -> String {
    let request = http::Request::get("/metrics").body(Full::<Bytes>::default()).expect("a request");
    let Ok(response) = api.server.service().oneshot(request).await;
    let Ok(body) = response.into_body().collect().await;
    String::from_utf8(body.to_bytes().to_vec()).expect("text")
}

#[tokio::test]
async fn openapi_v2_in_protobuf_is_served_only_to_clients_that_accept_nothing_else() {
    let api = Api::new();
    let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let (answer, content_type) = api.get_as("/openapi/v2", protobuf).await;
    let served = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    assert_eq!((answer.code, content_type.as_str()), (200, served));
    let (answer, _) = api.get_as("/openapi/v2", &format!("{protobuf}, application/json")).await;
    assert_eq!(answer.body["swagger"], "2.0");
    assert_eq!(api.get_as("/openapi/v3", protobuf).await.0.code, 406);
}

#[tokio::test]
async fn root_lists_paths_that_are_served() {
    let api = Api::new();
    let root = api.get("/").await.ok();
    let paths: Vec<&str> =
        root["paths"].as_array().expect("paths").iter().filter_map(Value::as_str).collect();
    for path in
        ["/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/openapi/v3", "/readyz", "/version"]
    {
        assert!(paths.contains(&path), "{path} is not among {paths:?}");
        assert_eq!(api.get(path).await.code, 200, "{path}");
    }
    assert!(paths.is_sorted());
}
