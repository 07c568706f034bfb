//! The server behind a listener, and what must not bring it down.

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

struct Listening {
    client: Client,
    address: std::net::SocketAddr,
    shutdown: CancellationToken,
    served: JoinHandle<bool>,
}

async fn listen(server: &ApiServer) -> Listening {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let shutdown = CancellationToken::new();
    let (server, stop) = (server.clone(), shutdown.clone());
    let served = tokio::spawn(async move { server.serve(listener, stop).await.is_ok() });
    let config = Config::new(format!("http://{address}").parse().expect("a URL"));
    Listening { client: Client::try_from(config).expect("a client"), address, shutdown, served }
}

#[tokio::test]
async fn a_client_lists_and_watches_over_http_until_the_server_stops() {
    let api = Api::new();
    let Listening { client, shutdown, served, .. } = listen(&api.server).await;
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
    let api = Api::new();
    let Listening { address, .. } = listen(&api.server).await;
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
    let Listening { client, address, .. } = listen(&api.server).await;
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.write_all(b"\x16\x03\x01 this is not HTTP\r\n\r\n").await.expect("written");
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
async fn over_http_rights_need_credentials_and_the_kubeconfig_has_them() {
    let server = ApiServer::builder().authorization(Authorization::Rbac).build();
    let Listening { client, address, .. } = listen(&server).await;
    let maps: kube::Api<ConfigMap> = kube::Api::namespaced(client, "default");
    let refused = maps.list(&ListParams::default()).await.map(|_| ());
    assert!(
        matches!(&refused, Err(kube::Error::Api(status)) if status.code == 403
            && status.message.contains("User \"system:anonymous\" cannot list")),
        "{refused:?}"
    );
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubeconfigs/rbac");
    server.write_kubeconfig(&path, address).expect("written");
    let file = Kubeconfig::read_from(&path).expect("a kubeconfig");
    let config =
        Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.expect("a context");
    let admin = Client::try_from(config).expect("a client");
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
        assert_eq!(server, Some(format!("http://127.0.0.1:{port}")));
    }
    let failed = server.write_kubeconfig(&path.join("below-a-file"), ([127, 0, 0, 1], 1).into());
    let failed = failed.expect_err("no directory");
    assert!(failed.to_string().contains("cannot write the kubeconfig"));
}
