//! A `kube::Client` that speaks HTTP/2: kube's own connector offers HTTP/1.1 only.

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
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower::{Service, ServiceBuilder};

/// The client of a configuration, over one HTTP/2 connection. Windows are hyper's: 2 MiB for a stream, 5 MiB for all.
pub(crate) fn http2(config: &kube::Config, address: SocketAddr) -> Result<kube::Client, String> {
    let mut tls = config.rustls_client_config().map_err(|error| error.to_string())?;
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let dial = Dial { tls: TlsConnector::from(Arc::new(tls)), address };
    let client = Client::builder(TokioExecutor::new()).http2_only(true).build::<_, Body>(dial);
    let service = ServiceBuilder::new().layer(config.base_uri_layer()).service(client);
    Ok(ClientBuilder::new(service, "default").build())
}

#[derive(Clone)]
struct Dial {
    tls: TlsConnector,
    address: SocketAddr,
}

impl Service<Uri> for Dial {
    type Response = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Self { tls, address } = self.clone();
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let name = ServerName::IpAddress(address.ip().into());
            Ok(Stream(TokioIo::new(tls.connect(name, stream).await?)))
        })
    }
}

struct Stream(TokioIo<TlsStream<TcpStream>>);

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new().negotiated_h2()
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
