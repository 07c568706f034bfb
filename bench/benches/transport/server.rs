//! A server of prepared lists and watches of Pods, over TLS and either version of HTTP.

use std::convert::Infallible;
use std::fmt::Write;
use std::io::{self, Write as _};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream::{self, BoxStream, StreamExt};
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use pilothouse_bench::{modified, pod_json};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::case::{Case, Protocol};

/// Bytes that are written at a time.
const CHUNK: usize = 64 << 10;
/// The smallest response that a real API server compresses, in bytes.
const COMPRESSED_FROM: usize = 128 << 10;
/// The compression level of a real API server.
const LEVEL: u32 = 1;

/// The prepared bodies, which are the same for all clients.
#[derive(Clone)]
pub(crate) struct PreparedBodies {
    pub(crate) objects: usize,
    pub(crate) events: usize,
    pub(crate) list: Bytes,
    /// The list, compressed by gzip.
    pub(crate) gzip: Bytes,
    /// The initial events of a streaming list.
    initial: Bytes,
    /// All events of the watch.
    watch: Bytes,
    /// The offset of the end of each event in `watch`.
    ends: Arc<[usize]>,
}

impl PreparedBodies {
    pub(crate) fn prepare(objects: usize, events: usize) -> Result<Self, String> {
        let (mut list, mut initial) = (String::new(), String::new());
        for number in 0..objects {
            let (pod, comma) = (pod_json(number, number + 1), if number > 0 { "," } else { "" });
            let _ = write!(list, "{comma}{pod}");
            let _ = writeln!(initial, r#"{{"type":"ADDED","object":{pod}}}"#);
        }
        let list = format!(
            r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{objects}"}},"items":[{list}]}}"#
        );
        let _ = writeln!(
            initial,
            r#"{{"type":"BOOKMARK","object":{{"kind":"Pod","apiVersion":"v1","metadata":{{"resourceVersion":"{objects}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}}}"#
        );
        let (mut watch, mut ends) = (String::new(), Vec::new());
        for event in 0..events {
            watch += &modified(event % objects, objects + event + 1);
            ends.push(watch.len());
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::new(LEVEL));
        let gzip = encoder.write_all(list.as_bytes()).and_then(|()| encoder.finish());
        let gzip = gzip.map_err(|error| error.to_string())?.into();
        Ok(Self {
            objects,
            events,
            list: list.into(),
            gzip,
            initial: initial.into(),
            watch: watch.into(),
            ends: ends.into(),
        })
    }

    /// Returns the events of the watch, one in each chunk or in chunks of equal size.
    fn events(&self, one_event_per_chunk: bool) -> BoxStream<'static, Bytes> {
        if !one_event_per_chunk {
            return chunks(self.watch.clone());
        }
        let (watch, ends) = (self.watch.clone(), Arc::clone(&self.ends));
        stream::iter(0..ends.len())
            .map(move |event| {
                watch.slice(event.checked_sub(1).map_or(0, |previous| ends[previous])..ends[event])
            })
            .boxed()
    }
}

/// Splits bytes into chunks.
fn chunks(bytes: Bytes) -> BoxStream<'static, Bytes> {
    let length = bytes.len();
    let parts = (0..length).step_by(CHUNK).map(move |at| bytes.slice(at..length.min(at + CHUNK)));
    stream::iter(parts).boxed()
}

/// A running server, which stops on drop.
pub(crate) struct Server {
    pub(crate) port: u16,
    /// The certificate that clients trust, in hex.
    pub(crate) certificate: String,
    counts: Arc<Counts>,
    begin: watch::Sender<bool>,
    _connections: JoinSet<()>,
}

#[derive(Default)]
struct Counts {
    /// Bytes that were sent on the wire.
    sent: AtomicU64,
    connections: AtomicU64,
}

