//! Lets MutatingAdmissionPolicies change the object of a write, after `dispatcher.go` in `k8s.io/apiserver/pkg/admission/plugin/policy/mutating`.

use serde_json::Value;

use super::Active;
use super::call::name_of;
use super::chain::{BuiltIn, Reinvocation};
use super::conditions::{ConditionsResult, FailurePolicy};
use super::criteria::MatchedVersion;
use super::evaluation::{Evaluation, within};
use super::expressions::{CONDITIONS_BUDGET, POLICY_BUDGET};
use super::mutation;
use super::params::Param;
use super::policies::Check;
use super::policy::{Mutation, PatchType, Policy, PolicyRules};
use super::request::{Objects, Operation, WriteRequest};
use crate::status::{Cause, Status};

/// What a mutation costs for each value in the object, besides its expression.
const COST_PER_VALUE: u64 = 10;

/// Identifies a policy with a binding and a parameter, by their positions and the parameter's namespace and name.
pub(super) type InvocationKey = (usize, usize, String, String);

/// A policy that is for the write, with one parameter.
struct Invocation<'a, 'p> {
    key: InvocationKey,
    policy: &'a Policy,
    rules: &'a PolicyRules,
    /// The binding's name.
    binding: &'a str,
    version: MatchedVersion,
    param: Option<Param<'p>>,
}

/// Why a policy could not change the object.
struct Problem<'a> {
    policy: &'a Policy,
    binding: Option<&'a str>,
    message: String,
    /// Whether an expression failed. Otherwise the policy cannot be used as it is configured.
    is_invalid: bool,
}

/// The dispatch of one round.
struct Dispatch<'a> {
    active: &'a Active<'a>,
    write: &'a WriteRequest<'a>,
    old: Option<&'a Value>,
    built_in: &'a dyn BuiltIn,
    problems: Vec<Problem<'a>>,
}

/// Lets the policies change the new object in one round of admission. Returns whether one of them did. `left` is what all policies may still cost
/// for the write.
///
/// # Errors
/// A policy cannot be evaluated, and its failure policy is `Fail`.
pub(super) async fn mutate(
    active: &Active<'_>,
    write: &WriteRequest<'_>,
    (new, old): (&mut Option<Value>, Option<&Value>),
    built_in: &dyn BuiltIn,
    (reinvocation, is_second_round): (&mut Reinvocation<InvocationKey>, bool),
    left: &mut u64,
) -> Result<bool, Status> {
    let Some(object) = new.as_mut().filter(|_| write.operation != Operation::Delete) else {
        return Ok(false);
    };
    if active.configuration.mutating_policies.is_empty() {
        return Ok(false);
    }
    let mut dispatch = Dispatch { active, write, old, built_in, problems: Vec::new() };
    let (mut any_change, mut any_success) = (false, false);
    // Which policies are for the write does not depend on what earlier ones change.
    let original = object.clone();
    for invocation in dispatch.invocations(&original) {
        if !dispatch.matches(&invocation, object, left).await? {
            continue;
        }
        if !reinvocation.is_due(&invocation.key, is_second_round) {
            continue;
        }
        let before = object.clone();
        for mutation in &invocation.rules.mutations {
            any_success |= dispatch.apply(&invocation, mutation, object, left).await?;
        }
        let changed = before != *object;
        any_change |= changed;
        reinvocation.record(invocation.key, invocation.rules.is_reinvoked, changed);
    }
    if any_success {
        // As in kube-apiserver, a mutation that was applied counts as a change of the object even if it changed nothing, so all policies that may
        // be called again are.
        reinvocation.call_all_again();
        any_change = true;
    }
    let name = name_of(write, Some(object));
    refusal(dispatch.problems, write, name).map_or(Ok(any_change), Err)
}

