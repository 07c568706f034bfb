//! The policy file as it is written: its members. `policy` gives them their meaning.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Number;

/// Which signatures plugins from registries need. The first rule that matches a reference counts, and one that no rule matches is refused.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PolicyDocument {
    /// The file with the certificates and logs that keyless signatures are verified with, `trusted_root.json`, relative to the policy.
    pub(super) trust_root: Option<String>,
    /// The rules, in the order in which they are tried.
    #[cfg_attr(test, schemars(length(min = 1, max = 100)))]
    pub(super) rules: Vec<RuleDocument>,
}

/// What plugins from some repositories need: signers, or `unsigned: true`.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RuleDocument {
    /// Patterns of registries and repositories, such as `ghcr.io/team/**`. `*` stands for any text without a slash, `**` for any text.
    #[serde(rename = "match")]
    #[cfg_attr(test, schemars(length(min = 1, max = 100)))]
    pub(super) patterns: Vec<String>,
    /// How many of the signers have to have signed: `all` (the default), `any`, or a number.
    #[serde(default)]
    pub(super) require: Option<Require>,
    /// The keys and identities whose signatures count.
    #[serde(default)]
    #[cfg_attr(test, schemars(length(max = 100)))]
    pub(super) signers: Vec<SignerDocument>,
    /// Whether plugins need no signature. Such a rule has no signers.
    #[serde(default)]
    pub(super) unsigned: bool,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(super) enum Require {
    /// At least this many signers.
    Number(#[cfg_attr(test, schemars(with = "usize", range(min = 1, max = 100)))] Number),
    /// All signers, or any of them.
    Word(#[cfg_attr(test, schemars(regex(pattern = "^(all|any)$")))] String),
    /// What is neither. It is refused.
    #[cfg_attr(test, schemars(skip))]
    Other(IgnoredAny),
}

/// A key or an identity: exactly one of `key`, `keyFile` and `keyless`.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SignerDocument {
    /// The name in messages, unique in the rule.
    pub(super) name: String,
    /// A public key as PEM.
    pub(super) key: Option<String>,
    /// A file with a public key as PEM, relative to the policy.
    pub(super) key_file: Option<String>,
    /// An identity that signs without a key of its own. The policy then needs `trustRoot`.
    pub(super) keyless: Option<KeylessDocument>,
    /// Annotations that the signature must have.
    #[serde(default)]
    pub(super) annotations: BTreeMap<String, String>,
}

/// An identity: its issuer, and exactly one of `subject` and `subjectRegex`.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct KeylessDocument {
    /// The URL of the signers' OIDC issuer.
    pub(super) issuer: String,
    /// The subject of the certificate: an e-mail address or a URL.
    pub(super) subject: Option<String>,
    /// A regular expression that matches the whole subject.
    pub(super) subject_regex: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With `PILOTHOUSE_UPDATE_SCHEMA=1`, the schema is written instead of compared.
    #[test]
    fn the_published_schema_of_signature_policies_matches_the_types() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/signature-policy.schema.json");
        let mut schema = schemars::schema_for!(PolicyDocument).to_value();
        schema["title"] = "Signature policy of a Pilothouse host".into();
        let text = format!("{schema:#}\n");
        if std::env::var_os("PILOTHOUSE_UPDATE_SCHEMA").is_some() {
            std::fs::write(path, &text).expect("written");
        }
        let published = std::fs::read_to_string(path).expect("docs/signature-policy.schema.json");
        assert!(
            published == text,
            "docs/signature-policy.schema.json is not up to date: run PILOTHOUSE_UPDATE_SCHEMA=1 cargo test -p pilothouse-registry schema"
        );
    }
}
