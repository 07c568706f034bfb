//! Signatures as they are found in a registry and kept in the cache. Nothing about them is verified.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::cache::Cache;
use crate::digest::Digest;
use crate::error::{Problem, RegistryError};

/// The most that all signatures of one manifest have together, in bytes.
pub(super) const MAX_TOTAL: usize = 8 << 20;
/// The most that one signature has, in bytes. They have some kilobytes; attestations may be larger, and approve nothing.
pub(super) const MAX_SIGNATURE: usize = 256 << 10;

/// One signature.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum SignatureMaterial {
    /// A bundle: the JSON text that `cosign sign` attaches since version 3.
    Bundle(String),
    /// The older format: a payload, and its signature in annotations.
    Legacy(LegacySignature),
}

/// A signature in the older format.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct LegacySignature {
    /// The text that is signed.
    pub(super) payload: String,
    /// The signature, in base64.
    pub(super) signature: String,
    /// The signer's certificate in PEM, of a signature without a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) certificate: Option<String>,
    /// The entry of the transparency log, as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) log_entry: Option<String>,
}

impl SignatureMaterial {
    /// The size of the text, in bytes.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Bundle(text) => text.len(),
            Self::Legacy(LegacySignature { payload, signature, certificate, log_entry }) => {
                let optional = |text: &Option<String>| text.as_ref().map_or(0, String::len);
                payload.len() + signature.len() + optional(certificate) + optional(log_entry)
            }
        }
    }
}

impl LegacySignature {
    /// The bytes of the signature, if its text is valid.
    pub(super) fn signature_bytes(&self) -> Option<Vec<u8>> {
        STANDARD.decode(self.signature.trim()).ok()
    }
}

/// Keeps the signatures of a manifest in the cache.
///
/// # Errors
/// Errors if they cannot be written.
pub fn store_signatures(
    cache: &Cache,
    manifest: Digest,
    signatures: &[SignatureMaterial],
) -> Result<(), RegistryError> {
    let text = serde_json::to_vec(signatures).map_err(|error| {
        RegistryError::new(
            Problem::Cache,
            format!("the signatures of {manifest} cannot be stored: {error}; please report this"),
        )
    })?;
    cache.put_evidence(manifest, &text)
}

/// Returns the signatures of a manifest that the cache has. Damaged ones are none.
#[must_use]
pub fn load_signatures(cache: &Cache, manifest: Digest) -> Vec<SignatureMaterial> {
    // JSON escapes make the text at most six times as long.
    let text = cache.evidence(manifest, 6 * MAX_TOTAL as u64 + 1024);
    text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "files have times of the system clock")]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn signatures_survive_in_the_cache() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = Cache::open(folder.path(), SystemTime::now()).expect("a cache");
        let manifest = Digest::of(b"m");
        assert_eq!(load_signatures(&cache, manifest), []);
        let signatures = [
            SignatureMaterial::Bundle("{}".to_owned()),
            SignatureMaterial::Legacy(LegacySignature {
                payload: "p\n".to_owned(),
                ..LegacySignature::default()
            }),
        ];
        store_signatures(&cache, manifest, &signatures).expect("stored");
        assert_eq!(load_signatures(&cache, manifest), signatures);
        cache.put_evidence(manifest, b"[{").expect("damaged");
        assert_eq!(load_signatures(&cache, manifest), []);
    }
}
