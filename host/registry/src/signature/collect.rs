//! Finds the signatures of a manifest: bundles that refer to it, by the referrers API or by the tag that replaces it, then the older format's tag.

use super::material::{LegacySignature, MAX_TOTAL, SignatureMaterial};
use crate::client::RegistryClient;
use crate::digest::Digest;
use crate::error::{Problem, RegistryError};
use crate::manifest::{Descriptor, Manifest, media_type};
use crate::reference::Reference;

/// How the type of a bundle begins.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle";
/// The type of a layer with the payload of the older format.
const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// The annotations of such a layer.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
const CERTIFICATE: &str = "dev.sigstore.cosign/certificate";
const LOG_ENTRY: &str = "dev.sigstore.cosign/bundle";

/// Collects the signatures of a manifest. A damaged one is left out, so that it hides no good one.
///
/// # Errors
/// Errors if the registry cannot be asked, or if there are too many.
pub async fn collect_signatures(
    client: &RegistryClient,
    reference: &Reference,
    manifest: Digest,
) -> Result<Vec<SignatureMaterial>, RegistryError> {
    let mut collected = SignatureCollection::default();
    // Some tools do not say the type in the list, only in the manifest that it names. Others, such as the registry of
    // go-containerregistry, say the type of the manifest's config, which is empty.
    let may_be_bundle = |found: &Descriptor| {
        found.artifact_type.as_ref().is_none_or(|kind| kind.starts_with(BUNDLE) || kind == media_type::EMPTY)
    };
    for found in client.referrers(reference, manifest, may_be_bundle).await? {
        let pinned = reference.pinned(found.digest);
        let Some(document) = usable(client.manifest(&pinned).await)? else { continue };
        let Ok(attached) = document.parse(&pinned.to_string()) else { continue };
        if attached.subject.as_ref().is_none_or(|subject| subject.digest == manifest) {
            bundles(client, reference, &attached, &mut collected).await?;
        }
    }
    let tag = reference.tagged(format!("sha256-{}.sig", manifest.hex()));
    if let Some(document) = usable(client.manifest(&tag).await)?
        && let Ok(attached) = document.parse(&tag.to_string())
    {
        legacy(client, reference, &attached, &mut collected).await?;
    }
    Ok(collected.signatures)
}

#[derive(Default)]
struct SignatureCollection {
    signatures: Vec<SignatureMaterial>,
    size: usize,
}

impl SignatureCollection {
    fn add(&mut self, signature: SignatureMaterial, reference: &Reference) -> Result<(), RegistryError> {
        self.size += signature.size();
        if self.size > MAX_TOTAL {
            return Err(RegistryError::new(
                Problem::TooLarge,
                format!("the signatures of {reference} have more than {MAX_TOTAL} bytes; remove old ones"),
            ));
        }
        self.signatures.push(signature);
        Ok(())
    }
}

async fn bundles(
    client: &RegistryClient,
    reference: &Reference,
    attached: &Manifest,
    collected: &mut SignatureCollection,
) -> Result<(), RegistryError> {
    let layers = attached.layers.iter().filter(|layer| layer.media_type.starts_with(BUNDLE));
    for layer in layers.take(client.limits().referrers) {
        let content = usable(client.small_blob(reference, layer).await)?;
        if let Some(text) = content.and_then(|content| String::from_utf8(content).ok()) {
            collected.add(SignatureMaterial::Bundle(text), reference)?;
        }
    }
    Ok(())
}

async fn legacy(
    client: &RegistryClient,
    reference: &Reference,
    attached: &Manifest,
    collected: &mut SignatureCollection,
) -> Result<(), RegistryError> {
    let limit = client.limits().referrers;
    if attached.layers.len() > limit {
        return Err(RegistryError::new(
            Problem::TooLarge,
            format!(
                "{reference} has {} signatures, and the limit is {limit}; remove old ones",
                attached.layers.len()
            ),
        ));
    }
    for layer in attached.layers.iter().filter(|layer| layer.media_type == SIMPLE_SIGNING) {
        let Some(signature) = layer.annotations.get(SIGNATURE) else { continue };
        let content = usable(client.small_blob(reference, layer).await)?;
        let Some(payload) = content.and_then(|content| String::from_utf8(content).ok()) else { continue };
        let signature = LegacySignature {
            payload,
            signature: signature.clone(),
            certificate: layer.annotations.get(CERTIFICATE).filter(|text| !text.is_empty()).cloned(),
            log_entry: layer.annotations.get(LOG_ENTRY).filter(|text| !text.is_empty()).cloned(),
        };
        collected.add(SignatureMaterial::Legacy(signature), reference)?;
    }
    Ok(())
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
