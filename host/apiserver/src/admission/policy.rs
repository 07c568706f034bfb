//! ValidatingAdmissionPolicies, MutatingAdmissionPolicies and their bindings, compiled.

use pilothouse_cel::Expression;
use serde_json::Value;

use super::conditions::{Conditions, FailurePolicy};
use super::criteria::Criteria;
use super::environment::{Environment, ResultType};
use super::expressions::{members_of, uses_whole};

/// A policy.
pub(crate) struct Policy {
    pub(super) name: String,
    pub(super) failure_policy: FailurePolicy,
    /// What the policy checks, or why it cannot be evaluated.
    pub(super) rules: Result<PolicyRules, String>,
}

/// What a policy checks or changes.
pub(super) struct PolicyRules {
    pub criteria: Criteria,
    /// `apiVersion` and `kind` of the parameters.
    pub param_kind: Option<(String, String)>,
    pub conditions: Conditions,
    pub variables: Vec<Variable>,
    pub validations: Vec<Validation>,
    pub annotations: Vec<AuditAnnotation>,
    pub mutations: Vec<Mutation>,
    /// Whether the policy is evaluated again after a later change of the object.
    pub is_reinvoked: bool,
}

/// A variable of a policy.
pub(super) struct Variable {
    pub name: String,
    pub text: String,
    pub expression: Expression,
    /// The positions of the variables that this one uses, which come before it.
    pub uses: Vec<usize>,
}

/// A validation of a policy.
pub(super) struct Validation {
    pub text: String,
    pub expression: Expression,
    pub message: Option<String>,
    pub message_expression: Option<Expression>,
    pub reason: Option<String>,
    /// The positions of the variables that its expressions use.
    pub uses: Vec<usize>,
}

/// An annotation that a policy adds to the audit event.
pub(super) struct AuditAnnotation {
    pub key: String,
    pub text: String,
    pub expression: Expression,
    /// The positions of the variables that its expression uses.
    pub uses: Vec<usize>,
}

/// A mutation of a policy.
pub(super) struct Mutation {
    pub text: String,
    pub expression: Expression,
    pub patch: PatchType,
    /// The positions of the variables that its expression uses.
    pub uses: Vec<usize>,
}

/// What the value of a mutation's expression is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatchType {
    ApplyConfiguration,
    JsonPatch,
}

/// A binding of a policy.
pub(crate) struct Binding {
    pub(super) name: String,
    /// The policy's name.
    pub(super) policy: String,
    /// The `paramRef`, null if there is none.
    pub(super) param_ref: Value,
    /// Further limits of what the policy is for, or why they cannot be read.
    pub(super) criteria: Option<Result<Criteria, String>>,
    pub(super) actions: Vec<Action>,
}

/// What a failed validation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Deny,
    Warn,
    Audit,
}

impl Action {
    /// Returns the name in `validationActions`.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "Deny",
            Self::Warn => "Warn",
            Self::Audit => "Audit",
        }
    }
}

impl Policy {
    /// Compiles a policy, which was validated when it was written.
    pub(super) fn parse(policy: &Value) -> Self {
        Self {
            name: policy["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            failure_policy: FailurePolicy::parse(&policy["spec"]["failurePolicy"]),
            rules: PolicyRules::parse(&policy["spec"]),
        }
    }
}

impl PolicyRules {
    fn parse(spec: &Value) -> Result<Self, String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let param_kind = spec.get("paramKind").filter(|kind| kind.is_object());
        let mut environment = Environment::of_policy(spec);
        let mut variables: Vec<Variable> = Vec::new();
        for variable in spec["variables"].as_array().into_iter().flatten() {
            let (name, source) = (text(&variable["name"]), text(&variable["expression"]));
            let (expression, ty) = environment.compile(&source, ResultType::Any)?;
            environment.declare(&name, ty);
            let uses = used_variables(&[&expression], &variables);
            variables.push(Variable { name, text: source, expression, uses });
        }
        let mut validations = Vec::new();
        for validation in spec["validations"].as_array().into_iter().flatten() {
            let source = text(&validation["expression"]);
            let (expression, _) = environment.compile(&source, ResultType::Bool)?;
            let optional = |name: &str| validation[name].as_str().filter(|text| !text.is_empty());
            let message_expression = optional("messageExpression")
                .map(|text| environment.without_authorizer().compile(text, ResultType::Text))
                .transpose()?
                .map(|(expression, _)| expression);
            let mut expressions = vec![&expression];
            expressions.extend(&message_expression);
            let uses = used_variables(&expressions, &variables);
            validations.push(Validation {
                text: source,
                message: optional("message").map(str::to_owned),
                reason: optional("reason").map(str::to_owned),
                uses,
                expression,
                message_expression,
            });
        }
        let conditions = Environment::of_conditions(param_kind.is_some());
        Ok(Self {
            criteria: Criteria::of_policy(&spec["matchConstraints"])?,
            param_kind: param_kind.map(|kind| (text(&kind["apiVersion"]), text(&kind["kind"]))),
            conditions: Conditions::parse(&spec["matchConditions"], &conditions)?,
            annotations: parse_annotations(spec, &environment, &variables)?,
            mutations: parse_mutations(spec, &environment, &variables)?,
            is_reinvoked: spec["reinvocationPolicy"] == "IfNeeded",
            variables,
            validations,
        })
    }
}

