//! Makes signatures as cosign does, with keys and with certificates of an authority of the test's own.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pilothouse_registry::{Descriptor, Digest, Manifest, media_type};
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData, SanType,
};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use serde_json::{Value, json};

use crate::fake_registry::FakeRegistry;

/// The OIDC issuer of the identities.
pub(crate) const ISSUER: &str = "https://issuer.example";
/// The identity in the certificates.
pub(crate) const SUBJECT: &str = "https://github.example/team/plugin/.github/workflows/release.yaml";
/// When the log of the test saw the signatures: an hour after the beginning of 2024.
const SIGNED_AT: i64 = 1_704_070_800;

/// A key pair of a signer.
pub(crate) struct Signer {
    pair: EcdsaKeyPair,
    pem: String,
}

impl Signer {
    pub(crate) fn new() -> Self {
        Self::of(&KeyPair::generate().expect("a key"))
    }

    fn of(key: &KeyPair) -> Self {
        let pkcs8 = key.serialize_der();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &pkcs8, &SystemRandom::new());
        Self { pair: pair.expect("a key"), pem: key.public_key_pem() }
    }

    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// Signs in ASN.1, and returns base64.
    fn sign(&self, message: &[u8]) -> String {
        STANDARD.encode(self.pair.sign(&SystemRandom::new(), message).expect("signed"))
    }
}

/// Attaches a bundle with a statement about the manifest, signed with a key, in no log.
pub(crate) fn attach_bundle(registry: &FakeRegistry, repository: &str, manifest: Digest, signer: &Signer) {
    attach(registry, repository, manifest, &bundle(manifest, signer, "https://sigstore.dev/cosign/sign/v1"));
}

/// The text of a bundle with a statement.
pub(crate) fn bundle(manifest: Digest, signer: &Signer, predicate: &str) -> String {
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"digest": {"sha256": manifest.hex()}, "annotations": {"env": "prod"}}],
        "predicateType": predicate,
        "predicate": {},
    })
    .to_string();
    let kind = "application/vnd.in-toto+json";
    let signed = format!("DSSEv1 {} {kind} {} {statement}", kind.len(), statement.len());
    json!({
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {"publicKey": {"hint": "x"}},
        "dsseEnvelope": {
            "payload": STANDARD.encode(&statement),
            "payloadType": kind,
            "signatures": [{"sig": signer.sign(signed.as_bytes())}],
        },
    })
    .to_string()
}

/// Attaches the text of a bundle to a manifest.
pub(crate) fn attach(registry: &FakeRegistry, repository: &str, manifest: Digest, bundle: &str) -> Digest {
    const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
    registry.put_blob(bundle.as_bytes());
    registry.put_blob(b"{}");
    let attached = Manifest {
        artifact_type: Some(BUNDLE.to_owned()),
        subject: Some(Descriptor { digest: manifest, ..descriptor(media_type::MANIFEST, b"") }),
        ..manifest_of(descriptor(BUNDLE, bundle.as_bytes()))
    };
    let text = serde_json::to_vec(&attached).expect("JSON");
    registry.put_manifest(repository, &Digest::of(&text).to_string(), &text)
}

/// Puts a tag with a list of what refers to a manifest, as registries without the referrers API need it.
pub(crate) fn list_in_tag(registry: &FakeRegistry, repository: &str, manifest: Digest, attached: Digest) {
    let list = json!({"schemaVersion": 2, "manifests": [
        {"mediaType": media_type::MANIFEST, "digest": attached.to_string(), "size": 1},
    ]});
    registry.put_manifest(repository, &format!("sha256-{}", manifest.hex()), list.to_string().as_bytes());
}

fn manifest_of(layer: Descriptor) -> Manifest {
    Manifest {
        schema_version: 2,
        media_type: Some(media_type::MANIFEST.to_owned()),
        artifact_type: None,
        config: descriptor(media_type::EMPTY, b"{}"),
        layers: vec![layer],
        subject: None,
        annotations: std::collections::BTreeMap::new(),
    }
}

fn descriptor(kind: &str, content: &[u8]) -> Descriptor {
    Descriptor {
        media_type: kind.to_owned(),
        digest: Digest::of(content),
        size: content.len() as u64,
        artifact_type: None,
        annotations: std::collections::BTreeMap::new(),
    }
}

fn simple_signing(manifest: Digest) -> String {
    json!({
        "critical": {
            "identity": {"docker-reference": ""},
            "image": {"docker-manifest-digest": manifest.to_string()},
            "type": "cosign container image signature",
        },
        "optional": {"env": "prod"},
    })
    .to_string()
}

fn attach_legacy_payload(
    registry: &FakeRegistry,
    repository: &str,
    manifest: Digest,
    payload: &str,
    annotations: &[(&str, String)],
) {
    registry.put_blob(payload.as_bytes());
    let mut layer = descriptor("application/vnd.dev.cosign.simplesigning.v1+json", payload.as_bytes());
    layer.annotations = annotations.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let text = serde_json::to_vec(&manifest_of(layer)).expect("JSON");
    registry.put_manifest(repository, &format!("sha256-{}.sig", manifest.hex()), &text);
}

/// Attaches a signature in the older format, with a key.
pub(crate) fn attach_legacy(registry: &FakeRegistry, repository: &str, manifest: Digest, signer: &Signer) {
    let payload = simple_signing(manifest);
    let annotations = [("dev.cosignproject.cosign/signature", signer.sign(payload.as_bytes()))];
    attach_legacy_payload(registry, repository, manifest, &payload, &annotations);
}

