//! What clients cannot hold: connections, streams and responses. With real sockets, and time that the test advances.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use pilothouse_listen::{
    BoundListener, ConnectionLimits, EndlessResponse, ReservedConnection, ResponseTimeouts, serve,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const LIMITS: ConnectionLimits = ConnectionLimits {
    connections: 1,
    connections_per_client: 1000,
    reserved: 0,
    streams: 16,
    request_window: 65_535,
    idle_timeout: Duration::from_secs(30),
    response: Some(ResponseTimeouts { part: Duration::from_secs(30), whole: Duration::from_secs(120) }),
};

/// The number of parts of `/huge`, which has more than the buffers of a TCP connection.
const HUGE: usize = 100_000;

/// A body of so many parts of 1,000 bytes, which may not end after them.
struct Parts {
    left: usize,
    is_endless: bool,
}

impl Body for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return if self.is_endless { Poll::Pending } else { Poll::Ready(None) };
        }
        self.left -= 1;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 1000])))))
    }
}

/// Serves `/small`, `/large`, `/huge`, `/endless` and `/endless-large`. The header `reserved` says whether the connection is a reserved one.
async fn start(limits: ConnectionLimits) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let bound = BoundListener { listener, tls: None, limits, exposes_addresses: false };
    let service = tower::service_fn(async |request: Request<Incoming>| {
        let path = request.uri().path();
        let is_endless = path.starts_with("/endless");
        let left = match path {
            "/large" | "/endless-large" => 1000,
            "/huge" => HUGE,
            _ => 1,
        };
        let body = Parts { left, is_endless };
        let is_reserved = request.extensions().get::<ReservedConnection>().is_some();
        let mut response = Response::builder().header("reserved", is_reserved.to_string());
        if is_endless {
            response = response.extension(EndlessResponse);
        }
        Ok::<_, Infallible>(response.body(body).expect("a response"))
    });
    tokio::spawn(serve(bound, service, CancellationToken::new()));
    address
}

type Client = SendRequest<Empty<Bytes>>;

/// Opens an HTTP/2 connection. The task ends with it.
async fn connect(address: SocketAddr, window: u32) -> (Client, JoinHandle<()>) {
    let stream = TcpStream::connect(address).await.expect("a connection");
    let (client, connection) = Builder::new(TokioExecutor::new())
        .initial_stream_window_size(window)
        .initial_connection_window_size(65_535)
        .handshake(TokioIo::new(stream))
        .await
        .expect("HTTP/2");
    let task = tokio::spawn(async move {
        // How it ends does not matter.
        let _ = connection.await;
    });
    (client, task)
}

async fn request(client: &mut Client, path: &str) -> Response<Incoming> {
    let request = Request::get(format!("http://127.0.0.1{path}")).body(Empty::new()).expect("a request");
    client.send_request(request).await.expect("a response")
}

/// Lets virtual time pass for everyone at once, without I/O in between.
async fn pass(duration: Duration) {
    tokio::time::pause();
    tokio::time::advance(duration).await;
    tokio::time::resume();
}

/// Lets virtual time pass until the server has sent what the client takes, and has noticed that the client takes no more.
async fn pass_until(is_done: impl Fn() -> bool) {
    for _ in 0..100 {
        // The runtime looks for I/O only now and then.
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        if is_done() {
            return;
        }
        pass(Duration::from_secs(31)).await;
    }
    panic!("the connection stays open");
}

/// Requests `/small` with HTTP/1.1 on a new connection, and returns the head of the response; it is empty if the connection was closed.
async fn head(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    // The other end may be closed already.
    let _ = stream.write_all(b"GET /small HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").await;
    let mut response = vec![0; 1 << 16];
    let mut length = 0;
    while let Ok(read @ 1..) = stream.read(&mut response[length..]).await {
        length += read;
        if let Some(end) = response[..length].windows(4).position(|part| part == b"\r\n\r\n") {
            length = end;
            break;
        }
    }
    String::from_utf8_lossy(&response[..length]).to_lowercase()
}

