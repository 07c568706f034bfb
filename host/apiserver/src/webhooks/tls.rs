//! TLS settings: the certificates of a `caBundle`, or those of the system.

use std::sync::Arc;

use k8s_openapi::ByteString;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use serde::Deserialize;
use serde_json::Value;

/// Returns the settings that trust the certificates of a `caBundle`, which is base64 of PEM; `None` if it is empty.
pub(super) fn with_bundle(bundle: &Value) -> Result<Option<Arc<ClientConfig>>, String> {
    let bytes = ByteString::deserialize(bundle).map_err(|error| format!("caBundle: {error}"))?.0;
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut roots = RootCertStore::empty();
    let mut certificates = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        let certificate = certificate.map_err(|error| format!("caBundle: {error}"))?;
        roots.add(certificate.clone()).map_err(|error| format!("caBundle: {error}"))?;
        certificates.push(certificate);
    }
    if roots.is_empty() {
        return Err(
            "caBundle: unable to load root certificates: unable to parse bytes as PEM block".to_owned()
        );
    }
    config(roots, certificates).map(Some)
}

/// Returns the settings that trust the certificates of the system. Reads files.
pub(super) fn with_system_roots() -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    // Some systems have certificates that cannot be parsed; they are ignored.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    config(roots, Vec::new())
}

fn config(roots: RootCertStore, bundle: Vec<CertificateDer<'static>>) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = BundleVerifier::new(roots, bundle, Arc::clone(&provider))?;
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    let config = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok(Arc::new(config.with_no_client_auth()))
}

/// Verifies certificates like Go: a certificate of the bundle may also be that of the server itself, even if it is an authority's. Tests and
/// small webhooks use a single self-signed certificate, which webpki refuses. Unlike in Go, such a certificate does not expire.
#[derive(Debug)]
struct BundleVerifier {
    webpki: Arc<WebPkiServerVerifier>,
    bundle: Vec<CertificateDer<'static>>,
}

impl BundleVerifier {
    fn new(
        roots: RootCertStore,
        bundle: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, String> {
        let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Self { webpki: webpki.map_err(|error| error.to_string())?, bundle })
    }
}

impl ServerCertVerifier for BundleVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.bundle.iter().any(|known| known.as_ref() == end_entity.as_ref()) {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
            return Ok(ServerCertVerified::assertion());
        }
        self.webpki.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A self-signed certificate for 127.0.0.1, as `openssl req -x509` makes it.
    fn self_signed() -> CertificateDer<'static> {
        let mut params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("names");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").der().clone()
    }

    /// Whether a server with this certificate is trusted as `name`.
    fn is_trusted(bundle: &CertificateDer<'static>, presented: &CertificateDer<'_>, name: &str) -> bool {
        let mut roots = RootCertStore::empty();
        roots.add(bundle.clone()).expect("a certificate");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = BundleVerifier::new(roots, vec![bundle.clone()], provider).expect("a verifier");
        let name = ServerName::try_from(name).expect("a name");
        verifier.verify_server_cert(presented, &[], &name, &[], UnixTime::now()).is_ok()
    }

    #[test]
    fn self_signed_certificate_of_the_bundle_is_trusted_for_its_names() {
        let (own, other) = (self_signed(), self_signed());
        assert!(is_trusted(&own, &own, "127.0.0.1"));
        assert!(!is_trusted(&own, &own, "127.0.0.2"), "another name");
        assert!(!is_trusted(&own, &other, "127.0.0.1"), "another certificate");
    }
}
