//! The server behind a listener: who is served, and what must not bring it down.

mod api;

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use api::{Api, core};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use http::Request;
use http_body::Frame;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use pilothouse_apiserver::{ApiServer, Authorization};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

struct RunningServer {
    client: Client,
    address: std::net::SocketAddr,
    shutdown: CancellationToken,
    served: JoinHandle<bool>,
}

async fn listen(server: &ApiServer) -> RunningServer {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let shutdown = CancellationToken::new();
    let kubeconfig = server.kubeconfig(address).expect("a certificate");
    let (server, stop) = (server.clone(), shutdown.clone());
    let served = tokio::spawn(async move { server.serve(listener, stop).await.is_ok() });
    RunningServer { client: client(&kubeconfig).await, address, shutdown, served }
}

async fn client(kubeconfig: &str) -> Client {
    let file = Kubeconfig::from_yaml(kubeconfig).expect("a kubeconfig");
    let config =
        Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.expect("a context");
    Client::try_from(config).expect("a client")
}

/// A server of plain HTTP, whose requests can be written by hand.
fn plain() -> Api {
    Api { server: ApiServer::builder().plain_http(true).anonymous(true).build() }
}

/// Sends a request with these lines of its head, and returns the status code and the body.
async fn ask(address: std::net::SocketAddr, head: &[&str], body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let length = format!("content-length: {}", body.len());
    let head = [head, &["connection: close", &length, "", ""]].concat().join("\r\n");
    stream.write_all(format!("{head}{body}").as_bytes()).await.expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    (code.unwrap_or_else(|| panic!("{answer}")), body.unwrap_or_default())
}

const LOCAL: &str = "host: 127.0.0.1:1";

#[tokio::test]
async fn a_client_lists_and_watches_over_tls_until_the_server_stops() {
    let api = Api::new();
    let RunningServer { client, shutdown, served, address } = listen(&api.server).await;
    assert!(api.server.url(address).starts_with("https://127.0.0.1:"));
    let maps: kube::Api<ConfigMap> = kube::Api::namespaced(client, "default");
    let list = maps.list(&ListParams::default()).await.expect("a list");
    let version = list.metadata.resource_version.expect("a resourceVersion");
    let mut events = maps.watch(&WatchParams::default(), &version).await.expect("a watch").boxed();
    api.post(&core("configmaps"), &json!({"metadata": {"name": "a"}})).await.ok();
    let event = events.try_next().await.expect("no error");
    assert!(
        matches!(&event, Some(WatchEvent::Added(map)) if map.metadata.name.as_deref() == Some("a")),
        "{event:?}"
    );
    shutdown.cancel();
    assert!(events.try_next().await.expect("a clean end").is_none());
    assert!(served.await.expect("it ends"));
}

#[tokio::test]
async fn http_2_without_tls_is_served() {
    let api = plain();
    let RunningServer { address, .. } = listen(&api.server).await;
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    // The client's preface and an empty SETTINGS frame; the server answers with its own SETTINGS (type 4).
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.expect("written");
    let mut header = [0; 9];
    stream.read_exact(&mut header).await.expect("a frame");
    assert_eq!(header[3], 4, "{header:?}");
}

#[tokio::test]
async fn garbage_on_a_connection_leaves_the_others_alone() {
    let api = Api::new();
    let RunningServer { client, address, .. } = listen(&api.server).await;
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.write_all(b"this is neither TLS nor HTTP\r\n\r\n").await.expect("written");
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    let version = client.apiserver_version().await.expect("an answer");
    assert_eq!(version.minor, "32");
}

/// A request's body that panics when it is read.
struct Exploding;

impl http_body::Body for Exploding {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        panic!("the body explodes")
    }
}

#[tokio::test]
async fn a_panic_answers_one_request_with_500_and_no_other() {
    use http_body_util::BodyExt;
    let api = Api::new();
    let request = Request::post(core("configmaps")).body(Exploding).expect("a request");
    let Ok(response) = api.server.service().oneshot(request).await;
    assert_eq!(response.status(), 500);
    let Ok(body) = response.into_body().collect().await;
    let status: Value = serde_json::from_slice(&body.to_bytes()).expect("a Status");
    assert_eq!((&status["kind"], &status["reason"]), (&json!("Status"), &json!("InternalError")));
    api.post(&core("configmaps"), &json!({"metadata": {"name": "a"}})).await.ok();
}

