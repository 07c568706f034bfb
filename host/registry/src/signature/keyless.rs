//! Signatures without a key of the signer's own: a certificate names who signed, and a log proves when. Verified by the certificates and keys of a
//! trust root, which is a file: nothing is fetched.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;
use serde::Deserialize;
use serde_json::{Value, json};
use sigstore_verify::trust_root::TrustedRoot;
use sigstore_verify::types::bundle::VerificationMaterialContent;
use sigstore_verify::types::{Bundle, DerCertificate};
use sigstore_verify::{VerificationPolicy, Verifier};

use super::crypto::{install, with_message};
use super::material::LegacySignature;
use crate::credentials::read_bounded;
use crate::error::{Problem, RegistryError, excerpt};

/// The largest trust root, in bytes.
const MAX_TRUST_ROOT: u64 = 4 << 20;

/// The most log entries of a signature, and the most timestamps and certificates. Each is verified; tools attach one or two.
const MAX_PARTS: usize = 8;

/// The certificates and keys that keyless signatures are verified with.
pub(super) struct TrustRoot {
    verifier: Verifier,
    has_certificate_logs: bool,
}

impl std::fmt::Debug for TrustRoot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TrustRoot")
    }
}

/// Who has to have signed.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) issuer: String,
    pub(super) subject: Subject,
}

/// The subject of a certificate: a mail address or a URI.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    Exact(String),
    /// Matches the whole subject.
    Pattern(Regex),
}

impl Identity {
    /// Whether one signature can be by both, as far as that can be seen from how they are written.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let is_same_subject = match (&self.subject, &other.subject) {
            (Subject::Exact(subject), Subject::Exact(other)) => subject == other,
            (Subject::Pattern(pattern), Subject::Pattern(other)) => pattern.as_str() == other.as_str(),
            // The pattern may match others, too, but a signature by this subject would count for both.
            (Subject::Exact(subject), Subject::Pattern(pattern))
            | (Subject::Pattern(pattern), Subject::Exact(subject)) => pattern.is_match(subject),
        };
        self.issuer == other.issuer && is_same_subject
    }
}

impl TrustRoot {
    /// Reads the file `trusted_root.json`, as `cosign trusted-root create` or Sigstore's repository has it.
    pub(super) fn read(path: &Path) -> Result<Self, RegistryError> {
        let bytes = read_bounded(path, MAX_TRUST_ROOT, "the trust root")?;
        Self::parse(&bytes).map_err(|error| error.in_context(path.display()))
    }

    fn parse(text: &[u8]) -> Result<Self, RegistryError> {
        install();
        let invalid = |problem: String| {
            RegistryError::new(
                Problem::Invalid,
                format!("this is no trust root: {}; name the file trusted_root.json", excerpt(&problem)),
            )
        };
        let text = std::str::from_utf8(text).map_err(|error| invalid(error.to_string()))?;
        let root = TrustedRoot::from_json(text).map_err(|error| invalid(error.to_string()))?;
        if root.certificate_authorities.is_empty() {
            return Err(invalid("it has no certificate authority".to_owned()));
        }
        let has_certificate_logs = !root.ctlogs.is_empty();
        let verifier = Verifier::new(&root).map_err(|error| invalid(error.to_string()))?;
        Ok(Self { verifier, has_certificate_logs })
    }

