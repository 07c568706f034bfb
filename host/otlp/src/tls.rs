//! TLS settings: the system's root certificates, and those of a private authority.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::settings::SettingsError;

/// The variable that names the file of a private authority.
const VARIABLE: &str = "OTEL_EXPORTER_OTLP_CERTIFICATE";
/// The largest file with certificates, in bytes.
const MAX_FILE: u64 = 4 << 20;

/// Returns settings that trust the system's root certificates, and those in the PEM file, if one is named.
pub(crate) fn config(certificate: Option<&Path>) -> Result<ClientConfig, SettingsError> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = certificate {
        let wrong = |problem: String| {
            let problem = format!("{}: {problem}", path.display());
            SettingsError::new(VARIABLE, problem, "name a PEM file with the authority's certificate")
        };
        let mut pem = Vec::new();
        std::fs::File::open(path)
            .and_then(|file| file.take(MAX_FILE).read_to_end(&mut pem))
            .map_err(|error| wrong(error.to_string()))?;
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
            roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(wrong("it has no certificate".to_owned()));
        }
    }
    // Some systems have certificates that cannot be parsed; they are ignored. Without any, every handshake fails, and a collector without TLS
    // needs none.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| {
        SettingsError::new("TLS", error.to_string(), "report this as a bug of pilothouse")
    })?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_certificate_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ca.pem");
        let refused = |path: &Path| config(Some(path)).expect_err("no certificate").to_string();
        assert!(refused(&path).starts_with("OTEL_EXPORTER_OTLP_CERTIFICATE: "));
        std::fs::write(&path, "nothing").expect("written");
        assert!(refused(&path).contains("it has no certificate; name a PEM file"));
        assert!(config(None).is_ok());
    }
}
