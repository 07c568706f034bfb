//! Manifests and indexes as registries store them. Unknown fields are ignored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::error::{Problem, RegistryError, excerpt};

/// Media types of manifests.
pub mod media_type {
    /// A manifest of one artifact or image.
    pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
    /// A list of manifests.
    pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
    /// Docker's older manifest of an image, with the same members.
    pub const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
    /// Docker's older list of manifests.
    pub const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
    /// A config without content.
    pub const EMPTY: &str = "application/vnd.oci.empty.v1+json";
}

/// Names content by its digest and size.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// The content's type.
    #[serde(default)]
    pub media_type: String,
    /// The content's digest.
    pub digest: Digest,
    /// The content's size in bytes.
    pub size: u64,
    /// The type of the artifact, in an index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// Text by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub annotations: BTreeMap<String, String>,
}

impl Descriptor {
    /// Describes the content.
    pub(crate) fn of(media_type: &str, content: &[u8]) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: Digest::of(content),
            size: content.len() as u64,
            artifact_type: None,
            annotations: BTreeMap::new(),
        }
    }
}

/// The manifest of an artifact.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// Always 2.
    pub schema_version: u32,
    /// The manifest's own type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The type of the artifact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// The artifact's configuration.
    pub config: Descriptor,
    /// The artifact's content.
    #[serde(default, deserialize_with = "null_as_default")]
    pub layers: Vec<Descriptor>,
    /// The manifest that this artifact is about, such as that of what it signs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Descriptor>,
    /// Text by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub annotations: BTreeMap<String, String>,
}

/// A list of manifests.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    /// Always 2.
    pub schema_version: u32,
    /// The index's own type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The manifests. Those that cannot be read, such as one with a digest of another algorithm, are left out.
    #[serde(default, deserialize_with = "readable")]
    pub manifests: Vec<Descriptor>,
}

/// Go programs write `null` for empty lists and maps.
fn null_as_default<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads the descriptors that can be read. Whoever can push to a repository decides what a list of it contains.
fn readable<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Descriptor>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Entry {
        Readable(Descriptor),
        Other(serde::de::IgnoredAny),
    }
    let entries = Option::<Vec<Entry>>::deserialize(deserializer)?.unwrap_or_default();
    let descriptor = |entry| match entry {
        Entry::Readable(descriptor) => Some(descriptor),
        Entry::Other(_) => None,
    };
    Ok(entries.into_iter().filter_map(descriptor).collect())
}

/// What says whether a document is a manifest or an index.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kind {
    media_type: Option<String>,
    manifests: Option<serde::de::IgnoredAny>,
}

impl Manifest {
    /// Parses a manifest. `name` is for errors.
    pub(crate) fn parse(document: &[u8], name: &str) -> Result<Self, RegistryError> {
        let layout = |problem: String| RegistryError::new(Problem::Layout, format!("{name} {problem}"));
        let no_json = |error: serde_json::Error| {
            layout(format!(
                "has a manifest that cannot be read: {}; push it again",
                excerpt(&error.to_string())
            ))
        };
        let kind: Kind = serde_json::from_slice(document).map_err(no_json)?;
        let stated = kind.media_type.unwrap_or_default();
        if kind.manifests.is_some()
            || [media_type::INDEX, media_type::DOCKER_INDEX].contains(&stated.as_str())
        {
            return Err(layout(
                "is an index of several artifacts; name the digest of the one with the plugin".to_owned(),
            ));
        }
        let known = ["", media_type::MANIFEST, media_type::DOCKER_MANIFEST].contains(&stated.as_str());
        if !known {
            let stated = excerpt(&stated);
            return Err(layout(format!(
                "has a manifest of the unknown type {stated:?}; push it with `pilothouse push`"
            )));
        }
        let manifest: Self = serde_json::from_slice(document).map_err(no_json)?;
        if manifest.schema_version != 2 {
            return Err(layout("has a manifest of an old schema; push it with `pilothouse push`".to_owned()));
        }
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(members: &str) -> Result<Manifest, RegistryError> {
        let digest = Digest::of(b"");
        let text = format!(
            r#"{{"schemaVersion":2,"config":{{"mediaType":"x","digest":"{digest}","size":0}}{members}}}"#
        );
        Manifest::parse(text.as_bytes(), "x")
    }

    #[test]
    fn null_is_read_as_empty() {
        let read = manifest(r#","layers":null,"annotations":null"#).expect("a manifest");
        assert!(read.layers.is_empty() && read.annotations.is_empty());
    }

    #[test]
    fn entries_of_an_index_that_cannot_be_read_are_left_out() {
        let good = Digest::of(b"good");
        let entry = |digest: &str, size: &str| format!(r#"{{"digest":"{digest}","size":{size}}}"#);
        let others =
            [entry("sha512:00", "1"), entry(&good.to_string(), "-1"), "7".to_owned(), "null".to_owned()];
        let text = format!(
            r#"{{"schemaVersion":2,"manifests":[{},{}]}}"#,
            others.join(","),
            entry(&good.to_string(), "1")
        );
        let index: Index = serde_json::from_str(&text).expect("an index");
        assert_eq!(index.manifests.iter().map(|found| found.digest).collect::<Vec<_>>(), [good]);
        assert!(serde_json::from_str::<Index>(r#"{"schemaVersion":2,"manifests":7}"#).is_err());
    }

    #[test]
    fn other_documents_are_refused_with_a_remedy() {
        for (members, reason) in [
            (r#","manifests":[]"#, "name the digest"),
            (r#","mediaType":"application/vnd.oci.image.index.v1+json""#, "name the digest"),
            (r#","mediaType":"text/html""#, "unknown type"),
            (r#","layers":7"#, "cannot be read"),
            (r#","layers":[{"digest":"md5:1","size":1}]"#, "cannot be read"),
            (r#","layers":[{"digest":"sha256:1","size":-1}]"#, "cannot be read"),
        ] {
            let error = manifest(members).expect_err(members);
            assert!(error.to_string().contains(reason), "{members}: {error}");
            assert_eq!(error.problem(), Problem::Layout);
        }
        assert!(Manifest::parse(b"<html>", "x").is_err());
        assert!(Manifest::parse(&b"[".repeat(100_000), "x").is_err(), "nesting is bounded");
    }
}