    /// Verifies a bundle for a message. Errors say why it does not count.
    pub(super) fn verify(&self, bundle: &Bundle, message: &[u8], identity: &Identity) -> Result<(), String> {
        if bundle.signing_certificate().is_none() {
            return Err("it was made with a key".to_owned());
        }
        if bundle.verification_material.tlog_entries.is_empty() {
            return Err("it is in no transparency log".to_owned());
        }
        check_parts(bundle)?;
        let mut policy = VerificationPolicy::any_identity().require_issuer(identity.issuer.clone());
        if let Subject::Exact(subject) = &identity.subject {
            policy = policy.require_identity(subject.as_str());
        }
        if !self.has_certificate_logs {
            policy = policy.skip_sct();
        }
        let verified = with_message(message, || self.verifier.verify(message, bundle, &policy));
        let verified = verified.map_err(|error| excerpt(&error.to_string()))?;
        match &identity.subject {
            Subject::Exact(_) => Ok(()),
            Subject::Pattern(pattern) => {
                let subject =
                    verified.identity().map(sigstore_verify::SubjectAltName::as_str).unwrap_or_default();
                if pattern.is_match(subject) {
                    Ok(())
                } else {
                    Err(format!("{:?} signed it", excerpt(subject)))
                }
            }
        }
    }
}

/// Errors if a bundle has so many parts that their verification takes long.
fn check_parts(bundle: &Bundle) -> Result<(), String> {
    let material = &bundle.verification_material;
    let certificates = match &material.content {
        VerificationMaterialContent::X509CertificateChain { certificates } => certificates.len(),
        _ => 1,
    };
    let timestamps = material.timestamp_verification_data.rfc3161_timestamps.len();
    let counts = [
        ("log entries", material.tlog_entries.len()),
        ("timestamps", timestamps),
        ("certificates", certificates),
    ];
    match counts.into_iter().find(|(_, count)| *count > MAX_PARTS) {
        Some((parts, _)) => Err(format!("a signature has more than {MAX_PARTS} {parts}")),
        None => Ok(()),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct LegacyLogEntry {
    #[serde(rename = "SignedEntryTimestamp")]
    promise: String,
    payload: LegacyLogPayload,
}

#[derive(Deserialize)]
struct LegacyLogPayload {
    body: String,
    #[serde(rename = "integratedTime")]
    integrated_time: i64,
    #[serde(rename = "logIndex")]
    log_index: i64,
    #[serde(rename = "logID")]
    log_id: String,
}

/// Makes a bundle of a signature in the older format. Errors say why it does not count.
pub(super) fn bundle_of(signature: &LegacySignature) -> Result<Bundle, String> {
    let certificate = signature.certificate.as_ref().ok_or("it was made with a key")?;
    let certificate =
        DerCertificate::from_pem(certificate.trim()).map_err(|_| "its certificate cannot be read")?;
    let entry = signature.log_entry.as_ref().ok_or("it is in no transparency log")?;
    let entry: LegacyLogEntry = serde_json::from_str(entry).map_err(|_| "its log entry cannot be read")?;
    let body = STANDARD.decode(&entry.payload.body).map_err(|_| "its log entry cannot be read")?;
    let kind: Value = serde_json::from_slice(&body).map_err(|_| "its log entry cannot be read")?;
    let log_id = bytes_of_hex(&entry.payload.log_id).ok_or("its log entry cannot be read")?;
    let document = json!({
        "mediaType": "application/vnd.dev.sigstore.bundle+json;version=0.1",
        "verificationMaterial": {
            "x509CertificateChain": {"certificates": [{"rawBytes": STANDARD.encode(certificate.as_bytes())}]},
            "tlogEntries": [{
                "logIndex": entry.payload.log_index.to_string(),
                "logId": {"keyId": STANDARD.encode(log_id)},
                "kindVersion": {"kind": kind["kind"], "version": kind["apiVersion"]},
                "integratedTime": entry.payload.integrated_time.to_string(),
                "inclusionPromise": {"signedEntryTimestamp": entry.promise},
                "canonicalizedBody": entry.payload.body,
            }],
        },
        "messageSignature": {
            "messageDigest": {
                "algorithm": "SHA2_256",
                "digest": STANDARD.encode(crate::digest::Digest::of(signature.payload.as_bytes()).bytes()),
            },
            "signature": signature.signature.trim(),
        },
    });
    Bundle::from_json(&document.to_string()).map_err(|error| excerpt(&error.to_string()))
}

fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    if text.len() > 128 || !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}
