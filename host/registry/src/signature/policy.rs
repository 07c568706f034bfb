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
use std::sync::Arc;

use regex::{Regex, RegexBuilder};

use super::key::PublicKey;
use super::keyless::{Identity, Subject, TrustRoot};
use super::pattern::Pattern;
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

/// Which signatures plugins need. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SignaturePolicy {
    pub(super) rules: Vec<Arc<Rule>>,
    pub(super) trust_root: Option<Arc<TrustRoot>>,
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
            return Err(invalid(
                &format!("it has {} rules, and at most {MAX_ENTRIES} are accepted", document.rules.len()),
                "use fewer patterns with **",
            ));
        }
        let mut content = text.as_bytes().to_vec();
        let rules = document.rules.into_iter().enumerate().map(|(index, rule)| {
            Rule::of(rule, folder, &mut content)
                .map_err(|error| error.in_context(format!("rule {}", index + 1)))
        });
        let rules = rules.collect::<Result<Vec<_>, _>>()?;
        check_that_all_count(&rules)?;
        let trust_root = match &document.trust_root {
            Some(name) => {
                let path = folder.join(name);
                content.extend(read_bounded(&path, 4 << 20, "the trust root")?);
                Some(Arc::new(TrustRoot::read(&path)?))
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
        let rules = rules.into_iter().map(Arc::new).collect();
        Ok(Self { rules, trust_root, fingerprint: Digest::of(&content) })
    }

    /// Identifies the policy with its keys and its trust root. Plugins are verified again when it changes.
    #[must_use]
    pub fn fingerprint(&self) -> Digest {
        self.fingerprint
    }

    /// Returns the rule for a reference.
    pub(super) fn rule(&self, reference: &Reference) -> Option<&Arc<Rule>> {
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
        if document.patterns.is_empty() {
            return Err(invalid("match has no pattern", "write for example [\"ghcr.io/team/**\"]"));
        }
        at_most(document.patterns.len(), "match", "patterns", "use fewer patterns with **")?;
        let patterns =
            document.patterns.iter().map(|text| Pattern::parse(text)).collect::<Result<Vec<_>, _>>()?;
        if document.unsigned {
            if !document.signers.is_empty() || document.require.is_some() {
                return Err(invalid("it has both unsigned and signers", "remove one of them"));
            }
            return Ok(Self { patterns, required: 0, signers: Vec::new() });
        }
        if document.signers.is_empty() {
            return Err(invalid(
                "it has no signers",
                "name who has to have signed (keyFile, key or keyless), or write unsigned: true in place of signers if no signature is needed",
            ));
        }
        at_most(document.signers.len(), "signers", "signers", "split the rule")?;
        let required = required(document.require.as_ref(), document.signers.len())?;
        let signers = document.signers.into_iter().map(|signer| Signer::of(signer, folder, content));
        let signers = signers.collect::<Result<Vec<_>, _>>()?;
        check_that_signers_differ(&signers, required)?;
        Ok(Self { patterns, required, signers })
    }
}

/// Returns how many of `all` signers have to have signed.
fn required(require: Option<&Require>, all: usize) -> Result<usize, RegistryError> {
    let written = match require {
        None => return Ok(all),
        Some(Require::Word(word)) if word == "all" => return Ok(all),
        Some(Require::Word(word)) if word == "any" => return Ok(1),
        Some(Require::Word(word)) => format!("{:?}", excerpt(word)),
        Some(Require::Other(_)) => "its value".to_owned(),
        Some(Require::Number(number)) => {
            match number.as_u64().and_then(|count| usize::try_from(count).ok()) {
                Some(count) if (1..=all).contains(&count) => return Ok(count),
                _ => number.to_string(),
            }
        }
    };
    let remedy = match written.as_str() {
        "0" => "; for plugins without signatures, write unsigned: true in place of require and signers",
        _ => "",
    };
    Err(invalid(
        &format!(
            "require: {written} is neither all, any, nor a number from 1 to {all}, which is how many signers there are"
        ),
        &format!("correct it, or leave it out for all{remedy}"),
    ))
}

