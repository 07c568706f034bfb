//! The identity of a shared informer, and how a narrower request is served from a wider informer.

use std::fmt;

use pilothouse_model::{FieldSelector, LabelSelector, Object, ResourceType, StaticScope, Transform};

/// What a shared informer watches. Subscribers with equal keys share one reflector and one cache.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use pilothouse_informer::{InformerKey, LabelSelector};
///
/// let all = InformerKey::of::<Pod>();
/// let narrow = all.clone().in_namespace("default").with_labels(LabelSelector::parse("app=web").unwrap());
/// assert!(all.restriction_for(&narrow).is_some(), "the wide informer can serve the narrow request");
/// assert!(narrow.restriction_for(&all).is_none(), "but not the other way round");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct InformerKey {
    /// The resource, in one API version.
    pub resource: ResourceType,
    /// The namespace to watch; `None` for all namespaces and for cluster-scoped resources.
    pub namespace: Option<String>,
    /// Label selector that the server evaluates.
    pub label_selector: LabelSelector,
    /// Field selector that the server evaluates.
    pub field_selector: FieldSelector,
    /// Which fields of each object are removed before it is cached.
    pub transform: Transform,
}

/// The filter that a narrower request applies to a wider informer's objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Restriction {
    pub(crate) namespace: Option<String>,
    label_selector: LabelSelector,
    field_selector: FieldSelector,
}

impl InformerKey {
    /// Selects all objects of a resource, with [`Transform::standard`].
    #[must_use]
    pub fn new(resource: ResourceType) -> Self {
        Self {
            resource,
            namespace: None,
            label_selector: LabelSelector::everything(),
            field_selector: FieldSelector::everything(),
            transform: Transform::standard(),
        }
    }

    /// Selects all objects of a Rust type, with [`Transform::standard`]: a type of `k8s_openapi`, or a custom resource that kube
    /// derives.
    ///
    /// ```
    /// use k8s_openapi::api::apps::v1::Deployment;
    /// use pilothouse_informer::InformerKey;
    ///
    /// let key = InformerKey::of::<Deployment>().in_namespace("shop");
    /// assert_eq!(key.url_path(), "/apis/apps/v1/namespaces/shop/deployments");
    /// ```
    #[must_use]
    pub fn of<K>() -> Self
    where
        K: kube::Resource<DynamicType = ()>,
        K::Scope: StaticScope,
    {
        Self::new(ResourceType::of::<K>())
    }

    /// Restricts the key to one namespace. Ignored for cluster-scoped resources; "" stands for all namespaces.
    #[must_use]
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace =
            Some(namespace.into()).filter(|namespace| self.resource.namespaced && !namespace.is_empty());
        self
    }

    /// Restricts the key to objects that match a label selector.
    #[must_use]
    pub fn with_labels(mut self, selector: LabelSelector) -> Self {
        self.label_selector = selector;
        self
    }

    /// Restricts the key to objects that match a field selector.
    #[must_use]
    pub fn with_fields(mut self, selector: FieldSelector) -> Self {
        self.field_selector = selector;
        self
    }

    /// Replaces the standard transform.
    #[must_use]
    pub fn with_transform(mut self, transform: Transform) -> Self {
        self.transform = transform;
        self
    }

    /// Returns the URL path that is listed and watched.
    #[must_use]
    pub fn url_path(&self) -> String {
        self.resource.url_path(self.namespace.as_deref())
    }

    /// Returns the filter with which an informer of this key can serve the request `narrower`, or `None` if it cannot.
    ///
    /// Namespace, labels, `metadata.name` and `metadata.namespace` can be evaluated locally. Only the server knows the
    /// meaning of other field selectors, so those must be equal.
    #[must_use]
    pub fn restriction_for(&self, narrower: &Self) -> Option<Restriction> {
        if self.resource != narrower.resource || self.transform != narrower.transform {
            return None;
        }
        let mut restriction = Restriction::default();
        if self.namespace != narrower.namespace {
            if self.namespace.is_some() {
                return None;
            }
            restriction.namespace.clone_from(&narrower.namespace);
        }
        if self.label_selector != narrower.label_selector {
            if !self.label_selector.is_empty() {
                return None;
            }
            restriction.label_selector = narrower.label_selector.clone();
        }
        if self.field_selector != narrower.field_selector {
            let can_evaluate = |path: &str| matches!(path, "metadata.name" | "metadata.namespace");
            let can_evaluate_all = narrower
                .field_selector
                .requirements()
                .iter()
                .all(|requirement| can_evaluate(&requirement.path));
            if !self.field_selector.is_empty() || !can_evaluate_all {
                return None;
            }
            restriction.field_selector = narrower.field_selector.clone();
        }
        Some(restriction)
    }
}

