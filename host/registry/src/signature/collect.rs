//! Finds the signatures of a manifest: bundles that refer to it, by the referrers API or by the tag that replaces it, then the older format's tag.

use super::material::{LegacySignature, MAX_SIGNATURE, MAX_TOTAL, SignatureMaterial};
use super::policy::SignaturePolicy;
use super::verify::{MAX_SIGNED_MANIFEST, SignerCount};
use crate::client::{Limits, ManifestDocument, RegistryClient};
use crate::digest::Digest;
use crate::error::{Problem, RegistryError};
use crate::manifest::{Descriptor, Manifest, media_type};
use crate::reference::Reference;

/// How the type of a bundle begins.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle";
/// The type of a layer with the payload of the older format.
const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// Bundles that are read of one artifact. Tools attach one to each.
const MAX_BUNDLES: usize = 4;
/// Signatures that are kept although they count for nothing.
const MAX_UNUSED: usize = 32;
/// The annotations of such a layer.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
const CERTIFICATE: &str = "dev.sigstore.cosign/certificate";
const LOG_ENTRY: &str = "dev.sigstore.cosign/bundle";

/// Collects the signatures of a manifest until the policy needs no more. Whoever can push to the repository can attach any number of
/// anything, so what is damaged, too large or of no use is left out, and nothing of this hides a good signature. Only the work is bounded,
/// for each format.
///
/// # Errors
/// Errors if the registry cannot be asked, or if a bound is reached, or a list cannot be read, before there are enough.
pub async fn collect_signatures(
    client: &RegistryClient,
    policy: &SignaturePolicy,
    reference: &Reference,
    manifest: &ManifestDocument,
) -> Result<Vec<SignatureMaterial>, RegistryError> {
    if manifest.text.len() > MAX_SIGNED_MANIFEST {
        return Ok(Vec::new());
    }
    let Some(signers) = SignerCount::new(policy, reference, manifest) else { return Ok(Vec::new()) };
    let mut collected = SignatureCollection { signers, signatures: Vec::new(), unused: 0, unused_size: 0 };
    let unlisted = match referring(client, reference, manifest.digest, &mut collected).await {
        Ok(()) => None,
        // Whoever can push can cause these. They hide nothing in the older format.
        Err(error) if matches!(error.problem(), Problem::TooLarge | Problem::Protocol | Problem::Altered) => {
            Some(error)
        }
        Err(error) => return Err(error),
    };
    if collected.is_enough() {
        return Ok(collected.signatures);
    }
    let tag = reference.tagged(format!("sha256-{}.sig", manifest.digest.hex()));
    if let Some(document) = usable(client.manifest(&tag).await)?
        && let Ok(attached) = document.parse(&tag.to_string())
    {
        legacy(client, reference, &attached, &mut collected).await?;
    }
    match unlisted {
        Some(error) if !collected.is_enough() => Err(error),
        _ => Ok(collected.signatures),
    }
}

/// The signatures found so far.
struct SignatureCollection {
    signers: SignerCount,
    signatures: Vec<SignatureMaterial>,
    /// The number of those that count for nothing, and their size in bytes.
    unused: usize,
    unused_size: usize,
}

impl SignatureCollection {
    /// Keeps a signature if it counts. The others are kept for the error's text and for a policy that changes, up to a number and a size: each
    /// is verified again with every judgement. One at which the verifier panics is left out.
    async fn add(&mut self, signature: SignatureMaterial) {
        let Ok((signature, counts)) = self.signers.add(signature).await else { return };
        if !counts {
            let size = self.unused_size + signature.size();
            if self.unused == MAX_UNUSED || size > MAX_TOTAL / 2 {
                return;
            }
            self.unused += 1;
            self.unused_size = size;
        }
        self.signatures.push(signature);
    }

    fn is_enough(&self) -> bool {
        self.signers.is_enough()
    }
}

/// What may still be read of what is attached to a plugin, in one format.
struct Budget<'a> {
    reference: &'a Reference,
    limits: Limits,
    artifacts: usize,
    bytes: usize,
}

impl<'a> Budget<'a> {
    fn new(client: &RegistryClient, reference: &'a Reference) -> Self {
        let limits = client.limits();
        Self { reference, limits, artifacts: limits.referrers, bytes: limits.attached }
    }

    fn take_artifact(&mut self) -> Result<(), RegistryError> {
        self.artifacts = self.artifacts.checked_sub(1).ok_or_else(|| self.exceeded())?;
        if self.bytes == 0 { Err(self.exceeded()) } else { Ok(()) }
    }

