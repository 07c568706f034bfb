//! The policy file: which signatures a plugin needs, by where it comes from.
//!
//! ```yaml
//! trustRoot: trusted_root.json
//! rules:
//! - match: ["ghcr.io/team/**"]
//!   require: any
//!   signers:
//!   - name: release
//!     keyFile: release.pub
//!   - name: ci
//!     keyless: {issuer: https://token.actions.githubusercontent.com, subjectRegex: "https://github.com/team/.*"}
//!     annotations: {env: prod}
//! - match: ["localhost:5000/**"]
//!   unsigned: true
//! ```
//!
//! The first rule that matches counts. A reference that no rule matches is refused.

use std::collections::BTreeMap;
use std::path::Path;

use regex::{Regex, RegexBuilder};

use super::key::PublicKey;
use super::keyless::{Identity, Subject, TrustRoot};
use super::policy_document::{KeylessDocument, PolicyDocument, Require, RuleDocument, SignerDocument};
use crate::credentials::read_bounded;
use crate::digest::Digest;
use crate::error::{Problem, RegistryError, excerpt};
use crate::reference::Reference;

/// The largest policy, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// The most rules of a policy, and the most patterns or signers of a rule.
const MAX_ENTRIES: usize = 100;
/// The largest key, in bytes.
const MAX_KEY: u64 = 64 << 10;
/// The most memory that a compiled pattern takes, in bytes.
const MAX_REGEX: usize = 1 << 20;

/// Which signatures plugins need.
#[derive(Debug)]
pub struct SignaturePolicy {
    pub(super) rules: Vec<Rule>,
    pub(super) trust_root: Option<TrustRoot>,
    fingerprint: Digest,
}

/// What plugins from some repositories need.
#[derive(Debug)]
pub(super) struct Rule {
    patterns: Vec<Pattern>,
    /// How many of the signers have to have signed; 0 if no signature is needed.
    pub(super) required: usize,
    pub(super) signers: Vec<Signer>,
}

/// A key or an identity whose signature counts.
#[derive(Debug)]
pub(super) struct Signer {
    pub(super) name: String,
    pub(super) kind: SignerKind,
    pub(super) annotations: BTreeMap<String, String>,
}

#[derive(Debug)]
pub(super) enum SignerKind {
    Key(PublicKey),
    Keyless(Identity),
}

/// A pattern of registries and repositories. `*` stands for any text without a slash, `**` for any text.
#[derive(Clone, Debug)]
struct Pattern(String);

impl SignaturePolicy {
    /// Reads a policy. The files that it names are relative to it.
    ///
    /// # Errors
    /// Errors if any of the files cannot be read or is invalid.
    pub fn read(path: &Path) -> Result<Self, RegistryError> {
        let text = read_bounded(path, MAX_FILE, "the signature policy")?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::parse(&text, folder).map_err(|error| error.in_context(path.display()))
    }

    /// Parses the text of a policy. The files that it names are in `folder`.
    ///
    /// # Errors
    /// See [`read`](Self::read).
    pub fn parse(text: &[u8], folder: &Path) -> Result<Self, RegistryError> {
        let text = std::str::from_utf8(text).map_err(|_| invalid("it is not UTF-8", "save it as UTF-8"))?;
        let document: PolicyDocument = pilothouse_yaml::from_str(text)
            .map_err(|problem| invalid(&excerpt(&problem), "see docs/registries.md"))?;
        if document.rules.is_empty() {
            return Err(invalid(
                "it has no rules, so no plugin could be loaded",
                "add a rule, or do not name a policy",
            ));
        }
        if document.rules.len() > MAX_ENTRIES {
            return Err(invalid("it has too many rules", "use fewer patterns with **"));
        }
        let mut content = text.as_bytes().to_vec();
        let rules = document.rules.into_iter().enumerate().map(|(index, rule)| {
            Rule::of(rule, folder, &mut content)
                .map_err(|error| error.in_context(format!("rule {}", index + 1)))
        });
        let rules = rules.collect::<Result<Vec<_>, _>>()?;
        let trust_root = match &document.trust_root {
            Some(name) => {
                let path = folder.join(name);
                content.extend(read_bounded(&path, 4 << 20, "the trust root")?);
                Some(TrustRoot::read(&path)?)
            }
            None => None,
        };
        let is_keyless = |signer: &Signer| matches!(signer.kind, SignerKind::Keyless(_));
        if trust_root.is_none() && rules.iter().any(|rule| rule.signers.iter().any(is_keyless)) {
            return Err(invalid(
                "a signer is keyless, and no trust root is named",
                "set trustRoot to the path of trusted_root.json",
            ));
        }
        Ok(Self { rules, trust_root, fingerprint: Digest::of(&content) })
    }

    /// Identifies the policy with its keys and its trust root. Plugins are verified again when it changes.
    #[must_use]
    pub fn fingerprint(&self) -> Digest {
        self.fingerprint
    }

