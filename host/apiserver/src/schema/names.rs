//! Validation of names, label keys and values, annotation keys and data keys, with the messages of
//! `k8s.io/apimachinery/pkg/util/validation`.
//!
//! Each function returns the errors of a string, as Go's `IsDNS1123Label` and its siblings do.

const QUALIFIED: Syntax = Syntax {
    description: "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
            character",
    regex: "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]",
    examples: &["MyName", "my.name", "123-abc"],
};
const LABEL_VALUE: Syntax = Syntax {
    description: "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
            start and end with an alphanumeric character",
    regex: "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
    examples: &["MyValue", "my_value", "12345"],
};
const LABEL: Syntax = Syntax {
    description: "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
            end with an alphanumeric character",
    regex: "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
    examples: &["my-name", "123-abc"],
};
const SUBDOMAIN: Syntax = Syntax {
    description: "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
            start and end with an alphanumeric character",
    regex: r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
    examples: &["example.com"],
};
const WILDCARD: Syntax = Syntax {
    description: "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist \
            of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
    regex: r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
    examples: &["*.example.com"],
};
const SERVICE: Syntax = Syntax {
    description: "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
            character, and end with an alphanumeric character",
    regex: "[a-z]([-a-z0-9]*[a-z0-9])?",
    examples: &["my-name", "abc-123"],
};
const DATA_KEY: Syntax = Syntax {
    description: "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    regex: "[-._a-zA-Z0-9]+",
    examples: &["key.name", "KEY_NAME", "key-name"],
};

/// The parts of the error message for a syntax.
struct Syntax {
    description: &'static str,
    regex: &'static str,
    examples: &'static [&'static str],
}

impl Syntax {
    /// Returns the error message for a string that does not have the syntax.
    fn message(&self) -> String {
        let examples: Vec<_> = self.examples.iter().map(|example| format!("'{example}', ")).collect();
        // Kubernetes' messages have the same double spaces.
        format!(
            "{} (e.g. {}regex used for validation is '{}')",
            self.description,
            examples.join(" or "),
            self.regex
        )
    }
}

fn too_long(max: usize) -> String {
    format!("must be no more than {max} characters")
}

/// Returns the error of a part of a label, which Kubernetes words in another way than that of a name.
fn too_long_label(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

/// Returns whether `text` is not empty, all its bytes satisfy `inner`, and the first and last satisfy `edge`.
fn has_syntax(text: &str, inner: impl Fn(u8) -> bool, edge: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => edge(*first) && edge(*last) && bytes.iter().all(|byte| inner(*byte)),
        _ => false,
    }
}

fn is_lower_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_label(text: &str) -> bool {
    has_syntax(text, |byte| is_lower_alphanumeric(byte) || byte == b'-', is_lower_alphanumeric)
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_qualified(text: &str) -> bool {
    has_syntax(
        text,
        |byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte),
        |byte| byte.is_ascii_alphanumeric(),
    )
}

/// Returns the errors of a DNS label (RFC 1123) of at most 63 characters.
pub(crate) fn label_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push(too_long(63));
    }
    if !is_label(text) {
        errors.push(if is_subdomain(text) { "must not contain dots".into() } else { LABEL.message() });
    }
    errors
}

/// Returns the errors of a DNS subdomain (RFC 1123) of at most 253 characters, the syntax of most object names.
pub(crate) fn subdomain_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 253 {
        errors.push(too_long(253));
    }
    if !is_subdomain(text) {
        errors.push(SUBDOMAIN.message());
    }
    errors
}

/// Returns the errors of a Service's name: a DNS label (RFC 1035), which starts with a letter.
pub(crate) fn service_name_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push(too_long(63));
    }
    if !is_label(text) || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        errors.push(SERVICE.message());
    }
    errors
}

/// Returns the errors of a name that must be a URL path segment, the syntax of RBAC objects' names.
pub(crate) fn path_segment_errors(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    let forbidden = ["/", "%"].into_iter().filter(|forbidden| text.contains(forbidden));
    forbidden.map(|forbidden| format!("may not contain '{forbidden}'")).collect()
}

