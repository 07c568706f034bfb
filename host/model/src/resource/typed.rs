//! [`ResourceType::of`]: the resource of a Rust type.

use kube_core::{ClusterResourceScope, NamespaceResourceScope, Resource, ResourceScope};

use super::ResourceType;

/// A scope that says whether objects are namespaced. Implemented for the scopes of namespaced and of cluster-scoped resources, but neither
/// for subresources nor for types whose scope is known only at run time.
pub trait StaticScope: ResourceScope {
    /// Whether the objects are namespaced.
    const NAMESPACED: bool;
}

impl StaticScope for NamespaceResourceScope {
    const NAMESPACED: bool = true;
}

impl StaticScope for ClusterResourceScope {
    const NAMESPACED: bool = false;
}

impl ResourceType {
    /// Returns the resource of a Rust type: a type of `k8s_openapi`, or a custom resource that kube derives.
    ///
    #[cfg_attr(feature = "latest", doc = "```")]
    #[cfg_attr(not(feature = "latest"), doc = "```ignore")]
    /// use k8s_openapi::api::apps::v1::Deployment;
    /// use pilothouse_model::ResourceType;
    ///
    /// let deployments = ResourceType::of::<Deployment>();
    /// assert_eq!(deployments.to_string(), "deployments.v1.apps");
    /// assert_eq!(deployments.url_path(Some("shop")), "/apis/apps/v1/namespaces/shop/deployments");
    /// ```
    #[must_use]
    pub fn of<K>() -> Self
    where
        K: Resource<DynamicType = ()>,
        K::Scope: StaticScope,
    {
        Self {
            group: K::group(&()).into_owned(),
            version: K::version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            plural: K::plural(&()).into_owned(),
            namespaced: <K::Scope as StaticScope>::NAMESPACED,
        }
    }
}

#[cfg(all(test, feature = "latest"))]
mod tests {
    use std::borrow::Cow;

    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::Node;
    use kube_core::ObjectMeta;

    use super::*;

    /// A custom resource, with what kube's derive implements for it.
    struct Widget {
        metadata: ObjectMeta,
    }

    impl Resource for Widget {
        type DynamicType = ();
        type Scope = NamespaceResourceScope;

        fn kind(_: &()) -> Cow<'_, str> {
            "Widget".into()
        }

        fn group(_: &()) -> Cow<'_, str> {
            "example.com".into()
        }

        fn version(_: &()) -> Cow<'_, str> {
            "v1alpha1".into()
        }

        fn plural(_: &()) -> Cow<'_, str> {
            "widgets".into()
        }

        fn meta(&self) -> &ObjectMeta {
            &self.metadata
        }

        fn meta_mut(&mut self) -> &mut ObjectMeta {
            &mut self.metadata
        }
    }

    #[test]
    fn the_resource_of_a_type_has_its_group_its_plural_and_its_scope() {
        assert_eq!(
            ResourceType::of::<Deployment>(),
            ResourceType {
                group: "apps".into(),
                version: "v1".into(),
                kind: "Deployment".into(),
                plural: "deployments".into(),
                namespaced: true,
            }
        );
        let nodes = ResourceType::of::<Node>();
        assert_eq!((nodes.group.as_str(), nodes.plural.as_str(), nodes.namespaced), ("", "nodes", false));
        assert_eq!(ResourceType::of::<Widget>().to_string(), "widgets.v1alpha1.example.com");
    }
}
