//! Encodes and signs a certificate (RFC 5280), with the extensions that kube-controller-manager adds.
//!
//! The subject, the public key and the alternative names are those of the request, byte for byte, so that names with several organizations and
//! keys of any algorithm are preserved.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use pem::{EncodeConfig, LineEnding, Pem};
use pilothouse_listen::{Authority, CertificateError};
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{FromDer, X509Certificate};
use yasna::models::ObjectIdentifier;
use yasna::tags::{TAG_GENERALIZEDTIME, TAG_UTCTIME};
use yasna::{DERWriter, DERWriterSeq, Tag};

use super::RequestedCertificate;

/// `ecdsa-with-SHA256`, with which [`Authority::sign`] signs.
const SIGNATURE_ALGORITHM: &[u64] = &[1, 2, 840, 10045, 4, 3, 2];
const KEY_USAGE: &[u64] = &[2, 5, 29, 15];
const ALTERNATIVE_NAMES: &[u64] = &[2, 5, 29, 17];
const BASIC_CONSTRAINTS: &[u64] = &[2, 5, 29, 19];
const AUTHORITY_KEY_IDENTIFIER: &[u64] = &[2, 5, 29, 35];
const EXTENDED_KEY_USAGE: &[u64] = &[2, 5, 29, 37];

/// The bits of the extension `keyUsage`, from the first, with the usages of requests that set them.
const KEY_USAGE_BITS: [(usize, &str); 10] = [
    (0, "signing"),
    (0, "digital signature"),
    (1, "content commitment"),
    (2, "key encipherment"),
    (3, "data encipherment"),
    (4, "key agreement"),
    (5, "cert sign"),
    (6, "crl sign"),
    (7, "encipher only"),
    (8, "decipher only"),
];

/// The purposes of the extension `extendedKeyUsage`, with the usages of requests that add them.
const PURPOSES: [(&[u64], &str); 13] = [
    (&[2, 5, 29, 37, 0], "any"),
    (&[1, 3, 6, 1, 5, 5, 7, 3, 1], "server auth"),
    (&[1, 3, 6, 1, 5, 5, 7, 3, 2], "client auth"),
    (&[1, 3, 6, 1, 5, 5, 7, 3, 3], "code signing"),
    (&[1, 3, 6, 1, 5, 5, 7, 3, 4], "email protection"),
    (&[1, 3, 6, 1, 5, 5, 7, 3, 4], "s/mime"),
    (&[1, 3, 6, 1, 5, 5, 7, 3, 5], "ipsec end system"),
    (&[1, 3, 6, 1, 5, 5, 7, 3, 6], "ipsec tunnel"),
    (&[1, 3, 6, 1, 5, 5, 7, 3, 7], "ipsec user"),
    (&[1, 3, 6, 1, 5, 5, 7, 3, 8], "timestamping"),
    (&[1, 3, 6, 1, 5, 5, 7, 3, 9], "ocsp signing"),
    (&[1, 3, 6, 1, 4, 1, 311, 10, 3, 3], "microsoft sgc"),
    (&[2, 16, 840, 1, 113_730, 4, 1], "netscape sgc"),
];

/// What a certificate says.
pub(super) struct Contents<'a> {
    pub(super) requested: &'a RequestedCertificate,
    pub(super) usages: Vec<&'a str>,
    pub(super) not_before: Timestamp,
    /// The end of the validity, unless the authority's ends earlier.
    pub(super) not_after: Timestamp,
}

/// Signs a certificate and returns it in PEM.
///
/// # Errors
/// If the authority cannot sign.
pub(super) fn issue(
    contents: &Contents<'_>,
    authority: &Authority,
    serial: &[u8; 16],
) -> Result<String, CertificateError> {
    let issuer = Issuer::of(authority.der()).ok_or(CertificateError::NoCertificate)?;
    let to_be_signed = yasna::construct_der(|writer| write_contents(writer, contents, &issuer, serial));
    let signature = authority.sign(&to_be_signed)?;
    let certificate = yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_der(&to_be_signed);
            write_algorithm(writer.next());
            writer.next().write_bitvec_bytes(&signature, signature.len() * 8);
        });
    });
    let config = EncodeConfig::new().set_line_ending(LineEnding::LF);
    Ok(pem::encode_config(&Pem::new("CERTIFICATE", certificate), config))
}

/// What a certificate says of the authority that signed it.
struct Issuer {
    /// The subject of the authority's certificate in DER.
    name: Vec<u8>,
    key_identifier: Option<Vec<u8>>,
    not_after: i64,
}

impl Issuer {
    fn of(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let key_identifier =
            certificate.iter_extensions().find_map(|extension| match extension.parsed_extension() {
                ParsedExtension::SubjectKeyIdentifier(identifier) => Some(identifier.0.to_vec()),
                _ => None,
            });
        Some(Self {
            name: certificate.subject().as_raw().to_vec(),
            key_identifier,
            not_after: certificate.validity().not_after.timestamp(),
        })
    }
}