/// Returns the errors of a qualified name, the syntax of label and annotation keys: an optional DNS subdomain and a
/// slash, followed by a name of at most 63 characters.
pub(crate) fn qualified_name_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let mut parts = text.split('/');
    let (first, second, third) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    if third.is_some() {
        let hint = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
        return vec![format!("a valid label key {}{hint}", QUALIFIED.message())];
    }
    let name = second.unwrap_or(first);
    if second.is_some() {
        if first.is_empty() {
            errors.push("prefix part must be non-empty".into());
        } else {
            if first.len() > 253 {
                errors.push(format!("prefix part {}", too_long_label(253)));
            }
            if !is_subdomain(first) {
                errors.push(format!("prefix part {}", SUBDOMAIN.message()));
            }
        }
    }
    if name.is_empty() {
        errors.push("name part must be non-empty".into());
    } else if name.len() > 63 {
        errors.push(format!("name part {}", too_long_label(63)));
    }
    if !is_qualified(name) {
        errors.push(format!("name part {}", QUALIFIED.message()));
    }
    errors
}

/// Returns the errors of the name of a container port: at most 15 lower case letters, digits and hyphens.
pub(super) fn port_name_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 15 {
        errors.push(too_long(15));
    }
    if !text.bytes().all(|byte| is_lower_alphanumeric(byte) || byte == b'-') {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".into());
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".into());
    }
    if text.contains("--") {
        errors.push("must not contain consecutive hyphens".into());
    }
    if text.starts_with('-') || text.ends_with('-') {
        errors.push("must not begin or end with a hyphen".into());
    }
    errors
}

/// Returns the errors of a name as [`subdomain_errors`] does; its first label may be `*`.
pub(super) fn host_errors(text: &str) -> Vec<String> {
    if !text.contains('*') {
        return subdomain_errors(text);
    }
    let is_valid = text.len() <= 253 && text.strip_prefix("*.").is_some_and(is_subdomain);
    if is_valid { Vec::new() } else { vec![WILDCARD.message()] }
}

/// Returns the errors of a label's value.
pub(crate) fn label_value_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push(too_long_label(63));
    }
    if !text.is_empty() && !is_qualified(text) {
        errors.push(LABEL_VALUE.message());
    }
    errors
}

/// Returns the errors of a key of a ConfigMap's or Secret's data.
pub(super) fn data_key_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 253 {
        errors.push(too_long(253));
    }
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
        errors.push(DATA_KEY.message());
    }
    match text {
        "." | ".." => errors.push(format!("must not be '{text}'")),
        _ if text.starts_with("..") => errors.push("must not start with '..'".into()),
        _ => {}
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_match_apimachinery() {
        assert_eq!(
            label_value_errors("a b"),
            [
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
              start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
              validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ]
        );
        assert_eq!(label_value_errors(&"a".repeat(64)), ["must be no more than 63 bytes"]);
        assert_eq!(qualified_name_errors(&"a".repeat(64)), ["name part must be no more than 63 bytes"]);
        let prefix = format!("{}/a", "a".repeat(254));
        assert_eq!(qualified_name_errors(&prefix), ["prefix part must be no more than 253 bytes"]);
        assert_eq!(subdomain_errors(&"a".repeat(254)), ["must be no more than 253 characters"]);
        assert_eq!(label_errors("a.b"), ["must not contain dots"]);
        assert_eq!(data_key_errors("..a"), ["must not start with '..'"]);
    }

    /// A validation, and names that it accepts and rejects.
    type Syntax<'n> = (fn(&str) -> Vec<String>, &'n [&'n str], &'n [&'n str]);

    #[test]
    fn valid_names_have_no_errors_and_invalid_names_do() {
        let (long_label, long_name) = ("a".repeat(64), "a".repeat(254));
        let syntaxes: [Syntax<'_>; 6] = [
            (subdomain_errors, &["a.b-c.d1"], &["A", "a..b", &long_name]),
            (label_errors, &["my-name"], &["-a", &long_label]),
            (service_name_errors, &["svc-1"], &["1-svc"]),
            (path_segment_errors, &["system:node:a"], &["a/b"]),
            (qualified_name_errors, &["example.com/Some_Name.1", "app"], &["a/b/c", "/b", "a/"]),
            (label_value_errors, &[""], &["-"]),
        ];
        for (errors, valid, invalid) in syntaxes {
            for name in valid {
                assert!(errors(name).is_empty(), "{name}: {:?}", errors(name));
            }
            for name in invalid {
                assert!(!errors(name).is_empty(), "{name} has no errors");
            }
        }
    }
}
