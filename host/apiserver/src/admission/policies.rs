//! Checks a write against all ValidatingAdmissionPolicies, after `k8s.io/apiserver/pkg/admission/plugin/policy/validating`.

use pilothouse_cel::{Value as CelValue, from_json};
use serde_json::Value;

use super::Active;
use super::audit::{self, AnnotationValues};
use super::cache::BoundPolicy;
use super::call::name_of;
use super::conditions::FailurePolicy;
use super::criteria::MatchedVersion;
use super::evaluation::{Failure, evaluate};
use super::expressions::{Inputs, POLICY_BUDGET};
use super::params::{self, Param};
use super::policy::{Action, Binding, Policy, PolicyRules};
use super::request::{Objects, WriteRequest};
use crate::status::{Cause, Status};

/// The units that all policies together may cost for one write. Kubernetes has no such limit, but a binding may select many parameters.
pub(super) const WRITE_BUDGET: u64 = 5 * POLICY_BUDGET;

/// Why a write is refused: the message of the first policy that denies it, and its reason.
type Denial = (String, String);

/// Checks a write against all policies.
///
/// # Errors
/// The denial by the first policy that denies the write.
pub(super) async fn validate(
    active: &Active<'_>,
    write: &WriteRequest<'_>,
    objects: Objects<'_>,
) -> Result<(), Status> {
    let check = Check { active, write, objects };
    let mut budget = WRITE_BUDGET;
    // Every policy is evaluated, because each one may have warnings.
    let mut denial = None;
    for bound in &active.configuration.policies {
        check.policy(bound, &mut budget, &mut denial).await?;
    }
    match denial {
        None => Ok(()),
        Some((message, reason)) => Err(refusal(write, objects, message, &reason)),
    }
}

/// The check of one write.
pub(super) struct Check<'a> {
    pub active: &'a Active<'a>,
    pub write: &'a WriteRequest<'a>,
    pub objects: Objects<'a>,
}

