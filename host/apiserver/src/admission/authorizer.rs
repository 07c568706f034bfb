//! The variables `authorizer` and `authorizer.requestResource`, after `authz.go` in `k8s.io/apiserver/pkg/cel/library`. The server's own authorizer decides.

use std::sync::Arc;

use pilothouse_cel::{Budget, EvaluationError, HostFunctions, Opaque, Value as CelValue};
use pilothouse_model::names::{is_dns_label, is_dns_subdomain};

use super::request::WriteRequest;
use crate::access::{Access, Attributes};
use crate::user::{User, account_groups, account_name};

/// The cost of a decision in units, as in Kubernetes.
const DECISION_COST: u64 = 350_000;

/// A value of the library.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AuthorizerValue {
    Authorizer(Arc<User>),
    Path(Arc<User>, String),
    Group(Arc<User>, String),
    Resource(Arc<User>, ResourceCheck),
    Decision { allowed: bool, reason: String },
}

/// The resource that a decision is about. Selectors do not matter to RBAC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ResourceCheck {
    group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

impl Opaque for AuthorizerValue {
    fn runtime_type_name(&self) -> &str {
        match self {
            Self::Authorizer(_) => "kubernetes.authorization.Authorizer",
            Self::Path(..) => "kubernetes.authorization.PathCheck",
            Self::Group(..) => "kubernetes.authorization.GroupCheck",
            Self::Resource(..) => "kubernetes.authorization.ResourceCheck",
            Self::Decision { .. } => "kubernetes.authorization.Decision",
        }
    }
}

/// Returns the variables for a write by a user.
pub(super) fn variables(user: &Arc<User>, write: &WriteRequest<'_>) -> [(&'static str, CelValue); 2] {
    let resource = ResourceCheck {
        group: write.endpoint.group.clone(),
        resource: write.endpoint.resource.names.plural.clone(),
        subresource: write.subresource.to_owned(),
        namespace: write.request_namespace().to_owned(),
        name: write.name.to_owned(),
    };
    [
        ("authorizer", to_value(AuthorizerValue::Authorizer(Arc::clone(user)))),
        ("authorizer.requestResource", to_value(AuthorizerValue::Resource(Arc::clone(user), resource))),
    ]
}

fn to_value(value: AuthorizerValue) -> CelValue {
    CelValue::Opaque(Arc::new(value))
}

/// The methods of the library.
pub(super) struct Methods<'a>(pub Option<&'a Access>);

impl HostFunctions for Methods<'_> {
    fn call(&self, _: &str, _: &[CelValue], _: &mut Budget) -> Option<Result<CelValue, EvaluationError>> {
        None
    }

    fn call_method(
        &self,
        name: &str,
        target: &CelValue,
        arguments: &[CelValue],
        budget: &mut Budget,
    ) -> Option<Result<CelValue, EvaluationError>> {
        let CelValue::Opaque(opaque) = target else { return None };
        let target: &AuthorizerValue = opaque.downcast_ref()?;
        let mut texts = Vec::with_capacity(arguments.len());
        for argument in arguments {
            let CelValue::String(text) = argument else { return None };
            texts.push(text.as_str());
        }
        let length: usize = texts.iter().map(|text| text.len()).sum();
        if let Err(error) = budget.charge(length as u64 / 10 + 1) {
            return Some(Err(error));
        }
        match (name, target, texts.as_slice()) {
            ("check", AuthorizerValue::Path(user, path), [verb]) => {
                Some(self.decide(user, &Attributes::non_resource(*verb, path.as_str()), budget))
            }
            ("check", AuthorizerValue::Resource(user, check), [verb]) => {
                let attributes = Attributes::resource(*verb, check.group.as_str(), check.resource.as_str());
                let attributes = attributes.in_namespace(check.namespace.as_str()).named(check.name.as_str());
                Some(self.decide(user, &attributes.subresource(check.subresource.as_str()), budget))
            }
            ("allowed", AuthorizerValue::Decision { allowed, .. }, []) => Some(Ok(CelValue::Bool(*allowed))),
            ("reason", AuthorizerValue::Decision { reason, .. }, []) => {
                Some(Ok(CelValue::from(reason.as_str())))
            }
            // The server's authorizer has no errors.
            ("errored", AuthorizerValue::Decision { .. }, []) => Some(Ok(CelValue::Bool(false))),
            ("error", AuthorizerValue::Decision { .. }, []) => Some(Ok(CelValue::from(""))),
            _ => narrowed(name, target, &texts),
        }
    }
}

