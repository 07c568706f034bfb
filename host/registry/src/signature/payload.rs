//! What a signature says: the payloads of both formats. They are read only after the signature was verified.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::digest::Digest;

/// The predicate of a statement that approves an artifact. Other statements, such as one of a vulnerability, say something else about it.
const SIGNATURE: &str = "https://sigstore.dev/cosign/sign/v1";
/// The type of the payload of the older format.
const SIMPLE_SIGNING: &str = "cosign container image signature";

/// What a signature approves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Approval {
    /// The text by name that the signer added.
    pub(super) annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Simple {
    critical: Critical,
    #[serde(default)]
    optional: Option<BTreeMap<String, Value>>,
}

#[derive(Deserialize)]
struct Critical {
    image: Image,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: Digest,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    subject: Vec<Subject>,
    predicate_type: String,
}

#[derive(Deserialize)]
struct Subject {
    digest: BTreeMap<String, String>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, Value>>,
}

impl Approval {
    /// Reads the payload of the older format, "simple signing". Errors if it is about another manifest.
    pub(super) fn of_simple_signing(payload: &[u8], manifest: Digest) -> Result<Self, String> {
        let parsed: Simple =
            serde_json::from_slice(payload).map_err(|_| "its payload cannot be read".to_owned())?;
        if parsed.critical.kind != SIMPLE_SIGNING {
            return Err("its payload is no signature of an image".to_owned());
        }
        if parsed.critical.image.digest != manifest {
            return Err(format!("it signs another manifest, {}", parsed.critical.image.digest));
        }
        Ok(Self { annotations: text_members(parsed.optional) })
    }

    /// Reads a statement of in-toto. Errors if it is about another manifest, or does not approve it.
    pub(super) fn of_statement(payload: &[u8], manifest: Digest) -> Result<Self, String> {
        let parsed: Statement =
            serde_json::from_slice(payload).map_err(|_| "its statement cannot be read".to_owned())?;
        if parsed.predicate_type != SIGNATURE {
            return Err("it is an attestation and no signature".to_owned());
        }
        let subject =
            parsed.subject.into_iter().find(|subject| subject.digest.get("sha256") == Some(&manifest.hex()));
        let subject = subject.ok_or_else(|| "it signs another manifest".to_owned())?;
        Ok(Self { annotations: text_members(subject.annotations) })
    }

    /// Whether all of these annotations are there.
    pub(super) fn has(&self, required: &BTreeMap<String, String>) -> bool {
        required.iter().all(|(name, value)| self.annotations.get(name) == Some(value))
    }
}

fn text_members(members: Option<BTreeMap<String, Value>>) -> BTreeMap<String, String> {
    let members = members.unwrap_or_default().into_iter();
    members.filter_map(|(name, value)| Some((name, value.as_str()?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn simple(digest: Digest, kind: &str) -> String {
        format!(
            r#"{{"critical":{{"identity":{{"docker-reference":"x"}},"image":{{"docker-manifest-digest":"{digest}"}},"type":"{kind}"}},
                "optional":{{"env":"prod","n":1}}}}"#
        )
    }

    fn statement(digest: Digest, predicate: &str) -> String {
        format!(
            r#"{{"_type":"https://in-toto.io/Statement/v1","predicateType":"{predicate}","predicate":{{}},
                "subject":[{{"digest":{{"sha256":"{}"}},"annotations":{{"env":"prod"}}}}]}}"#,
            digest.hex()
        )
    }

    #[test]
    fn both_formats_name_the_manifest_that_they_approve() {
        let (manifest, other) = (Digest::of(b"m"), Digest::of(b"o"));
        let production = BTreeMap::from([("env".to_owned(), "prod".to_owned())]);
        let approval = Approval::of_simple_signing(simple(manifest, SIMPLE_SIGNING).as_bytes(), manifest)
            .expect("approved");
        assert!(approval.has(&production));
        assert!(Approval::of_simple_signing(simple(other, SIMPLE_SIGNING).as_bytes(), manifest).is_err());
        assert!(
            Approval::of_simple_signing(simple(manifest, "atomic container signature").as_bytes(), manifest)
                .is_err()
        );
        let approval =
            Approval::of_statement(statement(manifest, SIGNATURE).as_bytes(), manifest).expect("approved");
        assert!(approval.has(&production));
        assert!(!approval.has(&BTreeMap::from([("env".to_owned(), "test".to_owned())])));
        assert!(Approval::of_statement(statement(other, SIGNATURE).as_bytes(), manifest).is_err());
        for payload in [&b"{}"[..], b"", b"null", &b"[".repeat(100_000)] {
            assert!(Approval::of_statement(payload, manifest).is_err());
            assert!(Approval::of_simple_signing(payload, manifest).is_err());
        }
    }

    #[test]
    fn an_attestation_is_no_approval() {
        let manifest = Digest::of(b"m");
        let text = statement(manifest, "https://cosign.sigstore.dev/attestation/vuln/v1");
        assert!(
            Approval::of_statement(text.as_bytes(), manifest).expect_err("refused").contains("attestation")
        );
    }
}