impl Server {
    pub(crate) async fn start(case: &Case, served: PreparedBodies) -> Result<Self, String> {
        let message = |error: &dyn std::error::Error| error.to_string();
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).map_err(|error| message(&error))?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| message(&error))?
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .map_err(|error| message(&error))?;
        // A real API server offers both as well.
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = (case.protocol != Protocol::Plain).then(|| TlsAcceptor::from(Arc::new(tls)));
        let certificate = cert.der().iter().map(|byte| format!("{byte:02x}")).collect();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(|error| message(&error))?;
        let port = listener.local_addr().map_err(|error| message(&error))?.port();
        let counts = Arc::<Counts>::default();
        let (begin, events_begun) = watch::channel(false);
        let handler = Handler { served, one_event_per_chunk: case.one_event_per_chunk, events_begun };
        let mut connections = JoinSet::new();
        let counted = Arc::clone(&counts);
        connections.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                counted.connections.fetch_add(1, Ordering::Relaxed);
                let stream = CountedStream { stream, counts: Arc::clone(&counted) };
                open.spawn(connection(stream, acceptor.clone(), handler.clone()));
            }
        });
        Ok(Self { port, certificate, counts, begin, _connections: connections })
    }

    /// Makes the watches send their events.
    pub(crate) fn begin_events(&self) {
        self.begin.send_replace(true);
    }

    pub(crate) fn sent(&self) -> u64 {
        self.counts.sent.load(Ordering::Relaxed)
    }

    pub(crate) fn connections(&self) -> u64 {
        self.counts.connections.load(Ordering::Relaxed)
    }
}

async fn connection(stream: CountedStream, acceptor: Option<TlsAcceptor>, handler: Handler) {
    let _ = stream.stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let response = handler.handle(&request);
        async move { Ok::<_, Infallible>(response) }
    });
    let http = auto::Builder::new(TokioExecutor::new());
    // Every connection ends with an error, because the client disconnects.
    let _ = match acceptor {
        None => http.serve_connection(TokioIo::new(stream), service).await,
        Some(acceptor) => match acceptor.accept(stream).await {
            Ok(stream) => http.serve_connection(TokioIo::new(stream), service).await,
            Err(problem) => return eprintln!("TLS: {problem}"),
        },
    };
}

type Body = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>;

#[derive(Clone)]
struct Handler {
    served: PreparedBodies,
    one_event_per_chunk: bool,
    events_begun: watch::Receiver<bool>,
}

impl Handler {
    fn handle(&self, request: &Request<Incoming>) -> Response<Body> {
        let query = request.uri().query().unwrap_or_default();
        let has = |parameter: &str| query.split('&').any(|pair| pair == parameter);
        if has("watch=true") {
            let list = if has("sendInitialEvents=true") {
                chunks(self.served.initial.clone())
            } else {
                stream::empty().boxed()
            };
            let mut events_begun = self.events_begun.clone();
            let wait = stream::once(async move {
                let _ = events_begun.wait_for(|begun| *begun).await;
                Bytes::new()
            });
            let events = wait.chain(self.served.events(self.one_event_per_chunk));
            let events = events.filter(|part| std::future::ready(!part.is_empty()));
            return response(false, list.chain(events).chain(stream::pending()).boxed());
        }
        let is_gzip = accepts_gzip(request.headers()) && self.served.list.len() > COMPRESSED_FROM;
        let list = if is_gzip { &self.served.gzip } else { &self.served.list };
        response(is_gzip, chunks(list.clone()))
    }
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    headers
        .get(http::header::ACCEPT_ENCODING)
        .is_some_and(|value| value.as_bytes().windows(4).any(|word| word == b"gzip"))
}

fn response(is_gzip: bool, body: BoxStream<'static, Bytes>) -> Response<Body> {
    let mut response = Response::new(StreamBody::new(body.map(|part| Ok(Frame::data(part))).boxed()));
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    if is_gzip {
        response.headers_mut().insert(http::header::CONTENT_ENCODING, http::HeaderValue::from_static("gzip"));
    }
    response
}

/// A connection that counts the bytes that are sent.
struct CountedStream {
    stream: TcpStream,
    counts: Arc<Counts>,
}

impl AsyncRead for CountedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for CountedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(bytes)) = &written {
            self.counts.sent.fetch_add(*bytes as u64, Ordering::Relaxed);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
