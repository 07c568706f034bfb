//! A client of one registry: what the distribution specification calls pull, push and referrers.
//!
//! The operator names the registry and is trusted; what the registry sends is not. Every body has a limit, content is checked against its
//! digest, credentials go only to the registry and to the server of its tokens, and other hosts are contacted only as [`crate::origin`] permits.

mod authenticate;
mod pull;
mod push;

use std::collections::HashMap;
use std::fmt;

use http::header::{AUTHORIZATION, HeaderValue};
use http::{Method, StatusCode};
use parking_lot::Mutex;
use tokio::time::sleep;

use crate::credentials::Credentials;
use crate::error::{Problem, RegistryError, excerpt};
use crate::exchange::{OutgoingRequest, PendingResponse, Timeouts, send};
use crate::origin::{Location, Origin, address_scope};
use crate::reference::Reference;
use crate::retry;
use crate::tls::Tls;
pub use pull::{ManifestDocument, ReferrerPage, ReferrerPages};

/// The most redirects of one request.
const MAX_REDIRECTS: usize = 5;
/// The part of an error's body that is read, in bytes.
const MAX_ERROR_BODY: usize = 16 << 10;

/// The options of a client.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Whether the registry is contacted without TLS.
    pub plain_http: bool,
    /// Hosts, as `host` or `host:port`, to which the registry may refer although their addresses are private.
    pub trusted_hosts: Vec<String>,
    /// Time limits.
    pub timeouts: Timeouts,
    /// How often a request is sent if the registry is busy; at least 1.
    pub attempts: u32,
    /// Limits on what the registry sends.
    pub limits: Limits,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            plain_http: false,
            trusted_hosts: Vec::new(),
            timeouts: Timeouts::default(),
            attempts: 3,
            limits: Limits::default(),
        }
    }
}

/// Limits on what a registry sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The size of a manifest or of a signature, in bytes.
    pub manifest: usize,
    /// The size of a plugin, in bytes.
    pub artifact: u64,
    /// The number of artifacts that refer to a plugin and may be signatures, and that are looked at.
    pub referrers: usize,
    /// What is read of the artifacts that refer to a plugin, with the lists of them, in bytes.
    pub attached: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { manifest: 4 << 20, artifact: 256 << 20, referrers: 5_000, attached: 256 << 20 }
    }
}

/// What a request may do in its repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Access {
    Pull,
    Push,
}

/// A client of one registry.
pub struct RegistryClient {
    registry: String,
    origin: Origin,
    tls: Tls,
    credentials: Option<Credentials>,
    options: ClientOptions,
    /// The header `authorization` by the scope that it was given for.
    authorizations: Mutex<HashMap<String, HeaderValue>>,
}

impl fmt::Debug for RegistryClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegistryClient({})", self.origin)
    }
}

impl RegistryClient {
    /// Creates a client of the registry of a reference. Sends nothing.
    ///
    /// # Errors
    /// Errors if the registry's name is not a valid host.
    pub fn new(
        reference: &Reference,
        tls: Tls,
        credentials: Option<Credentials>,
        options: ClientOptions,
    ) -> Result<Self, RegistryError> {
        let origin = Origin::of_registry(reference.registry(), options.plain_http)?;
        let registry = reference.registry().to_owned();
        Ok(Self { registry, origin, tls, credentials, options, authorizations: Mutex::default() })
    }

