//! Judges the signatures of a manifest by a policy. Pure, except that certificates are compared with the time at which a log saw the signature.

use std::fmt;
use std::sync::Arc;

use sigstore_verify::types::{Bundle, SignatureContent};

use super::background::in_background;
use super::keyless::{TrustRoot, bundle_of};
use super::material::SignatureMaterial;
use super::payload::Approval;
use super::policy::{Rule, SignaturePolicy, Signer, SignerKind};
use crate::client::ManifestDocument;
use crate::error::{Problem, RegistryError, excerpt};
use crate::reference::Reference;

/// The type of the payload of a signature in a bundle.
const STATEMENT: &str = "application/vnd.in-toto+json";

/// The largest manifest whose signatures are verified, in bytes. The manifest of a plugin has one or two thousand. Each signature of a message is verified
/// by hashing the whole manifest, and whoever can push can attach thousands.
pub(super) const MAX_SIGNED_MANIFEST: usize = 64 << 10;

/// Why a plugin may be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// There is no policy.
    NoPolicy,
    /// The policy needs no signature for this reference.
    Unsigned,
    /// These signers have signed.
    Signed(Vec<String>),
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPolicy => f.write_str("not verified, because there is no signature policy"),
            Self::Unsigned => f.write_str("the signature policy needs no signature"),
            Self::Signed(names) => write!(f, "signed by {}", names.join(", ")),
        }
    }
}

/// Judges the signatures of a manifest.
///
/// # Errors
/// Errors if the policy has no rule for the reference, or if too few signers have signed. The text says why each signature does not count.
pub fn verify(
    policy: Option<&SignaturePolicy>,
    reference: &Reference,
    manifest: &ManifestDocument,
    signatures: &[SignatureMaterial],
) -> Result<Decision, RegistryError> {
    let Some(policy) = policy else { return Ok(Decision::NoPolicy) };
    let unverified = |text: String| RegistryError::new(Problem::Unverified, text);
    let rule = policy.rule(reference).ok_or_else(|| {
        unverified(format!(
            "no rule of the signature policy matches {}, so {reference} is not loaded; add a rule for it",
            reference.name()
        ))
    })?;
    if rule.required == 0 {
        return Ok(Decision::Unsigned);
    }
    if manifest.text.len() > MAX_SIGNED_MANIFEST {
        return Err(unverified(format!(
            "the manifest of {reference} has {} bytes, and signatures are verified of at most {MAX_SIGNED_MANIFEST}; push the plugin with fewer annotations",
            manifest.text.len()
        )));
    }
    let parsed: Vec<_> = signatures.iter().map(ParsedSignature::of).collect();
    let mut signed = Vec::new();
    let mut missing = Vec::new();
    for signer in &rule.signers {
        match signer.find(&parsed, manifest, policy.trust_root.as_deref()) {
            Ok(()) => signed.push(signer.name.clone()),
            Err(reasons) => missing.push(format!("{}: {reasons}", signer.name)),
        }
    }
    if signed.len() >= rule.required {
        return Ok(Decision::Signed(signed));
    }
    let found = match signatures.len() {
        0 => "there is no signature".to_owned(),
        1 => "there is one signature".to_owned(),
        count => format!("there are {count} signatures"),
    };
    Err(unverified(format!(
        "{reference} ({}) is signed by {} of the {} signers that the policy needs; {found} ({}); sign it with `cosign sign`, or change the policy",
        manifest.digest,
        signed.len(),
        rule.required,
        missing.join("; ")
    )))
}

/// Counts the signers of a manifest while its signatures are collected.
pub(super) struct SignerCount {
    rule: Arc<Rule>,
    trust_root: Option<Arc<TrustRoot>>,
    manifest: Arc<ManifestDocument>,
    /// Whether each signer of the rule has signed.
    has_signed: Vec<bool>,
}

impl SignerCount {
    /// Begins without signatures. Returns `None` if the policy has no rule for the reference.
    pub(super) fn new(
        policy: &SignaturePolicy,
        reference: &Reference,
        manifest: &ManifestDocument,
    ) -> Option<Self> {
        let rule = Arc::clone(policy.rule(reference)?);
        let has_signed = vec![false; rule.signers.len()];
        let (trust_root, manifest) = (policy.trust_root.clone(), Arc::new(manifest.clone()));
        Some(Self { rule, trust_root, manifest, has_signed })
    }

    /// Judges a signature. Returns it, and whether it is by a signer that had not signed yet. Errors if the verifier panicked at it.
    pub(super) async fn add(
        &mut self,
        signature: SignatureMaterial,
    ) -> Result<(SignatureMaterial, bool), RegistryError> {
        let (rule, trust_root) = (Arc::clone(&self.rule), self.trust_root.clone());
        let (manifest, had_signed) = (Arc::clone(&self.manifest), self.has_signed.clone());
        let judge = move || {
            let parsed = [ParsedSignature::of(&signature)];
            let signs = |(signer, had_signed): (&Signer, bool)| {
                !had_signed && signer.find(&parsed, &manifest, trust_root.as_deref()).is_ok()
            };
            let signs: Vec<bool> = rule.signers.iter().zip(had_signed).map(signs).collect();
            drop(parsed);
            (signature, signs)
        };
        let (signature, signs) = in_background(judge).await?;
        for (has_signed, signs) in self.has_signed.iter_mut().zip(&signs) {
            *has_signed |= signs;
        }
        Ok((signature, signs.contains(&true)))
    }