impl<'a> Check<'a> {
    /// Checks the write against one policy with all its bindings. `left` is the remaining cost that [`WRITE_BUDGET`]
    /// allows, and `denial` is the first denial so far.
    async fn policy(
        &self,
        bound: &BoundPolicy,
        left: &mut u64,
        denial: &mut Option<Denial>,
    ) -> Result<(), Status> {
        let policy = &*bound.policy;
        let (rules, version) = match self.applicable_rules(policy) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(()),
            Err(problem) => {
                *denial = denial.take().or_else(|| misconfiguration(policy, None, &problem));
                return Ok(());
            }
        };
        let with_params = bound.bindings.iter().map(|binding| (binding, self.params(rules, binding)));
        let with_params: Vec<_> =
            with_params.filter(|(_, params)| !params.as_ref().is_ok_and(Vec::is_empty)).collect();
        if with_params.is_empty() {
            return Ok(());
        }
        let new = version.convert(self.write, self.objects.new).await?;
        let old = version.convert(self.write, self.objects.old).await?;
        let mut inputs = self.inputs(&version, new.as_ref(), old.as_ref());
        let mut annotations = AnnotationValues::default();
        for (binding, params) in with_params {
            let params = match params {
                Ok(params) => params,
                Err(problem) => {
                    *denial = denial.take().or_else(|| misconfiguration(policy, Some(binding), &problem));
                    continue;
                }
            };
            for param in params {
                let value = param.map_or(Value::Null, |param| param.value());
                inputs.set("params", from_json(value));
                let outcome = evaluate(rules, policy.failure_policy, &mut inputs, left);
                for failure in outcome.failures {
                    let found = self.act(policy, binding, failure);
                    *denial = denial.take().or(found);
                }
                for (key, value) in outcome.annotations {
                    match value {
                        Ok(value) => annotations.add(key, value),
                        // As in Kubernetes, this does not depend on the actions of the binding.
                        Err(problem) => {
                            let text = denial_text(policy, Some(binding), &problem);
                            *denial = denial.take().or(Some((text, String::new())));
                        }
                    }
                }
            }
        }
        annotations.publish(&policy.name, &self.active.notes);
        Ok(())
    }

    /// Returns what the policy checks, and the version in which it sees the objects, if the policy is for the write.
    pub(super) fn applicable_rules<'p>(
        &self,
        policy: &'p Policy,
    ) -> Result<Option<(&'p PolicyRules, MatchedVersion)>, String> {
        let rules = policy.rules.as_ref().map_err(Clone::clone)?;
        let (registry, namespaces) = (&self.active.registry, &self.active.control.namespaces);
        let matched = rules.criteria.matches(self.write, self.objects, registry, namespaces);
        let Some(version) = matched.map_err(|status| status.message)? else { return Ok(None) };
        params::check_kind(rules, registry)?;
        Ok(Some((rules, version)))
    }

    /// Returns the parameters to evaluate the policy with; none if the binding is not for the write.
    pub(super) fn params(
        &self,
        rules: &PolicyRules,
        binding: &Binding,
    ) -> Result<Vec<Option<Param<'a>>>, String> {
        let active: &'a Active<'a> = self.active;
        let (registry, namespaces) = (&active.registry, &active.control.namespaces);
        if let Some(criteria) = &binding.criteria {
            let criteria = criteria.as_ref().map_err(Clone::clone)?;
            let matched = criteria.matches(self.write, self.objects, registry, namespaces);
            if matched.map_err(|status| status.message)?.is_none() {
                return Ok(Vec::new());
            }
        }
        params::collect(rules, binding, self.write.request_namespace(), registry)
    }

    /// Returns the variables for one parameter.
    pub(super) fn inputs_with(
        &self,
        version: &MatchedVersion,
        (new, old): (Option<&Value>, Option<&Value>),
        param: Option<&Param<'_>>,
    ) -> Inputs<'a> {
        let mut inputs = self.inputs(version, new, old);
        inputs.set("params", from_json(param.map_or(Value::Null, Param::value)));
        inputs
    }

    /// Returns the variables that are the same for all bindings.
    fn inputs(&self, version: &MatchedVersion, new: Option<&Value>, old: Option<&Value>) -> Inputs<'a> {
        let Self { active, write, .. } = self;
        let request = write.to_value(version.endpoint(write.endpoint), &active.user, &active.options);
        let inputs = Inputs::new(new, old, request);
        let mut inputs = inputs.with_authorizer(active.access, &active.user, write);
        inputs.set("namespaceObject", self.namespace_object());
        inputs
    }

    /// Returns the namespace of the object; null for cluster-scoped objects.
    fn namespace_object(&self) -> CelValue {
        if self.write.namespace.is_empty() {
            return CelValue::Null;
        }
        let found = self.active.control.namespaces.get("", self.write.namespace);
        from_json(found.map_or(Value::Null, |namespace| namespace.value()))
    }

    /// Does what the binding demands for a failed validation. Returns the denial, if it demands that.
    fn act(&self, policy: &Policy, binding: &Binding, failure: Failure) -> Option<Denial> {
        let Failure { message, reason, index } = failure;
        if binding.actions.contains(&Action::Warn) {
            self.active.notes.warn(&[format!(
                "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
                policy.name, binding.name
            )]);
        }
        if binding.actions.contains(&Action::Audit) {
            audit::record_failure(&self.active.notes, binding, index, &message);
        }
        let is_denied = binding.actions.contains(&Action::Deny);
        is_denied.then(|| (denial_text(policy, Some(binding), &message), reason))
    }
}

/// Returns the denial because a policy or one of its bindings cannot be used, unless the failure policy ignores that.
fn misconfiguration(policy: &Policy, binding: Option<&Binding>, problem: &str) -> Option<Denial> {
    if policy.failure_policy == FailurePolicy::Ignore {
        return None;
    }
    let what = if binding.is_some() { "binding" } else { "policy" };
    let message = format!("failed to configure {what}: {problem}");
    Some((denial_text(policy, binding, &message), String::new()))
}

fn denial_text(policy: &Policy, binding: Option<&Binding>, message: &str) -> String {
    match binding {
        Some(binding) => format!(
            "ValidatingAdmissionPolicy '{}' with binding '{}' denied request: {message}",
            policy.name, binding.name
        ),
        None => format!("ValidatingAdmissionPolicy '{}' denied request: {message}", policy.name),
    }
}

fn refusal(write: &WriteRequest<'_>, objects: Objects<'_>, message: String, reason: &str) -> Status {
    let mut status = Status::forbidden(write.endpoint.resource_ref(), name_of(write, objects.new), &message);
    (status.code, status.reason) = match reason {
        "Unauthorized" => (401, "Unauthorized"),
        "Forbidden" => (403, "Forbidden"),
        "RequestEntityTooLarge" => (413, "RequestEntityTooLarge"),
        _ => (422, "Invalid"),
    };
    if let Some(details) = &mut status.details {
        details.causes.push(Cause { field: String::new(), reason: String::new(), message });
    }
    status
}
