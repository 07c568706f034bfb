//! The server behind a listener: credentials, limits, and robustness.

mod api;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use api::{Api, core};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper_util::rt::{TokioExecutor, TokioIo};
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

/// A server that listens on a socket, and a client with its kubeconfig.
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

/// Returns a server for plain HTTP without credentials, so that tests can write requests by hand.
fn plain() -> Api {
    Api { server: ApiServer::builder().plain_http(true).anonymous(true).build() }
}

/// Sends a request with these lines as its head; returns the status code and the body.
async fn send(address: std::net::SocketAddr, head: &[&str], body: &str) -> (u16, String) {
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
async fn client_lists_and_watches_over_tls_until_shutdown() {
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

/// curl 7.88 reports a broken stream in place of a response if the server resets the stream of a request that it has not read.
#[tokio::test]
async fn the_body_of_a_request_that_is_refused_is_read_over_http_2() {
    const CHUNKS: usize = 128;
    let without_credentials = ApiServer::builder().plain_http(true).build();
    for (server, expected) in [(plain().server, 413), (without_credentials, 401)] {
        let RunningServer { address, .. } = listen(&server).await;
        let stream = TcpStream::connect(address).await.expect("a connection");
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.expect("HTTP/2");
        tokio::spawn(connection);
        let chunks_sent = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&chunks_sent);
        let chunks = futures::stream::iter(0..CHUNKS).map(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b' '; 64 << 10])))
        });
        let request = Request::post(format!("http://{address}/api/v1/namespaces/default/configmaps"))
            .header("content-type", "application/json")
            .body(StreamBody::new(chunks))
            .expect("a request");
        let answer = sender.send_request(request).await.expect("a response");
        assert_eq!(answer.status(), expected);
        let body = answer.into_body().collect().await.expect("a whole body").to_bytes();
        let status: Value = serde_json::from_slice(&body).expect("a Status");
        assert_eq!(status["code"], expected);
        assert_eq!(chunks_sent.load(Ordering::Relaxed), CHUNKS);
    }
}

#[tokio::test]
async fn garbage_on_one_connection_does_not_affect_others() {
    let api = Api::new();
    let RunningServer { client, address, .. } = listen(&api.server).await;
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.write_all(b"this is neither TLS nor HTTP\r\n\r\n").await.expect("written");
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    let version = client.apiserver_version().await.expect("an answer");
    assert_eq!(version.minor, "36");
}

/// A request body that panics when it is read.
struct PanickingBody;