impl Methods<'_> {
    fn decide(
        &self,
        user: &User,
        attributes: &Attributes<'_>,
        budget: &mut Budget,
    ) -> Result<CelValue, EvaluationError> {
        budget.charge(DECISION_COST)?;
        let access = self.0.ok_or_else(|| EvaluationError::of_host("there is no authorizer"))?;
        let status = access.review(user, attributes);
        Ok(to_value(AuthorizerValue::Decision { allowed: status.allowed, reason: status.reason }))
    }
}

/// Calls a method that says what a decision is about.
fn narrowed(
    name: &str,
    target: &AuthorizerValue,
    texts: &[&str],
) -> Option<Result<CelValue, EvaluationError>> {
    let refused = |message: &str| Some(Err(EvaluationError::of_host(message)));
    let value = match (name, target, texts) {
        ("path", AuthorizerValue::Authorizer(_), [path]) if path.trim().is_empty() => {
            return refused("path must not be empty");
        }
        ("path", AuthorizerValue::Authorizer(user), [path]) => {
            AuthorizerValue::Path(Arc::clone(user), (*path).to_owned())
        }
        ("group", AuthorizerValue::Authorizer(user), [group]) => {
            AuthorizerValue::Group(Arc::clone(user), (*group).to_owned())
        }
        ("serviceAccount", AuthorizerValue::Authorizer(_), [_, name]) if !is_dns_subdomain(name) => {
            return refused("Invalid service account name");
        }
        ("serviceAccount", AuthorizerValue::Authorizer(_), [namespace, _]) if !is_dns_label(namespace) => {
            return refused("Invalid service account namespace");
        }
        ("serviceAccount", AuthorizerValue::Authorizer(_), [namespace, name]) => {
            // Kubernetes does not add the group of all authenticated users here.
            let groups = account_groups(namespace);
            let user = User { name: account_name(namespace, name), groups, ..User::default() };
            AuthorizerValue::Authorizer(Arc::new(user))
        }
        ("resource", AuthorizerValue::Group(..), [resource]) if resource.trim().is_empty() => {
            return refused("resource must not be empty");
        }
        ("resource", AuthorizerValue::Group(user, group), [resource]) => AuthorizerValue::Resource(
            Arc::clone(user),
            ResourceCheck {
                group: group.clone(),
                resource: (*resource).to_owned(),
                ..ResourceCheck::default()
            },
        ),
        (_, AuthorizerValue::Resource(user, check), [text]) => {
            let (mut check, text) = (check.clone(), (*text).to_owned());
            match name {
                "subresource" => check.subresource = text,
                "namespace" => check.namespace = text,
                "name" => check.name = text,
                "fieldSelector" | "labelSelector" => {}
                _ => return None,
            }
            AuthorizerValue::Resource(Arc::clone(user), check)
        }
        _ => return None,
    };
    Some(Ok(to_value(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_account_is_only_in_the_groups_of_service_accounts() {
        let authorizer = AuthorizerValue::Authorizer(Arc::new(User::admin()));
        let value = narrowed("serviceAccount", &authorizer, &["n", "robot"]);
        let Some(Ok(CelValue::Opaque(value))) = value else { panic!("no authorizer") };
        let Some(AuthorizerValue::Authorizer(user)) = value.downcast_ref() else { panic!("no authorizer") };
        assert_eq!(user.name, "system:serviceaccount:n:robot");
        assert_eq!(user.groups, ["system:serviceaccounts", "system:serviceaccounts:n"]);
    }
}
