//! The limit on connections, with real sockets and paused time.

use std::convert::Infallible;
use std::time::Duration;

use pilothouse_listen::{BoundListener, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

#[tokio::test(start_paused = true)]
async fn connections_beyond_the_limit_wait_until_one_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let bound = BoundListener { listener, tls: None, max_connections: 2 };
    let service = tower::service_fn(async |_| Ok::<_, Infallible>(http::Response::new(String::from("ok"))));
    tokio::spawn(serve(bound, service, CancellationToken::new()));
    let silent = [TcpStream::connect(address).await, TcpStream::connect(address).await];
    // In virtual time: the third connection is served after the two silent ones timed out.
    let before = Instant::now();
    let mut third = TcpStream::connect(address).await.expect("a connection");
    let request = "GET / HTTP/1.1\r\nhost: 127.0.0.1:1\r\nconnection: close\r\n\r\n";
    third.write_all(request.as_bytes()).await.expect("written");
    let mut answer = String::new();
    third.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nok"), "{answer}");
    assert!(before.elapsed() >= Duration::from_secs(20), "{:?}", before.elapsed());
    drop(silent);
}
