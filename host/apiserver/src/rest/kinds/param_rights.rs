//! Who may refer to the parameters of admission policies: users who can read them, after `authz.go` of the policies and bindings in
//! `k8s.io/kubernetes/pkg/registry/admissionregistration`.

use std::sync::Arc;

use serde_json::Value;

use crate::access::Attributes;
use crate::admission::GROUP;
use crate::meta;
use crate::registry::{Endpoint, Registry};
use crate::rest::verbs::update::UpdateTarget;
use crate::schema::field;
use crate::state::State;
use crate::status::{Cause, Status};
use crate::user::User;

/// Checks a valid policy or binding that `author` writes. Other objects pass, and so do the server's own writes, which have no author.
///
/// # Errors
/// 422 if the author may not read the parameters.
pub(in crate::rest) fn check(
    state: &State,
    endpoint: &Endpoint,
    target: UpdateTarget,
    (old, new): (Option<&Value>, &Value),
    author: Option<&Arc<User>>,
) -> Result<(), Status> {
    let plural = endpoint.resource.names.plural.as_str();
    let is_policy = endpoint.group == GROUP && plural.contains("admissionpolic");
    if !is_policy || target != UpdateTarget::Object {
        return Ok(());
    }
    let Some(user) = author.filter(|user| !user.is_superuser()) else { return Ok(()) };
    let write = Write { state, registry: &state.registry(), user };
    let cause = match plural {
        "validatingadmissionpolicies" | "mutatingadmissionpolicies" => write.check_policy(old, new),
        "validatingadmissionpolicybindings" => write.check_binding("validatingadmissionpolicies", new),
        _ => write.check_binding("mutatingadmissionpolicies", new),
    };
    cause.map_err(|cause| Status::invalid(endpoint.resource_ref(), meta::text(new, "name"), vec![cause]))
}

/// A write of a policy or a binding by a user.
struct Write<'a> {
    state: &'a State,
    registry: &'a Registry,
    user: &'a User,
}

/// The resource of a kind of parameters.
struct Resource {
    group: String,
    /// `*` if the kind is not served.
    plural: String,
}

impl Write<'_> {
    fn check_policy(&self, old: Option<&Value>, new: &Value) -> Result<(), Cause> {
        let kind = &new["spec"]["paramKind"];
        if kind.is_null() || old.is_some_and(|old| old["spec"]["paramKind"] == *kind) {
            return Ok(());
        }
        let (resource, _) = self.resource(kind);
        let attributes = Attributes::resource("get", resource.group, resource.plural);
        if self.is_allowed(&attributes.in_namespace("*").named("*")) {
            return Ok(());
        }
        let problem = format!(
            "user {} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={})",
            as_go(self.user),
            text(kind, "kind"),
            text(kind, "apiVersion")
        );
        Err(field::forbidden("spec.paramKind", &problem))
    }

    /// Checks a binding of a policy of a resource. As in Kubernetes, an update that keeps the reference is checked, too.
    fn check_binding(&self, policies: &str, new: &Value) -> Result<(), Cause> {
        let reference = &new["spec"]["paramRef"];
        if reference.is_null() {
            return Ok(());
        }
        let policy_name = text(&new["spec"], "policyName");
        let policy = self.registry.endpoint(GROUP, "v1", policies);
        let policy = policy.and_then(|policies| policies.resource.table.get("", policy_name));
        let kind = policy.as_ref().map(|policy| policy.value()["spec"]["paramKind"].clone());
        let (resource, is_served) = match kind.as_ref().filter(|kind| !kind.is_null()) {
            Some(kind) => self.resource(kind),
            None => (Resource { group: "*".to_owned(), plural: "*".to_owned() }, true),
        };
        let name = text(reference, "name");
        let verb = if name.is_empty() { "list" } else { "get" };
        let attributes = Attributes::resource(verb, resource.group, resource.plural);
        if self.is_allowed(&attributes.in_namespace(text(reference, "namespace")).named(name)) {
            return Ok(());
        }
        let user = as_go(self.user);
        let everything = format!(
            "to determine minimum required permissions and user {user} does not have \"{verb}\" permission for all groups, versions \
             and resources"
        );
        let problem = match kind {
            None => format!("unable to get policy {policy_name} {everything}"),
            Some(kind) if !is_served => {
                let shown = format!("&{{{} {}}}", text(&kind, "apiVersion"), text(&kind, "kind"));
                format!("unable to resolve paramKind {shown} {everything}")
            }
            // Kubernetes 1.36 mixes up the two values in the message about a MutatingAdmissionPolicyBinding.
            Some(_) if policies == "mutatingadmissionpolicies" => {
                format!(
                    "user {verb} does not have \"{user}\" permission on the object referenced by paramRef"
                )
            }
            Some(_) => format!(
                "user {user} does not have \"{verb}\" permission on the object referenced by paramRef"
            ),
        };
        Err(field::forbidden("spec.paramRef", &problem))
    }

    /// Returns the resource of a `paramKind`, and whether it is served.
    fn resource(&self, kind: &Value) -> (Resource, bool) {
        let api_version = text(kind, "apiVersion");
        let found = self.registry.by_kind(api_version, text(kind, "kind"));
        let group = api_version.split_once('/').map_or("", |(group, _)| group).to_owned();
        let plural = found.map_or("*", |endpoint| endpoint.resource.names.plural.as_str()).to_owned();
        (Resource { group, plural }, found.is_some())
    }

    fn is_allowed(&self, attributes: &Attributes<'_>) -> bool {
        self.state.access.review(self.user, attributes).allowed
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// Returns a user as Go prints `&user.DefaultInfo`.
fn as_go(user: &User) -> String {
    let extra: Vec<String> =
        user.extra.iter().map(|(key, values)| format!("{key}:[{}]", values.join(" "))).collect();
    format!("&{{{} {} [{}] map[{}]}}", user.name, user.uid, user.groups.join(" "), extra.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_is_printed_as_by_go() {
        let mut user = User::new("x", &["a"]);
        assert_eq!(as_go(&user), "&{x  [a system:authenticated] map[]}");
        user.extra = [("k".to_owned(), vec!["1".to_owned(), "2".to_owned()])].into();
        assert_eq!(as_go(&user), "&{x  [a system:authenticated] map[k:[1 2]]}");
    }
}
