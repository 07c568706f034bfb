//! TLS settings: the certificates of a `caBundle`, or those of the system.

use std::sync::Arc;

use k8s_openapi::ByteString;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde::Deserialize;
use serde_json::Value;

/// Returns the settings that trust the certificates of a `caBundle`, which is base64 of PEM; `None` if it is empty.
pub(super) fn with_bundle(bundle: &Value) -> Result<Option<Arc<ClientConfig>>, String> {
    let bytes = ByteString::deserialize(bundle).map_err(|error| format!("caBundle: {error}"))?.0;
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        let certificate = certificate.map_err(|error| format!("caBundle: {error}"))?;
        roots.add(certificate).map_err(|error| format!("caBundle: {error}"))?;
    }
    if roots.is_empty() {
        return Err(
            "caBundle: unable to load root certificates: it contains no certificate in PEM".to_owned()
        );
    }
    config(roots).map(Some)
}

/// Returns the settings that trust the certificates of the system. Reads files.
pub(super) fn with_system_roots() -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    // Some systems have certificates that cannot be parsed; they are ignored.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    config(roots)
}

fn config(roots: RootCertStore) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}
