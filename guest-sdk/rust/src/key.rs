//! Keys and types of objects.

use std::fmt;

use crate::Resource;
pub use crate::bindings::pilothouse::controller::types::{ObjectKey, ObjectType};

impl ObjectKey {
    /// The key of `name` in `namespace`; the namespace of a cluster-scoped object is empty.
    #[must_use]
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object. The name is empty when the object has none yet (`generateName`).
    #[must_use]
    pub fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
    }

    /// The key of another name in the same namespace.
    #[must_use]
    pub fn sibling(&self, name: impl Into<String>) -> Self {
        Self::new(self.namespace.clone(), name)
    }
}

impl fmt::Display for ObjectKey {
    /// `namespace/name`, or `name` for a cluster-scoped object.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

impl ObjectType {
    /// A kind by its names in a manifest: `("apps/v1", "Deployment")`.
    #[must_use]
    pub fn new(api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { api_version: api_version.into(), kind: kind.into() }
    }

    /// The kind of a Rust type.
    #[must_use]
    pub fn of<K: Resource>() -> Self {
        Self::new(K::api_version(&()), K::kind(&()))
    }
}

impl fmt::Display for ObjectType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.api_version, self.kind)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::Node;

    use super::*;

    #[test]
    fn keys_are_displayed_as_in_kubernetes() {
        assert_eq!(ObjectKey::new("default", "web").to_string(), "default/web");
        assert_eq!(ObjectKey::new("", "node-1").to_string(), "node-1");
        assert_eq!(ObjectKey::new("default", "web").sibling("db").to_string(), "default/db");
    }

    #[test]
    fn the_key_of_an_object_comes_from_its_metadata() {
        let mut node = Node::default();
        node.metadata.name = Some("node-1".into());
        assert_eq!(ObjectKey::of(&node), ObjectKey::new("", "node-1"));
    }

    #[test]
    fn types_have_their_names_in_manifests() {
        assert_eq!(ObjectType::of::<Deployment>().to_string(), "apps/v1 Deployment");
        assert_eq!(ObjectType::of::<Node>().to_string(), "v1 Node");
    }
}