/// Checks that no signature could count for two signers of which both are needed.
fn check_that_signers_differ(signers: &[Signer], required: usize) -> Result<(), RegistryError> {
    for (index, signer) in signers.iter().enumerate() {
        for other in &signers[..index] {
            let names = format!("{:?} and {:?}", excerpt(&other.name), excerpt(&signer.name));
            if other.name == signer.name {
                let name = excerpt(&signer.name);
                return Err(invalid(&format!("two signers have the name {name:?}"), "rename one"));
            }
            if required > 1 && signer.shares_signatures_with(other) {
                return Err(invalid(
                    &format!(
                        "the signers {names} are the same key or identity, whose one signature would count twice"
                    ),
                    "remove one of them, or write require: any",
                ));
            }
        }
    }
    Ok(())
}

/// Checks that each pattern can be reached: the first rule that matches counts, so a wide pattern before a narrow one leaves that without effect.
fn check_that_all_count(rules: &[Rule]) -> Result<(), RegistryError> {
    for (index, rule) in rules.iter().enumerate() {
        let before = || rules[..index].iter().enumerate();
        for pattern in &rule.patterns {
            let covering = before().find_map(|(number, earlier)| {
                Some((number, earlier.patterns.iter().find(|earlier| earlier.covers(pattern))?))
            });
            let Some((number, earlier)) = covering else { continue };
            let (pattern, earlier) = (excerpt(pattern.as_str()), excerpt(earlier.as_str()));
            return Err(invalid(
                &format!(
                    "rule {}: the pattern {pattern:?} never counts, because {earlier:?} of rule {} matches the same and comes first",
                    index + 1,
                    number + 1
                ),
                "put the narrower rule first, or remove one of the patterns",
            ));
        }
    }
    Ok(())
}

fn at_most(count: usize, member: &str, what: &str, remedy: &str) -> Result<(), RegistryError> {
    if count <= MAX_ENTRIES {
        return Ok(());
    }
    Err(invalid(&format!("{member}: there are {count} {what}, and a rule has at most {MAX_ENTRIES}"), remedy))
}