impl fmt::Display for InformerKey {
    /// Formats the key like `kubectl` arguments: `pods.v1 -n default -l app=web`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.resource)?;
        if let Some(namespace) = &self.namespace {
            write!(f, " -n {namespace}")?;
        }
        if !self.label_selector.is_empty() {
            write!(f, " -l {}", self.label_selector)?;
        }
        if !self.field_selector.is_empty() {
            write!(f, " --field-selector {}", self.field_selector)?;
        }
        Ok(())
    }
}

impl Restriction {
    /// Whether every object passes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn label_selector(&self) -> &LabelSelector {
        &self.label_selector
    }

    pub(crate) fn field_selector(&self) -> &FieldSelector {
        &self.field_selector
    }

    /// Whether the object passes the filter.
    #[must_use]
    pub fn matches(&self, object: &Object) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| namespace == object.namespace())
            && self.label_selector.matches_object(object)
            && self.field_selector.matches_object(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> InformerKey {
        InformerKey::new(ResourceType {
            group: "apps".into(),
            version: "v1".into(),
            kind: "Deployment".into(),
            plural: "deployments".into(),
            namespaced: true,
        })
    }

    fn fields(text: &str) -> FieldSelector {
        FieldSelector::parse(text).expect("a field selector")
    }

    #[test]
    fn only_selectors_that_can_be_evaluated_locally_are_narrowed() {
        let all = key();
        assert_eq!(all.restriction_for(&key()), Some(Restriction::default()));
        let named = key().with_fields(fields("metadata.name=web"));
        assert!(all.restriction_for(&named).is_some_and(|restriction| !restriction.is_empty()));
        let phase = key().with_fields(fields("status.phase=Running"));
        assert_eq!(all.restriction_for(&phase), None);
        assert_eq!(
            phase.restriction_for(&phase.clone().in_namespace("a")).and_then(|r| r.namespace),
            Some("a".into())
        );
        assert_eq!(phase.restriction_for(&all), None);
    }

    #[test]
    fn other_resources_projections_and_selectors_are_not_shared() {
        let all = key();
        let mut other_version = key();
        other_version.resource.version = "v1beta1".into();
        assert_eq!(all.restriction_for(&other_version), None);
        assert_eq!(all.restriction_for(&key().with_transform(Transform::default())), None);
        let web = key().with_labels(LabelSelector::parse("app=web").expect("labels"));
        let db = key().with_labels(LabelSelector::parse("app=db").expect("labels"));
        assert_eq!(web.restriction_for(&db), None);
        assert_eq!(key().in_namespace("a").restriction_for(&key().in_namespace("b")), None);
    }

    #[test]
    fn the_key_of_a_type_is_that_of_its_resource() {
        assert_eq!(InformerKey::of::<k8s_openapi::api::apps::v1::Deployment>(), key());
    }

    #[test]
    fn a_key_displays_as_kubectl_arguments() {
        let key = key().in_namespace("prod").with_fields(fields("metadata.name=web"));
        assert_eq!(key.to_string(), "deployments.v1.apps -n prod --field-selector metadata.name=web");
        assert_eq!(key.in_namespace("").namespace, None);
    }
}
