//! The limit on connections and their addresses, with real sockets and paused time.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use pilothouse_listen::{BoundListener, ConnectionAddresses, ConnectionLimits, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const LIMITS: ConnectionLimits = ConnectionLimits {
    connections: 2,
    connections_per_client: 2,
    reserved: 0,
    streams: 10,
    request_window: 65_535,
    idle_timeout: Duration::from_secs(30),
    response: None,
};

/// Requests `/` on a new connection, and returns the body of the response.
async fn get(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let request = "GET / HTTP/1.1\r\nhost: 127.0.0.1:1\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut response = String::new();
    stream.read_to_string(&mut response).await.expect("a response");
    let (head, body) = response.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 "), "{response}");
    body.to_owned()
}

#[tokio::test(start_paused = true)]
async fn connections_beyond_the_limit_wait_until_one_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let bound = BoundListener { listener, tls: None, limits: LIMITS, exposes_addresses: false };
    let service = tower::service_fn(async |_| Ok::<_, Infallible>(http::Response::new(String::from("ok"))));
    tokio::spawn(serve(bound, service, CancellationToken::new()));
    let silent = [TcpStream::connect(address).await, TcpStream::connect(address).await];
    // In virtual time: the third connection is served after the two silent ones timed out.
    let before = Instant::now();
    assert_eq!(get(address).await, "ok");
    assert!(before.elapsed() >= Duration::from_secs(20), "{:?}", before.elapsed());
    drop(silent);
}

#[tokio::test]
async fn requests_carry_the_addresses_of_their_connection_only_if_asked_for() {
    for exposes_addresses in [true, false] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let bound = BoundListener { listener, tls: None, limits: LIMITS, exposes_addresses };
        let service = tower::service_fn(async |request: http::Request<hyper::body::Incoming>| {
            let found = request.extensions().get::<ConnectionAddresses>();
            let text =
                found.map_or("none".to_owned(), |found| format!("{} {}", found.server, found.client.ip()));
            Ok::<_, Infallible>(http::Response::new(text))
        });
        tokio::spawn(serve(bound, service, CancellationToken::new()));
        let expected = if exposes_addresses { format!("{address} 127.0.0.1") } else { "none".to_owned() };
        assert_eq!(get(address).await, expected);
    }
}
