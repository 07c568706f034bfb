//! The attributes of a request that authorization depends on, after `k8s.io/apiserver/pkg/authorization/authorizer`.

use std::borrow::Cow;

use pilothouse_model::FieldSelector;

use crate::request::{ObjectPath, Request, Verb};
use crate::status::{ResourceRef, Status};

/// The attributes of a request to authorize.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attributes<'a> {
    /// The verb as RBAC names it; for a non-resource path, the HTTP method in lower case.
    pub verb: Cow<'a, str>,
    pub kind: RequestKind<'a>,
}

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind<'a> {
    Resource(ResourceAttributes<'a>),
    /// A path that is not a resource, such as `/version`.
    NonResource(Cow<'a, str>),
}

/// The resource of a request. Empty fields stand for none; an empty group is core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourceAttributes<'a> {
    pub group: Cow<'a, str>,
    pub resource: Cow<'a, str>,
    pub subresource: Cow<'a, str>,
    pub namespace: Cow<'a, str>,
    pub name: Cow<'a, str>,
}

impl<'a> Attributes<'a> {
    /// Returns the attributes of a request for a cluster-scoped collection.
    pub(crate) fn resource(
        verb: impl Into<Cow<'a, str>>,
        group: impl Into<Cow<'a, str>>,
        resource: impl Into<Cow<'a, str>>,
    ) -> Self {
        let resource = ResourceAttributes {
            group: group.into(),
            resource: resource.into(),
            ..ResourceAttributes::default()
        };
        Self { verb: verb.into(), kind: RequestKind::Resource(resource) }
    }

    /// Returns the attributes of a request for a non-resource path.
    pub(crate) fn non_resource(verb: impl Into<Cow<'a, str>>, path: impl Into<Cow<'a, str>>) -> Self {
        Self { verb: verb.into(), kind: RequestKind::NonResource(path.into()) }
    }

    /// Sets the namespace.
    pub(crate) fn in_namespace(self, namespace: impl Into<Cow<'a, str>>) -> Self {
        self.with(|resource| resource.namespace = namespace.into())
    }

    /// Sets the object's name.
    pub(crate) fn named(self, name: impl Into<Cow<'a, str>>) -> Self {
        self.with(|resource| resource.name = name.into())
    }

    /// Sets the subresource.
    pub(crate) fn subresource(self, subresource: impl Into<Cow<'a, str>>) -> Self {
        self.with(|resource| resource.subresource = subresource.into())
    }

    fn with(mut self, change: impl FnOnce(&mut ResourceAttributes<'a>)) -> Self {
        if let RequestKind::Resource(resource) = &mut self.kind {
            change(resource);
        }
        self
    }

    /// Returns the attributes of a request for a resource.
    pub(crate) fn for_request(path: &'a ObjectPath, verb: Verb, request: &'a Request) -> Self {
        let text = |part: &'a Option<String>| Cow::Borrowed(part.as_deref().unwrap_or_default());
        let mut namespace = text(&path.namespace);
        let mut name = text(&path.name);
        if path.group.is_empty() && path.plural == "namespaces" {
            // As in Kubernetes, so that a role in a namespace can allow access to that Namespace object.
            namespace = name.clone();
        }
        if name.is_empty() && matches!(verb, Verb::List | Verb::Watch) {
            // As in Kubernetes, so that a rule with resourceNames can allow a list or watch of one object.
            name = Cow::Owned(selected_name(request.query.get("fieldSelector").unwrap_or_default()));
        }
        let attributes = Self::resource(verb.as_str(), path.group.as_str(), path.plural.as_str());
        attributes.in_namespace(namespace).named(name).subresource(text(&path.subresource))
    }

    /// Returns the 403 for these attributes, worded as in kube-apiserver.
    pub(crate) fn forbidden(&self, user: &str, reason: &str) -> Status {
        let (about, name, object) = match &self.kind {
            RequestKind::NonResource(path) => {
                (ResourceRef { group: "", plural: "", kind: "" }, "", format!("path {:?}", escape_html(path)))
            }
            RequestKind::Resource(resource) => {
                let about = ResourceRef { group: &resource.group, plural: &resource.resource, kind: "" };
                (about, &*resource.name, resource.describe())
            }
        };
        let mut problem = format!("User {:?} cannot {} {object}", escape_html(user), escape_html(&self.verb));
        if !reason.is_empty() {
            problem.push_str(": ");
            problem.push_str(reason);
        }
        Status::forbidden(about, name, &problem)
    }
}

impl ResourceAttributes<'_> {
    /// Returns resource and subresource as rules write them: `deployments/scale`, or `deployments` alone.
    pub(super) fn combined(&self) -> Cow<'_, str> {
        if self.subresource.is_empty() {
            Cow::Borrowed(&self.resource)
        } else {
            Cow::Owned(format!("{}/{}", self.resource, self.subresource))
        }
    }

    /// Describes the resource and namespace for an error message.
    fn describe(&self) -> String {
        let resource = format!(
            "resource {:?} in API group {:?}",
            escape_html(&self.combined()),
            escape_html(&self.group)
        );
        if self.namespace.is_empty() {
            format!("{resource} at the cluster scope")
        } else {
            format!("{resource} in the namespace {:?}", escape_html(&self.namespace))
        }
    }
}

/// Returns the only object name that a field selector matches, "" if it does not restrict the name to one.
fn selected_name(selector: &str) -> String {
    let parsed = if selector.is_empty() { None } else { FieldSelector::parse(selector).ok() };
    let requirements = parsed.as_ref().map_or(&[][..], FieldSelector::requirements);
    let exact = requirements.iter().find(|one| one.path == "metadata.name" && one.equal);
    exact.map(|one| one.value.clone()).unwrap_or_default()
}

/// Escapes text from a request for an error message, as kube-apiserver does because a browser may show the message.
fn escape_html(text: &str) -> Cow<'_, str> {
    if text.contains(['&', '<', '>']) {
        Cow::Owned(text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_message_matches_kubernetes() {
        let pods = Attributes::resource("list", "", "pods").in_namespace("n");
        let refused = pods.forbidden("x", "");
        assert_eq!(
            refused.message,
            r#"pods is forbidden: User "x" cannot list resource "pods" in API group "" in the namespace "n""#
        );
        assert_eq!((refused.code, refused.reason), (403, "Forbidden"));
        assert_eq!(refused.to_value()["details"], serde_json::json!({"kind": "pods"}));
        let scale = Attributes::resource("patch", "apps", "deployments").named("web").subresource("scale");
        assert_eq!(
            scale.forbidden("x", "why").message,
            "deployments.apps \"web\" is forbidden: User \"x\" cannot patch resource \"deployments/scale\" in API group \
             \"apps\" at the cluster scope: why"
        );
        assert_eq!(
            Attributes::non_resource("get", "/metrics").forbidden("<x>", "").message,
            r#"forbidden: User "&lt;x&gt;" cannot get path "/metrics""#
        );
    }

    #[test]
    fn field_selector_for_one_name_sets_the_name() {
        assert_eq!(selected_name("metadata.name=a,spec.x=y"), "a");
        assert_eq!(selected_name("metadata.name!=a"), "");
        assert_eq!(selected_name("metadata.namespace=a"), "");
    }
}
