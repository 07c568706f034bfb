//! Patterns of registries and repositories in a signature policy.

use super::policy::invalid;
use crate::error::{RegistryError, excerpt};
use crate::reference::SCHEME;

/// What stands for `*` of another pattern: a text without a slash that no letter of a pattern matches.
const ANY_PART: u8 = 0;
/// What stands for `**` of another pattern: a text with slashes, which only `**` matches.
const ANY_TEXT: u8 = 1;

/// A pattern of `REGISTRY/REPOSITORY`. `*` stands for any text without a slash, `**` for any text.
#[derive(Clone, Debug)]
pub(super) struct Pattern(String);

impl Pattern {
    /// Parses a pattern, with or without `oci://`. One that no reference can match is an error.
    pub(super) fn parse(text: &str) -> Result<Self, RegistryError> {
        let refused = |problem: &str, remedy: &str| {
            Err(invalid(&format!("the pattern {:?} {problem}", excerpt(text)), remedy))
        };
        let pattern = text.strip_prefix(SCHEME).unwrap_or(text).to_ascii_lowercase();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".:/_-*[]".contains(&byte);
        if pattern.is_empty() || pattern.len() > 512 || !pattern.bytes().all(is_plain) {
            return refused("is invalid", "write REGISTRY/REPOSITORY; * and ** are wildcards");
        }
        match pattern.split_once('/') {
            None if !pattern.contains("**") => refused(
                "has no repository, so it matches nothing",
                &format!("write for example {pattern}/**"),
            ),
            Some((_, repository)) if repository.contains(':') => {
                refused("has a tag or a digest, so it matches nothing", "write REGISTRY/REPOSITORY")
            }
            _ => Ok(Self(pattern)),
        }
    }

    /// Whether the pattern matches a registry and repository, in lower case.
    pub(super) fn matches(&self, name: &str) -> bool {
        matches(self.0.as_bytes(), name.as_bytes())
    }

    /// Whether each name that `other` matches is known to match this pattern, too.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let mut representative = Vec::with_capacity(other.0.len());
        for byte in other.0.bytes() {
            match (byte, representative.last_mut()) {
                (b'*', Some(last @ &mut ANY_PART)) => *last = ANY_TEXT,
                (b'*', _) => representative.push(ANY_PART),
                _ => representative.push(byte),
            }
        }
        matches(self.0.as_bytes(), &representative)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
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
                let extends =
                    at > 0 && next[at - 1] && (is_double || !matches!(name[at - 1], b'/' | ANY_TEXT));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_star_stays_within_a_part_and_two_do_not() {
        for (text, name, expected) in [
            ("ghcr.io/team/*", "ghcr.io/team/a", true),
            ("ghcr.io/team/*", "ghcr.io/team/a/b", false),
            ("ghcr.io/team/**", "ghcr.io/team/a/b", true),
            ("oci://ghcr.io/team/**", "ghcr.io/team/a/b", true),
            ("ghcr.io/**", "ghcr.io.evil.example/a", false),
            ("*.example/**", "a.example/b", true),
            ("*.example/**", "evil/a.example/b", false),
            ("ghcr.io/team", "ghcr.io/team2", false),
            ("**", "anything/at/all", true),
            ("**b*c", "aXb/XbXc", true),
            ("a/*b*c", "a/XbX", false),
        ] {
            assert_eq!(pattern(text).matches(name), expected, "{text} {name}");
        }
    }

    #[test]
    fn a_pattern_that_matches_nothing_is_refused_with_what_to_write() {
        for (text, problem) in [
            ("ghcr.io", "has no repository, so it matches nothing; write for example ghcr.io/**"),
            ("*", "has no repository"),
            ("oci://ghcr.io", "has no repository"),
            ("ghcr.io/team/a:1", "has a tag or a digest, so it matches nothing"),
            ("**/a:1", "has a tag or a digest"),
            ("ghcr.io/a b", "is invalid"),
            ("", "is invalid"),
        ] {
            let error = Pattern::parse(text).expect_err(text).to_string();
            assert!(error.contains(problem), "{error}");
        }
        for text in ["localhost:5000/**", "**:5000/a", "**", "[::1]:5000/a"] {
            assert!(Pattern::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_pattern_covers_those_whose_names_it_matches() {
        for (wide, narrow, expected) in [
            ("**", "ghcr.io/team/*", true),
            ("**", "**", true),
            ("ghcr.io/**", "ghcr.io/team/**", true),
            ("ghcr.io/**", "ghcr.io/team/a", true),
            ("ghcr.io/*", "ghcr.io/*", true),
            ("ghcr.io/*", "ghcr.io/**", false),
            ("ghcr.io/*/*", "ghcr.io/**", false),
            ("*/**", "**", false),
            ("ghcr.io/team/*", "ghcr.io/team/**", false),
            ("ghcr.io/team/a", "ghcr.io/team/*", false),
            ("ghcr.io/team/**", "ghcr.io/**", false),
            ("ghcr.io/team-*", "ghcr.io/team-a-*", true),
        ] {
            assert_eq!(pattern(wide).covers(&pattern(narrow)), expected, "{wide} {narrow}");
        }
    }
}