#[tokio::test]
async fn without_the_kubeconfigs_credential_only_probes_are_answered() {
    for authorization in [Authorization::AlwaysAllow, Authorization::Rbac] {
        let server = ApiServer::builder().authorization(authorization).plain_http(true).build();
        let RunningServer { client, address, .. } = listen(&server).await;
        for path in ["/api/v1/namespaces/default/secrets", "/api", "/openapi/v3", "/debug/requests", "/"] {
            let (code, body) = ask(address, &[&format!("GET {path} HTTP/1.1"), LOCAL], "").await;
            assert_eq!((code, body.contains("Unauthorized")), (401, true), "{path}: {body}");
            let wrong = [&format!("GET {path} HTTP/1.1"), LOCAL, "authorization: Bearer guess"];
            assert_eq!(ask(address, &wrong, "").await.0, 401, "{path}");
        }
        for path in ["/healthz", "/readyz", "/livez", "/version"] {
            assert_eq!(ask(address, &[&format!("GET {path} HTTP/1.1"), LOCAL], "").await.0, 200, "{path}");
        }
        let maps: kube::Api<ConfigMap> = kube::Api::namespaced(client, "default");
        maps.list(&ListParams::default()).await.expect("the kubeconfig has the credential");
    }
}

#[tokio::test]
async fn a_client_that_does_not_trust_the_kubeconfigs_authority_is_not_connected() {
    let (one, other) = (ApiServer::builder().build(), ApiServer::builder().build());
    let RunningServer { address, .. } = listen(&one).await;
    let stranger = client(&other.kubeconfig(address).expect("a certificate")).await;
    let refused = stranger.apiserver_version().await.expect_err("another authority");
    assert!(format!("{refused:?}").contains("UnknownIssuer"), "{refused:?}");
}

