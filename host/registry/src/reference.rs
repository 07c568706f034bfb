//! References to artifacts: `oci://REGISTRY/REPOSITORY:TAG` or `oci://REGISTRY/REPOSITORY@DIGEST`.

use std::fmt;
use std::str::FromStr;

use crate::digest::Digest;
use crate::error::{Problem, RegistryError, excerpt};

/// The scheme before a reference. It may be left out where a reference is read, and is there wherever one is printed.
pub const SCHEME: &str = "oci://";

/// The longest reference, in bytes.
const MAX_LENGTH: usize = 1024;
/// The longest repository, in bytes. Registries have this limit, too.
const MAX_REPOSITORY: usize = 255;

/// A reference to an artifact in a registry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

impl Reference {
    /// The registry as `host` or `host:port`, in lower case.
    #[must_use]
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The repository's name in the registry.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag, if any. It is not used to find the artifact if there is a digest, too.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest of the manifest, if the reference pins one.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// The registry and the repository, without tag and digest. Policies match this text.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.registry, self.repository)
    }

    /// The same artifact, named by its digest alone.
    #[must_use]
    pub fn pinned(&self, digest: Digest) -> Self {
        Self { tag: None, digest: Some(digest), ..self.clone() }
    }

    /// Another tag of the same repository.
    pub(crate) fn tagged(&self, tag: String) -> Self {
        Self { tag: Some(tag), digest: None, ..self.clone() }
    }

    /// What selects the manifest in the URL of a request.
    pub(crate) fn selector(&self) -> String {
        match (self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, Some(tag)) => tag.clone(),
            // `from_str` accepts no reference without both.
            (None, None) => String::new(),
        }
    }
}

impl FromStr for Reference {
    type Err = RegistryError;

    fn from_str(text: &str) -> Result<Self, RegistryError> {
        let invalid = |problem: &str| {
            let text = excerpt(text);
            RegistryError::new(
                Problem::Invalid,
                format!(
                    "the reference {text:?} is invalid: {problem}; write {SCHEME}REGISTRY/REPOSITORY:TAG or {SCHEME}REGISTRY/REPOSITORY@sha256:DIGEST"
                ),
            )
        };
        if text.len() > MAX_LENGTH {
            return Err(invalid("it is too long"));
        }
        let rest = text.strip_prefix(SCHEME).unwrap_or(text);
        if rest.contains("://") {
            return Err(invalid("its scheme is not oci"));
        }
        let (registry, rest) = rest.split_once('/').ok_or_else(|| invalid("it has no repository"))?;
        let registry = registry.to_ascii_lowercase();
        if !is_registry(&registry) {
            return Err(invalid(
                "it has to begin with a registry: a DNS name with a dot, an address, or localhost, each with an optional port",
            ));
        }
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) => (
                rest,
                Some(digest.parse::<Digest>().map_err(|_| {
                    invalid("after @ there has to be sha256: and 64 lower-case hexadecimal digits")
                })?),
            ),
            None => (rest, None),
        };
        let (repository, tag) = match rest.split_once(':') {
            Some((repository, tag)) => (repository, Some(tag)),
            None => (rest, None),
        };
        if !is_repository(repository) {
            return Err(invalid(
                "the repository is not made of lower-case letters, digits, '.', '_', '-' and '/'",
            ));
        }
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(invalid("the tag is not made of at most 128 letters, digits, '.', '_' and '-'"));
        }
        if tag.is_none() && digest.is_none() {
            return Err(invalid("it has neither a tag nor a digest, and none is assumed"));
        }
        Ok(Self { registry, repository: repository.to_owned(), tag: tag.map(str::to_owned), digest })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

/// Whether this is `host`, `host:port`, `[address]` or `[address]:port`.
fn is_registry(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let Some((address, after)) = rest.split_once(']') else { return false };
            if address.parse::<std::net::Ipv6Addr>().is_err() {
                return false;
            }
            match after.strip_prefix(':') {
                Some(port) => ("localhost", Some(port)),
                None if after.is_empty() => ("localhost", None),
                None => return false,
            }
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let is_port = |port: &str| port.len() <= 5 && port.parse::<u16>().is_ok_and(|port| port != 0);
    let is_label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        label.len() <= 63
            && label.bytes().next().is_some_and(plain)
            && label.bytes().last().is_some_and(plain)
            && label.bytes().all(|byte| plain(byte) || byte == b'-')
    };
    let is_full = host.contains('.') || host == "localhost" || port.is_some();
    is_full && host.len() <= 253 && host.split('.').all(is_label) && port.is_none_or(is_port)
}

fn is_repository(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_component = |component: &str| {
        let bytes = component.as_bytes();
        bytes.first().is_some_and(|&byte| is_plain(byte))
            && bytes.last().is_some_and(|&byte| is_plain(byte))
            && bytes.iter().all(|&byte| is_plain(byte) || b"._-".contains(&byte))
            && !component.contains("..")
    };
    text.len() <= MAX_REPOSITORY && text.split('/').all(is_component)
}

fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.len() <= 128
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().all(|byte| is_word(byte) || byte == b'.' || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGITS: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn parsed(text: &str) -> Reference {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn the_parts_of_a_reference_are_found() {
        let reference = parsed("oci://GHCR.io/team/greeter:1.2.3");
        assert_eq!((reference.registry(), reference.repository()), ("ghcr.io", "team/greeter"));
        assert_eq!((reference.tag(), reference.digest()), (Some("1.2.3"), None));
        assert_eq!(reference.to_string(), "oci://ghcr.io/team/greeter:1.2.3");
        assert_eq!(reference.selector(), "1.2.3");
        let both = parsed(&format!("localhost:5000/a:v1@sha256:{DIGITS}"));
        assert_eq!((both.registry(), both.tag()), ("localhost:5000", Some("v1")));
        assert_eq!(both.selector(), format!("sha256:{DIGITS}"));
        assert_eq!(parsed("[::1]:5000/a/b__c-d.e:x").registry(), "[::1]:5000");
        assert_eq!(parsed("registry:5000/a:x").registry(), "registry:5000");
    }

    #[test]
    fn each_invalid_reference_is_refused_with_a_reason() {
        for (text, reason) in [
            ("oci://ghcr.io", "no repository"),
            ("greeter:1", "no repository"),
            ("team/greeter:1", "begin with a registry"),
            ("https://ghcr.io/a:1", "scheme is not oci"),
            ("ghcr.io/a", "neither a tag nor a digest"),
            ("ghcr.io/A:1", "lower-case"),
            ("ghcr.io/a/../b:1", "lower-case"),
            ("ghcr.io/a//b:1", "lower-case"),
            ("ghcr.io/a?x:1", "lower-case"),
            ("ghcr.io/a:", "tag"),
            ("ghcr.io/a:b/c", "tag"),
            ("ghcr.io/a:b c", "tag"),
            ("ghcr.io/a@sha256:12", "hexadecimal"),
            ("ghcr.io/a@sha512:12", "hexadecimal"),
            ("user:secret@ghcr.io/a:1", "begin with a registry"),
            ("ghcr.io:0/a:1", "begin with a registry"),
            ("ghcr.io:99999/a:1", "begin with a registry"),
            ("[::1/a:1", "begin with a registry"),
            ("[::g]/a:1", "begin with a registry"),
        ] {
            let error = text.parse::<Reference>().expect_err(text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
            assert!(error.contains("write oci://REGISTRY"), "{error}");
        }
        assert!(format!("ghcr.io/{}:1", "a/".repeat(1000)).parse::<Reference>().is_err());
    }
}
