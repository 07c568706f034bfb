//! The syntax of names, labels, annotations and data keys, with the messages of
//! `k8s.io/apimachinery/pkg/util/validation`.

const QUALIFIED: Syntax = Syntax {
    words: "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
            character",
    regex: "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]",
    examples: &["MyName", "my.name", "123-abc"],
};
const LABEL_VALUE: Syntax = Syntax {
    words: "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
            start and end with an alphanumeric character",
    regex: "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
    examples: &["MyValue", "my_value", "12345"],
};
const LABEL: Syntax = Syntax {
    words: "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
            end with an alphanumeric character",
    regex: "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
    examples: &["my-name", "123-abc"],
};
const SUBDOMAIN: Syntax = Syntax {
    words: "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
            start and end with an alphanumeric character",
    regex: r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
    examples: &["example.com"],
};
const SERVICE: Syntax = Syntax {
    words: "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
            character, and end with an alphanumeric character",
    regex: "[a-z]([-a-z0-9]*[a-z0-9])?",
    examples: &["my-name", "abc-123"],
};
const DATA_KEY: Syntax = Syntax {
    words: "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    regex: "[-._a-zA-Z0-9]+",
    examples: &["key.name", "KEY_NAME", "key-name"],
};

struct Syntax {
    words: &'static str,
    regex: &'static str,
    examples: &'static [&'static str],
}

impl Syntax {
    /// The message for a text that does not match.
    fn message(&self) -> String {
        let examples: Vec<_> = self.examples.iter().map(|example| format!("'{example}', ")).collect();
        // The double spaces are Kubernetes' own.
        format!(
            "{} (e.g. {}regex used for validation is '{}')",
            self.words,
            examples.join(" or "),
            self.regex
        )
    }
}

fn too_long(max: usize) -> String {
    format!("must be no more than {max} characters")
}

fn is_word(text: &str, inner: impl Fn(u8) -> bool, edge: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => edge(*first) && edge(*last) && bytes.iter().all(|byte| inner(*byte)),
        _ => false,
    }
}

fn lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_label(text: &str) -> bool {
    is_word(text, |byte| lower(byte) || byte == b'-', lower)
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_qualified(text: &str) -> bool {
    is_word(
        text,
        |byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte),
        |byte| byte.is_ascii_alphanumeric(),
    )
}

/// What is wrong with a DNS label: at most 63 characters.
pub(super) fn label(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push(too_long(63));
    }
    if !is_label(text) {
        wrong.push(if is_subdomain(text) { "must not contain dots".into() } else { LABEL.message() });
    }
    wrong
}

/// What is wrong with a DNS subdomain, the usual form of object names: at most 253 characters.
pub(super) fn subdomain(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push(too_long(253));
    }
    if !is_subdomain(text) {
        wrong.push(SUBDOMAIN.message());
    }
    wrong
}

/// What is wrong with a Service's name, a label that starts with a letter.
pub(super) fn service(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push(too_long(63));
    }
    if !is_label(text) || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        wrong.push(SERVICE.message());
    }
    wrong
}

/// What is wrong with a name that is one segment of a path, the rule for RBAC objects.
pub(super) fn path_segment(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    let bad = ["/", "%"].into_iter().filter(|bad| text.contains(bad));
    bad.map(|bad| format!("may not contain '{bad}'")).collect()
}

/// What is wrong with the key of a label or annotation: an optional DNS prefix, a slash, a name of at most 63.
pub(super) fn qualified(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut parts = text.split('/');
    let (first, second, third) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    if third.is_some() {
        let hint = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
        return vec![format!("a qualified name {}{hint}", QUALIFIED.message())];
    }
    let name = second.unwrap_or(first);
    if second.is_some() {
        if first.is_empty() {
            wrong.push("prefix part must be non-empty".into());
        } else {
            wrong.extend(subdomain(first).into_iter().map(|problem| format!("prefix part {problem}")));
        }
    }
    if name.is_empty() {
        wrong.push("name part must be non-empty".into());
    } else if name.len() > 63 {
        wrong.push(format!("name part {}", too_long(63)));
    }
    if !is_qualified(name) {
        wrong.push(format!("name part {}", QUALIFIED.message()));
    }
    wrong
}

/// What is wrong with the value of a label.
pub(super) fn label_value(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push(too_long(63));
    }
    if !text.is_empty() && !is_qualified(text) {
        wrong.push(LABEL_VALUE.message());
    }
    wrong
}

/// What is wrong with a key of a ConfigMap's or Secret's data.
pub(super) fn data_key(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push(too_long(253));
    }
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
        wrong.push(DATA_KEY.message());
    }
    match text {
        "." | ".." => wrong.push(format!("must not be '{text}'")),
        _ if text.starts_with("..") => wrong.push("must not start with '..'".into()),
        _ => {}
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_those_of_kubernetes() {
        assert_eq!(
            label_value("a b"),
            [
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
              start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
              validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ]
        );
        assert_eq!(label("a.b"), ["must not contain dots"]);
        assert_eq!(data_key("..a"), ["must not start with '..'"]);
    }

    #[test]
    fn names_are_told_apart() {
        assert!(subdomain("a.b-c.d1").is_empty());
        assert!(
            !subdomain("A").is_empty()
                && !subdomain("a..b").is_empty()
                && !subdomain(&"a".repeat(254)).is_empty()
        );
        assert!(label("my-name").is_empty() && !label("-a").is_empty() && !label(&"a".repeat(64)).is_empty());
        assert!(service("svc-1").is_empty() && !service("1-svc").is_empty());
        assert!(path_segment("system:node:a").is_empty() && !path_segment("a/b").is_empty());
        assert!(qualified("example.com/Some_Name.1").is_empty() && qualified("app").is_empty());
        assert!(!qualified("a/b/c").is_empty() && !qualified("/b").is_empty() && !qualified("a/").is_empty());
        assert!(label_value("").is_empty() && !label_value("-").is_empty());
    }
}
