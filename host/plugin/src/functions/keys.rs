//! Checks of object keys from guests, by the rules of Kubernetes for names.

use pilothouse_model::ObjectKey;
use pilothouse_model::names::{is_dns_label, is_object_name};

use crate::Misuse;
use crate::bindings::pilothouse::controller::types;

/// Maximum length of an object's name of any kind, in bytes.
const MAX_NAME: usize = 253;
/// Maximum length of a namespace's name, in bytes: the name is a DNS label.
const MAX_NAMESPACE: usize = 63;

/// Converts a key. Errors if no object can have it.
pub(super) fn parse_object_key(function: &'static str, key: &types::ObjectKey) -> Result<ObjectKey, Misuse> {
    match problem(&key.namespace, &key.name) {
        None => Ok(key.into()),
        Some(problem) => Err(Misuse::InvalidKey { function, problem }),
    }
}

/// Returns what is wrong with a key, if anything.
///
/// A name must be a path segment of at most 253 bytes. That is all that the kinds have in common: names of roles, for example, may have
/// colons and capitals. A namespace is a DNS label, or "" for cluster scope.
fn problem(namespace: &str, name: &str) -> Option<String> {
    if namespace.len() > MAX_NAMESPACE {
        return Some(format!("a namespace has at most {MAX_NAMESPACE} bytes, not {}", namespace.len()));
    }
    if !namespace.is_empty() && !is_dns_label(namespace) {
        return Some(format!(
            "{namespace:?} is not a namespace name: it may only have a-z, 0-9 and inner hyphens"
        ));
    }
    match name {
        "" => Some("the name is empty".to_owned()),
        "." | ".." => Some(format!("{name:?} is not an object name")),
        name if name.len() > MAX_NAME => {
            Some(format!("a name has at most {MAX_NAME} bytes, not {}", name.len()))
        }
        name if !is_object_name(name) => Some(format!(
            "{name:?} is not an object name: it has a slash, a percent sign or a control character"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_keys_pass() {
        let long = "n".repeat(MAX_NAME);
        for (namespace, name) in [
            ("default", "web"),
            ("", "node-1"),
            ("", "system:controller:job-controller"),
            ("0-9", "kube-root-ca.crt"),
            ("a", long.as_str()),
        ] {
            assert_eq!(problem(namespace, name), None, "{namespace}/{name}");
        }
    }

    #[test]
    fn invalid_keys_are_refused_with_a_short_message() {
        let (long_name, long_namespace) = ("n".repeat(15 << 20), "n".repeat(MAX_NAMESPACE + 1));
        for (namespace, name) in [
            ("default", ""),
            ("default", "."),
            ("default", ".."),
            ("default", "a/b"),
            ("default", "a%2fb"),
            ("default", "a\0b"),
            ("default", &long_name),
            (long_namespace.as_str(), "web"),
            (long_name.as_str(), "web"),
            ("Default", "web"),
            ("a.b", "web"),
            ("-a", "web"),
            ("a-", "web"),
            ("a/b", "web"),
        ] {
            let problem = problem(namespace, name).expect("an invalid key");
            assert!(problem.len() < 200, "{problem}");
        }
    }
}
