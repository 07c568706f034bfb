//! Replaces names by hashes: the same name by the same hash in all files of a bundle.

use std::collections::HashSet;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Words that look like names and are none: parts of API paths, states, and what every cluster has.
const VOCABULARY: [&str; 46] = [
    "api",
    "apis",
    "namespaces",
    "status",
    "scale",
    "default",
    "kube-system",
    "kube-public",
    "backing-off",
    "core",
    "apps",
    "batch",
    "v1",
    "v1alpha1",
    "v1beta1",
    "v2",
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "running",
    "waiting",
    "failed",
    "stopped",
    "draining",
    "found",
    "compiling",
    "describing",
    "processing",
    "ready",
    "delayed",
    "yes",
    "no",
    "unverified",
    "error",
    "plugins",
    "plugin",
    "true",
    "false",
    "utf-8",
    "http",
    "https",
    "in",
];

/// Members of the host's documents whose texts are names, or keys of objects.
const NAME_MEMBERS: [&str; 9] =
    ["namespace", "namespaces", "names", "key", "serviceAccount", "host", "http", "hosts", "plugin"];

/// Members of the host's documents whose texts are its own: features of the program, and its threads.
const OWN_MEMBERS: [&str; 2] = ["features", "threads"];

/// Members with selectors, whose values may be names.
const SELECTOR_MEMBERS: [&str; 2] = ["labelSelector", "fieldSelector"];

/// Members of the differences of a shadow, whose texts end in the key of the object that is written: `client.update v1 ConfigMap shop/web`.
const WRITE_MEMBERS: [&str; 2] = ["running", "shadow"];

/// The maximum number of names.
const MAX_NAMES: usize = 200_000;

/// Replaces names by hashes with a random key.
#[derive(Debug)]
pub(super) struct Anonymiser {
    key: [u8; 32],
    names: HashSet<String>,
}

impl Anonymiser {
    pub(super) fn new(key: [u8; 32]) -> Self {
        Self { key, names: HashSet::new() }
    }

    /// Adds the name, or the names in a key such as `namespace/name`.
    pub(super) fn learn(&mut self, text: &str) {
        for name in text.split(|char: char| !is_name_char(char)).map(trimmed) {
            let is_name = name.len() > 1 && !VOCABULARY.contains(&name) && !is_number(name);
            if is_name && self.names.len() < MAX_NAMES {
                self.names.insert(name.to_owned());
            }
        }
    }

