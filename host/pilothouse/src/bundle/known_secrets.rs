//! Texts that are known to be secret, found wherever they occur.

use std::collections::HashMap;

use super::redact::REDACTED;

/// Shorter texts occur everywhere, and are no secrets.
const MIN_BYTES: usize = 4;
/// The maximum number of secrets.
const MAX_SECRETS: usize = 100_000;

/// Words of the host's own vocabulary. A `config` often has them as values; without them, its status could not be read.
const VOCABULARY: [&str; 24] = [
    "true",
    "false",
    "null",
    "none",
    "info",
    "warn",
    "error",
    "debug",
    "trace",
    "running",
    "waiting",
    "failed",
    "stopped",
    "removed",
    "paused",
    "ready",
    "delayed",
    "processing",
    "default",
    "http",
    "https",
    "self",
    "full",
    "metadata",
];

/// A set of secrets, by their first bytes.
#[derive(Debug, Default)]
pub(super) struct KnownSecrets {
    by_prefix: HashMap<[u8; MIN_BYTES], Vec<String>>,
    count: usize,
}

impl KnownSecrets {
    /// Adds a secret, its longer lines, and the form that it has in a URL. Ignores texts of fewer than four bytes.
    pub(super) fn insert(&mut self, secret: &str) {
        let secret = secret.trim();
        self.insert_exactly(secret);
        if secret.contains('\n') {
            for line in secret.lines().map(str::trim).filter(|line| line.len() >= 2 * MIN_BYTES) {
                self.insert_exactly(line);
            }
        }
        self.insert_exactly(&crate::commands::percent_encoded(secret));
    }

    fn insert_exactly(&mut self, secret: &str) {
        let Some(prefix) = prefix(secret.as_bytes()) else { return };
        if VOCABULARY.contains(&secret) || self.count >= MAX_SECRETS {
            return;
        }
        let others = self.by_prefix.entry(prefix).or_default();
        if !others.iter().any(|other| other == secret) {
            others.push(secret.to_owned());
            // The longest is replaced first: it may contain a shorter one.
            others.sort_by_key(|other| std::cmp::Reverse(other.len()));
            self.count += 1;
        }
    }

    /// Replaces all secrets in a text.
    pub(super) fn replace(&self, text: &str) -> String {
        if self.by_prefix.is_empty() {
            return text.to_owned();
        }
        let mut result = String::with_capacity(text.len());
        let (mut copied, mut position) = (0, 0);
        while let Some(prefix) = text.as_bytes().get(position..).and_then(prefix) {
            let rest = &text.as_bytes()[position..];
            let found = self
                .by_prefix
                .get(&prefix)
                .and_then(|secrets| secrets.iter().find(|secret| rest.starts_with(secret.as_bytes())));
            match found {
                // A secret is UTF-8, so it begins and ends at the boundaries of characters.
                Some(secret) => {
                    result.push_str(&text[copied..position]);
                    result.push_str(REDACTED);
                    position += secret.len();
                    copied = position;
                }
                None => position += 1,
            }
        }
        result.push_str(&text[copied..]);
        result
    }
}

fn prefix(bytes: &[u8]) -> Option<[u8; MIN_BYTES]> {
    bytes.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_found_wherever_they_are_and_the_longest_first() {
        let mut secrets = KnownSecrets::default();
        for secret in
            ["pass", "password1", "grün-geheim", "a b&c", "first line\nsecond line", "abc", "running"]
        {
            secrets.insert(secret);
        }
        for (text, expected) in [
            ("password1 pass", "[redacted] [redacted]"),
            ("ä grün-geheim", "ä [redacted]"),
            ("q=a%20b%26c", "q=[redacted]"),
            ("x second line x", "x [redacted] x"),
            ("abc is running", "abc is running"),
            ("", ""),
        ] {
            assert_eq!(secrets.replace(text), expected);
        }
    }
}
