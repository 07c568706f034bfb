//! Calls the status server's routes without a socket.

use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

use axum::body::Body;
use axum::http::Method;
use http_body_util::BodyExt;
use pilothouse_controller::{HostOptions, Metrics};
use pilothouse_listen::ConnectionAddresses;
use pilothouse_plugin::{Engine, EngineOptions};
use tower::ServiceExt;

use super::*;

/// Returns the routes of a host that was created but not started.
pub(super) fn test_routes(folder: &Path) -> Router {
    test_routes_with(folder, None)
}

fn test_routes_with(folder: &Path, authorizer: Option<Authorizer>) -> Router {
    test_routes_of(folder, authorizer, Arc::default())
}

fn test_routes_of(folder: &Path, authorizer: Option<Authorizer>, startup: Arc<StartupSteps>) -> Router {
    // A host that was not started sends no request.
    let server = tower::service_fn(async |_: http::Request<kube::client::Body>| {
        Ok::<_, Infallible>(http::Response::new(kube::client::Body::empty()))
    });
    let client = kube::Client::new(server, "default");
    let engine = Engine::new(EngineOptions::default()).expect("an engine");
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let options = HostOptions {
        plugins: folder.to_owned(),
        api_server: "127.0.0.1:1".to_owned(),
        grant_crds: false,
        grants: pilothouse_controller::GrantMode::Declared,
        instance: "test".to_owned(),
        namespace: "default".to_owned(),
        settle: Duration::from_millis(1),
        file_events: false,
        access_review_interval: Duration::from_secs(30),
        informer_runtime: None,
        cache_compression: None,
        streaming_lists: true,
        requeue_on_reload: true,
        name_request_origins: false,
        environment: Default::default(),
    };
    let host = PluginHost::new(options, client, engine, metrics);
    let guard = RequestGuard::new(false, &["host.example".to_owned()]);
    routes(AppState::new(host, registry, startup), guard, authorizer)
}

