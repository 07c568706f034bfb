//! A `kube::Client` with a custom connector: kube's own connector only offers HTTP/1.1, and reads 4 KiB at a time below TLS.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::{Body, ClientBuilder, ConfigExt};
use rustls::pki_types::ServerName;
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower::{Service, ServiceBuilder};

/// The size of the read buffer below TLS, in bytes.
const BUFFER: usize = 64 << 10;

/// Returns a client that uses one HTTP/2 connection. The flow-control windows are hyper's defaults: 2 MiB for a stream, 5 MiB in total.
pub(crate) fn http2(config: &kube::Config, address: SocketAddr) -> Result<kube::Client, String> {
    // A read that is at least as large as the buffer bypasses it, so a buffer of 1 byte is none.
    client(config, address, true, 1)
}

/// Returns a client that uses HTTP/1.1 like kube's, with a read buffer below TLS.
pub(crate) fn buffered(config: &kube::Config, address: SocketAddr) -> Result<kube::Client, String> {
    client(config, address, false, BUFFER)
}

fn client(
    config: &kube::Config,
    address: SocketAddr,
    http2: bool,
    buffer: usize,
) -> Result<kube::Client, String> {
    let mut tls = config.rustls_client_config().map_err(|error| error.to_string())?;
    if http2 {
        tls.alpn_protocols = vec![b"h2".to_vec()];
    }
    let connector = Connector { tls: TlsConnector::from(Arc::new(tls)), address, http2, buffer };
    let client = Client::builder(TokioExecutor::new()).http2_only(http2).build::<_, Body>(connector);
    let service = ServiceBuilder::new().layer(config.base_uri_layer()).service(client);
    Ok(ClientBuilder::new(service, "default").build())
}

#[derive(Clone)]
struct Connector {
    tls: TlsConnector,
    address: SocketAddr,
    http2: bool,
    buffer: usize,
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Self { tls, address, http2, buffer } = self.clone();
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let name = ServerName::IpAddress(address.ip().into());
            let stream = BufReader::with_capacity(buffer, stream);
            Ok(Stream { io: TokioIo::new(tls.connect(name, stream).await?), http2 })
        })
    }
}

struct Stream {
    io: TokioIo<TlsStream<BufReader<TcpStream>>>,
    http2: bool,
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        if self.http2 { Connected::new().negotiated_h2() } else { Connected::new() }
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
