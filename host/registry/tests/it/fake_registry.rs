//! A registry in this process, over HTTP or TLS on a loopback port, with faults to choose from.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use pilothouse_registry::{Credentials, Digest, Index, Manifest, Reference, Tls, media_type};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

pub(crate) const USER: &str = "bot";
pub(crate) const PASSWORD: &str = "hunter2";
const TOKEN: &str = "issued-token";

type Reply = Response<UnsyncBoxBody<Bytes, std::io::Error>>;

/// How the registry asks for credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Login {
    #[default]
    None,
    Basic,
    /// A token from the registry itself.
    Token,
    /// A token from the server with this URL.
    TokenFrom(String),
}

/// What the registry does with requests of blobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum BlobFault {
    #[default]
    None,
    Altered,
    /// The body ends early, as if it were whole.
    Truncated,
    /// The connection breaks in the middle.
    Broken,
    Endless,
    /// The body begins and never goes on.
    Stalled,
    Redirect(String),
}

/// What the registry does with requests of the referrers API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Referrers {
    #[default]
    Served,
    /// Lists each manifest with the type of its config, as the registry of go-containerregistry does.
    WithTypeOfConfig,
    NotFound,
    /// A proxy's page.
    Page,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) login: Login,
    pub(crate) blobs: BlobFault,
    pub(crate) referrers: Referrers,
    /// How many referrers a page has; all, if absent.
    pub(crate) referrers_per_page: Option<usize>,
    /// The referrer that is listed after all others.
    pub(crate) last_referrer: Option<Digest>,
    /// Served instead of every manifest.
    pub(crate) manifest: Option<Vec<u8>>,
    /// The header `docker-content-digest` of manifests, instead of the right one.
    pub(crate) stated_digest: Option<String>,
    pub(crate) endless_manifest: bool,
    /// How many requests get 429, and then others get their response.
    pub(crate) busy: u32,
    /// No request gets a response.
    pub(crate) silent: bool,
}

/// One request as the registry saw it.
#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) authorization: Option<String>,
}

#[derive(Default)]
struct State {
    faults: Faults,
    blobs: BTreeMap<String, Vec<u8>>,
    /// By repository and tag or digest.
    manifests: BTreeMap<(String, String), Vec<u8>>,
    seen: Vec<RecordedRequest>,
    address: Option<SocketAddr>,
    tls: bool,
}

pub(crate) struct FakeRegistry {
    state: Arc<Mutex<State>>,
    address: SocketAddr,
    /// The PEM text of the certificate, which is its own authority.
    certificate: Option<String>,
    _task: AbortOnDropHandle<()>,
}

impl FakeRegistry {
    pub(crate) async fn start(faults: Faults) -> Self {
        Self::start_with(faults, None).await
    }

    pub(crate) async fn start_tls(faults: Faults) -> Self {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
        let key = rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .expect("a configuration");
        Self::start_with(faults, Some((TlsAcceptor::from(Arc::new(config)), made.cert.pem()))).await
    }

    async fn start_with(faults: Faults, tls: Option<(TlsAcceptor, String)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (acceptor, certificate) = tls.unzip();
        let state = State { faults, address: Some(address), tls: acceptor.is_some(), ..State::default() };
        let state = Arc::new(Mutex::new(state));
        let task = tokio::spawn(accept(listener, acceptor, Arc::clone(&state)));
        Self { state, address, certificate, _task: AbortOnDropHandle::new(task) }
    }

    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn reference(&self, rest: &str) -> Reference {
        format!("oci://{}/{rest}", self.host()).parse().expect("a reference")
    }

    /// The settings of a client that trusts this registry.
    pub(crate) fn tls(&self) -> Tls {
        let certificate = self.certificate.clone().unwrap_or_else(|| {
            rcgen::generate_simple_self_signed(["unused".to_owned()]).expect("a certificate").cert.pem()
        });
        Tls::trusting_only(certificate.as_bytes()).expect("a certificate")
    }

    pub(crate) fn has_tls(&self) -> bool {
        self.certificate.is_some()
    }

    pub(crate) fn set_faults(&self, faults: Faults) {
        self.state.lock().faults = faults;
    }

    pub(crate) fn seen(&self) -> Vec<RecordedRequest> {
        self.state.lock().seen.clone()
    }

    /// How many requests of this kind the registry got.
    pub(crate) fn count(&self, method: &Method, part_of_path: &str) -> usize {
        self.seen().iter().filter(|seen| seen.method == *method && seen.path.contains(part_of_path)).count()
    }

    pub(crate) fn put_manifest(&self, repository: &str, selector: &str, text: &[u8]) -> Digest {
        let digest = Digest::of(text);
        let mut state = self.state.lock();
        for selector in [selector.to_owned(), digest.to_string()] {
            state.manifests.insert((repository.to_owned(), selector), text.to_vec());
        }
        digest
    }

