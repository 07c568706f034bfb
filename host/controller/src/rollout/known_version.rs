//! A version of a plugin, known by its file.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The maximum size in bytes of the version number that is remembered.
const MAX_NUMBER: usize = 256;

/// A version that ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KnownVersion {
    /// SHA-256 of the .wasm file, in hex.
    pub(crate) digest: String,
    /// The size of that file in bytes.
    pub(crate) size: usize,
    /// The version that the descriptor names; "" if it names none.
    pub(crate) version: String,
}

impl KnownVersion {
    pub(crate) fn new(digest: &str, size: usize, version: &str) -> Self {
        let version = version[..version.floor_char_boundary(MAX_NUMBER)].to_owned();
        Self { digest: digest.to_owned(), size, version }
    }

    /// Returns the SHA-256; `None` if the digest is not one.
    pub(crate) fn sum(&self) -> Option<[u8; 32]> {
        let digest = self.digest.as_bytes();
        if digest.len() != 64 || !digest.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let mut sum = [0; 32];
        for (byte, position) in sum.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&self.digest[position..position + 2], 16).ok()?;
        }
        Some(sum)
    }

    /// Returns the start of the digest, by which people tell versions apart.
    pub(crate) fn short_digest(&self) -> &str {
        short(&self.digest)
    }

    /// A version whose file consists of this text.
    #[cfg(test)]
    pub(crate) fn for_test(text: &str) -> Self {
        use sha2::{Digest, Sha256};

        let digest: String =
            Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        Self::new(&digest, text.len(), text)
    }
}

/// Returns the first characters of a digest.
pub(crate) fn short(digest: &str) -> &str {
    &digest[..digest.floor_char_boundary(12)]
}

impl fmt::Display for KnownVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version.as_str() {
            "" => write!(f, "version {}", self.short_digest()),
            version => write!(f, "version {version:?} ({})", self.short_digest()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_converted_to_the_sum() {
        let version = KnownVersion::new(&"0fA0".repeat(16), 1, "1.0");
        let sum = version.sum().expect("64 digits");
        assert_eq!(sum[..4], [0x0f, 0xa0, 0x0f, 0xa0]);
        for bad in [String::new(), "0f".to_owned(), "0g".repeat(32), "+1".repeat(32), "ä".repeat(32)] {
            assert_eq!(KnownVersion::new(&bad, 1, "1.0").sum(), None, "{bad}");
        }
    }

    #[test]
    fn a_long_version_number_is_cut() {
        let version = KnownVersion::new("", 1, &"ä".repeat(1 << 20));
        assert_eq!(version.version.len(), MAX_NUMBER);
    }

    #[test]
    fn a_version_is_shown_with_its_number_and_the_start_of_its_digest() {
        let digest = "ab".repeat(32);
        assert_eq!(KnownVersion::new(&digest, 1, "1.0").to_string(), "version \"1.0\" (abababababab)");
        assert_eq!(KnownVersion::new(&digest, 1, "").to_string(), "version abababababab");
    }
}