impl Signer {
    /// Whether both are the same key or identity, and one signature can have the annotations of both.
    fn shares_signatures_with(&self, other: &Self) -> bool {
        let is_same = match (&self.kind, &other.kind) {
            (SignerKind::Key(key), SignerKind::Key(other)) => key.is_same(other),
            (SignerKind::Keyless(identity), SignerKind::Keyless(other)) => identity.overlaps(other),
            _ => false,
        };
        let agrees = |(name, value)| other.annotations.get(name).is_none_or(|annotation| annotation == value);
        is_same && self.annotations.iter().all(agrees)
    }

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
            (Some(subject), None) if !subject.is_empty() => Subject::Exact(subject),
            (None, Some(pattern)) if !pattern.is_empty() => Subject::Pattern(whole(&pattern)?),
            (Some(_), None) | (None, Some(_)) => {
                return Err(invalid("the subject of keyless is empty, so nobody has it", "name who signs"));
            }
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

pub(super) fn invalid(problem: &str, remedy: &str) -> RegistryError {
    RegistryError::new(Problem::Invalid, format!("{problem}; {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> Result<SignaturePolicy, RegistryError> {
        SignaturePolicy::parse(text.as_bytes(), Path::new("/nowhere"))
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
            ("rules: [{match: [a/b]}]", "rule 1: it has no signers; name who has to have signed"),
            ("rules: [{match: [a/b], signers: []}]", "or write unsigned: true in place of signers"),
            ("rules: [{match: [a/b], signers: [], require: any}]", "no signers"),
            ("rules: [{match: [a.b], unsigned: true}]", "write for example a.b/**"),
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
                "rules: [{match: [a/b], signers: [{name: x, keyless: {issuer: i, subject: ''}}]}]",
                "so nobody has it",
            ),
            (
                "rules: [{match: [a/b], signers: [{name: x, keyless: {issuer: i, subjectRegex: ''}}]}]",
                "so nobody has it",
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

    /// Returns the error of a policy with a rule of two signers, which always lacks its trust root.
    fn required_of_two(require: &str) -> String {
        let signer = |name: &str| format!("{{name: {name}, keyless: {{issuer: i, subject: {name}}}}}");
        let text = format!(
            "rules: [{{match: [a/b], require: {require}, signers: [{}, {}]}}]",
            signer("x"),
            signer("y")
        );
        policy(&text).expect_err(&text).to_string()
    }

    #[test]
    fn a_number_that_cannot_be_required_is_refused_with_the_range() {
        for require in ["0", "3", "-1", "1.5", "99999999999999999999", "some", "''", "[1]", "{a: 1}", "true"]
        {
            let error = required_of_two(require);
            assert!(
                error.contains("nor a number from 1 to 2, which is how many signers there are"),
                "{error}"
            );
        }
        assert!(required_of_two("0").contains("write unsigned: true"), "the remedy for no signature");
        for require in ["1", "2", "all", "any"] {
            assert!(required_of_two(require).contains("trustRoot"), "{require} is accepted");
        }
    }

    #[test]
    fn one_signature_does_not_count_for_two_signers() {
        let signer = |name: &str, subject: &str, annotation: &str| {
            format!("{{name: {name}, keyless: {{issuer: i, {subject}}}, annotations: {{{annotation}}}}}")
        };
        let error = |require: &str, signers: [String; 2]| {
            let text =
                format!("rules: [{{match: [a/b], require: {require}, signers: [{}]}}]", signers.join(", "));
            policy(&text).expect_err(&text).to_string()
        };
        let two =
            |first: &str, second: &str| [signer("x", "subject: s", first), signer("y", "subject: s", second)];
        assert!(error("all", two("", "")).contains("\"x\" and \"y\" are the same key or identity"));
        assert!(error("2", two("env: prod", "")).contains("would count twice; remove one of them"));
        let patterns = ["x", "y"].map(|name| signer(name, "subjectRegex: s.*", ""));
        assert!(error("all", patterns).contains("would count twice"));
        // Only the missing trust root is wrong with these.
        for (require, signers) in [
            ("any", two("env: prod", "env: test")),
            ("all", two("env: prod", "env: test")),
            ("all", [signer("x", "subject: s", ""), signer("y", "subject: t", "")]),
        ] {
            let error = error(require, signers);
            assert!(error.contains("trustRoot"), "{error}");
        }
    }

    #[test]
    fn a_rule_without_effect_is_refused() {
        let error = |first: &str, second: &str| {
            let text = format!(
                "rules:\n- {{match: [{first}], unsigned: true}}\n- {{match: [other.example/x, {second}], unsigned: true}}\n"
            );
            policy(&text).map(drop).map_err(|error| error.to_string())
        };
        let refused = error("'**'", "ghcr.io/team/a").expect_err("the second rule never counts");
        assert!(refused.contains("rule 2: the pattern \"other.example/x\" never counts"), "{refused}");
        let refused = error("'ghcr.io/**'", "'ghcr.io/team/*'").expect_err("one pattern never counts");
        assert!(
            refused.contains(
                "\"ghcr.io/team/*\" never counts, because \"ghcr.io/**\" of rule 1 matches the same"
            ),
            "{refused}"
        );
        assert_eq!(error("'ghcr.io/team/*'", "'ghcr.io/**'"), Ok(()));
    }

    #[test]
    fn a_subject_has_to_match_as_a_whole() {
        let pattern = whole("https://github.com/team/.*|a").expect("a pattern");
        assert!(pattern.is_match("https://github.com/team/x") && pattern.is_match("a"));
        assert!(!pattern.is_match("x https://github.com/team/x") && !pattern.is_match("ab"));
    }
}
