//! How a scenario names an object: `KIND/NAME` or `KIND/NAMESPACE/NAME`, as in `Deployment/web` or `Foo.example.com/shop/web`. Pure.

use std::fmt::{self, Display, Formatter};

use serde_json::Value;

/// The namespace of an object whose reference names none.
const DEFAULT_NAMESPACE: &str = "default";

/// The name of an object, whose kind may not be served yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectReference {
    /// A kind, or a plural, singular or short name of one.
    pub(super) kind: String,
    /// The API group, if the reference names it.
    pub(super) group: Option<String>,
    namespace: Option<String>,
    pub(super) name: String,
}

impl ObjectReference {
    /// Parses a reference.
    ///
    /// # Errors
    /// Errors with one line if the text has another form.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let malformed = || {
            format!(
                "{text:?} is not the name of an object; write KIND/NAME or KIND/NAMESPACE/NAME, such as Deployment/web or \
                 Foo.example.com/shop/web"
            )
        };
        let (kind, namespace, name) = match *text.split('/').collect::<Vec<_>>() {
            [kind, name] => (kind, None, name),
            [kind, namespace, name] => (kind, Some(namespace), name),
            _ => return Err(malformed()),
        };
        let (kind, group) = match kind.split_once('.') {
            Some((kind, group)) => (kind, Some(group)),
            None => (kind, None),
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':');
        // The parts become parts of a URL, in which `..` would have a meaning.
        let is_valid = |part: &str| {
            part.bytes().all(is_plain)
                && part.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
        };
        if [Some(kind), group, namespace, Some(name)].into_iter().flatten().all(is_valid) {
            let owned = |text: &str| text.to_owned();
            Ok(Self {
                kind: kind.to_owned(),
                group: group.map(owned),
                namespace: namespace.map(owned),
                name: name.to_owned(),
            })
        } else {
            Err(malformed())
        }
    }

    /// Returns the object's namespace, if its kind is namespaced.
    pub(super) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE)
    }

    /// Whether the reference names a namespace.
    pub(super) fn has_namespace(&self) -> bool {
        self.namespace.is_some()
    }

    /// Whether this is a name of the resource, an entry of an `APIResourceList`.
    pub(super) fn is_of(&self, resource: &Value) -> bool {
        let is_it = |value: &Value| value.as_str().is_some_and(|name| name == self.kind);
        let short_names = resource["shortNames"].as_array();
        is_it(&resource["kind"])
            || is_it(&resource["name"])
            || is_it(&resource["singularName"])
            || short_names.is_some_and(|names| names.iter().any(is_it))
    }
}

/// Writes the reference as it was parsed.
impl Display for ObjectReference {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if let Some(group) = &self.group {
            write!(f, ".{group}")?;
        }
        if let Some(namespace) = &self.namespace {
            write!(f, "/{namespace}")?;
        }
        write!(f, "/{}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_parsed_and_written() {
        for (text, kind, group, namespace, name) in [
            ("Deployment/web", "Deployment", None, "default", "web"),
            ("deploy/shop/web", "deploy", None, "shop", "web"),
            ("Foo.example.com/web", "Foo", Some("example.com"), "default", "web"),
            ("ClusterRole/system:node", "ClusterRole", None, "default", "system:node"),
        ] {
            let reference = ObjectReference::parse(text).expect(text);
            assert_eq!((reference.kind.as_str(), reference.group.as_deref()), (kind, group));
            assert_eq!((reference.namespace(), reference.name.as_str()), (namespace, name));
            assert_eq!(reference.to_string(), text);
        }
        for text in ["", "web", "Deployment/", "/web", "a/b/c/d", "Deployment/../web", "Foo./a", "a b/c"] {
            let error = ObjectReference::parse(text).expect_err(text);
            assert!(error.contains("KIND/NAMESPACE/NAME"), "{error}");
        }
    }

    #[test]
    fn a_kind_has_several_names() {
        let resource = json!({"name": "deployments", "singularName": "deployment", "kind": "Deployment", "shortNames": ["deploy"]});
        let is_of =
            |kind: &str| ObjectReference::parse(&format!("{kind}/a")).expect("a reference").is_of(&resource);
        assert!(["Deployment", "deployments", "deployment", "deploy"].into_iter().all(is_of));
        assert!(!is_of("Deploy") && !is_of("ReplicaSet"));
    }
}