    /// Whether the policy needs no more signatures.
    pub(super) fn is_enough(&self) -> bool {
        self.has_signed.iter().filter(|has_signed| **has_signed).count() >= self.rule.required
    }
}

/// A signature whose text was parsed.
enum ParsedSignature<'a> {
    Bundle(Box<Bundle>),
    /// The bundle is made only for a signature with a certificate.
    Legacy {
        payload: &'a str,
        signature: Vec<u8>,
        bundle: Result<Box<Bundle>, String>,
    },
    Damaged,
}

impl<'a> ParsedSignature<'a> {
    fn of(material: &'a SignatureMaterial) -> Self {
        match material {
            SignatureMaterial::Bundle(text) => {
                Bundle::from_json(text).map_or(Self::Damaged, |bundle| Self::Bundle(Box::new(bundle)))
            }
            SignatureMaterial::Legacy(legacy) => match legacy.signature_bytes() {
                Some(signature) => Self::Legacy {
                    payload: &legacy.payload,
                    signature,
                    bundle: bundle_of(legacy).map(Box::new),
                },
                None => Self::Damaged,
            },
        }
    }
}

impl Signer {
    /// Looks for a signature by this signer. Errors name why each one does not count, without repetitions.
    fn find(
        &self,
        signatures: &[ParsedSignature<'_>],
        manifest: &ManifestDocument,
        trust_root: Option<&TrustRoot>,
    ) -> Result<(), String> {
        let mut reasons = Vec::new();
        for signature in signatures {
            match self.judge(signature, manifest, trust_root) {
                Ok(approval) if approval.has(&self.annotations) => return Ok(()),
                Ok(_) => reasons.push("a signature lacks the annotations".to_owned()),
                Err(reason) => reasons.push(reason),
            }
        }
        reasons.sort();
        reasons.dedup();
        // Somebody who may write to the repository decides how many there are.
        reasons.truncate(5);
        Err(if reasons.is_empty() { "no signature".to_owned() } else { excerpt(&reasons.join(", ")) })
    }

    /// Verifies one signature, and then reads what it says.
    fn judge(
        &self,
        signature: &ParsedSignature<'_>,
        manifest: &ManifestDocument,
        trust_root: Option<&TrustRoot>,
    ) -> Result<Approval, String> {
        const OTHER_KEY: &str = "a signature is by another key";
        match (signature, &self.kind) {
            (ParsedSignature::Damaged, _) => Err("a signature is damaged".to_owned()),
            (ParsedSignature::Legacy { payload, signature, .. }, SignerKind::Key(key)) => {
                if !key.verifies(payload.as_bytes(), signature) {
                    return Err(OTHER_KEY.to_owned());
                }
                Approval::of_simple_signing(payload.as_bytes(), manifest.digest)
            }
            (ParsedSignature::Legacy { payload, bundle, .. }, SignerKind::Keyless(identity)) => {
                let trust_root = trust_root.ok_or("there is no trust root")?;
                let bundle = bundle.as_ref().map_err(Clone::clone)?;
                trust_root.verify(bundle, payload.as_bytes(), identity)?;
                Approval::of_simple_signing(payload.as_bytes(), manifest.digest)
            }
            (ParsedSignature::Bundle(bundle), SignerKind::Key(key)) => match &bundle.content {
                SignatureContent::DsseEnvelope(envelope) if envelope.payload_type == STATEMENT => {
                    if !key.verifies(&envelope.pae(), envelope.signature.sig.as_bytes()) {
                        return Err(OTHER_KEY.to_owned());
                    }
                    Approval::of_statement(envelope.payload.as_bytes(), manifest.digest)
                }
                SignatureContent::MessageSignature(message) => {
                    let is_signed = key.verifies(&manifest.text, message.signature.as_bytes());
                    if is_signed { Ok(Approval::default()) } else { Err(OTHER_KEY.to_owned()) }
                }
                _ => Err("a bundle has unknown content".to_owned()),
            },
            (ParsedSignature::Bundle(bundle), SignerKind::Keyless(identity)) => {
                let trust_root = trust_root.ok_or("there is no trust root")?;
                trust_root.verify(bundle, &manifest.text, identity)?;
                match &bundle.content {
                    SignatureContent::DsseEnvelope(envelope) => {
                        Approval::of_statement(envelope.payload.as_bytes(), manifest.digest)
                    }
                    SignatureContent::MessageSignature(_) => Ok(Approval::default()),
                    _ => Err("a bundle has unknown content".to_owned()),
                }
            }
        }
    }
}