impl http_body::Body for PanickingBody {
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
async fn panic_fails_only_its_own_request() {
    use http_body_util::BodyExt;
    let api = Api::new();
    let request = Request::post(core("configmaps")).body(PanickingBody).expect("a request");
    let Ok(response) = api.server.service().oneshot(request).await;
    assert_eq!(response.status(), 500);
    let Ok(body) = response.into_body().collect().await;
    let status: Value = serde_json::from_slice(&body.to_bytes()).expect("a Status");
    assert_eq!((&status["kind"], &status["reason"]), (&json!("Status"), &json!("InternalError")));
    api.post(&core("configmaps"), &json!({"metadata": {"name": "a"}})).await.ok();
}

#[tokio::test]
async fn only_probes_are_answered_without_credentials() {
    for authorization in [Authorization::AlwaysAllow, Authorization::Rbac] {
        let server = ApiServer::builder().authorization(authorization).plain_http(true).build();
        let RunningServer { client, address, .. } = listen(&server).await;
        for path in ["/api/v1/namespaces/default/secrets", "/api", "/openapi/v3", "/debug/requests", "/"] {
            let (code, body) = send(address, &[&format!("GET {path} HTTP/1.1"), LOCAL], "").await;
            assert_eq!((code, body.contains("Unauthorized")), (401, true), "{path}: {body}");
            let wrong = [&format!("GET {path} HTTP/1.1"), LOCAL, "authorization: Bearer guess"];
            assert_eq!(send(address, &wrong, "").await.0, 401, "{path}");
        }
        for path in ["/healthz", "/readyz", "/livez", "/version"] {
            assert_eq!(send(address, &[&format!("GET {path} HTTP/1.1"), LOCAL], "").await.0, 200, "{path}");
        }
        let maps: kube::Api<ConfigMap> = kube::Api::namespaced(client, "default");
        maps.list(&ListParams::default()).await.expect("the kubeconfig has the credential");
    }
}

#[tokio::test]
async fn client_that_trusts_another_authority_cannot_connect() {
    let (one, other) = (ApiServer::builder().build(), ApiServer::builder().build());
    let RunningServer { address, .. } = listen(&one).await;
    let client = client(&other.kubeconfig(address).expect("a certificate")).await;
    let refused = client.apiserver_version().await.expect_err("another authority");
    assert!(format!("{refused:?}").contains("UnknownIssuer"), "{refused:?}");
}

#[tokio::test]
async fn requests_that_web_pages_can_send_are_refused() {
    let api = plain();
    let RunningServer { address, .. } = listen(&api.server).await;
    let post = format!("POST {} HTTP/1.1", core("configmaps"));
    let (json, map) = ("content-type: application/json", r#"{"metadata": {"name": "a"}}"#);
    // DNS rebinding: the host name of the page resolves to this port.
    let (code, body) = send(address, &["GET /api/v1/secrets HTTP/1.1", "host: attacker.example"], "").await;
    assert_eq!((code, body.contains("attacker.example")), (403, true), "{body}");
    for forged in ["origin: http://attacker.example", "origin: null", "sec-fetch-site: cross-site"] {
        assert_eq!(send(address, &[&post, LOCAL, json, forged], map).await.0, 403, "{forged}");
    }
    // Browsers send forms, text and bodies without a type without a CORS preflight.
    for simple in ["x-none: 1", "content-type: text/plain", "content-type: application/x-www-form-urlencoded"]
    {
        assert_eq!(send(address, &[&post, LOCAL, simple], map).await.0, 415, "{simple}");
    }
    let put = format!("PUT {} HTTP/1.1", core("configmaps/a"));
    let patch = format!("PATCH {} HTTP/1.1", core("configmaps/a"));
    assert_eq!(send(address, &[&post, LOCAL, json, "origin: http://127.0.0.1:1"], map).await.0, 201);
    assert_eq!(send(address, &[&put, LOCAL], map).await.0, 415);
    assert_eq!(send(address, &[&patch, LOCAL], "{}").await.0, 415);
}

#[tokio::test]
async fn the_body_of_a_client_with_a_bearer_token_is_json_by_default() {
    let server = ApiServer::builder().plain_http(true).build();
    let RunningServer { address, .. } = listen(&server).await;
    let file = Kubeconfig::from_yaml(&server.kubeconfig(address).expect("a kubeconfig")).expect("YAML");
    let url = file.clusters[0].cluster.as_ref().and_then(|cluster| cluster.server.clone()).expect("a URL");
    // kubectl sends the user information of the URL as `Basic`, which browsers send, too.
    let token = url.split_once('@').and_then(|(user, _)| user.rsplit_once(':')).expect("a token").1;
    let post = format!("POST {} HTTP/1.1", core("configmaps"));
    for (scheme, name) in [("Bearer", "a"), ("bearer", "b")] {
        let (bearer, map) = (
            format!("authorization: {scheme} {token}"),
            format!(r#"{{"metadata": {{"name": "{name}"}}, "data": {{"k": "v"}}}}"#),
        );
        let (code, body) = send(address, &[&post, LOCAL, &bearer], &map).await;
        assert_eq!((code, body.contains(r#""k":"v""#)), (201, true), "{body}");
    }
    let bearer = format!("authorization: Bearer {token}");
    assert_eq!(send(address, &[&post, LOCAL, &bearer], "metadata: {name: c}").await.0, 400, "YAML");
}

#[tokio::test(start_paused = true)]
async fn connection_without_a_complete_request_head_is_closed() {
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
async fn incomplete_body_is_answered_after_a_timeout() {
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
async fn request_head_size_is_limited() {
    let api = plain();
    let RunningServer { address, .. } = listen(&api.server).await;
    let long = format!("x-long: {}", "a".repeat(100 << 10));
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let _ = stream.write_all(format!("GET / HTTP/1.1\r\n{LOCAL}\r\n{long}\r\n\r\n").as_bytes()).await;
    let mut answer = vec![0; 12];
    // The server may close the connection while the request is written; the response is then lost.
    if stream.read_exact(&mut answer).await.is_ok() {
        assert_eq!(answer, b"HTTP/1.1 431");
    }
}

#[tokio::test]
async fn anonymous_requests_are_restricted_and_the_kubeconfig_has_admin_rights() {
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
fn kubeconfig_is_replaced_and_errors_name_the_path() {
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
