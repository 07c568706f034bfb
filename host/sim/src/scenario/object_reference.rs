//! How a scenario names an object: `KIND/NAME` or `KIND/NAMESPACE/NAME`, as in `Zoo/a` or `Zoo.example.com/shop/a`.

use pilothouse_model::ResourceType;

use super::kinds::Kinds;
use super::text::quoted;

/// The namespace of a namespaced object whose reference or manifest names none.
pub const DEFAULT_NAMESPACE: &str = "default";

/// The name of an object of a known kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectReference {
    /// The resource.
    pub resource: ResourceType,
    /// The namespace, "" for cluster-scoped objects.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectReference {
    /// Parses a reference.
    ///
    /// # Errors
    /// Errors with one line if the text has another form, or the kind is not known.
    pub fn parse(text: &str, kinds: &Kinds) -> Result<Self, String> {
        let malformed = || {
            format!(
                "{} is not the name of an object; write KIND/NAME or KIND/NAMESPACE/NAME, such as Deployment/web or \
                 Foo.example.com/shop/web",
                quoted(text)
            )
        };
        let (kind, namespace, name) = match *text.split('/').collect::<Vec<_>>() {
            [kind, name] => (kind, None, name),
            [kind, namespace, name] => (kind, Some(namespace), name),
            _ => return Err(malformed()),
        };
        if [Some(kind), namespace, Some(name)].into_iter().flatten().any(|part| !is_plain(part)) {
            return Err(malformed());
        }
        let resource = kinds.resolve(kind)?.resource.clone();
        let namespace = match (namespace, resource.namespaced) {
            (Some(namespace), true) => namespace.to_owned(),
            (None, true) => DEFAULT_NAMESPACE.to_owned(),
            (None, false) => String::new(),
            (Some(_), false) => {
                return Err(format!("{} has no namespace; write {kind}/{name}", quoted(kind)));
            }
        };
        Ok(Self { resource, namespace, name: name.to_owned() })
    }
}

/// Whether a text can be part of a URL without a meaning of its own there.
pub(super) fn is_plain(part: &str) -> bool {
    part.len() <= 253
        && part.starts_with(|first: char| first.is_ascii_alphanumeric())
        && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':' | b'_'))
}

impl std::fmt::Display for ObjectReference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/", self.resource.kind)?;
        if !self.namespace.is_empty() && self.namespace != DEFAULT_NAMESPACE {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_parsed_and_written() {
        let kinds = Kinds::built_in();
        for (text, namespace, written) in [
            ("Deployment/web", "default", "Deployment/web"),
            ("Deployment.apps/shop/web", "shop", "Deployment/shop/web"),
            ("ClusterRole/system:node", "", "ClusterRole/system:node"),
        ] {
            let reference = ObjectReference::parse(text, &kinds).expect(text);
            assert_eq!((reference.namespace.as_str(), reference.to_string().as_str()), (namespace, written));
        }
        for text in ["", "web", "Pod/", "/web", "a/b/c/d", "Pod/../web", "a b/c", "Node/shop/a", "Zoo/a"] {
            assert!(ObjectReference::parse(text, &kinds).is_err(), "{text}");
        }
    }
}