    /// What was read counts, also if it is more than was left: each part is small.
    fn take_bytes(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    fn exceeded(&self) -> RegistryError {
        let Limits { referrers, attached, .. } = self.limits;
        RegistryError::new(
            Problem::TooLarge,
            format!(
                "more than {referrers} artifacts or {attached} bytes are attached to {}, and those that were looked at do not satisfy the signature policy; remove what is attached and is not needed, and check who can write to the registry",
                self.reference
            ),
        )
    }
}

/// Collects the bundles that refer to the manifest.
async fn referring(
    client: &RegistryClient,
    reference: &Reference,
    manifest: Digest,
    collected: &mut SignatureCollection,
) -> Result<(), RegistryError> {
    // Some tools do not say the type in the list, only in the manifest that it names. Others, such as the registry of
    // go-containerregistry, say the type of the manifest's config, which is empty.
    let may_be_bundle = |found: &Descriptor| {
        let has_type = found
            .artifact_type
            .as_ref()
            .is_none_or(|kind| kind.starts_with(BUNDLE) || kind == media_type::EMPTY);
        has_type && found.size <= MAX_SIGNATURE as u64
    };
    let mut budget = Budget::new(client, reference);
    let mut pages = client.referrers(reference, manifest);
    while let Some(page) = pages.next().await? {
        budget.take_bytes(page.size);
        for found in page.artifacts.iter().filter(|found| may_be_bundle(found)) {
            budget.take_artifact()?;
            let pinned = reference.pinned(found.digest);
            let fetched = client.manifest_within(MAX_SIGNATURE, &pinned).await;
            budget.take_bytes(size_of(&fetched, |document| document.text.len()));
            let Some(document) = usable(fetched)? else { continue };
            let Ok(attached) = document.parse(&pinned.to_string()) else { continue };
            if attached.subject.as_ref().is_some_and(|subject| subject.digest != manifest) {
                continue;
            }
            let is_bundle = |layer: &&Descriptor| layer.media_type.starts_with(BUNDLE);
            for layer in attached.layers.iter().filter(is_bundle).take(MAX_BUNDLES) {
                if let Some(text) = small_text(client, reference, layer, &mut budget).await? {
                    collected.add(SignatureMaterial::Bundle(text)).await;
                    if collected.is_enough() {
                        return Ok(());
                    }
                }
            }
        }
    }
    Ok(())
}

/// Collects the signatures of the older format.
async fn legacy(
    client: &RegistryClient,
    reference: &Reference,
    attached: &Manifest,
    collected: &mut SignatureCollection,
) -> Result<(), RegistryError> {
    let is_signature = |layer: &&Descriptor| layer.media_type == SIMPLE_SIGNING;
    let mut budget = Budget::new(client, reference);
    for layer in attached.layers.iter().filter(is_signature) {
        let Some(signature) = layer.annotations.get(SIGNATURE) else { continue };
        budget.take_artifact()?;
        let Some(payload) = small_text(client, reference, layer, &mut budget).await? else { continue };
        let signature = LegacySignature {
            payload,
            signature: signature.clone(),
            certificate: layer.annotations.get(CERTIFICATE).filter(|text| !text.is_empty()).cloned(),
            log_entry: layer.annotations.get(LOG_ENTRY).filter(|text| !text.is_empty()).cloned(),
        };
        collected.add(SignatureMaterial::Legacy(signature)).await;
        if collected.is_enough() {
            return Ok(());
        }
    }
    Ok(())
}

/// Fetches a text; `None` if it is too large for a signature, missing or damaged. One that is too large by its descriptor is not fetched.
async fn small_text(
    client: &RegistryClient,
    reference: &Reference,
    layer: &Descriptor,
    budget: &mut Budget<'_>,
) -> Result<Option<String>, RegistryError> {
    if layer.size > MAX_SIGNATURE as u64 {
        return Ok(None);
    }
    let fetched = client.small_blob(reference, layer).await;
    budget.take_bytes(size_of(&fetched, Vec::len));
    let content = usable(fetched)?;
    Ok(content.and_then(|content| String::from_utf8(content).ok()))
}

/// How much was read, at most: a failure does not say it, but one that says that there is nothing is short.
fn size_of<T>(fetched: &Result<T, RegistryError>, size: impl FnOnce(&T) -> usize) -> usize {
    match fetched {
        Ok(found) => size(found),
        Err(error) if error.problem() == Problem::NotFound => 0,
        Err(_) => MAX_SIGNATURE,
    }
}

/// Returns what was fetched; `None` if it is missing or damaged. Other problems, such as a registry that is gone, are errors: a signature that
/// could not be fetched is not a missing one.
fn usable<T>(fetched: Result<T, RegistryError>) -> Result<Option<T>, RegistryError> {
    match fetched {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.problem(), Problem::NotFound | Problem::Altered | Problem::TooLarge) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
