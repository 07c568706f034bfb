use std::borrow::Cow;

use pilothouse_model::FieldSelector;

use crate::request::{ObjectPath, Request, Verb};
use crate::status::{About, Status};

/// What somebody wants to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question<'a> {
    /// In the words of RBAC; for a path, the HTTP method in lower case.
    pub verb: Cow<'a, str>,
    pub topic: Topic<'a>,
}

/// What it would be done to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Topic<'a> {
    Resource(Target<'a>),
    /// The path of something that is no resource, such as `/version`.
    Path(Cow<'a, str>),
}

/// A resource; empty parts stand for none, and for core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    pub group: Cow<'a, str>,
    pub resource: Cow<'a, str>,
    pub subresource: Cow<'a, str>,
    pub namespace: Cow<'a, str>,
    pub name: Cow<'a, str>,
}

impl<'a> Question<'a> {
    /// A question about a resource.
    pub(crate) fn resource(
        verb: impl Into<Cow<'a, str>>,
        group: impl Into<Cow<'a, str>>,
        resource: impl Into<Cow<'a, str>>,
    ) -> Self {
        let target = Target { group: group.into(), resource: resource.into(), ..Target::default() };
        Self { verb: verb.into(), topic: Topic::Resource(target) }
    }

    /// A question about a path.
    pub(crate) fn path(verb: impl Into<Cow<'a, str>>, path: impl Into<Cow<'a, str>>) -> Self {
        Self { verb: verb.into(), topic: Topic::Path(path.into()) }
    }

    /// The same in a namespace.
    pub(crate) fn within(self, namespace: impl Into<Cow<'a, str>>) -> Self {
        self.with(|target| target.namespace = namespace.into())
    }

    /// The same about the object of a name.
    pub(crate) fn named(self, name: impl Into<Cow<'a, str>>) -> Self {
        self.with(|target| target.name = name.into())
    }

    /// The same about a subresource.
    pub(crate) fn below(self, subresource: impl Into<Cow<'a, str>>) -> Self {
        self.with(|target| target.subresource = subresource.into())
    }

    fn with(mut self, change: impl FnOnce(&mut Target<'a>)) -> Self {
        if let Topic::Resource(target) = &mut self.topic {
            change(target);
        }
        self
    }

    /// The question that a request for a resource is.
    pub(crate) fn of(path: &'a ObjectPath, verb: Verb, request: &'a Request) -> Self {
        let text = |part: &'a Option<String>| Cow::Borrowed(part.as_deref().unwrap_or_default());
        let mut namespace = text(&path.namespace);
        let mut name = text(&path.name);
        if path.group.is_empty() && path.plural == "namespaces" {
            // So that a role in the namespace may allow to read it.
            namespace = name.clone();
        }
        if name.is_empty() && matches!(verb, Verb::List | Verb::Watch) {
            // So that a rule with resourceNames may allow to watch one object.
            name = Cow::Owned(one_name(request.query.get("fieldSelector").unwrap_or_default()));
        }
        let question = Self::resource(verb.as_str(), path.group.as_str(), path.plural.as_str());
        question.within(namespace).named(name).below(text(&path.subresource))
    }

    /// 403 in the words of Kubernetes.
    pub(crate) fn forbidden(&self, user: &str, reason: &str) -> Status {
        let (about, name, place) = match &self.topic {
            Topic::Path(path) => {
                (About { group: "", plural: "", kind: "" }, "", format!("path {:?}", shown(path)))
            }
            Topic::Resource(target) => {
                let about = About { group: &target.group, plural: &target.resource, kind: "" };
                (about, &*target.name, target.place())
            }
        };
        let mut problem = format!("User {:?} cannot {} {place}", shown(user), shown(&self.verb));
        if !reason.is_empty() {
            problem.push_str(": ");
            problem.push_str(reason);
        }
        Status::forbidden(about, name, &problem)
    }
}

impl Target<'_> {
    /// `deployments/scale`, or `deployments` alone.
    pub(super) fn combined(&self) -> Cow<'_, str> {
        if self.subresource.is_empty() {
            Cow::Borrowed(&self.resource)
        } else {
            Cow::Owned(format!("{}/{}", self.resource, self.subresource))
        }
    }

    fn place(&self) -> String {
        let what = format!("resource {:?} in API group {:?}", shown(&self.combined()), shown(&self.group));
        if self.namespace.is_empty() {
            format!("{what} at the cluster scope")
        } else {
            format!("{what} in the namespace {:?}", shown(&self.namespace))
        }
    }
}

/// The name that a field selector allows alone, "" if there is none.
fn one_name(selector: &str) -> String {
    let parsed = if selector.is_empty() { None } else { FieldSelector::parse(selector).ok() };
    let requirements = parsed.as_ref().map_or(&[][..], FieldSelector::requirements);
    let exact = requirements.iter().find(|one| one.path == "metadata.name" && one.equal);
    exact.map(|one| one.value.clone()).unwrap_or_default()
}

/// Text from a request as kube-apiserver lets it into a message that a browser may show.
fn shown(text: &str) -> Cow<'_, str> {
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
    fn a_refusal_reads_like_that_of_kubernetes() {
        let pods = Question::resource("list", "", "pods").within("n");
        let refused = pods.forbidden("x", "");
        assert_eq!(
            refused.message,
            r#"pods is forbidden: User "x" cannot list resource "pods" in API group "" in the namespace "n""#
        );
        assert_eq!((refused.code, refused.reason), (403, "Forbidden"));
        assert_eq!(refused.to_value()["details"], serde_json::json!({"kind": "pods"}));
        let scale = Question::resource("patch", "apps", "deployments").named("web").below("scale");
        assert_eq!(
            scale.forbidden("x", "why").message,
            "deployments.apps \"web\" is forbidden: User \"x\" cannot patch resource \"deployments/scale\" in API group \
             \"apps\" at the cluster scope: why"
        );
        assert_eq!(
            Question::path("get", "/metrics").forbidden("<x>", "").message,
            r#"forbidden: User "&lt;x&gt;" cannot get path "/metrics""#
        );
    }

    #[test]
    fn a_field_selector_may_name_one_object() {
        assert_eq!(one_name("metadata.name=a,spec.x=y"), "a");
        assert_eq!(one_name("metadata.name!=a"), "");
        assert_eq!(one_name("metadata.namespace=a"), "");
    }
}