/// An authority for certificates and a log, as Sigstore runs them.
pub(crate) struct Authority {
    certificate: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
    log: Signer,
    /// The log's public key.
    log_key: Vec<u8>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.not_before = rcgen::date_time_ymd(2022, 1, 1);
        params.not_after = rcgen::date_time_ymd(2035, 1, 1);
        let certificate = params.self_signed(&key).expect("a certificate");
        let log_key = KeyPair::generate().expect("a key");
        Self {
            certificate,
            issuer: Issuer::new(params, key),
            log: Signer::of(&log_key),
            log_key: log_key.subject_public_key_info(),
        }
    }

    /// The trust root's JSON text. It has no log of certificates, so none is asked for.
    pub(crate) fn trust_root(&self) -> String {
        let valid = json!({"start": "2022-01-01T00:00:00Z"});
        json!({
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [{
                "baseUrl": "https://log.example",
                "hashAlgorithm": "SHA2_256",
                "publicKey": {
                    "rawBytes": STANDARD.encode(&self.log_key),
                    "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                    "validFor": valid,
                },
                "logId": {"keyId": STANDARD.encode(Digest::of(&self.log_key).bytes())},
            }],
            "certificateAuthorities": [{
                "subject": {"organization": "test", "commonName": "test authority"},
                "uri": "https://authority.example",
                "certChain": {"certificates": [{"rawBytes": STANDARD.encode(self.certificate.der())}]},
                "validFor": valid,
            }],
        })
        .to_string()
    }

    /// Attaches a signature without a key, in the older format. The certificate is valid in the given year, and the log saw the signature at the
    /// beginning of 2024.
    pub(crate) fn attach_keyless(
        &self,
        registry: &FakeRegistry,
        repository: &str,
        manifest: Digest,
        year: i32,
    ) {
        let payload = simple_signing(manifest);
        let key = KeyPair::generate().expect("a key");
        let certificate = self.certificate_for(&key, year).pem();
        let signature = Signer::of(&key).sign(payload.as_bytes());
        let entry = self.log_entry(payload.as_bytes(), &signature, &certificate);
        let annotations = [
            ("dev.cosignproject.cosign/signature", signature),
            ("dev.sigstore.cosign/certificate", certificate),
            ("dev.sigstore.cosign/bundle", entry),
        ];
        attach_legacy_payload(registry, repository, manifest, &payload, &annotations);
    }

    /// The text of a bundle with a signature of a manifest without a key, whose certificate is valid in 2024. The log's entry is in it this often.
    pub(crate) fn keyless_bundle(&self, manifest: &[u8], entries: usize) -> String {
        let key = KeyPair::generate().expect("a key");
        let certificate = self.certificate_for(&key, 2024);
        let signature = Signer::of(&key).sign(manifest);
        let entry = self.log_entry(manifest, &signature, &certificate.pem());
        let entry: Value = serde_json::from_str(&entry).expect("JSON");
        let entry = json!({
            "logIndex": entry["Payload"]["logIndex"].to_string(),
            "logId": {"keyId": STANDARD.encode(Digest::of(&self.log_key).bytes())},
            "kindVersion": {"kind": "hashedrekord", "version": "0.0.1"},
            "integratedTime": SIGNED_AT.to_string(),
            "inclusionPromise": {"signedEntryTimestamp": entry["SignedEntryTimestamp"]},
            "canonicalizedBody": entry["Payload"]["body"],
        });
        json!({
            "mediaType": "application/vnd.dev.sigstore.bundle+json;version=0.1",
            "verificationMaterial": {
                "x509CertificateChain": {"certificates": [{"rawBytes": STANDARD.encode(certificate.der())}]},
                "tlogEntries": vec![entry; entries],
            },
            "messageSignature": {
                "messageDigest": {
                    "algorithm": "SHA2_256",
                    "digest": STANDARD.encode(Digest::of(manifest).bytes()),
                },
                "signature": signature,
            },
        })
        .to_string()
    }

    fn certificate_for(&self, key: &KeyPair, year: i32) -> rcgen::Certificate {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::URI(SUBJECT.try_into().expect("ASCII"))];
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
        params.not_before = rcgen::date_time_ymd(year, 1, 1);
        params.not_after = rcgen::date_time_ymd(year, 1, 2);
        params.use_authority_key_identifier_extension = true;
        // Fulcio's extension with the issuer of the identity, as plain text.
        let oid = [1, 3, 6, 1, 4, 1, 57264, 1, 1];
        params.custom_extensions = vec![CustomExtension::from_oid_content(&oid, ISSUER.as_bytes().to_vec())];
        params.signed_by(key, &self.issuer).expect("a certificate")
    }

    /// The log's entry, as cosign keeps it in an annotation.
    fn log_entry(&self, payload: &[u8], signature: &str, certificate: &str) -> String {
        let body = json!({
            "apiVersion": "0.0.1",
            "kind": "hashedrekord",
            "spec": {
                "data": {"hash": {"algorithm": "sha256", "value": Digest::of(payload).hex()}},
                "signature": {"content": signature, "publicKey": {"content": STANDARD.encode(certificate)}},
            },
        });
        let entry = json!({
            "body": STANDARD.encode(body.to_string()),
            "integratedTime": SIGNED_AT,
            "logID": Digest::of(&self.log_key).hex(),
            "logIndex": 7,
        });
        // The members of a JSON value are sorted, so this is the canonical form.
        let promise = self.log.sign(canonical(&entry).as_bytes());
        json!({"SignedEntryTimestamp": promise, "Payload": entry}).to_string()
    }
}

fn canonical(value: &Value) -> String {
    value.to_string()
}