#[tokio::test]
async fn what_a_web_page_can_send_is_refused() {
    let api = plain();
    let RunningServer { address, .. } = listen(&api.server).await;
    let post = format!("POST {} HTTP/1.1", core("configmaps"));
    let (json, map) = ("content-type: application/json", r#"{"metadata": {"name": "a"}}"#);
    // DNS rebinding: the page's own name leads to this port.
    let (code, body) = ask(address, &["GET /api/v1/secrets HTTP/1.1", "host: attacker.example"], "").await;
    assert_eq!((code, body.contains("attacker.example")), (403, true), "{body}");
    for forged in ["origin: http://attacker.example", "origin: null", "sec-fetch-site: cross-site"] {
        assert_eq!(ask(address, &[&post, LOCAL, json, forged], map).await.0, 403, "{forged}");
    }
    // A form, text and a body without a type are sent without asking the server first.
    for simple in ["x-none: 1", "content-type: text/plain", "content-type: application/x-www-form-urlencoded"]
    {
        assert_eq!(ask(address, &[&post, LOCAL, simple], map).await.0, 415, "{simple}");
    }
    let put = format!("PUT {} HTTP/1.1", core("configmaps/a"));
    let patch = format!("PATCH {} HTTP/1.1", core("configmaps/a"));
    assert_eq!(ask(address, &[&post, LOCAL, json, "origin: http://127.0.0.1:1"], map).await.0, 201);
    assert_eq!(ask(address, &[&put, LOCAL], map).await.0, 415);
    assert_eq!(ask(address, &[&patch, LOCAL], "{}").await.0, 415);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_nothing_or_half_a_head_is_cut_off() {
    let api = plain();
    let RunningServer { address, .. } = listen(&api.server).await;
    for half in ["", "P", "GET / HTTP/1.1\r\nhost: 127"] {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        stream.write_all(half.as_bytes()).await.expect("written");
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
    }
    let tls = Api::new();
    let RunningServer { address, .. } = listen(&tls.server).await;
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    assert_eq!(stream.read(&mut [0]).await.ok(), Some(0), "the handshake never began");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_is_answered() {
    let api = plain();
    let RunningServer { address, .. } = listen(&api.server).await;
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let head = format!("POST {} HTTP/1.1\r\n{LOCAL}\r\ncontent-length: 9\r\n\r\n{{", core("configmaps"));
    stream.write_all(head.as_bytes()).await.expect("written");
    let mut answer = vec![0; 12];
    stream.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(answer, b"HTTP/1.1 400");
}

#[tokio::test]
async fn a_head_is_bounded() {
    let api = plain();
    let RunningServer { address, .. } = listen(&api.server).await;
    let long = format!("x-long: {}", "a".repeat(100 << 10));
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let _ = stream.write_all(format!("GET / HTTP/1.1\r\n{LOCAL}\r\n{long}\r\n\r\n").as_bytes()).await;
    let mut answer = vec![0; 12];
    // The server may close before all was written, and the system then forgets the answer.
    if stream.read_exact(&mut answer).await.is_ok() {
        assert_eq!(answer, b"HTTP/1.1 431");
    }
}

#[tokio::test(start_paused = true)]
async fn connections_beyond_the_limit_wait_for_one_to_end() {
    use pilothouse_apiserver::listen;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let bound = listen::BoundListener { listener, tls: None, max_connections: 2 };
    let service = tower::service_fn(async |_| Ok::<_, Infallible>(http::Response::new(String::from("ok"))));
    tokio::spawn(listen::serve(bound, service, CancellationToken::new()));
    let silent = [TcpStream::connect(address).await, TcpStream::connect(address).await];
    // Time is virtual: the third is served once the silent ones were cut off.
    let before = tokio::time::Instant::now();
    assert_eq!(ask(address, &["GET / HTTP/1.1", LOCAL], "").await, (200, "ok".into()));
    assert!(before.elapsed() >= std::time::Duration::from_secs(20), "{:?}", before.elapsed());
    drop(silent);
}

#[tokio::test]
async fn anonymous_requests_have_the_rights_of_nobody_and_the_kubeconfig_those_of_the_administrator() {
    let server = ApiServer::builder().authorization(Authorization::Rbac).anonymous(true).build();
    let RunningServer { address, .. } = listen(&server).await;
    let mut config = Kubeconfig::from_yaml(&server.kubeconfig(address).expect("a certificate")).expect("it");
    config.auth_infos.iter_mut().for_each(|user| user.auth_info = None);
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
    let nobody = Client::try_from(config.expect("a context")).expect("a client");
    let maps: kube::Api<ConfigMap> = kube::Api::namespaced(nobody, "default");
    let refused = maps.list(&ListParams::default()).await.map(|_| ());
    assert!(
        matches!(&refused, Err(kube::Error::Api(status)) if status.code == 403
            && status.message.contains("User \"system:anonymous\" cannot list")),
        "{refused:?}"
    );
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubeconfigs/rbac");
    server.write_kubeconfig(&path, address).expect("written");
    let admin = client(&std::fs::read_to_string(&path).expect("readable")).await;
    let maps: kube::Api<ConfigMap> = kube::Api::namespaced(admin, "default");
    maps.list(&ListParams::default()).await.expect("the administrator may");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn a_kubeconfig_is_written_whole_and_replaced() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubeconfigs/deep/config");
    let server = ApiServer::builder().build();
    for port in [1, 2] {
        server.write_kubeconfig(&path, ([127, 0, 0, 1], port).into()).expect("written");
        let text = std::fs::read_to_string(&path).expect("readable");
        let config = kube::config::Kubeconfig::from_yaml(&text).expect("a kubeconfig");
        let server = config.clusters[0].cluster.as_ref().and_then(|cluster| cluster.server.clone());
        assert_eq!(server, Some(format!("https://127.0.0.1:{port}")));
    }
    let failed = server.write_kubeconfig(&path.join("below-a-file"), ([127, 0, 0, 1], 1).into());
    let failed = failed.expect_err("no directory");
    assert!(failed.to_string().contains("cannot write the kubeconfig"));
}
