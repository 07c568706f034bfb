//! A minimal HTTP client for the API server and the status server, so that the demo does not need kubectl.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// How long a condition may take. The tests of the full form run debug builds, which take more than a minute to compile a plugin on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(if cfg!(feature = "full") { 600 } else { 60 });
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A client for one HTTP server.
pub(crate) struct Api {
    agent: Agent,
    url: String,
    /// Value of the `Authorization` header; empty for a server that needs no credentials.
    authorization: String,
}

impl Api {
    pub(crate) fn new(url: &str) -> Self {
        let config = Agent::config_builder().http_status_as_error(false).build();
        Self { agent: Agent::new_with_config(config), url: url.to_owned(), authorization: String::new() }
    }

    /// Creates a client for the server of a kubeconfig that `pilothouse dev` wrote, with its certificate and token.
    pub(crate) fn of_kubeconfig(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        let file: Value = serde_json::from_str(&text).context("the kubeconfig is not JSON")?;
        let member = |pointer: &str| {
            file.pointer(pointer).and_then(Value::as_str).with_context(|| format!("no {pointer}"))
        };
        // The kubeconfig contains the PEM file as base64. A PEM parser decodes base64, too, so it is used for both layers.
        let data = member("/clusters/0/cluster/certificate-authority-data")?;
        let wrapped = format!("-----BEGIN CERTIFICATE-----\n{data}\n-----END CERTIFICATE-----\n");
        let pem = Certificate::from_pem(wrapped.as_bytes())?;
        let roots = RootCerts::Specific(Arc::new(vec![Certificate::from_pem(pem.der())?]));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = TlsConfig::builder().root_certs(roots).unversioned_rustls_crypto_provider(provider).build();
        let config = Agent::config_builder().http_status_as_error(false).tls_config(tls).build();
        Ok(Self {
            agent: Agent::new_with_config(config),
            url: member("/clusters/0/cluster/server")?.to_owned(),
            authorization: format!("Bearer {}", member("/users/0/user/token")?),
        })
    }

    /// Returns the object at a path, or `None` on status 404.
    pub(crate) fn get(&self, path: &str) -> Result<Option<Value>> {
        let response = self
            .agent
            .get(self.url_of(path))
            .header("authorization", &self.authorization)
            .call()
            .with_context(|| format!("GET {path}"))?;
        let status = response.status().as_u16();
        if status == 404 {
            return Ok(None);
        }
        Self::parse_response("GET", path, status, response.into_body()).map(Some)
    }

    /// Applies a manifest with server-side apply, like `kubectl apply --server-side`.
    pub(crate) fn apply(&self, path: &str, manifest: &str) -> Result<Value> {
        let path = format!("{path}?fieldManager=demo");
        self.patch(&path, "application/apply-patch+yaml", manifest)
    }

    /// Sends a merge patch, like `kubectl patch --type merge`.
    pub(crate) fn merge(&self, path: &str, patch: &Value) -> Result<Value> {
        self.patch(path, "application/merge-patch+json", &patch.to_string())
    }

    /// Sends a POST with JSON.
    #[cfg(feature = "full")]
    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let request = self.agent.post(self.url_of(path)).header("content-type", "application/json");
        let request = request.header("authorization", &self.authorization);
        let response = request.send(body.to_string()).with_context(|| format!("POST {path}"))?;
        let status = response.status().as_u16();
        Self::parse_response("POST", path, status, response.into_body())
    }

    pub(crate) fn delete(&self, path: &str) -> Result<()> {
        let request = self.agent.delete(self.url_of(path)).header("authorization", &self.authorization);
        let response = request.call().with_context(|| format!("DELETE {path}"))?;
        let status = response.status().as_u16();
        Self::parse_response("DELETE", path, status, response.into_body()).map(drop)
    }

    /// Polls until `poll` returns a value, for at most [`TIMEOUT`].
    pub(crate) fn wait<T>(&self, condition: &str, poll: impl Fn(&Self) -> Result<Option<T>>) -> Result<T> {
        self.wait_up_to(TIMEOUT, condition, poll)
    }

    /// Polls until `poll` returns a value.
    pub(crate) fn wait_up_to<T>(
        &self,
        timeout: Duration,
        condition: &str,
        poll: impl Fn(&Self) -> Result<Option<T>>,
    ) -> Result<T> {
        #[expect(clippy::disallowed_methods, reason = "a demo of real processes runs in real time")]
        let started = Instant::now();
        loop {
            if let Some(value) = poll(self)? {
                return Ok(value);
            }
            if started.elapsed() > timeout {
                bail!("timed out after {} s waiting for {condition}", timeout.as_secs());
            }
            #[expect(clippy::disallowed_methods, reason = "a demo of real processes runs in real time")]
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn patch(&self, path: &str, content_type: &str, body: &str) -> Result<Value> {
        let request = self.agent.patch(self.url_of(path)).header("content-type", content_type);
        let request = request.header("authorization", &self.authorization);
        let response = request.send(body).with_context(|| format!("PATCH {path}"))?;
        let status = response.status().as_u16();
        Self::parse_response("PATCH", path, status, response.into_body())
    }

    fn parse_response(verb: &str, path: &str, status: u16, mut body: ureq::Body) -> Result<Value> {
        let text = body.read_to_string().with_context(|| format!("read the response to {verb} {path}"))?;
        if !(200..300).contains(&status) {
            bail!("{verb} {path} failed with status {status}: {text}");
        }
        serde_json::from_str(&text).with_context(|| format!("the response to {verb} {path} is not JSON"))
    }

    fn url_of(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }
}
