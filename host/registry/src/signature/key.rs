//! Public keys of signers.

use sigstore_verify::crypto::{KeyAlgorithm, SigningScheme, verify_signature};
use sigstore_verify::types::{DerPublicKey, SignatureBytes};

use super::crypto::install;
use crate::error::{Problem, RegistryError, excerpt};

/// A public key.
#[derive(Clone, Debug)]
pub(super) struct PublicKey {
    der: DerPublicKey,
    schemes: Vec<SigningScheme>,
}

impl PublicKey {
    /// Parses a key from PEM text, as `cosign generate-key-pair` writes it to `cosign.pub`.
    pub(super) fn from_pem(pem: &str) -> Result<Self, RegistryError> {
        install();
        let invalid = |problem: String| {
            RegistryError::new(
                Problem::Invalid,
                format!("this is no public key in PEM: {}; name the file cosign.pub", excerpt(&problem)),
            )
        };
        let der = DerPublicKey::from_pem(pem.trim()).map_err(|error| invalid(error.to_string()))?;
        let algorithm = KeyAlgorithm::from_spki(&der).map_err(|error| invalid(error.to_string()))?;
        let mut schemes = vec![algorithm.default_signing_scheme()];
        if algorithm == KeyAlgorithm::EcdsaP384 {
            // cosign used SHA-256 with every curve once.
            schemes.push(SigningScheme::EcdsaP384Sha256);
        }
        Ok(Self { der, schemes })
    }

    /// Whether this is the same key.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.der.as_bytes() == other.der.as_bytes()
    }

    /// Whether this is a signature of the message by this key.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let signature = SignatureBytes::new(signature.to_vec());
        self.schemes.iter().any(|&scheme| verify_signature(&self.der, message, &signature, scheme).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_public_key_is_refused() {
        for text in [
            "",
            "-----BEGIN PUBLIC KEY-----\nYWJj\n-----END PUBLIC KEY-----",
            "-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----",
        ] {
            let error = PublicKey::from_pem(text).expect_err(text);
            assert!(error.to_string().contains("cosign.pub"), "{error}");
        }
    }
}