    pub(crate) fn put_blob(&self, content: &[u8]) -> Digest {
        let digest = Digest::of(content);
        self.state.lock().blobs.insert(digest.to_string(), content.to_vec());
        digest
    }
}

pub(crate) fn credentials() -> Credentials {
    Credentials::Password { user: USER.to_owned(), password: PASSWORD.to_owned() }
}

async fn accept(listener: TcpListener, acceptor: Option<TlsAcceptor>, state: Arc<Mutex<State>>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        let (state, acceptor) = (Arc::clone(&state), acceptor.clone());
        tokio::spawn(async move {
            match acceptor {
                None => serve(stream, state).await,
                Some(acceptor) => {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        serve(stream, state).await;
                    }
                }
            }
        });
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, state: Arc<Mutex<State>>) {
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        async move { Ok::<_, Infallible>(respond(request, &state).await) }
    });
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn respond(request: Request<Incoming>, state: &Mutex<State>) -> Reply {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let path = parts.uri.path().to_owned();
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let authorization =
        parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let is_silent = {
        let mut state = state.lock();
        state.seen.push(RecordedRequest {
            method: parts.method.clone(),
            path: format!("{path}?{query}"),
            authorization: authorization.clone(),
        });
        state.faults.silent
    };
    if is_silent {
        std::future::pending::<()>().await;
    }
    let mut state = state.lock();
    if state.faults.busy > 0 {
        state.faults.busy -= 1;
        return reply(StatusCode::TOO_MANY_REQUESTS, &[("retry-after", "0")], "");
    }
    let basic = format!("Basic {}", STANDARD.encode(format!("{USER}:{PASSWORD}")));
    if path == "/token" {
        let is_known = authorization.as_deref() == Some(basic.as_str());
        return match is_known {
            true => reply(StatusCode::OK, &[], format!("{{\"token\":\"{TOKEN}\"}}")),
            false => reply(StatusCode::UNAUTHORIZED, &[], ""),
        };
    }
    let own = format!("{}://{}", if state.tls { "https" } else { "http" }, state.address.expect("started"));
    let (challenge, expected) = match &state.faults.login {
        Login::None => (String::new(), None),
        Login::Basic => ("Basic realm=\"x\"".to_owned(), Some(basic)),
        Login::Token => {
            (format!("Bearer realm=\"{own}/token\",service=\"x\""), Some(format!("Bearer {TOKEN}")))
        }
        Login::TokenFrom(realm) => {
            (format!("Bearer realm=\"{realm}\",service=\"x\""), Some(format!("Bearer {TOKEN}")))
        }
    };
    if expected.is_some() && authorization != expected {
        let error = r#"{"errors":[{"code":"UNAUTHORIZED","message":"log in"}]}"#;
        return reply(StatusCode::UNAUTHORIZED, &[(WWW_AUTHENTICATE.as_str(), &challenge)], error);
    }
    route(&mut state, &parts.method, &path, &query, &body)
}

