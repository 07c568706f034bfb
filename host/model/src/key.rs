//! [`ObjectKey`]: an object's namespace and name.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The namespace and name of an object: `namespace/name`, or `name` for a cluster-scoped object.
///
/// The text is that of client-go's `MetaNamespaceKeyFunc`. Cloning copies a pointer.
#[derive(Clone)]
pub struct ObjectKey {
    text: Arc<str>,
    /// The length of the namespace in bytes; 0 for a cluster-scoped object, whose `text` is the name alone.
    namespace_len: u32,
}

impl ObjectKey {
    /// Returns the key of `name` in `namespace`. An empty namespace means a cluster-scoped object.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        let namespace_len = u32::try_from(namespace.len()).unwrap_or(u32::MAX);
        Self { text: Self::with_text(namespace, name, |text| Arc::from(text)), namespace_len }
    }

    /// Calls `f` with the text of the key of `name` in `namespace`, without creating a key.
    #[must_use]
    pub fn with_text<R>(namespace: &str, name: &str, f: impl FnOnce(&str) -> R) -> R {
        if namespace.is_empty() {
            return f(name);
        }
        let mut buffer = [0; BUFFER_BYTES];
        match joined(namespace, name, &mut buffer) {
            Some(text) => f(text),
            None => f(&[namespace, "/", name].concat()),
        }
    }

    /// Returns the key of a namespaced object.
    #[must_use]
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        Self::new(namespace, name)
    }

    /// Returns the key of a cluster-scoped object.
    #[must_use]
    pub fn cluster(name: &str) -> Self {
        Self::new("", name)
    }

    /// Returns the namespace, "" for a cluster-scoped object.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.text[..self.namespace_len as usize]
    }

    /// Returns the name without its namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        match self.namespace_len {
            0 => &self.text,
            len => &self.text[len as usize + 1..],
        }
    }

    /// Returns `namespace/name`, or `name` for a cluster-scoped object.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Keys up to this length are joined on the stack. Longer ones cost an allocation.
const BUFFER_BYTES: usize = 128;

/// Writes the text of a key into `buffer`; `None` if it does not fit.
fn joined<'a>(namespace: &str, name: &str, buffer: &'a mut [u8; BUFFER_BYTES]) -> Option<&'a str> {
    let end = namespace.len() + 1 + name.len();
    let text = buffer.get_mut(..end)?;
    text[..namespace.len()].copy_from_slice(namespace.as_bytes());
    text[namespace.len()] = b'/';
    text[namespace.len() + 1..].copy_from_slice(name.as_bytes());
    std::str::from_utf8(text).ok()
}

impl PartialEq for ObjectKey {
    fn eq(&self, other: &Self) -> bool {
        self.namespace_len == other.namespace_len && self.text == other.text
    }
}

impl Eq for ObjectKey {}

impl Hash for ObjectKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        if self.namespace_len == other.namespace_len {
            // The slash is at the same place.
            return self.text.cmp(&other.text);
        }
        (self.namespace(), self.name()).cmp(&(other.namespace(), other.name()))
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaced_and_cluster_keys_keep_their_parts() {
        let key = ObjectKey::new("default", "web");
        assert_eq!((key.namespace(), key.name(), key.as_str()), ("default", "web", "default/web"));
        let key = ObjectKey::cluster("node-1");
        assert_eq!((key.namespace(), key.name(), key.as_str()), ("", "node-1", "node-1"));
    }

    #[test]
    fn a_cluster_scoped_name_with_a_slash_differs_from_the_namespaced_key() {
        assert_ne!(ObjectKey::cluster("a/b"), ObjectKey::new("a", "b"));
    }

    #[test]
    fn keys_of_any_length_have_the_right_text() {
        for length in 0..300 {
            let (namespace, name) = ("é".repeat(length / 4 + 1), "n".repeat(length));
            let key = ObjectKey::new(&namespace, &name);
            assert_eq!(key.as_str(), format!("{namespace}/{name}"));
            assert_eq!((key.namespace(), key.name()), (&*namespace, &*name));
            assert_eq!(ObjectKey::with_text(&namespace, &name, str::to_owned), key.as_str());
        }
    }

    #[test]
    fn the_order_is_that_of_the_pairs_of_namespace_and_name() {
        let parts = ["", "a", "a-", "a-b", "a.b", "ab", "a/b", "b", "é"];
        let keys = parts.map(|namespace| parts.map(|name| ObjectKey::new(namespace, name)));
        for one in keys.as_flattened() {
            for other in keys.as_flattened() {
                let pairs = (one.namespace(), one.name()).cmp(&(other.namespace(), other.name()));
                assert_eq!(one.cmp(other), pairs, "{one} and {other}");
            }
        }
    }

    #[test]
    fn keys_sort_by_namespace_then_name() {
        let mut keys = [ObjectKey::new("b", "a"), ObjectKey::new("a", "z"), ObjectKey::cluster("z")];
        keys.sort();
        assert_eq!(keys.map(|key| key.to_string()), ["z", "a/z", "b/a"]);
    }
}