async fn send(
    routes: &Router,
    method: Method,
    path: &str,
    headers: &[(&'static str, &str)],
) -> (u16, String) {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::empty()).expect("a request");
    let Ok(response) = routes.clone().oneshot(request).await;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

const PATHS: [&str; 12] = [
    "/",
    "/page/style.css",
    "/page/live.js",
    "/page/icon.svg",
    "/healthz",
    "/readyz",
    "/readyz/plugins",
    "/metrics",
    "/api/plugins",
    "/api/logs",
    "/debug/informers",
    "/debug/host",
];
pub(super) const LOCAL: (&str, &str) = ("host", "127.0.0.1:9464");
const CLIENT: (&str, &str) = (CLIENT_HEADER, "test");

#[cfg(feature = "developer-tools")]
#[tokio::test]
async fn the_plugins_are_not_ready_before_the_start_is_finished() {
    let folder = tempfile::tempdir().expect("a folder");
    let startup = Arc::new(StartupSteps::default());
    let step = crate::startup::StartupStep::begin(&startup, "--build web: the first build has not succeeded");
    let routes = test_routes_of(folder.path(), None, startup);
    let problems = async || send(&routes, Method::GET, "/readyz/plugins", &[LOCAL]).await;
    // The host was not started, so it is not ready either.
    let (status, body) = problems().await;
    assert_eq!(status, 503);
    assert!(body.contains("--build web: the first build has not succeeded\n"), "{body}");
    step.finish_with_plugin("web".to_owned());
    let (_, body) = problems().await;
    assert!(body.contains("web: built, and not found yet\n"), "{body}");
}

#[tokio::test]
async fn requests_with_a_foreign_host_header_are_rejected() {
    let folder = tempfile::tempdir().expect("a folder");
    let routes = test_routes(folder.path());
    for path in PATHS {
        let (status, body) = send(&routes, Method::GET, path, &[("host", "attacker.example:9464")]).await;
        assert_eq!((status, body.contains("--allowed-hosts")), (403, true), "{path}: {body}");
        let (status, _) = send(&routes, Method::GET, path, &[]).await;
        assert_eq!(status, 403, "{path} without a Host");
    }
    for host in ["localhost:9464", "[::1]:9464", "10.0.0.7:9464", "host.example"] {
        assert_eq!(send(&routes, Method::GET, "/healthz", &[("host", host)]).await.0, 200, "{host}");
    }
}

#[tokio::test]
async fn cross_site_requests_are_rejected() {
    let folder = tempfile::tempdir().expect("a folder");
    let routes = test_routes(folder.path());
    for path in PATHS {
        for forged in [("origin", "http://attacker.example"), ("sec-fetch-site", "cross-site")] {
            let (status, _) = send(&routes, Method::GET, path, &[LOCAL, forged]).await;
            assert_eq!(status, 403, "{path} {forged:?}");
        }
        let (status, _) = send(&routes, Method::GET, path, &[LOCAL, ("sec-fetch-site", "none")]).await;
        assert!(status == 200 || path.starts_with("/readyz"), "{path}: {status}");
    }
}

#[tokio::test]
async fn methods_that_modify_are_rejected_with_405() {
    let folder = tempfile::tempdir().expect("a folder");
    let routes = test_routes(folder.path());
    for path in PATHS {
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            let (status, _) = send(&routes, method.clone(), path, &[LOCAL]).await;
            assert_eq!(status, 405, "{method} {path}");
        }
    }
}

/// The requests that change something.
const CHANGES: [&str; 5] = [
    "/api/plugins/p/requeue?key=n%2Fa",
    "/api/plugins/p/pause",
    "/api/plugins/p/resume",
    "/api/plugins/p/rollback?digest=0123ab",
    "/api/plugins/p/promote",
];

#[tokio::test]
async fn requests_that_change_something_must_be_posts_of_the_own_user() {
    let folder = tempfile::tempdir().expect("a folder");
    let routes = test_routes(folder.path());
    for path in CHANGES {
        // The connection's addresses are not known, as for any request that does not come through the status port's own listener.
        let (status, body) = send(&routes, Method::POST, path, &[LOCAL, CLIENT]).await;
        assert_eq!((status, body.contains("the user who runs the host")), (403, true), "{path}: {body}");
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let server = listener.local_addr().expect("an address");
    let stream = tokio::net::TcpStream::connect(server).await.expect("a connection");
    let (accepted, _) = listener.accept().await.expect("a connection");
    let addresses = ConnectionAddresses::of(&accepted).expect("connected");
    let own = routes.clone().layer(axum::Extension(addresses));
    for path in CHANGES {
        let (status, body) = send(&own, Method::POST, path, &[LOCAL]).await;
        assert_eq!((status, body.contains(CLIENT_HEADER)), (403, true), "{path}: {body}");
        let (status, body) =
            send(&own, Method::POST, path, &[LOCAL, CLIENT, ("x-forwarded-for", "10.0.0.7")]).await;
        assert_eq!((status, body.contains("proxy")), (403, true), "{path}: {body}");
        let (status, body) = send(&own, Method::POST, path, &[LOCAL, CLIENT]).await;
        assert_eq!((status, body.contains("no plugin \"p\"")), (404, true), "{path}: {body}");
        let (status, _) = send(&own, Method::GET, path, &[LOCAL, CLIENT]).await;
        assert_eq!(status, 405, "{path}");
        for forged in [("origin", "http://attacker.example"), ("sec-fetch-site", "cross-site")] {
            let (status, body) = send(&own, Method::POST, path, &[LOCAL, CLIENT, forged]).await;
            assert_eq!((status, body.contains("web page")), (403, true), "{path} {forged:?}: {body}");
        }
    }
    let (status, _) = send(&own, Method::GET, "/api/plugins/p/keys", &[LOCAL]).await;
    assert_eq!(status, 404);
    drop(stream);
}

#[tokio::test]
async fn questions_about_keys_are_bounded_and_guarded() {
    let folder = tempfile::tempdir().expect("a folder");
    let routes = test_routes(folder.path());
    let long = "a".repeat(400);
    for (query, code, part) in [
        (String::new(), 400, "name a plugin and a key"),
        ("?plugin=p".to_owned(), 400, "name a plugin and a key"),
        ("?plugin=p&key=n%2Fa".to_owned(), 404, "no plugin \"p\""),
        ("?plugin=..%2Fp%1b%5B2J&key=a".to_owned(), 404, "no plugin"),
        (format!("?plugin={long}&key=a"), 400, "plugin has more than 253 bytes"),
        (format!("?plugin=p&key={long}"), 400, "key has more than 317 bytes"),
        (format!("?plugin=p&key=a&watch={long}"), 400, "watch has more than 253 bytes"),
    ] {
        let path = format!("/api/explain{query}");
        let (status, body) = send(&routes, Method::GET, &path, &[LOCAL]).await;
        assert_eq!((status, body.contains(part)), (code, true), "{path}: {body}");
        assert!(!body.contains('\u{1b}'), "{body:?}");
        for refused in [[LOCAL, ("sec-fetch-site", "cross-site")], [("host", "attacker.example"), CLIENT]] {
            assert_eq!(send(&routes, Method::GET, &path, &refused).await.0, 403, "{path}");
        }
        assert_eq!(send(&routes, Method::POST, &path, &[LOCAL]).await.0, 405, "{path}");
    }
    for (path, code, part) in [
        (format!("/plugins/p/keys/{long}"), 400, "key has more than 317 bytes"),
        (format!("/?plugin=p&key={long}"), 400, "no object has such a key"),
        ("/plugins/p/keys/%3Cb%3E".to_owned(), 404, "<h1>&lt;b&gt;</h1>"),
        ("/plugins/%3Cb%3E".to_owned(), 404, "<h1>&lt;b&gt;</h1>"),
    ] {
        let (status, body) = send(&routes, Method::GET, &path, &[LOCAL]).await;
        assert_eq!((status, body.contains(part)), (code, true), "{path}: {body}");
        assert_eq!(send(&routes, Method::POST, &path, &[LOCAL]).await.0, 405, "{path}");
        let forged = [LOCAL, ("sec-fetch-site", "cross-site")];
        assert_eq!(send(&routes, Method::GET, &path, &forged).await.0, 403, "{path}");
    }
}

#[tokio::test]
async fn a_path_at_which_nothing_is_served_has_a_text() {
    let folder = tempfile::tempdir().expect("a folder");
    let routes = test_routes(folder.path());
    for path in ["/api/nothing", "/plugins/p/keys/", "/nothing"] {
        let (status, body) = send(&routes, Method::GET, path, &[LOCAL]).await;
        assert_eq!((status, body.contains("nothing is served at this path")), (404, true), "{path}: {body}");
    }
}

async fn response(routes: &Router, path: &str) -> Response {
    let request = Request::get(path).header(LOCAL.0, LOCAL.1).body(Body::empty()).expect("a request");
    let Ok(response) = routes.clone().oneshot(request).await;
    response
}

#[tokio::test]
async fn a_question_in_the_form_of_a_plugin_leads_to_the_page_of_the_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let routes = test_routes(folder.path());
    for (path, location) in [
        ("/?plugin=p&key=shop%2Fa&watch=", "/plugins/p/keys/shop/a"),
        ("/?plugin=p&key=+a%0D%0A&watch=foos", "/plugins/p/keys/a?watch=foos"),
        ("/?plugin=p&key=", "/plugins/p"),
        ("/?plugin=%2F%2Fevil.example&key=a", "/plugins/%2F%2Fevil.example/keys/a"),
    ] {
        let response = response(&routes, path).await;
        assert_eq!(
            (response.status(), &response.headers()["location"]),
            (StatusCode::SEE_OTHER, &HeaderValue::from_static(location))
        );
    }
}

#[tokio::test]
async fn pages_may_load_and_run_only_files_of_this_host() {
    let folder = tempfile::tempdir().expect("a folder");
    let routes = test_routes(folder.path());
    for path in ["/", "/plugins/p", "/page/live.js", "/api/plugins"] {
        let response = response(&routes, path).await;
        let policy = response.headers()["content-security-policy"].to_str().expect("text");
        assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(response.headers()["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(response.headers()["referrer-policy"], "no-referrer", "{path}");
    }
}

#[tokio::test]
async fn the_number_of_pages_that_are_brought_up_to_date_is_bounded() {
    let folder = tempfile::tempdir().expect("a folder");
    let routes = test_routes(folder.path());
    let mut streams = Vec::new();
    let refused = loop {
        let response = response(&routes, "/page/events?plugin=p").await;
        if response.status() != StatusCode::OK {
            break response;
        }
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        streams.push(response.into_body());
        assert!(streams.len() <= LIMITS.connections / 2, "there is no limit");
    };
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    let mut stream = streams.pop().expect("a stream");
    let event = stream.frame().await.expect("an event").expect("no error").into_data().expect("data");
    assert!(event.starts_with(b"data: ") && event.ends_with(b"\n\n"), "{event:?}");
    drop(stream);
    assert_eq!(response(&routes, "/page/events").await.status(), StatusCode::OK, "a closed one makes room");
}

#[test]
fn only_plugins_with_work_that_they_do_not_do_are_unready() {
    let plugin = |name: &str, members: serde_json::Value| -> PluginStatus {
        let mut plugin = json!({
            "name": name, "version": "", "state": "running", "generation": 1, "error": "", "digest": "", "queueDepth": 0,
            "counters": {}, "ready": false,
        });
        plugin.as_object_mut().expect("an object").extend(members.as_object().expect("members").clone());
        serde_json::from_value(plugin).expect("a status")
    };
    let plugins = [
        plugin("disabled", json!({"state": "stopped", "error": "its sidecar says enabled: false"})),
        plugin("held", json!({"paused": true})),
        plugin("removed", json!({"state": "draining", "removed": true})),
        plugin("waits", json!({"state": "waiting", "error": "a CRD"})),
        plugin("works", json!({"ready": true})),
    ];
    assert_eq!(unready(&plugins), ["held: paused", "waits: waiting: a CRD"]);
}

/// The status port of hosts that run with `--auth kubernetes`, and the embedded API server that they ask.
#[cfg(feature = "embedded-server")]
mod with_authorization {
    use pilothouse_apiserver::{ApiServer, Authorization, User, Verb};
    use serde_json::Value;

    use super::*;

    const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
    const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

    fn server() -> ApiServer {
        ApiServer::builder().authorization(Authorization::Rbac).build()
    }

    fn client(server: &ApiServer, user: User) -> kube::Client {
        kube::Client::new(server.service_as(user), "default")
    }

    async fn create(admin: &kube::Client, path: &str, object: Value) -> Value {
        let request = http::Request::post(path).header("content-type", "application/json");
        let request = request.body(object.to_string().into_bytes()).expect("a request");
        admin.request(request).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Creates a service account, and returns its token.
    async fn create_account(admin: &kube::Client, name: &str) -> String {
        create(admin, ACCOUNTS, json!({"metadata": {"name": name}})).await;
        let review = create(admin, &format!("{ACCOUNTS}/{name}/token"), json!({"spec": {}})).await;
        review["status"]["token"].as_str().expect("a token").to_owned()
    }

    /// Allows a service account to get a path.
    async fn allow(admin: &kube::Client, account: &str, path: &str) {
        let rules = json!([{"nonResourceURLs": [path], "verbs": ["get"]}]);
        create(admin, ROLES, json!({"metadata": {"name": account}, "rules": rules})).await;
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": account});
        let subjects = json!([{"kind": "ServiceAccount", "name": account, "namespace": "default"}]);
        let binding = json!({"metadata": {"name": account}, "roleRef": role, "subjects": subjects});
        create(admin, BINDINGS, binding).await;
    }

    async fn get(routes: &Router, path: &str, token: &str) -> (u16, String) {
        let value = format!("Bearer {token}");
        send(routes, Method::GET, path, &[LOCAL, ("authorization", value.as_str())]).await
    }

    #[tokio::test]
    async fn only_probes_need_no_token() {
        let folder = tempfile::tempdir().expect("a folder");
        let authorizer = Authorizer::new(client(&server(), User::admin()));
        let routes = test_routes_with(folder.path(), Some(authorizer));
        for path in PATHS.into_iter().chain(["/nothing"]) {
            let (status, body) = send(&routes, Method::GET, path, &[LOCAL]).await;
            let expected = match path {
                "/healthz" => 200,
                // The host was not started.
                "/readyz" => 503,
                _ => 401,
            };
            assert_eq!(status, expected, "{path}: {body}");
            if expected == 401 {
                assert_eq!(get(&routes, path, "wrong").await.0, 401, "{path}");
            }
        }
        for path in CHANGES {
            assert_eq!(send(&routes, Method::POST, path, &[LOCAL, CLIENT]).await.0, 401, "{path}");
        }
    }

    #[tokio::test]
    async fn a_token_reads_what_the_api_server_allows_its_user() {
        let folder = tempfile::tempdir().expect("a folder");
        let server = server();
        let admin = client(&server, User::admin());
        let (scraper, reader, stranger) = (
            create_account(&admin, "scraper").await,
            create_account(&admin, "reader").await,
            create_account(&admin, "stranger").await,
        );
        allow(&admin, "scraper", "/metrics").await;
        allow(&admin, "reader", "/pilothouse/*").await;
        let routes = test_routes_with(folder.path(), Some(Authorizer::new(admin)));
        for path in [
            "/",
            "/readyz/plugins",
            "/metrics",
            "/api/plugins",
            "/api/logs",
            "/debug/informers",
            "/debug/host",
            "/plugins/p",
            "/plugins/p/keys/shop/a",
            "/page/live.js",
        ] {
            let is_allowed = async |token: &str| {
                let (status, body) = get(&routes, path, token).await;
                let has_named_user = body.contains("system:serviceaccount:default:");
                assert_eq!(status == 403, has_named_user, "{path}: {status}: {body}");
                status != 403
            };
            assert_eq!(is_allowed(scraper.as_str()).await, path == "/metrics", "{path}");
            assert_eq!(is_allowed(reader.as_str()).await, path != "/metrics", "{path}");
            assert!(
                !is_allowed(stranger.as_str()).await,
                "{path}: the role system:discovery must not be enough"
            );
        }
        // A permission to read is none to change something.
        let token = format!("Bearer {reader}");
        for path in CHANGES {
            let headers = [LOCAL, CLIENT, ("authorization", token.as_str())];
            assert_eq!(send(&routes, Method::POST, path, &headers).await.0, 403, "{path}");
        }
    }

    #[tokio::test]
    async fn decisions_are_remembered() {
        let folder = tempfile::tempdir().expect("a folder");
        let server = server();
        let admin = client(&server, User::admin());
        let scraper = create_account(&admin, "scraper").await;
        allow(&admin, "scraper", "/metrics").await;
        let routes = test_routes_with(folder.path(), Some(Authorizer::new(admin)));
        for _ in 0..3 {
            assert_eq!(get(&routes, "/metrics", &scraper).await.0, 200);
            assert_eq!(get(&routes, "/metrics", "wrong").await.0, 401);
        }
        let count = |resource| server.requests().count(Verb::Create, resource);
        assert_eq!(count("authentication.k8s.io/v1/tokenreviews"), 2);
        assert_eq!(count("authorization.k8s.io/v1/subjectaccessreviews"), 1);
    }

    #[tokio::test]
    async fn a_host_that_may_not_ask_answers_503() {
        let folder = tempfile::tempdir().expect("a folder");
        let server = server();
        let scraper = create_account(&client(&server, User::admin()), "scraper").await;
        let host = client(&server, User::service_account("pilothouse", "pilothouse"));
        let routes = test_routes_with(folder.path(), Some(Authorizer::new(host)));
        let (status, body) = get(&routes, "/metrics", &scraper).await;
        assert_eq!((status, body.contains("its log says why")), (503, true), "{body}");
        assert_eq!(send(&routes, Method::GET, "/healthz", &[LOCAL]).await.0, 200);
    }
}