    /// Returns the rule for a reference.
    pub(super) fn rule(&self, reference: &Reference) -> Option<&Rule> {
        let name = reference.name();
        self.rules.iter().find(|rule| rule.patterns.iter().any(|pattern| pattern.matches(&name)))
    }

    /// Whether plugins of this reference need no signature, so that none has to be fetched.
    #[must_use]
    pub fn allows_unsigned(&self, reference: &Reference) -> bool {
        self.rule(reference).is_some_and(|rule| rule.required == 0)
    }
}

impl Rule {
    fn of(document: RuleDocument, folder: &Path, content: &mut Vec<u8>) -> Result<Self, RegistryError> {
        if document.patterns.is_empty() || document.patterns.len() > MAX_ENTRIES {
            return Err(invalid(
                "match has no pattern, or too many",
                "write for example [\"ghcr.io/team/**\"]",
            ));
        }
        let patterns =
            document.patterns.iter().map(|text| Pattern::parse(text)).collect::<Result<Vec<_>, _>>()?;
        if document.unsigned {
            if !document.signers.is_empty() || document.require.is_some() {
                return Err(invalid("it has both unsigned and signers", "remove one of them"));
            }
            return Ok(Self { patterns, required: 0, signers: Vec::new() });
        }
        if document.signers.is_empty() || document.signers.len() > MAX_ENTRIES {
            return Err(invalid("it has no signers, or too many", "add one, or write unsigned: true"));
        }
        let all = document.signers.len();
        let required = match document.require {
            None => all,
            Some(Require::Count(count)) if (1..=all).contains(&count) => count,
            Some(Require::Word(word)) if word == "all" => all,
            Some(Require::Word(word)) if word == "any" => 1,
            Some(_) => {
                return Err(invalid("require is out of range", "write all, any, or a number of its signers"));
            }
        };
        let signers = document.signers.into_iter().map(|signer| Signer::of(signer, folder, content));
        let signers = signers.collect::<Result<Vec<_>, _>>()?;
        for (index, signer) in signers.iter().enumerate() {
            if signers[..index].iter().any(|other| other.name == signer.name) {
                return Err(invalid(
                    &format!("two signers have the name {:?}", excerpt(&signer.name)),
                    "rename one",
                ));
            }
        }
        Ok(Self { patterns, required, signers })
    }
}

impl Signer {
    fn of(document: SignerDocument, folder: &Path, content: &mut Vec<u8>) -> Result<Self, RegistryError> {
        let context = format!("the signer {:?}", excerpt(&document.name));
        let kind = match (document.key, document.key_file, document.keyless) {
            (Some(pem), None, None) => PublicKey::from_pem(&pem).map(SignerKind::Key),
            (None, Some(name), None) => {
                let bytes = read_bounded(&folder.join(name), MAX_KEY, "a public key")?;
                content.extend_from_slice(&bytes);
                PublicKey::from_pem(&String::from_utf8_lossy(&bytes)).map(SignerKind::Key)
            }
            (None, None, Some(keyless)) => Identity::of(keyless).map(SignerKind::Keyless),
            _ => Err(invalid("it needs exactly one of key, keyFile and keyless", "remove the others")),
        };
        let kind = kind.map_err(|error| error.in_context(context))?;
        Ok(Self { name: document.name, kind, annotations: document.annotations })
    }
}

impl Identity {
    fn of(document: KeylessDocument) -> Result<Self, RegistryError> {
        let subject = match (document.subject, document.subject_regex) {
            (Some(subject), None) => Subject::Exact(subject),
            (None, Some(pattern)) => Subject::Pattern(whole(&pattern)?),
            _ => {
                return Err(invalid(
                    "keyless needs exactly one of subject and subjectRegex",
                    "name who signs: without that, everybody whom the issuer knows could",
                ));
            }
        };
        if document.issuer.is_empty() {
            return Err(invalid("keyless has no issuer", "name the URL of the signers' OIDC issuer"));
        }
        Ok(Self { issuer: document.issuer, subject })
    }
}

/// Compiles a pattern that has to match the whole text.
fn whole(pattern: &str) -> Result<Regex, RegistryError> {
    // The pattern alone is compiled first, so that it cannot close the group around it.
    let compile = |text: &str| RegexBuilder::new(text).size_limit(MAX_REGEX).build();
    compile(pattern).and_then(|_| compile(&format!("^(?:{pattern})$"))).map_err(|error| {
        invalid(
            &format!("subjectRegex is invalid: {}", excerpt(&error.to_string())),
            "correct the expression",
        )
    })
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, RegistryError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".:/_-*[]".contains(&byte);
        if text.is_empty() || text.len() > 512 || !text.bytes().all(is_plain) {
            return Err(invalid(
                &format!("the pattern {:?} is invalid", excerpt(text)),
                "write REGISTRY/REPOSITORY without oci:// and without a tag; * and ** are wildcards",
            ));
        }
        Ok(Self(text.to_ascii_lowercase()))
    }

    fn matches(&self, name: &str) -> bool {
        matches(self.0.as_bytes(), name.as_bytes())
    }
}

