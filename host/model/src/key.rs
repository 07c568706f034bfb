use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The name of an object inside one resource: `namespace/name`, or `name` for cluster scope.
///
/// The text is what client-go's `MetaNamespaceKeyFunc` makes. Cloning copies a pointer.
#[derive(Clone)]
pub struct ObjectKey {
    text: Arc<str>,
    /// Length of the namespace in bytes; 0 for cluster scope, in which case `text` is the name alone.
    namespace_len: u32,
}

impl ObjectKey {
    /// The key of `name` in `namespace`; an empty namespace means cluster scope.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        let namespace_len = u32::try_from(namespace.len()).unwrap_or(u32::MAX);
        Self { text: Self::with_text(namespace, name, |text| Arc::from(text)), namespace_len }
    }

    /// What `read` makes of the text that the key of `name` in `namespace` has, without a key being made.
    #[must_use]
    pub fn with_text<R>(namespace: &str, name: &str, read: impl FnOnce(&str) -> R) -> R {
        if namespace.is_empty() {
            return read(name);
        }
        let mut buffer = [0; USUAL];
        match joined(namespace, name, &mut buffer) {
            Some(text) => read(text),
            None => read(&[namespace, "/", name].concat()),
        }
    }

    /// The key of a namespaced object.
    #[must_use]
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        Self::new(namespace, name)
    }

    /// The key of a cluster-scoped object.
    #[must_use]
    pub fn cluster(name: &str) -> Self {
        Self::new("", name)
    }

    /// The namespace, or "" for cluster scope.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.text[..self.namespace_len as usize]
    }

    /// The name without its namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        match self.namespace_len {
            0 => &self.text,
            len => &self.text[len as usize + 1..],
        }
    }

    /// `namespace/name`, or `name` for cluster scope.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Bytes of most keys; longer ones cost a second allocation.
const USUAL: usize = 128;

/// The text of a key, if there is room for it.
fn joined<'a>(namespace: &str, name: &str, buffer: &'a mut [u8; USUAL]) -> Option<&'a str> {
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
    fn a_cluster_name_with_a_slash_is_another_key_than_the_namespaced_one() {
        assert_ne!(ObjectKey::cluster("a/b"), ObjectKey::new("a", "b"));
    }

    #[test]
    fn keys_of_any_length_have_their_text() {
        for length in 0..300 {
            let (namespace, name) = ("é".repeat(length / 4 + 1), "n".repeat(length));
            let key = ObjectKey::new(&namespace, &name);
            assert_eq!(key.as_str(), format!("{namespace}/{name}"));
            assert_eq!((key.namespace(), key.name()), (&*namespace, &*name));
            assert_eq!(ObjectKey::with_text(&namespace, &name, str::to_owned), key.as_str());
        }
    }

    #[test]
    fn keys_sort_by_namespace_then_name() {
        let mut keys = [ObjectKey::new("b", "a"), ObjectKey::new("a", "z"), ObjectKey::cluster("z")];
        keys.sort();
        assert_eq!(keys.map(|key| key.to_string()), ["z", "a/z", "b/a"]);
    }
}