fn write_contents(writer: DERWriter<'_>, contents: &Contents<'_>, issuer: &Issuer, serial: &[u8; 16]) {
    let Contents { requested, not_before, not_after, .. } = contents;
    let issuer_end = Timestamp::from_second(issuer.not_after).unwrap_or(*not_after);
    writer.write_sequence(|writer| {
        // Version 3.
        writer.next().write_tagged(Tag::context(0), |writer| writer.write_u8(2));
        writer.next().write_bigint_bytes(serial, true);
        write_algorithm(writer.next());
        writer.next().write_der(&issuer.name);
        writer.next().write_sequence(|writer| {
            write_time(writer.next(), *not_before);
            write_time(writer.next(), (*not_after).min(issuer_end));
        });
        writer.next().write_der(&requested.subject);
        writer.next().write_der(&requested.public_key);
        writer.next().write_tagged(Tag::context(3), |writer| {
            writer.write_sequence(|writer| write_extensions(writer, contents, issuer));
        });
    });
}

fn write_algorithm(writer: DERWriter<'_>) {
    writer
        .write_sequence(|writer| writer.next().write_oid(&ObjectIdentifier::from_slice(SIGNATURE_ALGORITHM)));
}

/// Writes a time in the form that its year requires.
fn write_time(writer: DERWriter<'_>, time: Timestamp) {
    let time = time.to_zoned(TimeZone::UTC);
    let (tag, format) = if time.year() < 2050 {
        (TAG_UTCTIME, "%y%m%d%H%M%SZ")
    } else {
        (TAG_GENERALIZEDTIME, "%Y%m%d%H%M%SZ")
    };
    let text = time.strftime(format).to_string();
    writer.write_tagged_implicit(tag, |writer| writer.write_bytes(text.as_bytes()));
}

fn write_extensions(writer: &mut DERWriterSeq<'_>, contents: &Contents<'_>, issuer: &Issuer) {
    if let Some((bytes, length)) = key_usage_bits(&contents.usages) {
        write_extension(writer, KEY_USAGE, true, |writer| {
            writer.write_bitvec_bytes(&bytes[..length.div_ceil(8)], length);
        });
    }
    let purposes: Vec<&[u64]> = purposes(&contents.usages);
    if !purposes.is_empty() {
        write_extension(writer, EXTENDED_KEY_USAGE, false, |writer| {
            writer.write_sequence(|writer| {
                for purpose in &purposes {
                    writer.next().write_oid(&ObjectIdentifier::from_slice(purpose));
                }
            });
        });
    }
    // An empty sequence: the certificate is not that of an authority.
    write_extension(writer, BASIC_CONSTRAINTS, true, |writer| writer.write_sequence(|_| {}));
    if let Some(identifier) = &issuer.key_identifier {
        write_extension(writer, AUTHORITY_KEY_IDENTIFIER, false, |writer| {
            writer.write_sequence(|writer| {
                writer.next().write_tagged_implicit(Tag::context(0), |writer| writer.write_bytes(identifier));
            });
        });
    }
    if let Some(names) = &contents.requested.alternative_names {
        // The names identify a subject that is empty: a sequence without elements.
        let is_critical = contents.requested.subject == [0x30, 0];
        write_extension(writer, ALTERNATIVE_NAMES, is_critical, |writer| writer.write_der(names));
    }
}

fn write_extension(
    writer: &mut DERWriterSeq<'_>,
    identifier: &[u64],
    is_critical: bool,
    write_value: impl FnOnce(DERWriter<'_>),
) {
    let value = yasna::construct_der(write_value);
    writer.next().write_sequence(|writer| {
        writer.next().write_oid(&ObjectIdentifier::from_slice(identifier));
        if is_critical {
            writer.next().write_bool(true);
        }
        writer.next().write_bytes(&value);
    });
}

/// Returns the bits of `keyUsage` and their number, without those after the last that is set; `None` if none is set.
fn key_usage_bits(usages: &[&str]) -> Option<([u8; 2], usize)> {
    let mut bits = [0_u8; 2];
    let set = KEY_USAGE_BITS.iter().filter(|(_, usage)| usages.contains(usage)).map(|(bit, _)| *bit);
    let mut last: Option<usize> = None;
    for bit in set {
        bits[bit / 8] |= 0x80 >> (bit % 8);
        last = last.max(Some(bit));
    }
    last.map(|last| (bits, last + 1))
}

/// Returns the purposes of `extendedKeyUsage`, each once.
fn purposes(usages: &[&str]) -> Vec<&'static [u64]> {
    let mut found: Vec<&[u64]> = Vec::new();
    for (purpose, _) in PURPOSES.iter().filter(|(_, usage)| usages.contains(usage)) {
        if !found.contains(purpose) {
            found.push(*purpose);
        }
    }
    found
}
