//! The client against servers on the loopback address.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use pilothouse_plugin::{HttpBody, HttpError, HttpStep, HttpTimeouts};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::RootCertStore;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::{Connector, HttpClient, HttpGrants, Tls};
use crate::access::{Access, Suspension};
use crate::client::fence::Fence;
use crate::config::current_grants::CurrentGrants;
use crate::lifecycle::WaitingFor;

const HELLO: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

/// A server that answers each connection with the same bytes, and passes on what it was sent.
struct Server {
    port: u16,
    requests: mpsc::UnboundedReceiver<String>,
}

async fn server(answer: &'static str) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (sender, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, answer, sender.clone()));
        }
    });
    Server { port, requests }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: &str,
    sender: mpsc::UnboundedSender<String>,
) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") && !request.ends_with(b"the end") {
        match stream.read_buf(&mut request).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
    let _ = sender.send(String::from_utf8_lossy(&request).into_owned());
    // A client that has seen enough closes.
    let _ = stream.write_all(answer.as_bytes()).await;
    // Open until the client closes.
    let _ = stream.read_to_end(&mut request).await;
}

fn client(granted: &str) -> HttpClient {
    client_with(granted, Tls::default(), Fence::default())
}

fn client_with(granted: &str, tls: Tls, fence: Fence) -> HttpClient {
    client_under(granted, tls, fence, Arc::default())
}

fn client_under(granted: &str, tls: Tls, fence: Fence, access: Arc<Access>) -> HttpClient {
    let requested = ["*:*".to_owned(), "http://*:*".to_owned()];
    let granted =
        crate::config::sidecar::GrantSettings { http: vec![granted.to_owned()], ..Default::default() };
    let grants = HttpGrants::parse(&requested, CurrentGrants::granting(granted)).expect("patterns");
    HttpClient::new(grants, Connector::new(tls), fence, access)
}

fn get(url: &str) -> Request<HttpBody> {
    request("GET", url, "")
}

fn request(method: &str, url: &str, body: &'static str) -> Request<HttpBody> {
    let body = Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed_unsync();
    let host = url.split('/').nth(2).unwrap_or_default();
    Request::builder().method(method).uri(url).header("host", host).body(body).expect("a request")
}

