//! Requests from web pages and from clients without credentials to the host's ports.

use http::{Method, Request, StatusCode};
use serde_json::json;

use super::HostUnderAttack;
use crate::harness::send;

#[tokio::test(flavor = "multi_thread")]
async fn the_status_server_rejects_requests_from_web_pages() {
    let mut target = HostUnderAttack::start().await;
    let url = |path: &str| format!("{}{path}", target.host.status_url);
    for (header, value) in [
        ("host", "evil.example.com"),
        ("origin", "https://evil.example.com"),
        ("sec-fetch-site", "cross-site"),
    ] {
        for path in [
            "/",
            "/plugins/healthy",
            "/plugins/healthy/keys/default/a",
            "/page/live.js",
            "/page/events",
            "/api/plugins",
            "/api/logs",
            "/debug/informers",
            "/metrics",
        ] {
            let request =
                Request::get(url(path)).header(header, value).body(String::new()).expect("a request");
            let status = send(request).await;
            assert!(status.is_client_error(), "{path} with {header}: {value}: {status}");
        }
        for action in ["pause", "resume", "requeue?key=a", "rollback", "promote"] {
            let url = url(&format!("/api/plugins/healthy/{action}"));
            let request = Request::post(url).header(header, value).body(String::new()).expect("a request");
            assert_eq!(send(request).await, StatusCode::FORBIDDEN, "{action} with {header}: {value}");
        }
    }
    // A page of the same site, or a form in a browser without these headers.
    let form = Request::post(url("/api/plugins/healthy/pause")).body(String::new()).expect("a request");
    assert_eq!(send(form).await, StatusCode::FORBIDDEN);
    let post = Request::post(url("/api/plugins")).body("{}".to_owned()).expect("a request");
    assert_eq!(send(post).await, StatusCode::METHOD_NOT_ALLOWED);
    target.assert_healthy("a web page").await;
    target.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_server_rejects_requests_without_a_credential() {
    let mut target = HostUnderAttack::start().await;
    if target.host.server.skip_if_external("the test is about the embedded server") {
        return;
    }
    let namespace = &target.host.server.namespace;
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let manifest = json!({"metadata": {"name": "from-a-page"}}).to_string();
    for (method, body) in
        [(Method::GET, String::new()), (Method::POST, manifest), (Method::DELETE, String::new())]
    {
        let status = target.host.server.anonymous_status(method.clone(), &path, body).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{method} {path}");
    }
    assert!(target.host.server.config_maps().get_opt("from-a-page").await.expect("answered").is_none());
    target.assert_healthy("anonymous requests").await;
    target.stop().await;
}
