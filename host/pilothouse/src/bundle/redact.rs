//! Removes secrets from text and from JSON documents.

use serde_json::Value;

use super::known_secrets::KnownSecrets;
use super::patterns;

/// What replaces a secret.
pub(super) const REDACTED: &str = "[redacted]";

/// Members of the host's own documents whose values look random but are none: only known secrets are replaced in them.
const PLAIN_MEMBERS: [&str; 3] = ["digest", "since", "time"];

/// The member of a log line with its fields, each of which is a list of its name and its value.
const FIELDS: &str = "fields";

/// Removes known secrets, and what looks like one.
#[derive(Debug, Default)]
pub(crate) struct Redactor {
    secrets: KnownSecrets,
}

impl Redactor {
    pub(crate) fn new(secrets: &[String]) -> Self {
        let mut redactor = Self::default();
        redactor.learn(secrets.iter().cloned());
        redactor
    }

    /// Adds secrets.
    pub(super) fn learn(&mut self, secrets: impl IntoIterator<Item = String>) {
        for secret in secrets {
            self.secrets.insert(&secret);
        }
    }

    /// Returns the text without secrets.
    pub(crate) fn text(&self, text: &str) -> String {
        patterns::redact(&self.secrets.replace(text))
    }

    /// Removes secrets from all texts of a document, also from the names of members.
    pub(super) fn json(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(values) => values.into_iter().map(|value| self.json(value)).collect(),
            Value::Object(members) => members
                .into_iter()
                .map(|(name, value)| {
                    let value = match value {
                        Value::String(text) if PLAIN_MEMBERS.contains(&name.as_str()) => {
                            Value::String(self.secrets.replace(&text))
                        }
                        // `{"password": "abc"}` has the name and the value in different texts.
                        Value::String(text) => Value::String(self.member(&name, &text)),
                        Value::Array(fields) if name == FIELDS => {
                            fields.into_iter().map(|field| self.field(field)).collect()
                        }
                        value => self.json(value),
                    };
                    (self.text(&name), value)
                })
                .collect(),
            // A secret may be a number.
            Value::Number(number) => {
                let text = number.to_string();
                if self.secrets.replace(&text) == text { Value::Number(number) } else { REDACTED.into() }
            }
            Value::Bool(_) | Value::Null => value,
        }
    }

    /// Redacts a field of a log line: its name and its value are different texts, too.
    fn field(&self, field: Value) -> Value {
        match field {
            Value::Array(pair) => match pair.as_slice() {
                [Value::String(name), Value::String(text)] => {
                    [self.text(name), self.member(name, text)].into_iter().collect()
                }
                _ => self.json(Value::Array(pair)),
            },
            other => self.json(other),
        }
    }

    fn member(&self, name: &str, text: &str) -> String {
        if patterns::is_sensitive_name(name) { REDACTED.to_owned() } else { self.text(text) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_members_and_numbers_of_a_document_are_redacted() {
        let redactor = Redactor::new(&["hunter2".to_owned(), "123456789".to_owned()]);
        let digest = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
        let document = json!({
            "error": "login with hunter2 failed", "hunter2": 1, "list": ["hunter2", 123_456_789, true],
            "apiToken": "short", "digest": digest, "state": "running",
        });
        let expected = json!({
            "error": "login with [redacted] failed", "[redacted]": 1, "list": ["[redacted]", "[redacted]", true],
            "apiToken": "[redacted]", "digest": digest, "state": "running",
        });
        assert_eq!(redactor.json(document), expected);
    }

    #[test]
    fn the_values_of_sensitive_fields_of_a_log_line_are_redacted() {
        let line = json!({"plugin": "p", "message": "connected", "fields": [
            ["db_password", "abc"], ["user", "bob"], ["note", "the token was: xyz"], ["odd"], "text",
        ]});
        let expected = json!({"plugin": "p", "message": "connected", "fields": [
            ["db_password", "[redacted]"], ["user", "bob"], ["note", "the token [redacted]"], ["odd"], "text",
        ]});
        assert_eq!(Redactor::default().json(line), expected);
        // Elsewhere, a list of two texts is no name with a value.
        let rule = json!({"resources": ["secrets", "configmaps"]});
        assert_eq!(Redactor::default().json(rule.clone()), rule);
    }
}