impl<'a> Dispatch<'a> {
    /// Returns the policies that are for the write. Problems are those of policies that cannot be used.
    fn invocations<'p>(&mut self, object: &'p Value) -> Vec<Invocation<'a, 'p>>
    where
        'a: 'p,
    {
        let mut found = Vec::new();
        let objects = Objects { new: Some(object), old: self.old };
        let check: Check<'p> = Check { active: self.active, write: self.write, objects };
        for (index, bound) in self.active.configuration.mutating_policies.iter().enumerate() {
            let policy = &*bound.policy;
            let mut problem = |binding: Option<&'a str>, problem: String| {
                let what = if binding.is_some() { "binding" } else { "policy" };
                let message = format!("failed to configure {what}: {problem}");
                self.problems.push(Problem { policy, binding, message, is_invalid: false });
            };
            let (rules, version) = match check.applicable_rules(policy) {
                Ok(Some(found)) => found,
                Ok(None) => continue,
                Err(text) => {
                    problem(None, text);
                    continue;
                }
            };
            for (position, binding) in bound.bindings.iter().enumerate() {
                let params = match check.params(rules, binding) {
                    Ok(params) => params,
                    Err(text) => {
                        problem(Some(&binding.name), text);
                        continue;
                    }
                };
                for param in params {
                    let (namespace, name) = param.as_ref().map(Param::key).unwrap_or_default();
                    let key = (index, position, namespace, name);
                    let version = version.clone();
                    found.push(Invocation { key, policy, rules, binding: &binding.name, version, param });
                }
            }
        }
        found
    }

    /// Whether the match conditions of a policy hold for the object.
    async fn matches(
        &mut self,
        invocation: &Invocation<'a, '_>,
        object: &Value,
        left: &mut u64,
    ) -> Result<bool, Status> {
        let (policy, rules) = (invocation.policy, invocation.rules);
        if rules.conditions.is_empty() {
            return Ok(true);
        }
        let new = invocation.version.convert(self.write, Some(object)).await?;
        let old = invocation.version.convert(self.write, self.old).await?;
        let check = self.check();
        let inputs =
            check.inputs_with(&invocation.version, (new.as_ref(), old.as_ref()), invocation.param.as_ref());
        let conditions = within(CONDITIONS_BUDGET, left, |budget| {
            rules.conditions.evaluate(&inputs, policy.failure_policy, budget)
        });
        Ok(match conditions {
            ConditionsResult::Match => true,
            ConditionsResult::NoMatch => false,
            ConditionsResult::Error(message) => {
                let binding = Some(invocation.binding);
                self.problems.push(Problem { policy, binding, message, is_invalid: true });
                false
            }
        })
    }

    /// Applies a mutation to the object. Returns whether that succeeded.
    async fn apply(
        &mut self,
        invocation: &Invocation<'a, '_>,
        mutation: &Mutation,
        object: &mut Value,
        left: &mut u64,
    ) -> Result<bool, Status> {
        let version = &invocation.version;
        // The object is copied, compared and decoded for each mutation and parameter.
        *left = left.saturating_sub(COST_PER_VALUE.saturating_mul(count_values(object)));
        let Some(new) = version.convert(self.write, Some(object)).await? else { return Ok(false) };
        let old = version.convert(self.write, self.old).await?;
        let check = self.check();
        let mut inputs = check.inputs_with(version, (Some(&new), old.as_ref()), invocation.param.as_ref());
        let evaluated = within(POLICY_BUDGET, left, |budget| {
            let mut evaluation = Evaluation::new(invocation.rules, &mut inputs, budget);
            evaluation.provide(&mutation.uses);
            evaluation.value(&mutation.expression)
        });
        let endpoint = version.endpoint(self.write.endpoint);
        let patched = evaluated
            .map_err(|failure| failure.describe(&mutation.text))
            .and_then(|value| mutation::apply(mutation.patch, &value, &new, self.write, endpoint));
        match patched {
            Ok(patched) if patched == new => Ok(true),
            Ok(patched) => {
                if mutation.patch == PatchType::JsonPatch {
                    mutation::check_decodes(&patched, endpoint, &self.active.registry)?;
                }
                let mut patched = version.convert_back(self.write, patched).await?;
                self.built_in.complete(&mut patched)?;
                *object = patched;
                Ok(true)
            }
            Err(message) => {
                let (policy, binding) = (invocation.policy, Some(invocation.binding));
                self.problems.push(Problem { policy, binding, message, is_invalid: true });
                Ok(false)
            }
        }
    }

    fn check(&self) -> Check<'a> {
        Check { active: self.active, write: self.write, objects: Objects { new: None, old: self.old } }
    }
}

/// Returns the number of values that a value consists of, itself included.
fn count_values(value: &Value) -> u64 {
    match value {
        Value::Array(items) => items.iter().map(count_values).sum::<u64>() + 1,
        Value::Object(members) => members.values().map(count_values).sum::<u64>() + 1,
        _ => 1,
    }
}

/// Returns the refusal of a write because of problems, unless the failure policies ignore them.
fn refusal(problems: Vec<Problem<'_>>, write: &WriteRequest<'_>, name: &str) -> Option<Status> {
    let mut status: Option<Status> = None;
    for problem in problems.into_iter().filter(|problem| problem.policy.failure_policy == FailurePolicy::Fail)
    {
        let policy = &problem.policy.name;
        let message = match problem.binding {
            Some(binding) => {
                format!("policy '{policy}' with binding '{binding}' denied request: {}", problem.message)
            }
            None => format!("policy {policy:?} denied request: {}", problem.message),
        };
        let status = status.get_or_insert_with(|| {
            let mut status = Status::forbidden(write.endpoint.resource_ref(), name, "");
            status.message.clone_from(&message);
            if problem.is_invalid {
                status.reason = "Invalid";
            }
            status
        });
        if let Some(details) = &mut status.details {
            details.causes.push(Cause { field: String::new(), reason: String::new(), message });
        }
    }
    status
}