/// Whether the pattern matches the whole name. Takes at most the product of both lengths in steps.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    // `reached[i]`: the part of the pattern so far matches the first `i` bytes.
    let mut reached = vec![false; name.len() + 1];
    reached[0] = true;
    let mut rest = pattern;
    while let Some((&first, after)) = rest.split_first() {
        let mut next = vec![false; name.len() + 1];
        if first == b'*' {
            let is_double = after.first() == Some(&b'*');
            for at in 0..=name.len() {
                let extends = at > 0 && next[at - 1] && (is_double || name[at - 1] != b'/');
                next[at] = reached[at] || extends;
            }
            rest = if is_double { &after[1..] } else { after };
        } else {
            for at in 1..=name.len() {
                next[at] = reached[at - 1] && name[at - 1] == first;
            }
            rest = after;
        }
        reached = next;
    }
    reached[name.len()]
}

fn invalid(problem: &str, remedy: &str) -> RegistryError {
    RegistryError::new(Problem::Invalid, format!("{problem}; {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> Result<SignaturePolicy, RegistryError> {
        SignaturePolicy::parse(text.as_bytes(), Path::new("/nowhere"))
    }

    #[test]
    fn a_star_stays_within_a_part_and_two_do_not() {
        for (pattern, name, expected) in [
            ("ghcr.io/team/*", "ghcr.io/team/a", true),
            ("ghcr.io/team/*", "ghcr.io/team/a/b", false),
            ("ghcr.io/team/**", "ghcr.io/team/a/b", true),
            ("ghcr.io/**", "ghcr.io.evil.example/a", false),
            ("*.example/**", "a.example/b", true),
            ("*.example/**", "evil/a.example/b", false),
            ("ghcr.io/team", "ghcr.io/team2", false),
            ("**", "anything/at/all", true),
            ("a*b*c", "aXbXbXc", true),
            ("a*b*c", "aXbX", false),
        ] {
            assert_eq!(
                Pattern::parse(pattern).expect("a pattern").matches(name),
                expected,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn the_first_rule_that_matches_counts() {
        let policy = policy("rules:\n- {match: ['ghcr.io/team/open'], unsigned: true}\n- {match: ['ghcr.io/team/*'], unsigned: true}\n").expect("a policy");
        let reference = |text: &str| text.parse::<Reference>().expect("a reference");
        assert!(policy.allows_unsigned(&reference("ghcr.io/team/open:1")));
        assert!(policy.rule(&reference("ghcr.io/other/x:1")).is_none());
        assert!(!policy.allows_unsigned(&reference("ghcr.io/other/x:1")));
    }

    #[test]
    fn each_mistake_is_named_with_a_remedy() {
        let keyless = "keyless: {issuer: i, subject: s}";
        for (text, problem) in [
            ("", "docs/registries.md"),
            ("rules: []", "no rules"),
            ("rules: [{match: [a/b]}]", "no signers"),
            ("rules: [{match: [], unsigned: true}]", "no pattern"),
            ("rules: [{match: ['oci://a b'], unsigned: true}]", "pattern"),
            ("rules: [{match: [a/b], unsigned: true, require: any}]", "both"),
            ("rules: [{match: [a/b], unknown: 1}]", "unknown"),
            ("rules: [{match: [a/b], signers: [{name: x}]}]", "exactly one of key"),
            ("rules: [{match: [a/b], signers: [{name: x, key: nonsense}]}]", "no public key"),
            ("rules: [{match: [a/b], signers: [{name: x, keyFile: gone.pub}]}]", "gone.pub"),
            ("rules: [{match: [a/b], signers: [{name: x, keyless: {issuer: i}}]}]", "everybody"),
            (
                "rules: [{match: [a/b], signers: [{name: x, keyless: {issuer: i, subjectRegex: '('}}]}]",
                "subjectRegex",
            ),
            (
                "rules: [{match: [a/b], signers: [{name: x, keyless: {issuer: i, subjectRegex: 'a)|(b'}}]}]",
                "subjectRegex",
            ),
            (&format!("rules: [{{match: [a/b], signers: [{{name: x, {keyless}}}]}}]"), "trustRoot"),
            (
                &format!("rules: [{{match: [a/b], require: 2, signers: [{{name: x, {keyless}}}]}}]"),
                "out of range",
            ),
            (
                &format!("rules: [{{match: [a/b], require: some, signers: [{{name: x, {keyless}}}]}}]"),
                "out of range",
            ),
            (
                &format!(
                    "rules: [{{match: [a/b], signers: [{{name: x, {keyless}}}, {{name: x, {keyless}}}]}}]"
                ),
                "two signers",
            ),
        ] {
            let error = policy(text).expect_err(text).to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn a_subject_has_to_match_as_a_whole() {
        let pattern = whole("https://github.com/team/.*|a").expect("a pattern");
        assert!(pattern.is_match("https://github.com/team/x") && pattern.is_match("a"));
        assert!(!pattern.is_match("x https://github.com/team/x") && !pattern.is_match("ab"));
    }
}
