//! The few requests that the demo makes, so that it needs no kubectl.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// How long the demo waits for one thing to come true.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A server that is asked over HTTP.
pub(crate) struct Api {
    agent: Agent,
    url: String,
    /// What `Authorization` says; empty for a server that asks for no credentials.
    authorization: String,
}

impl Api {
    pub(crate) fn new(url: &str) -> Self {
        let config = Agent::config_builder().http_status_as_error(false).build();
        Self { agent: Agent::new_with_config(config), url: url.to_owned(), authorization: String::new() }
    }

    /// The server of a kubeconfig that `pilothouse dev` wrote, with its certificate and its token.
    pub(crate) fn of_kubeconfig(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        let file: Value = serde_json::from_str(&text).context("the kubeconfig is not JSON")?;
        let member = |pointer: &str| {
            file.pointer(pointer).and_then(Value::as_str).with_context(|| format!("no {pointer}"))
        };
        // PEM is base64 between two lines, so the reader of PEM decodes the base64 that the kubeconfig has the PEM in.
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

    /// The object at a path; `None` for 404.
    pub(crate) fn get(&self, path: &str) -> Result<Option<Value>> {
        let response = self
            .agent
            .get(self.at(path))
            .header("authorization", &self.authorization)
            .call()
            .with_context(|| format!("GET {path}"))?;
        let status = response.status().as_u16();
        if status == 404 {
            return Ok(None);
        }
        Self::answer("GET", path, status, response.into_body()).map(Some)
    }

    /// Server-side apply, what `kubectl apply --server-side` does.
    pub(crate) fn apply(&self, path: &str, manifest: &str) -> Result<Value> {
        let path = format!("{path}?fieldManager=demo");
        self.patch(&path, "application/apply-patch+yaml", manifest)
    }

    /// A merge patch, what `kubectl patch --type merge` does.
    pub(crate) fn merge(&self, path: &str, patch: &Value) -> Result<Value> {
        self.patch(path, "application/merge-patch+json", &patch.to_string())
    }

    pub(crate) fn delete(&self, path: &str) -> Result<()> {
        let request = self.agent.delete(self.at(path)).header("authorization", &self.authorization);
        let response = request.call().with_context(|| format!("DELETE {path}"))?;
        let status = response.status().as_u16();
        Self::answer("DELETE", path, status, response.into_body()).map(drop)
    }

    /// Asks until the answer is some value.
    pub(crate) fn wait<T>(&self, what: &str, look: impl Fn(&Self) -> Result<Option<T>>) -> Result<T> {
        #[expect(clippy::disallowed_methods, reason = "a demo of real processes runs in real time")]
        let started = Instant::now();
        loop {
            if let Some(found) = look(self)? {
                return Ok(found);
            }
            if started.elapsed() > PATIENCE {
                bail!("waited {} s in vain for {what}", PATIENCE.as_secs());
            }
            #[expect(clippy::disallowed_methods, reason = "a demo of real processes runs in real time")]
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    fn patch(&self, path: &str, content_type: &str, body: &str) -> Result<Value> {
        let request = self.agent.patch(self.at(path)).header("content-type", content_type);
        let request = request.header("authorization", &self.authorization);
        let response = request.send(body).with_context(|| format!("PATCH {path}"))?;
        let status = response.status().as_u16();
        Self::answer("PATCH", path, status, response.into_body())
    }

    fn answer(verb: &str, path: &str, status: u16, mut body: ureq::Body) -> Result<Value> {
        let text = body.read_to_string().with_context(|| format!("read the answer to {verb} {path}"))?;
        if !(200..300).contains(&status) {
            bail!("{verb} {path} was answered with {status}: {text}");
        }
        serde_json::from_str(&text).with_context(|| format!("the answer to {verb} {path} is not JSON"))
    }

    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }
}