    /// Adds the names in a document of the host.
    pub(super) fn learn_from(&mut self, value: &Value) {
        match value {
            Value::Object(members) => {
                // An entry of a list of plugins, and the report of `check`.
                let is_plugin = members.contains_key("digest") || members.contains_key("image");
                for (member, value) in members {
                    if member == "image" {
                        value.as_str().into_iter().for_each(|image| self.learn_image(image));
                    } else if NAME_MEMBERS.contains(&member.as_str()) || (is_plugin && member == "name") {
                        self.learn_texts(value);
                    } else if SELECTOR_MEMBERS.contains(&member.as_str()) {
                        let parts = value.as_str().into_iter().flat_map(|text| text.split(','));
                        parts.filter_map(|part| part.rsplit_once('=')).for_each(|(_, name)| self.learn(name));
                    } else if let Some(key) = written_key(member, value) {
                        self.learn(key);
                    } else {
                        self.learn_from(value);
                    }
                }
            }
            // A field of a log line.
            Value::Array(values) => match values.as_slice() {
                [Value::String(name), value] if NAME_MEMBERS.contains(&name.as_str()) => {
                    self.learn_texts(value);
                }
                values => values.iter().for_each(|value| self.learn_from(value)),
            },
            // The path of a request has the namespace, and an error may name an image.
            Value::String(text) => {
                for image in text.split("oci://").skip(1) {
                    let end = image.find(|char: char| char.is_whitespace() || "\"'`,;()".contains(char));
                    self.learn_image(&image[..end.unwrap_or(image.len())]);
                }
                let namespace =
                    text.split("/namespaces/").nth(1).and_then(|rest| rest.split(['/', '?']).next());
                namespace.into_iter().for_each(|namespace| self.learn(namespace));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Adds the registry and the names in the repository of an image. A tag is no name.
    fn learn_image(&mut self, image: &str) {
        let image = image.strip_prefix("oci://").unwrap_or(image);
        let image = image.split_once('@').map_or(image, |(name, _)| name);
        let (path, last) = image.rsplit_once('/').unwrap_or(("", image));
        self.learn(path);
        self.learn(last.split(':').next().unwrap_or_default());
    }

    fn learn_texts(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.learn(text),
            Value::Array(values) => values.iter().for_each(|value| self.learn_texts(value)),
            other => self.learn_from(other),
        }
    }

    /// Replaces the names in all texts of a document. Names of members stay, so that a document must not use names as such.
    pub(super) fn json(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(values) => values.into_iter().map(|value| self.json(value)).collect(),
            Value::Object(members) => {
                let anonymised = members.into_iter().map(|(name, value)| {
                    let is_own = OWN_MEMBERS.contains(&name.as_str());
                    let value = if is_own { self.known_names(value) } else { self.json(value) };
                    (name, value)
                });
                anonymised.collect()
            }
            other => other,
        }
    }

    /// Replaces the texts that are known names, and no word that only looks like one.
    fn known_names(&self, value: Value) -> Value {
        match value {
            Value::String(text) if self.names.contains(&text) => Value::String(self.pseudonym(&text)),
            Value::Array(values) => values.into_iter().map(|value| self.known_names(value)).collect(),
            Value::Object(members) => {
                members.into_iter().map(|(name, value)| (name, self.known_names(value))).collect()
            }
            other => other,
        }
    }

    /// Replaces known names, words with a dash, and IP addresses. Other words stay, so that the text can be read.
    pub(super) fn text(&self, text: &str) -> String {
        let mut result = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(is_name_char) {
            let (before, tail) = rest.split_at(start);
            let end = tail.find(|char: char| !is_name_char(char)).unwrap_or(tail.len());
            let (word, after) = tail.split_at(end);
            result.push_str(before);
            self.push_word(word, &mut result);
            rest = after;
        }
        result + rest
    }

    /// Replaces the names of the files in a path, and keeps their extensions.
    pub(super) fn path(&self, path: &str) -> String {
        let segments = path.split('/').map(|segment| match segment.rsplit_once('.') {
            Some((stem, extension)) if self.names.contains(stem) => {
                format!("{}.{extension}", self.pseudonym(stem))
            }
            _ if self.names.contains(segment) => self.pseudonym(segment),
            _ => segment.to_owned(),
        });
        segments.collect::<Vec<_>>().join("/")
    }

    fn push_word(&self, word: &str, result: &mut String) {
        let name = trimmed(word);
        let Some(start) = word.find(name).filter(|_| !name.is_empty()) else {
            result.push_str(word);
            return;
        };
        result.push_str(&word[..start]);
        if word.starts_with("--") {
            // A flag.
            result.push_str(name);
        } else if let Some((stem, extension)) =
            name.rsplit_once('.').filter(|(stem, extension)| is_file(extension) && self.is_name(stem))
        {
            result.push_str(&format!("{}.{extension}", self.pseudonym(stem)));
        } else if self.is_name(name) {
            result.push_str(&self.pseudonym(name));
        } else {
            result.push_str(name);
        }
        result.push_str(&word[start + name.len()..]);
    }

    fn is_name(&self, word: &str) -> bool {
        self.names.contains(word) || (looks_like_a_name(word) && !VOCABULARY.contains(&word))
    }

    /// Returns the hash that stands for a name.
    fn pseudonym(&self, name: &str) -> String {
        let digest = Sha256::new().chain_update(self.key).chain_update(name).finalize();
        let hex: String = digest.iter().take(5).map(|byte| format!("{byte:02x}")).collect();
        format!("anon-{hex}")
    }
}

/// Returns the key in the description of a write; `None` if the member has none.
fn written_key<'a>(member: &str, value: &'a Value) -> Option<&'a str> {
    let write =
        value.as_str().filter(|text| WRITE_MEMBERS.contains(&member) && text.starts_with("client."))?;
    write.rsplit_once(' ').map(|(_, key)| key)
}

fn is_name_char(char: char) -> bool {
    char.is_alphanumeric() || matches!(char, '-' | '.' | '_')
}

fn trimmed(word: &str) -> &str {
    word.trim_matches(['-', '.'])
}