    /// The limits on what the registry sends.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.options.limits
    }

    /// Returns the location of a path below the repository.
    fn location(&self, reference: &Reference, path: &str) -> Result<Location, RegistryError> {
        Location::relative_to(&self.origin, &format!("/v2/{}/{path}", reference.repository()))
    }

    /// Sends a request: authenticates if the registry asks for it, and tries again if the registry is busy.
    async fn request(
        &self,
        outgoing: &OutgoingRequest,
        location: &Location,
        reference: &Reference,
        access: Access,
    ) -> Result<PendingResponse, RegistryError> {
        let scope = scope(reference, access);
        let mut attempt = 1;
        let mut has_authenticated = false;
        loop {
            let response = self.follow(outgoing, location, &scope).await?;
            let is_own = response.location().origin == self.origin;
            if response.status() == StatusCode::UNAUTHORIZED && is_own && !has_authenticated {
                has_authenticated = true;
                self.authorizations.lock().remove(&scope);
                let authorization = self.authenticate(&response, &scope).await?;
                self.authorizations.lock().insert(scope.clone(), authorization);
                continue;
            }
            let status = response.status().as_u16();
            match retry::delay(status, response.header("retry-after"), attempt, self.options.attempts) {
                Some(delay) => {
                    drop(response);
                    sleep(delay).await;
                    attempt += 1;
                }
                None => return Ok(response),
            }
        }
    }

    /// Sends a request, and follows redirects of reads. The credentials go to the registry only.
    async fn follow(
        &self,
        outgoing: &OutgoingRequest,
        location: &Location,
        scope: &str,
    ) -> Result<PendingResponse, RegistryError> {
        let mut location = location.clone();
        for _ in 0..=MAX_REDIRECTS {
            let addresses = address_scope(&self.origin, &location.origin, &self.options.trusted_hosts)?;
            let mut outgoing = outgoing.clone();
            if location.origin == self.origin
                && let Some(authorization) = self.authorizations.lock().get(scope)
            {
                outgoing.headers.insert(AUTHORIZATION, authorization.clone());
            }
            let sent = send(&outgoing, &location, addresses, &self.tls, self.options.timeouts).await;
            let response = sent.map_err(|error| match location.origin == self.origin {
                true => error,
                false => error.in_context(format_args!("{} redirects to {}", self.registry, location.origin)),
            })?;
            let is_read = outgoing.method == Method::GET || outgoing.method == Method::HEAD;
            let target = response.header("location").filter(|_| is_read && is_redirect(response.status()));
            match target {
                None => return Ok(response),
                Some(target) => location = Location::relative_to(&location.origin, target)?,
            }
        }
        Err(RegistryError::new(
            Problem::Protocol,
            format!("{} redirects more than {MAX_REDIRECTS} times; check its configuration", self.origin),
        ))
    }

    /// What to do if the registry refuses a request.
    fn denied_remedy(&self) -> &'static str {
        match self.credentials {
            Some(_) => "check the credentials for this registry and what they permit",
            None => "add credentials for this registry to the docker config.json",
        }
    }

    /// Returns the response if its status is one of these; otherwise, the error that it means.
    async fn expect(
        &self,
        response: PendingResponse,
        expected: &[StatusCode],
        reference: &Reference,
        what: &str,
    ) -> Result<PendingResponse, RegistryError> {
        let status = response.status();
        if expected.contains(&status) {
            return Ok(response);
        }
        let (problem, remedy) = match status.as_u16() {
            401 | 403 => (Problem::Denied, self.denied_remedy()),
            404 => (Problem::NotFound, "check the reference, and that it was pushed"),
            413 => (Problem::TooLarge, "raise the registry's limit"),
            429 | 500..=599 => (Problem::Busy, "it is tried again later"),
            _ => (Problem::Protocol, "check that the registry serves the OCI distribution API"),
        };
        let body = response.body(MAX_ERROR_BODY, "an error").await.unwrap_or_default();
        let said = message(&body);
        let said = if said.is_empty() { said } else { format!(" ({said})") };
        Err(RegistryError::new(
            problem,
            format!("{what} of {reference}: the registry responds with {}{said}; {remedy}", status.as_u16()),
        ))
    }
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

fn scope(reference: &Reference, access: Access) -> String {
    let actions = match access {
        Access::Pull => "pull",
        Access::Push => "pull,push",
    };
    format!("repository:{}:{actions}", reference.repository())
}

/// Returns the message of an error's body as the specification defines it; "" for any other body.
fn message(body: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct Body {
        errors: Vec<Entry>,
    }
    #[derive(serde::Deserialize)]
    struct Entry {
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: String,
    }
    let first = serde_json::from_slice::<Body>(body).ok().and_then(|body| body.errors.into_iter().next());
    first.map(|entry| excerpt(format!("{} {}", entry.code, entry.message).trim())).unwrap_or_default()
}
