//! Judges the versions of a plugin by the signature policy, and keeps the results of an attempt.

use std::collections::BTreeMap;

use crate::client::ManifestDocument;
use crate::digest::Digest;
use crate::error::{Problem, RegistryError};
use crate::reference::Reference;
use crate::signature::{Decision, SignatureMaterial, SignaturePolicy, in_background, verify};

/// The results of an attempt's judgements, by manifest. A version that is judged by the signatures in the cache and then by those in the registry
/// was judged once, with the later result.
pub(super) type Judgements = BTreeMap<Digest, Result<(), Problem>>;

/// Judges the signatures of a manifest. Without a policy, that is no judgement. Takes time.
pub(super) fn judge(
    reference: &Reference,
    document: &ManifestDocument,
    policy: Option<&SignaturePolicy>,
    signatures: &[SignatureMaterial],
    judgements: &mut Judgements,
) -> Result<Decision, RegistryError> {
    let judged = verify(policy, reference, document, signatures);
    if policy.is_some() {
        judgements.insert(document.digest, judged.as_ref().map(|_| ()).map_err(RegistryError::problem));
    }
    judged
}

/// Does the same as [`judge`] on a thread that may block, and returns the signatures as well.
pub(super) async fn judge_in_background(
    reference: &Reference,
    document: &ManifestDocument,
    policy: Option<&SignaturePolicy>,
    signatures: Vec<SignatureMaterial>,
    judgements: &mut Judgements,
) -> Result<(Decision, Vec<SignatureMaterial>), RegistryError> {
    let Some(policy) = policy.cloned() else {
        return Ok((judge(reference, document, None, &signatures, judgements)?, signatures));
    };
    let (reference, document) = (reference.clone(), document.clone());
    let (judged, found, signatures) = in_background(move || {
        let mut found = Judgements::new();
        let judged = judge(&reference, &document, Some(&policy), &signatures, &mut found);
        (judged, found, signatures)
    })
    .await?;
    judgements.extend(found);
    Ok((judged?, signatures))
}