fn is_file(extension: &str) -> bool {
    matches!(extension, "wasm" | "yaml" | "yml" | "json" | "txt")
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// Whether a word is an IP address, or has the form of an object's name with a dash, such as `web-7c9f8`.
fn looks_like_a_name(word: &str) -> bool {
    let is_address = word.split('.').count() == 4 && word.split('.').all(|part| part.parse::<u8>().is_ok());
    let is_dns =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    let has_letter = word.bytes().any(|byte| byte.is_ascii_lowercase());
    is_address || (word.contains('-') && has_letter && word.bytes().all(is_dns))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn anonymiser() -> Anonymiser {
        let mut anonymiser = Anonymiser::new([7; 32]);
        anonymiser.learn("shop/web");
        anonymiser
    }

    #[test]
    fn a_name_has_the_same_hash_everywhere_and_another_with_another_key() {
        let (one, other) = (anonymiser(), Anonymiser::new([8; 32]));
        let shop = one.pseudonym("shop");
        assert_eq!(
            one.text("shop/web in \"shop\""),
            format!("{shop}/{} in \"{shop}\"", one.pseudonym("web"))
        );
        assert_eq!(one.path("keys/shop.json"), format!("keys/{shop}.json"));
        assert_eq!(one.json(json!({"namespace": "shop", "attempts": 3}))["namespace"], *shop);
        assert_ne!(shop, other.pseudonym("shop"));
    }

    #[test]
    fn the_objects_in_the_differences_of_a_shadow_are_names() {
        let mut anonymiser = Anonymiser::new([7; 32]);
        let (running, shadow) =
            ("client.update v1 ConfigMap shop/web", "client.delete v1 ConfigMap shop/old");
        let status = json!({"shadow": {"differences": [{"running": running, "shadow": shadow}]}});
        anonymiser.learn_from(&status);
        let text = anonymiser.json(status).to_string();
        for name in ["shop", "web", "old"] {
            assert!(!text.contains(name), "{name}: {text}");
        }
        assert!(text.contains("client.update v1 ConfigMap anon-"), "{text}");
        let mut anonymiser = Anonymiser::new([7; 32]);
        anonymiser.learn_from(&json!({"running": "returns done"}));
        assert_eq!(anonymiser.text("done"), "done");
    }

    #[test]
    fn the_hosts_own_words_and_numbers_stay() {
        let anonymiser = anonymiser();
        for text in [
            "state backing-off since 2026-01-02T03:04:05.123Z",
            "run --cache-dir DIR",
            "deployments/status of group apps/v1 in default",
            "409 Conflict after 1.5s",
        ] {
            assert_eq!(anonymiser.text(text), text);
        }
    }

    #[test]
    fn unknown_names_with_a_dash_and_addresses_are_replaced() {
        let text = anonymiser().text("pod web-7c9f8 on 10.0.0.7: node-1.");
        assert!(
            !text.contains("web-7c9f8") && !text.contains("10.0.0.7") && !text.contains("node-1"),
            "{text}"
        );
        assert!(text.starts_with("pod anon-") && text.ends_with('.'), "{text}");
    }

    #[test]
    fn names_are_found_in_the_hosts_documents() {
        let mut anonymiser = Anonymiser::new([7; 32]);
        anonymiser.learn_from(&json!({
            "plugins": [{"name": "greeter", "digest": "00", "lastError": {"key": "crm/acme"}}],
            "rights": [{"namespace": "billing", "resource": "pods", "names": ["one"]}],
            "informers": [{"path": "/api/v1/namespaces/stock/pods"}],
            "registries": {"plainHttp": ["localhost:5000"]},
            "error": "cannot pull oci://r.example:5000/ostrich/pelican:stable: no answer",
        }));
        anonymiser
            .learn_from(&json!({"plugins": [{"name": "walrus", "image": "ghcr.io/heron/walrus@sha256:00"}]}));
        for name in [
            "greeter",
            "crm",
            "acme",
            "billing",
            "one",
            "stock",
            "r.example",
            "ostrich",
            "pelican",
            "walrus",
            "ghcr.io",
            "heron",
        ] {
            assert!(anonymiser.names.contains(name), "{name}");
        }
        for other in ["pods", "stable", "sha256"] {
            assert!(!anonymiser.names.contains(other), "{other}");
        }
    }

    #[test]
    fn features_and_threads_keep_their_names() {
        let host =
            json!({"features": ["embedded-server"], "threads": [{"name": "tokio-rt-worker", "cpu": 1}]});
        assert_eq!(anonymiser().json(host.clone()), host);
        assert_ne!(anonymiser().json(json!({"features": ["shop"]}))["features"][0], "shop");
    }
}
