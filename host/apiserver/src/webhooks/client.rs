//! Sends one review to a webhook and returns its answer. Each request has its own connection.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::{OnceCell, Semaphore};
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use super::destination::{Address, Destination};
use super::{service, tls};
use crate::identifiers::Identifiers;
use crate::storage::{Storage, Table};

/// The largest answer in bytes.
const MAX_ANSWER: usize = 6 << 20;
/// The number of bytes of an error's answer that are shown.
const SHOWN_ANSWER: usize = 1024;
/// How many webhooks are called at the same time; further calls wait.
const MAX_CALLS: usize = 64;

/// Calls webhooks.
pub(crate) struct WebhookClient {
    services: Arc<Table>,
    slices: Arc<Table>,
    endpoints: Arc<Table>,
    system_tls: OnceCell<Arc<ClientConfig>>,
    calls: Semaphore,
    enabled: bool,
    identifiers: Identifiers,
}

/// What a request connects to.
struct Connection {
    host: String,
    port: u16,
    /// The name in the server's certificate.
    server_name: String,
    /// The `Host` header.
    authority: String,
    path: String,
}

impl WebhookClient {
    /// Creates a client. If it is not `enabled`, every call fails.
    pub(crate) fn new(storage: &Storage, enabled: bool, identifiers: Identifiers) -> Self {
        Self {
            services: storage.table("", "services"),
            slices: storage.table("discovery.k8s.io", "endpointslices"),
            endpoints: storage.table("", "endpoints"),
            system_tls: OnceCell::new(),
            calls: Semaphore::new(MAX_CALLS),
            enabled,
            identifiers,
        }
    }

    /// Whether webhooks are called at all.
    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Returns a UID for a review.
    pub(crate) fn new_review_uid(&self) -> String {
        self.identifiers.new_uid()
    }

    /// Posts a review and returns the body of the answer.
    ///
    /// # Errors
    /// The text of what failed, after that of client-go.
    pub(crate) async fn post(
        &self,
        destination: &Destination,
        timeout: Duration,
        review: Bytes,
    ) -> Result<Bytes, String> {
        let url = format!("{}?timeout={}s", destination.url(), timeout.as_secs());
        let failed = |problem: String| format!("Post {url:?}: {problem}");
        if !self.enabled {
            return Err(failed("webhooks are disabled by --webhooks false".to_owned()));
        }
        let exchange = async {
            let _permit = self.calls.acquire().await.map_err(|error| failed(error.to_string()))?;
            let (status, body) = self.exchange(destination, timeout, review).await.map_err(failed)?;
            check_status(status, body)
        };
        tokio::time::timeout(timeout, exchange)
            .await
            .unwrap_or_else(|_| Err(format!("Post {url:?}: context deadline exceeded")))
    }

    async fn exchange(
        &self,
        destination: &Destination,
        timeout: Duration,
        review: Bytes,
    ) -> Result<(StatusCode, Bytes), String> {
        let Connection { host, port, server_name, authority, path } =
            self.connection(&destination.address)?;
        let tls = match &destination.tls {
            Some(config) => Arc::clone(config),
            None => self.system_tls().await?,
        };
        let server_name = match server_name.parse::<IpAddr>() {
            Ok(address) => ServerName::from(address),
            Err(_) => ServerName::try_from(server_name)
                .map_err(|_| "the host is not a valid server name for TLS".to_owned())?,
        };
        let stream = TcpStream::connect((host.as_str(), port))
            .await
            .map_err(|error| format!("dial tcp {host}:{port}: {error}"))?;
        let stream = TlsConnector::from(tls)
            .connect(server_name, stream)
            .await
            .map_err(|error| format!("tls: {error}"))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        let _connection = AbortOnDropHandle::new(tokio::spawn(async move { drop(connection.await) }));
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("{path}?timeout={}s", timeout.as_secs()))
            .header(header::HOST, authority)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, */*")
            .header(header::USER_AGENT, "kube-apiserver-admission")
            .body(Full::new(review))
            .map_err(|error| error.to_string())?;
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER)
            .collect()
            .await
            .map_err(|error| format!("the answer cannot be read: {error}"))?;
        Ok((status, body.to_bytes()))
    }

    fn connection(&self, address: &Address) -> Result<Connection, String> {
        match address {
            Address::Url(url) => {
                let host = url.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
                let authority = url.authority().map(ToString::to_string).unwrap_or_default();
                Ok(Connection {
                    port: url.port_u16().unwrap_or(443),
                    server_name: host.clone(),
                    authority,
                    path: url.path().to_owned(),
                    host,
                })
            }
            Address::Service { namespace, name, port, path } => {
                let found = self
                    .services
                    .get(namespace, name)
                    .ok_or_else(|| format!("service {name:?} not found"))?;
                let slices: Vec<_> = self
                    .slices
                    .list(Some(namespace))
                    .0
                    .iter()
                    .filter(|slice| {
                        let service = slice.labels.get("kubernetes.io/service-name");
                        service.is_some_and(|service| **service == **name)
                    })
                    .map(|slice| slice.value())
                    .collect();
                let endpoints = self.endpoints.get(namespace, name).map(|endpoints| endpoints.value());
                let (host, target) = service::resolve(&found.value(), &slices, endpoints.as_ref(), *port)?;
                let server_name = format!("{name}.{namespace}.svc");
                let authority = format!("{server_name}:{port}");
                Ok(Connection { host, port: target, server_name, authority, path: path.clone() })
            }
        }
    }

    async fn system_tls(&self) -> Result<Arc<ClientConfig>, String> {
        let config = self.system_tls.get_or_try_init(|| async {
            let read = tokio::task::spawn_blocking(tls::with_system_roots).await;
            read.unwrap_or_else(|error| Err(error.to_string()))
        });
        config.await.cloned()
    }
}

/// Returns the body of a successful answer, or the error of client-go for its status.
fn check_status(status: StatusCode, body: Bytes) -> Result<Bytes, String> {
    if status.is_success() {
        return Ok(body);
    }
    let shown = String::from_utf8_lossy(&body[..body.len().min(SHOWN_ANSWER)]).trim().to_owned();
    Err(match status.as_u16() {
        404 => "the server could not find the requested resource".to_owned(),
        500.. => format!("an error on the server ({shown:?}) has prevented the request from succeeding"),
        code => format!("the server responded with the status code {code}: {shown:?}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsuccessful_answers_have_the_errors_of_client_go() {
        let check = |code: u16, body: &'static str| {
            check_status(StatusCode::from_u16(code).expect("a code"), Bytes::from(body))
        };
        assert_eq!(check(200, "{}"), Ok(Bytes::from("{}")));
        assert_eq!(check(404, ""), Err("the server could not find the requested resource".to_owned()));
        let failed = check(500, "boom\n").expect_err("a failure");
        assert_eq!(failed, r#"an error on the server ("boom") has prevented the request from succeeding"#);
        assert!(check(302, "").expect_err("no redirect is followed").contains("302"));
    }
}