/// Compiles the audit annotations of a policy.
fn parse_annotations(
    spec: &Value,
    environment: &Environment,
    variables: &[Variable],
) -> Result<Vec<AuditAnnotation>, String> {
    let annotations = spec["auditAnnotations"].as_array().into_iter().flatten();
    let annotations = annotations.map(|annotation| {
        let text = annotation["valueExpression"].as_str().unwrap_or_default().to_owned();
        let (expression, _) = environment.compile(&text, ResultType::Annotation)?;
        let uses = used_variables(&[&expression], variables);
        let key = annotation["key"].as_str().unwrap_or_default().to_owned();
        Ok(AuditAnnotation { key, text, expression, uses })
    });
    annotations.collect()
}

/// Compiles the mutations of a policy.
fn parse_mutations(
    spec: &Value,
    environment: &Environment,
    variables: &[Variable],
) -> Result<Vec<Mutation>, String> {
    let environment = environment.constructing();
    let mut mutations = Vec::new();
    for mutation in spec["mutations"].as_array().into_iter().flatten() {
        let (patch, source, result) = if mutation["patchType"] == "JSONPatch" {
            (PatchType::JsonPatch, &mutation["jsonPatch"], ResultType::Patch)
        } else {
            (PatchType::ApplyConfiguration, &mutation["applyConfiguration"], ResultType::Object)
        };
        let text = source["expression"].as_str().unwrap_or_default().to_owned();
        let (expression, _) = environment.compile(&text, result)?;
        let uses = used_variables(&[&expression], variables);
        mutations.push(Mutation { text, expression, patch, uses });
    }
    Ok(mutations)
}

/// Returns the positions of the variables that expressions select from `variables`: all of them if it is used in another way.
fn used_variables(expressions: &[&Expression], variables: &[Variable]) -> Vec<usize> {
    if expressions.iter().any(|expression| uses_whole(expression.root(), "variables")) {
        return (0..variables.len()).collect();
    }
    let mut names = Vec::new();
    for expression in expressions {
        members_of(expression.root(), "variables", &mut names);
    }
    names.iter().filter_map(|name| variables.iter().rposition(|variable| variable.name == *name)).collect()
}

impl Binding {
    /// Reads a binding, which was validated when it was written.
    pub(super) fn parse(binding: &Value) -> Self {
        let spec = &binding["spec"];
        let actions = spec["validationActions"].as_array().into_iter().flatten();
        let resources = spec.get("matchResources").filter(|resources| resources.is_object());
        Self {
            name: binding["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            policy: spec["policyName"].as_str().unwrap_or_default().to_owned(),
            param_ref: spec["paramRef"].clone(),
            criteria: resources.map(Criteria::of_policy),
            actions: actions
                .filter_map(|action| match action.as_str() {
                    Some("Deny") => Some(Action::Deny),
                    Some("Warn") => Some(Action::Warn),
                    Some("Audit") => Some(Action::Audit),
                    _ => None,
                })
                .collect(),
        }
    }
}