#[tokio::test]
async fn an_idle_http2_connection_is_closed_and_its_slot_becomes_free() {
    let address = start(LIMITS).await;
    let (mut client, connection) = connect(address, 65_535).await;
    request(&mut client, "/small").await.collect().await.expect("a body");
    pass(Duration::from_secs(31)).await;
    connection.await.expect("closed");
    assert!(head(address).await.starts_with("http/1.1 200"));
}

#[tokio::test]
async fn a_client_that_takes_no_response_loses_its_connection() {
    for (window, path) in [(65_535, "/large"), (1, "/large"), (1, "/endless-large")] {
        let address = start(LIMITS).await;
        let (mut client, _connection) = connect(address, window).await;
        let response = request(&mut client, path).await;
        let next = tokio::spawn(head(address));
        pass_until(|| next.is_finished()).await;
        assert!(next.await.expect("no panic").starts_with("http/1.1 200"), "{window} {path}");
        drop(response);
    }
}

#[tokio::test]
async fn an_http1_client_that_takes_no_response_loses_its_connection() {
    let address = start(LIMITS).await;
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.write_all(b"GET /huge HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").await.expect("written");
    stream.read_u8().await.expect("a response");
    let next = tokio::spawn(head(address));
    pass_until(|| next.is_finished()).await;
    assert!(next.await.expect("no panic").starts_with("http/1.1 200"));
    let (mut length, mut rest) = (0, vec![0; 1 << 20]);
    while let Ok(read @ 1..) = stream.read(&mut rest).await {
        length += read;
    }
    assert!(length < HUGE * 1000, "{length}");
}

#[tokio::test]
async fn a_response_without_an_end_stays_open_while_its_client_reads() {
    let address = start(LIMITS).await;
    let (mut client, _connection) = connect(address, 65_535).await;
    let mut endless = request(&mut client, "/endless").await;
    assert!(endless.frame().await.is_some());
    pass(Duration::from_secs(150)).await;
    request(&mut client, "/small").await.collect().await.expect("the connection is open");
}

#[tokio::test]
async fn an_http2_connection_has_a_limited_number_of_streams() {
    let address = start(LIMITS).await;
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let empty_settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.expect("written");
    stream.write_all(&empty_settings).await.expect("written");
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.expect("a frame");
    assert_eq!(head[3], 4, "SETTINGS");
    let mut settings = vec![0; usize::from(head[2])];
    stream.read_exact(&mut settings).await.expect("settings");
    let max_concurrent_streams = settings.chunks_exact(6).find(|setting| setting[..2] == [0, 3]);
    assert_eq!(max_concurrent_streams, Some(&[0, 3, 0, 0, 0, 16][..]));
}

#[tokio::test]
async fn a_connection_is_served_while_readers_hold_all_others() {
    let address = start(ConnectionLimits { reserved: 1, ..LIMITS }).await;
    let (mut reader, _connection) = connect(address, 65_535).await;
    let response = request(&mut reader, "/endless").await;
    assert_eq!(response.headers()["reserved"], "false");
    for _ in 0..3 {
        let head = head(address).await;
        assert!(head.contains("reserved: true") && head.contains("connection: close"), "{head}");
    }
    // A reader that stays loses the connection soon.
    let mut reader = TcpStream::connect(address).await.expect("a connection");
    reader.write_all(b"GET /endless HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").await.expect("written");
    reader.read_u8().await.expect("a response");
    pass(Duration::from_secs(6)).await;
    while let Ok(1..) = reader.read(&mut [0; 1024]).await {}
    assert!(head(address).await.contains("reserved: true"));
}

#[tokio::test]
async fn a_client_has_a_limited_number_of_connections() {
    let limits = ConnectionLimits { connections: 10, connections_per_client: 2, ..LIMITS };
    let address = start(limits).await;
    let (mut first, _connection) = connect(address, 65_535).await;
    let (mut second, other) = connect(address, 65_535).await;
    let responses = [request(&mut first, "/endless").await, request(&mut second, "/endless").await];
    assert_eq!(head(address).await, "", "closed at once");
    drop(responses);
    other.abort();
    drop(second);
    // The slot is free once the server has noticed the end of the connection.
    while head(address).await.is_empty() {
        tokio::task::yield_now().await;
    }
}
