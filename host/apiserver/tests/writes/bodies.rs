//! The bodies of requests and responses: what is malformed or unknown, and their formats.

use bytes::Bytes;
use http::Method;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::api::{Api, core};

#[tokio::test]
async fn malformed_bodies_are_rejected_with_the_reason() {
    let api = Api::new();
    let broken = Bytes::from_static(b"{\"metadata\": {\n \"name\" \"a\"}}");
    let body = api
        .send(Method::POST, &core("configmaps"), "application/json", broken)
        .await
        .fails(400, "BadRequest");
    assert!(
        body["message"].as_str().is_some_and(|text| text.contains("invalid character '\"' after object key")),
        "{body}"
    );
    api.send(Method::POST, &core("configmaps"), "text/plain", Bytes::from_static(b"x"))
        .await
        .fails(415, "UnsupportedMediaType");
    let yaml = Bytes::from_static(b"metadata:\n  name: from-yaml\ndata: {a: b}\n");
    let created = api.send(Method::POST, &core("configmaps"), "application/yaml", yaml).await.ok();
    assert_eq!(created["data"]["a"], "b");
    let large = Bytes::from(vec![b' '; 4 * 1024 * 1024]);
    let refused = api.send(Method::POST, &core("configmaps"), "application/json", large).await;
    assert_eq!(refused.code, 413);
}

#[tokio::test]
async fn unknown_fields_are_rejected_warned_about_or_dropped() {
    let api = Api::new();
    let body = |name: &str| json!({"metadata": {"name": name}, "dada": {"x": "1"}});
    let strict =
        api.post(&core("configmaps?fieldValidation=Strict"), &body("a")).await.fails(400, "BadRequest");
    assert!(strict["message"].as_str().is_some_and(|text| text.contains("unknown field \"dada\"")));
    let warned = api.post(&core("configmaps"), &body("b")).await;
    assert_eq!(warned.warnings, ["299 - \"unknown field \\\"dada\\\"\""]);
    assert_eq!(warned.ok().get("dada"), None);
    let ignored = api.post(&core("configmaps?fieldValidation=Ignore"), &body("c")).await;
    assert!(ignored.warnings.is_empty() && ignored.code == 201);
}

#[tokio::test]
async fn yaml_is_served_to_clients_that_prefer_it() {
    let api = Api::new();
    api.post(&core("configmaps"), &json!({"metadata": {"name": "a"}, "data": {"k": "yes"}})).await.ok();
    let read = async |path: &str| {
        let request = http::Request::get(path).header("accept", "application/yaml");
        let request = request.body(Full::<Bytes>::default()).expect("a request");
        let Ok(response) = api.server.service().oneshot(request).await;
        let code = response.status().as_u16();
        let kind = response.headers()["content-type"].to_str().expect("text").to_owned();
        let Ok(body) = response.into_body().collect().await;
        let value: Value = serde_saphyr::from_slice(&body.to_bytes()).expect("YAML");
        (code, kind, value)
    };
    let (code, kind, value) = read(&core("configmaps/a")).await;
    assert_eq!((code, kind.as_str(), &value["data"]["k"]), (200, "application/yaml", &json!("yes")));
    let (_, _, list) = read(&core("configmaps")).await;
    assert_eq!(list["items"][0]["metadata"]["name"], "a");
    let (code, _, status) = read(&core("configmaps/none")).await;
    assert_eq!((code, &status["reason"]), (404, &json!("NotFound")));
    let (code, _, _) = read(&core("configmaps?watch=true")).await;
    assert_eq!(code, 406);
}

#[tokio::test]
async fn the_version_of_a_core_object_may_begin_with_a_slash() {
    let api = Api::new();
    let map = json!({"apiVersion": "/v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let created = api.post(&core("configmaps"), &map).await.ok();
    assert_eq!(created["apiVersion"], "v1");
}
