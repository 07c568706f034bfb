//! [`ResourceType`]: a kind in one API version, with its plural name and scope.

#[cfg(feature = "kube")]
mod typed;

use std::fmt;

#[cfg(feature = "kube")]
pub use typed::StaticScope;

use crate::percent_encoding::path_segment;

/// A resource that an API server serves: a kind in one API version, with what its URLs consist of.
///
/// With the feature `kube`, `ResourceType::of::<Pod>()` returns the resource of a Rust type.
///
/// ```
/// use pilothouse_model::{ObjectKey, ResourceType};
///
/// let widgets = ResourceType {
///     group: "example.com".into(),
///     version: "v1".into(),
///     kind: "Widget".into(),
///     plural: "widgets".into(),
///     namespaced: true,
/// };
/// assert_eq!(widgets.object_path(&ObjectKey::new("shop", "a")), "/apis/example.com/v1/namespaces/shop/widgets/a");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceType {
    /// The API group, "" for core.
    pub group: String,
    /// The version inside the group, such as `v1`.
    pub version: String,
    /// The kind, such as `Deployment`.
    pub kind: String,
    /// The plural name in URLs, such as `deployments`.
    pub plural: String,
    /// Whether the objects are namespaced.
    pub namespaced: bool,
}

impl ResourceType {
    /// Returns the `apiVersion` of a manifest: `v1`, or `group/version`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns the URL path of the collection, in one namespace or (`None`) in all. The namespace is ignored for cluster-scoped resources.
    #[must_use]
    pub fn url_path(&self, namespace: Option<&str>) -> String {
        let mut path = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        if let Some(namespace) = namespace.filter(|namespace| self.namespaced && !namespace.is_empty()) {
            path.push_str("/namespaces/");
            path.push_str(namespace);
        }
        path.push('/');
        path.push_str(&self.plural);
        path
    }

    /// Returns the URL path of one object.
    #[must_use]
    pub fn object_path(&self, key: &crate::ObjectKey) -> String {
        format!("{}/{}", self.url_path(Some(key.namespace())), path_segment(key.name()))
    }
}

impl fmt::Display for ResourceType {
    /// Writes `plural.version.group`, as kubectl accepts it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            write!(f, "{}.{}", self.plural, self.version)
        } else {
            write!(f, "{}.{}.{}", self.plural, self.version, self.group)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ObjectKey;

    fn deployments() -> ResourceType {
        ResourceType {
            group: "apps".into(),
            version: "v1".into(),
            kind: "Deployment".into(),
            plural: "deployments".into(),
            namespaced: true,
        }
    }

    #[test]
    fn url_paths_depend_on_the_group_and_the_scope() {
        assert_eq!(deployments().url_path(None), "/apis/apps/v1/deployments");
        assert_eq!(
            deployments().object_path(&ObjectKey::new("default", "web")),
            "/apis/apps/v1/namespaces/default/deployments/web"
        );
        let nodes = ResourceType {
            group: String::new(),
            version: "v1".into(),
            kind: "Node".into(),
            plural: "nodes".into(),
            namespaced: false,
        };
        assert_eq!(nodes.url_path(Some("default")), "/api/v1/nodes");
        assert_eq!((nodes.api_version(), nodes.to_string()), ("v1".into(), "nodes.v1".into()));
        assert_eq!(nodes.object_path(&ObjectKey::cluster("a?b")), "/api/v1/nodes/a%3Fb");
    }
}
