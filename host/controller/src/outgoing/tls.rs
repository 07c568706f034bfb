//! TLS settings: the root certificates of the system.

use std::sync::Arc;

use pilothouse_plugin::HttpError;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::OnceCell;

/// The TLS settings of all plugins of a host. Cheap to clone. The certificates are read when the first request needs them.
#[derive(Clone, Default)]
pub(crate) struct Tls(Arc<OnceCell<Arc<ClientConfig>>>);

impl Tls {
    pub(super) async fn config(&self) -> Result<Arc<ClientConfig>, HttpError> {
        let config = self.0.get_or_try_init(|| async {
            let read = tokio::task::spawn_blocking(|| config(system_roots()?)).await;
            read.unwrap_or_else(|error| Err(error.to_string()))
        });
        let no_tls = |message| HttpError::Tls { message, certificate: false };
        config.await.cloned().map_err(no_tls)
    }

    /// Trusts only these root certificates.
    #[cfg(test)]
    pub(super) fn with_roots(roots: RootCertStore) -> Self {
        Self(Arc::new(OnceCell::new_with(Some(config(roots).expect("a configuration")))))
    }
}

fn system_roots() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Some systems have certificates that cannot be parsed; they are ignored.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let problems: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
        return Err(format!(
            "no root certificates are found on this system, so no https request can be sent {}; install them \
             (package ca-certificates), or name a file with SSL_CERT_FILE",
            problems.join(", ")
        ));
    }
    Ok(roots)
}

fn config(roots: RootCertStore) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}
