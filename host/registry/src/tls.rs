//! TLS settings: the system's root certificates, and those of private authorities that the operator names.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::credentials::read_bounded;
use crate::error::{Problem, RegistryError};

/// The largest file with certificates, in bytes.
const MAX_FILE: u64 = 4 << 20;

/// The TLS settings of a client. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Tls(pub(crate) Arc<ClientConfig>);

impl Tls {
    /// Trusts the system's root certificates, and those in the PEM file, if one is named.
    ///
    /// # Errors
    /// Errors if the file cannot be read or has no certificate.
    pub fn new(private_authority: Option<&Path>) -> Result<Self, RegistryError> {
        let mut roots = RootCertStore::empty();
        if let Some(path) = private_authority {
            let pem = read_bounded(path, MAX_FILE, "the registry's certificate authority")?;
            add(&mut roots, &pem).map_err(|error| error.in_context(path.display()))?;
        }
        let found = rustls_native_certs::load_native_certs();
        // Some systems have certificates that cannot be parsed; they are ignored.
        roots.add_parsable_certificates(found.certs);
        // Without any, every handshake fails with a remedy; a registry without TLS needs none.
        Self::with_roots(roots)
    }

    /// Trusts only the certificates in the PEM text.
    ///
    /// # Errors
    /// Errors if it has no certificate.
    pub fn trusting_only(pem: &[u8]) -> Result<Self, RegistryError> {
        let mut roots = RootCertStore::empty();
        add(&mut roots, pem)?;
        Self::with_roots(roots)
    }

    fn with_roots(roots: RootCertStore) -> Result<Self, RegistryError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| {
            RegistryError::new(Problem::Invalid, format!("TLS cannot be set up: {error}; please report this"))
        })?;
        Ok(Self(Arc::new(builder.with_root_certificates(roots).with_no_client_auth())))
    }
}

fn add(roots: &mut RootCertStore, pem: &[u8]) -> Result<(), RegistryError> {
    let invalid = |problem: String| {
        RegistryError::new(
            Problem::Invalid,
            format!("{problem}; name a PEM file with the authority's certificate"),
        )
    };
    let before = roots.len();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate =
            certificate.map_err(|error| invalid(format!("a certificate is damaged: {error}")))?;
        roots.add(certificate).map_err(|error| invalid(format!("a certificate is not usable: {error}")))?;
    }
    if roots.len() == before { Err(invalid("it has no certificate".to_owned())) } else { Ok(()) }
}