/// Status and body, or what went wrong.
async fn fetch(client: &HttpClient, request: Request<HttpBody>) -> Result<(u16, String), HttpError> {
    let response = client.send(request, &HttpTimeouts::default()).await?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

#[tokio::test]
async fn a_granted_host_receives_the_request_and_the_guest_the_response() {
    let mut server = server(HELLO).await;
    let port = server.port;
    let client = client(&format!("http://127.0.0.1:{port}"));
    let sent = request("POST", &format!("http://127.0.0.1:{port}/a/b?c=d"), "this is the end");
    assert_eq!(fetch(&client, sent).await, Ok((200, "hello".to_owned())));
    let got = server.requests.recv().await.expect("a request");
    assert!(got.starts_with("POST /a/b?c=d HTTP/1.1\r\n"), "{got}");
    assert!(
        got.contains(&format!("host: 127.0.0.1:{port}\r\n")) && got.ends_with("this is the end"),
        "{got}"
    );
}

#[tokio::test]
async fn another_port_scheme_or_host_is_denied_before_anything_is_sent() {
    let mut server = server(HELLO).await;
    let port = server.port;
    let client = client(&format!("http://127.0.0.1:{port}"));
    for url in [
        format!("https://127.0.0.1:{port}/"),
        "http://127.0.0.1:1/".to_owned(),
        format!("http://localhost:{port}/"),
        format!("http://127.0.0.2:{port}/"),
    ] {
        let denied = fetch(&client, get(&url)).await;
        assert!(
            matches!(&denied, Err(HttpError::Denied(text)) if text.contains("grants.http")),
            "{url}: {denied:?}"
        );
    }
    assert!(server.requests.try_recv().is_err());
}

#[tokio::test]
async fn a_name_that_resolves_to_this_machine_is_refused_unless_the_grant_says_localhost() {
    let mut server = server(HELLO).await;
    let url = format!("http://localhost:{}/", server.port);
    let refused = fetch(&client("http://*:*"), get(&url)).await;
    assert!(
        matches!(&refused, Err(HttpError::ForbiddenAddress(text)) if text.contains("localhost")),
        "{refused:?}"
    );
    assert!(server.requests.try_recv().is_err());
    let granted = client(&format!("http://localhost:{}", server.port));
    assert_eq!(fetch(&granted, get(&url)).await, Ok((200, "hello".to_owned())));
}

#[tokio::test]
async fn a_redirect_is_returned_and_not_followed() {
    let mut elsewhere = server(HELLO).await;
    let answer = format!(
        "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:{}/\r\ncontent-length: 0\r\n\r\n",
        elsewhere.port
    );
    let server = server(answer.leak()).await;
    let client = client(&format!("http://127.0.0.1:{}", server.port));
    let answer = fetch(&client, get(&format!("http://127.0.0.1:{}/", server.port))).await;
    assert_eq!(answer, Ok((302, String::new())));
    assert!(elsewhere.requests.try_recv().is_err());
}

#[tokio::test]
async fn a_request_without_a_response_fails_after_its_timeout() {
    let server = server("").await;
    let url = format!("http://127.0.0.1:{}/", server.port);
    let timeouts = HttpTimeouts { first_byte: Duration::from_millis(1), ..HttpTimeouts::default() };
    let answer = client("http://*:*").send(get(&url), &timeouts).await;
    // `*` does not reach the machine itself, so that this is the refusal.
    assert!(matches!(answer, Err(HttpError::ForbiddenAddress(_))));
    let client = client(&format!("http://127.0.0.1:{}", server.port));
    let error = client.send(get(&url), &timeouts).await.err();
    let allowed = timeouts.first_byte;
    assert_eq!(error, Some(HttpError::Timeout { step: HttpStep::FirstByte, allowed }));
}

#[tokio::test]
async fn a_closed_port_and_a_non_http_server_are_errors_that_name_the_host() {
    // Nobody listens there, and no other test is given this port, as it might be one that was free a moment ago.
    let target = "http://127.0.0.1:1";
    let error = fetch(&client(target), get(target)).await.expect_err("closed");
    assert!(matches!(&error, HttpError::Unreachable(text) if text.contains(target)), "{error:?}");
    let server = server("SSH-2.0-OpenSSH_9.9\r\n").await;
    let target = format!("http://127.0.0.1:{}", server.port);
    let error = fetch(&client(&target), get(&target)).await.expect_err("not HTTP");
    assert!(matches!(&error, HttpError::Protocol(text) if text.contains(&target)), "{error:?}");
}

#[tokio::test]
async fn a_version_that_was_replaced_sends_nothing() {
    let mut server = server(HELLO).await;
    let target = format!("http://127.0.0.1:{}", server.port);
    let fence = Fence::default();
    let client = client_with(&target, Tls::default(), fence.clone());
    fence.close();
    let denied = fetch(&client, get(&target)).await;
    assert!(matches!(&denied, Err(HttpError::Denied(text)) if text.contains("replaced")), "{denied:?}");
    assert!(server.requests.try_recv().is_err());
}

#[tokio::test]
async fn a_plugin_that_lacks_a_permission_sends_and_receives_nothing() {
    let mut hello = server(HELLO).await;
    let target = format!("http://127.0.0.1:{}", hello.port);
    let access = Arc::<Access>::default();
    let client = client_under(&target, Tls::default(), Fence::default(), Arc::clone(&access));
    let missing = || {
        let reason = WaitingFor::AccountPermission("it may not list pods".into());
        vec![Suspension { watch: Some("pods".into()), reason }]
    };
    let is_denied =
        |error: &HttpError| matches!(error, HttpError::Denied(text) if text.contains("it may not list pods"));
    // Before the request.
    access.set_missing_permissions(missing());
    let error = fetch(&client, get(&target)).await.expect_err("held");
    assert!(is_denied(&error), "{error:?}");
    assert!(hello.requests.try_recv().is_err());
    // Between the head and the body of the response.
    access.set_missing_permissions(Vec::new());
    let response = client.send(get(&target), &HttpTimeouts::default()).await.expect("a response");
    access.set_missing_permissions(missing());
    let error = response.into_body().collect().await.expect_err("held");
    assert!(is_denied(&error), "{error:?}");
    assert!(hello.requests.try_recv().is_ok());
    access.set_missing_permissions(Vec::new());
    assert_eq!(fetch(&client, get(&target)).await, Ok((200, "hello".to_owned())));
    // While the body waits for data.
    let slow = server("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhe").await;
    let target = format!("http://127.0.0.1:{}", slow.port);
    let client = client_under(&target, Tls::default(), Fence::default(), Arc::clone(&access));
    let mut body = client.send(get(&target), &HttpTimeouts::default()).await.expect("a response").into_body();
    let frame = body.frame().await.expect("a frame").expect("not held");
    assert_eq!(frame.into_data().expect("data"), "he");
    let mut next = tokio_test::task::spawn(body.frame());
    tokio_test::assert_pending!(next.poll());
    access.set_missing_permissions(missing());
    assert!(next.is_woken());
    let error = next.await.expect("an end").expect_err("held");
    assert!(is_denied(&error), "{error:?}");
    access.set_missing_permissions(Vec::new());
    // While the server thinks.
    let mut silent = server("").await;
    let target = format!("http://127.0.0.1:{}", silent.port);
    let client = client_under(&target, Tls::default(), Fence::default(), Arc::clone(&access));
    let revoke = async {
        silent.requests.recv().await.expect("a request");
        access.set_missing_permissions(missing());
    };
    let (answer, ()) = tokio::join!(fetch(&client, get(&target)), revoke);
    assert!(answer.as_ref().is_err_and(is_denied), "{answer:?}");
}

#[tokio::test]
async fn tls_requires_a_certificate_that_the_roots_trust() {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).expect("a certificate");
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(signing_key.serialize_der());
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key.into())
        .expect("a configuration");
    let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (sender, mut requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, sender) = (acceptor.clone(), sender.clone());
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    serve(stream, HELLO, sender).await;
                }
            });
        }
    });
    let target = format!("127.0.0.1:{port}");
    let mut roots = RootCertStore::empty();
    let stranger = generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    roots.add(stranger.cert.der().clone()).expect("a root");
    let distrustful = client_with(&target, Tls::with_roots(roots.clone()), Fence::default());
    let error = fetch(&distrustful, get(&format!("https://{target}/"))).await.expect_err("unknown");
    assert!(matches!(&error, HttpError::Tls { certificate: true, .. }), "{error:?}");
    assert!(requests.try_recv().is_err());
    roots.add(cert.der().clone()).expect("a root");
    let trusting = client_with(&target, Tls::with_roots(roots), Fence::default());
    assert_eq!(fetch(&trusting, get(&format!("https://{target}/"))).await, Ok((200, "hello".to_owned())));
}
