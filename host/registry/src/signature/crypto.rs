//! The cryptography of signatures, by ring, which TLS uses, too.
//!
//! The verifier asks for the signature of a digest, which ring cannot check: it hashes the message itself. The message is therefore passed beside the
//! call, and its signature is checked if it has that digest. The answer is the same, and anything unexpected is a refusal.

use std::cell::RefCell;
use std::sync::Once;

use ring::digest::{self, Context, SHA256, SHA384, SHA512};
use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use sigstore_verify::crypto::{
    CryptoProvider, Error, HashContext, Result, SigningScheme, install_default_provider,
};
use sigstore_verify::types::HashAlgorithm;

thread_local! {
    /// The message whose signature this thread verifies.
    static MESSAGE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Runs a verification of a signature of this message.
pub(super) fn with_message<T>(message: &[u8], verification: impl FnOnce() -> T) -> T {
    install();
    MESSAGE.with(|slot| *slot.borrow_mut() = message.to_vec());
    let result = verification();
    MESSAGE.with(|slot| slot.borrow_mut().clear());
    result
}

/// Has the verifier use ring. Does nothing after the first time.
pub(super) fn install() {
    static INSTALLED: Once = Once::new();
    static PROVIDER: RingProvider = RingProvider;

    INSTALLED.call_once(|| {
        // It fails only if the process has installed a provider before, which then works as well.
        let _ = install_default_provider(&PROVIDER);
    });
}

#[derive(Debug)]
struct RingProvider;

struct RingHash(Context);

impl HashContext for RingHash {
    fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn finalize(self: Box<Self>) -> Vec<u8> {
        self.0.finish().as_ref().to_vec()
    }
}

impl CryptoProvider for RingProvider {
    fn hash(&self, algorithm: HashAlgorithm) -> Result<Box<dyn HashContext>> {
        Ok(Box::new(RingHash(Context::new(digest_algorithm(algorithm)?))))
    }

    fn verify_raw(&self, scheme: SigningScheme, key: &[u8], data: &[u8], signature: &[u8]) -> Result<()> {
        let key = UnparsedPublicKey::new(verification_algorithm(scheme)?, key);
        key.verify(data, signature)
            .map_err(|_| Error::Verification(format!("the {} signature does not match", scheme.name())))
    }

    fn verify_prehashed(
        &self,
        scheme: SigningScheme,
        key: &[u8],
        digest: &[u8],
        signature: &[u8],
    ) -> Result<()> {
        let unsupported = || Error::UnsupportedAlgorithm(format!("{} signs no digest", scheme.name()));
        let algorithm = digest_algorithm(scheme.hash_algorithm().ok_or_else(unsupported)?)?;
        MESSAGE.with(|slot| {
            let message = slot.borrow();
            if digest::digest(algorithm, &message).as_ref() != digest {
                return Err(Error::Verification("the digest is not that of the message".to_owned()));
            }
            self.verify_raw(scheme, key, &message, signature)
        })
    }
}

fn digest_algorithm(algorithm: HashAlgorithm) -> Result<&'static digest::Algorithm> {
    match algorithm {
        HashAlgorithm::Sha2256 => Ok(&SHA256),
        HashAlgorithm::Sha2384 => Ok(&SHA384),
        HashAlgorithm::Sha2512 => Ok(&SHA512),
        _ => Err(Error::UnsupportedAlgorithm(format!("digests by {algorithm} are not supported"))),
    }
}

fn verification_algorithm(scheme: SigningScheme) -> Result<&'static dyn VerificationAlgorithm> {
    Ok(match scheme {
        SigningScheme::EcdsaP256Sha256 => &signature::ECDSA_P256_SHA256_ASN1,
        SigningScheme::EcdsaP256Sha384 => &signature::ECDSA_P256_SHA384_ASN1,
        SigningScheme::EcdsaP384Sha256 => &signature::ECDSA_P384_SHA256_ASN1,
        SigningScheme::EcdsaP384Sha384 => &signature::ECDSA_P384_SHA384_ASN1,
        SigningScheme::Ed25519 => &signature::ED25519,
        SigningScheme::RsaPssSha256 => &signature::RSA_PSS_2048_8192_SHA256,
        SigningScheme::RsaPssSha384 => &signature::RSA_PSS_2048_8192_SHA384,
        SigningScheme::RsaPssSha512 => &signature::RSA_PSS_2048_8192_SHA512,
        SigningScheme::RsaPkcs1Sha256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        SigningScheme::RsaPkcs1Sha384 => &signature::RSA_PKCS1_2048_8192_SHA384,
        SigningScheme::RsaPkcs1Sha512 => &signature::RSA_PKCS1_2048_8192_SHA512,
        _ => {
            return Err(Error::UnsupportedAlgorithm(format!(
                "signatures by {} are not supported; sign with ECDSA, Ed25519 or RSA",
                scheme.name()
            )));
        }
    })
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};

    use super::*;

    #[test]
    fn a_digest_is_verified_only_together_with_its_message() {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).expect("a key");
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8.as_ref(), &random)
            .expect("a key");
        let signature = pair.sign(&random, b"message").expect("signed");
        let key = pair.public_key().as_ref();
        let digest = digest::digest(&SHA256, b"message");
        let verify = |message: &[u8], digest: &[u8]| {
            with_message(message, || {
                RingProvider
                    .verify_prehashed(SigningScheme::EcdsaP256Sha256, key, digest, signature.as_ref())
                    .is_ok()
            })
        };
        assert!(verify(b"message", digest.as_ref()));
        assert!(!verify(b"another", digest.as_ref()));
        assert!(!verify(b"another", digest::digest(&SHA256, b"another").as_ref()));
        assert!(!verify(b"message", &[0; 32]));
        let outside = RingProvider.verify_prehashed(
            SigningScheme::EcdsaP256Sha256,
            key,
            digest.as_ref(),
            signature.as_ref(),
        );
        assert!(outside.is_err(), "no message");
        assert!(
            RingProvider.verify_raw(SigningScheme::MlDsa44, key, b"message", signature.as_ref()).is_err()
        );
    }
}
