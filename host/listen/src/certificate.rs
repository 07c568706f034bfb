//! The certificates of this process's listeners: signed by an authority in memory, or read from files.

use std::net::IpAddr;
use std::sync::Arc;

use jiff::{Span, Timestamp, Zoned, tz::TimeZone};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SigningKey,
};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use uuid::Uuid;

/// The validity of certificates in years; a process that runs longer must be restarted.
const VALIDITY_YEARS: i64 = 5;

/// A certificate could not be created or used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A key or a certificate could not be generated or signed.
    #[error("cannot generate the server's certificate: {0}; check the DNS names in --allowed-hosts")]
    Generate(#[from] rcgen::Error),
    /// The certificate or its key was rejected.
    #[error("cannot use the server's certificate: {0}")]
    Use(#[from] rustls::Error),
    /// A text is not PEM, or contains no key.
    #[error("cannot read PEM: {0}")]
    Pem(#[from] pem::Error),
    /// A PEM text contains no certificate.
    #[error("the PEM text contains no certificate")]
    NoCertificate,
    /// The authority of client certificates was rejected.
    #[error("cannot use the authority of client certificates: {0}")]
    ClientAuthority(#[from] VerifierBuilderError),
}

/// A certificate of a listener with its key.
#[derive(Debug)]
pub struct ServerCertificate {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

/// An authority whose certificates clients may use as credentials.
#[derive(Clone, Debug)]
pub struct ClientAuthority {
    verifier: Arc<dyn ClientCertVerifier>,
}

/// The certificate of the client of a connection, which a [`ClientAuthority`] has signed. Requests carry it as an extension.
#[derive(Clone, Debug)]
pub struct ClientCertificate(Arc<[u8]>);

impl ServerCertificate {
    /// Reads the certificate, followed by those of intermediate authorities, and the key from PEM.
    ///
    /// # Errors
    /// If a text is not PEM or lacks the certificate or the key, or if the key does not belong to the certificate.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, CertificateError> {
        let read = Self { chain: certificates_of(certificates)?, key: PrivateKeyDer::from_pem_slice(key)? };
        read.acceptor(None)?;
        Ok(read)
    }

    /// Returns a TLS acceptor. With a `client_authority`, clients may present a certificate of it; a client that presents another
    /// certificate is refused.
    ///
    /// # Errors
    /// If the certificate and the key cannot be used.
    pub fn acceptor(
        &self,
        client_authority: Option<&ClientAuthority>,
    ) -> Result<TlsAcceptor, CertificateError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let builder = match client_authority {
            Some(authority) => builder.with_client_cert_verifier(Arc::clone(&authority.verifier)),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(self.chain.clone(), self.key.clone_key())?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

impl ClientAuthority {
    /// Reads the certificates of the authority from PEM.
    ///
    /// # Errors
    /// If the text is not PEM, has no certificate, or has one that cannot be used.
    pub fn from_pem(certificates: &[u8]) -> Result<Self, CertificateError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates_of(certificates)? {
            roots.add(certificate)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        Ok(Self { verifier: verifier.allow_unauthenticated().build()? })
    }
}

impl ClientCertificate {
    /// Returns the certificate that the client of an accepted connection has presented, if any.
    pub(crate) fn of<S>(stream: &TlsStream<S>) -> Option<Self> {
        let chain = stream.get_ref().1.peer_certificates()?;
        chain.first().map(|certificate| Self(Arc::from(&certificate[..])))
    }

    /// Returns the certificate in DER.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        &self.0
    }
}

/// Returns the certificates of a PEM text, at least one.
fn certificates_of(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>()?;
    if certificates.is_empty() { Err(CertificateError::NoCertificate) } else { Ok(certificates) }
}

/// A certificate authority for this process's listeners. Its key exists only in memory.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: Certificate,
    pem: String,
}

impl Authority {
    /// Creates an authority with a new key and a unique name.
    ///
    /// # Errors
    /// If the key or the certificate cannot be generated.
    #[expect(clippy::disallowed_methods, reason = "no simulation serves TLS")]
    pub fn new() -> Result<Self, CertificateError> {
        let mut params = params(&[])?;
        // A unique name, because clients look up an authority by name before they check the signature.
        params
            .distinguished_name
            .push(DnType::CommonName, format!("pilothouse-ca-{}", Uuid::new_v4().simple()));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        // For `sign`, whose callers name the algorithm.
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let certificate = params.self_signed(&key)?;
        Ok(Self { pem: certificate.pem(), certificate, issuer: Issuer::new(params, key) })
    }

    /// Returns the authority's certificate in PEM, for clients.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Returns the authority's certificate in DER.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        self.certificate.der()
    }

    /// Signs bytes with ECDSA and SHA-256 (`ecdsa-with-SHA256`), such as the contents of a certificate.
    ///
    /// # Errors
    /// If the signature cannot be made.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, CertificateError> {
        Ok(self.issuer.key().sign(message)?)
    }

    /// Returns a TLS acceptor for a listener at `address` that clients can also reach as `localhost` and `hosts`.
    ///
    /// # Errors
    /// If a host is not a DNS name, or the certificate cannot be generated or used.
    pub fn acceptor(&self, address: IpAddr, hosts: &[String]) -> Result<TlsAcceptor, CertificateError> {
        self.certificate(address, hosts)?.acceptor(None)
    }

    /// Returns a new certificate for a listener at `address` that clients can also reach as `localhost` and `hosts`.
    ///
    /// # Errors
    /// If a host is not a DNS name, or the certificate cannot be generated.
    pub fn certificate(
        &self,
        address: IpAddr,
        hosts: &[String],
    ) -> Result<ServerCertificate, CertificateError> {
        let mut names = vec!["127.0.0.1".to_owned(), "::1".to_owned(), "localhost".to_owned()];
        names.push(address.to_string());
        names.extend(hosts.iter().cloned());
        names.sort();
        names.dedup();
        let mut params = params(&names)?;
        params.distinguished_name.push(DnType::CommonName, "pilothouse");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        Ok(ServerCertificate { chain: vec![certificate.der().clone()], key })
    }
}

/// Returns the parameters of a certificate for these hosts, valid from yesterday, because clocks differ.
#[expect(clippy::disallowed_methods, reason = "no simulation serves TLS")]
fn params(hosts: &[String]) -> Result<CertificateParams, CertificateError> {
    // The system clock, not that of a server: clients check the validity by their own clocks.
    let now = Timestamp::now();
    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    let (year, month, day) = date(now, Span::new().days(-1));
    params.not_before = rcgen::date_time_ymd(year, month, day);
    let (year, month, day) = date(now, Span::new().years(VALIDITY_YEARS));
    params.not_after = rcgen::date_time_ymd(year, month, day);
    Ok(params)
}

/// Returns year, month and day at an offset from `now`.
fn date(now: Timestamp, offset: Span) -> (i32, u8, u8) {
    let day = Zoned::new(now, TimeZone::UTC).saturating_add(offset);
    let part = |number: i8| u8::try_from(number).unwrap_or(1);
    (i32::from(day.year()), part(day.month()), part(day.day()))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use rcgen::CertifiedKey;

    use super::*;

    /// Returns a self-signed certificate and its key in PEM.
    fn pem() -> (String, String) {
        let CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        (cert.pem(), signing_key.serialize_pem())
    }

    #[test]
    fn a_certificate_from_pem_is_used_with_its_key_only() {
        let ((certificate, key), (_, other_key)) = (pem(), pem());
        let read = |key: &str| ServerCertificate::from_pem(certificate.as_bytes(), key.as_bytes());
        assert!(read(&key).is_ok());
        let refused = read(&other_key).err();
        assert!(matches!(refused, Some(CertificateError::Use(_))), "{refused:?}");
    }

    #[test]
    fn pem_without_a_certificate_or_key_is_refused() {
        let (certificate, key) = pem();
        let error = |certificate: &str, key: &str| {
            ServerCertificate::from_pem(certificate.as_bytes(), key.as_bytes()).expect_err("an error")
        };
        assert!(matches!(error(&key, &key), CertificateError::NoCertificate));
        assert!(matches!(error(&certificate, &certificate), CertificateError::Pem(_)));
        assert!(matches!(ClientAuthority::from_pem(b"text"), Err(CertificateError::NoCertificate)));
    }

    #[test]
    fn a_generated_certificate_is_served_to_clients_with_certificates() {
        let authority = Authority::new().expect("an authority");
        let clients = ClientAuthority::from_pem(authority.pem().as_bytes()).expect("PEM");
        let certificate = authority.certificate(Ipv4Addr::LOCALHOST.into(), &[]).expect("a certificate");
        assert!(certificate.acceptor(Some(&clients)).is_ok());
    }
}
