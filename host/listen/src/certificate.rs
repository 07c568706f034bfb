//! A certificate authority in memory, which signs the certificates of this process's listeners.

use std::net::IpAddr;
use std::sync::Arc;

use jiff::{Span, Timestamp, Zoned, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;
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
}

/// A certificate authority for this process's listeners. Its key exists only in memory.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
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
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        Ok(Self { pem: certificate.pem(), issuer: Issuer::new(params, key) })
    }

    /// Returns the authority's certificate in PEM, for clients.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Returns a TLS acceptor for a listener at `address` that clients can also reach as `localhost` and `hosts`.
    ///
    /// # Errors
    /// If a host is not a DNS name, or the certificate cannot be generated or used.
    pub fn acceptor(&self, address: IpAddr, hosts: &[String]) -> Result<TlsAcceptor, CertificateError> {
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
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
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