fn route(state: &mut State, method: &Method, path: &str, query: &str, body: &Bytes) -> Reply {
    let not_found = || reply(StatusCode::NOT_FOUND, &[], r#"{"errors":[{"code":"NAME_UNKNOWN"}]}"#);
    let Some(rest) = path.strip_prefix("/v2/") else { return not_found() };
    if let Some((_, upload)) = rest.split_once("/blobs/uploads/") {
        if *method == Method::POST {
            return reply(StatusCode::ACCEPTED, &[(LOCATION.as_str(), &format!("{path}1?state=x"))], "");
        }
        assert_eq!(upload, "1");
        let digest = query.split("digest=").nth(1).unwrap_or_default();
        if digest != Digest::of(body).to_string() {
            return reply(StatusCode::BAD_REQUEST, &[], "");
        }
        state.blobs.insert(digest.to_owned(), body.to_vec());
        return reply(StatusCode::CREATED, &[], "");
    }
    if let Some((_, digest)) = rest.split_once("/blobs/") {
        return match state.blobs.get(digest) {
            Some(content) => blob(&state.faults.blobs, content),
            None => not_found(),
        };
    }
    if let Some((repository, digest)) = rest.split_once("/referrers/") {
        return referrers(state, repository, digest, query);
    }
    let Some((repository, selector)) = rest.split_once("/manifests/") else { return not_found() };
    let key = (repository.to_owned(), selector.to_owned());
    if *method == Method::PUT {
        let digest = Digest::of(body).to_string();
        state.manifests.insert(key, body.to_vec());
        state.manifests.insert((repository.to_owned(), digest.clone()), body.to_vec());
        return reply(StatusCode::CREATED, &[("docker-content-digest", &digest)], "");
    }
    if state.faults.endless_manifest {
        return endless();
    }
    let Some(found) = state.faults.manifest.as_ref().or_else(|| state.manifests.get(&key)) else {
        return not_found();
    };
    let digest = state.faults.stated_digest.clone().unwrap_or_else(|| Digest::of(found).to_string());
    let headers = [(CONTENT_TYPE.as_str(), media_type::MANIFEST), ("docker-content-digest", &digest)];
    reply(StatusCode::OK, &headers, found.clone())
}

fn blob(fault: &BlobFault, content: &[u8]) -> Reply {
    let mut content = content.to_vec();
    match fault {
        BlobFault::None => {}
        BlobFault::Altered => *content.last_mut().expect("content") ^= 1,
        BlobFault::Truncated => content.truncate(content.len() / 2),
        BlobFault::Broken => return parts(vec![Ok(content), Err(std::io::Error::other("broken"))], false),
        BlobFault::Stalled => return parts(vec![Ok(content[..1].to_vec())], true),
        BlobFault::Endless => return endless(),
        BlobFault::Redirect(target) => {
            return reply(StatusCode::TEMPORARY_REDIRECT, &[(LOCATION.as_str(), target)], "");
        }
    }
    reply(StatusCode::OK, &[], content)
}

fn referrers(state: &State, repository: &str, subject: &str, query: &str) -> Reply {
    match state.faults.referrers {
        Referrers::NotFound => reply(StatusCode::NOT_FOUND, &[], "404 page not found"),
        Referrers::Page => reply(StatusCode::OK, &[(CONTENT_TYPE.as_str(), "text/html")], "<html>"),
        Referrers::Served | Referrers::WithTypeOfConfig => {
            let mut manifests = Vec::new();
            for ((of, selector), text) in &state.manifests {
                let Ok(manifest) = serde_json::from_slice::<Manifest>(text) else { continue };
                let is_about =
                    manifest.subject.as_ref().is_some_and(|about| about.digest.to_string() == subject);
                let artifact_type = match state.faults.referrers {
                    Referrers::WithTypeOfConfig => Some(media_type::EMPTY.to_owned()),
                    _ => manifest.artifact_type.clone(),
                };
                if of == repository && is_about && selector.starts_with("sha256:") {
                    manifests.push(pilothouse_registry::Descriptor {
                        media_type: media_type::MANIFEST.to_owned(),
                        digest: Digest::of(text),
                        size: text.len() as u64,
                        artifact_type,
                        annotations: BTreeMap::new(),
                    });
                }
            }
            manifests.sort_by_key(|listed| Some(listed.digest) == state.faults.last_referrer);
            let at: usize = query.strip_prefix("from=").map_or(0, |from| from.parse().expect("a number"));
            let next = at + state.faults.referrers_per_page.unwrap_or(manifests.len());
            let is_last = next >= manifests.len() && state.faults.referrers_per_page != Some(0);
            let manifests = manifests.drain(at..next.min(manifests.len())).collect();
            let link = format!("</v2/{repository}/referrers/{subject}?from={next}>; rel=\"next\"");
            let index =
                Index { schema_version: 2, media_type: Some(media_type::INDEX.to_owned()), manifests };
            let text = serde_json::to_vec(&index).expect("JSON");
            let headers = [(CONTENT_TYPE.as_str(), media_type::INDEX), ("link", link.as_str())];
            reply(StatusCode::OK, if is_last { &headers[..1] } else { &headers }, text)
        }
    }
}

fn reply(status: StatusCode, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Reply {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    let body = Full::new(body.into()).map_err(|never| match never {}).boxed_unsync();
    response.body(body).expect("a response")
}

fn endless() -> Reply {
    Response::new(Parts { left: Vec::new(), at_end: AtEnd::Repeat }.boxed_unsync())
}

fn parts(parts: Vec<std::io::Result<Vec<u8>>>, stalls: bool) -> Reply {
    let at_end = if stalls { AtEnd::Stall } else { AtEnd::End };
    let left = parts.into_iter().map(|part| part.map(Bytes::from)).rev().collect();
    Response::new(Parts { left, at_end }.boxed_unsync())
}

/// A body of some parts, and what comes after them.
struct Parts {
    left: Vec<std::io::Result<Bytes>>,
    at_end: AtEnd,
}

enum AtEnd {
    End,
    Stall,
    Repeat,
}

impl Body for Parts {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<std::io::Result<Frame<Bytes>>>> {
        use std::task::Poll::{Pending, Ready};

        match (self.left.pop(), &self.at_end) {
            (Some(part), _) => Ready(Some(part.map(Frame::data))),
            (None, AtEnd::End) => Ready(None),
            (None, AtEnd::Stall) => Pending,
            (None, AtEnd::Repeat) => Ready(Some(Ok(Frame::data(Bytes::from_static(&[b' '; 4096]))))),
        }
    }
}
