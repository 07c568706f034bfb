//! CEL expressions of webhooks and policies: their variables, and evaluation within a budget.

use std::sync::Arc;

use pilothouse_cel::ast::{Expr, IdedExpr, LiteralValue, operators};
use pilothouse_cel::syntax::subexpressions;
use pilothouse_cel::{
    Budget, COST_LIMIT, EvaluationError, Expression, Key, Map, Value as CelValue, from_json,
};
use serde_json::Value;

use super::authorizer::{self, Methods};
use super::request::WriteRequest;
use crate::access::Access;
use crate::user::User;

/// The units that the match conditions of one webhook or policy may cost together, as in Kubernetes.
pub(super) const CONDITIONS_BUDGET: u64 = 2_500_000;

/// The units that the expressions of one policy may cost together for one binding, as in Kubernetes.
pub(super) const POLICY_BUDGET: u64 = 10_000_000;

/// Returns the names of the members of `variable` that an expression selects, such as `a` for `variables.a`.
pub(crate) fn members_of<'e>(expression: &'e IdedExpr, variable: &str, found: &mut Vec<&'e str>) {
    if let Some((operand, field)) = selected(expression)
        && is_variable(operand, variable)
        && !found.contains(&field)
    {
        found.push(field);
    }
    for inner in subexpressions(&expression.expr) {
        members_of(inner, variable, found);
    }
}

/// Whether an expression uses `variable` in another way than by selecting a member.
pub(super) fn uses_whole(expression: &IdedExpr, variable: &str) -> bool {
    let is_selected =
        |part: &IdedExpr| selected(part).is_some_and(|(operand, _)| is_variable(operand, variable));
    if is_variable(expression, variable) {
        return true;
    }
    !is_selected(expression)
        && subexpressions(&expression.expr).into_iter().any(|inner| uses_whole(inner, variable))
}

/// Whether an expression selects this member of `variable` by `.?`, which has no value instead of failing.
pub(super) fn selects_optionally(expression: &IdedExpr, variable: &str, member: &str) -> bool {
    let is_optional = matches!(expression.expr, Expr::Call(_));
    let is_selected = is_optional
        && selected(expression)
            .is_some_and(|(operand, field)| field == member && is_variable(operand, variable));
    is_selected
        || subexpressions(&expression.expr)
            .into_iter()
            .any(|inner| selects_optionally(inner, variable, member))
}

/// Returns the operand and the name of a selection, which may be optional.
fn selected(expression: &IdedExpr) -> Option<(&IdedExpr, &str)> {
    match &expression.expr {
        Expr::Select(select) => Some((&select.operand, &select.field)),
        Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
            (
                operators::OPT_SELECT,
                [operand, IdedExpr { expr: Expr::Literal(LiteralValue::String(field)), .. }],
            ) => Some((operand, field.inner())),
            _ => None,
        },
        _ => None,
    }
}

fn is_variable(expression: &IdedExpr, variable: &str) -> bool {
    matches!(&expression.expr, Expr::Ident(name) if name == variable)
}

/// The values of the variables for one write.
pub(super) struct Inputs<'a> {
    values: Vec<(&'static str, CelValue)>,
    access: Option<&'a Access>,
}

impl<'a> Inputs<'a> {
    /// Returns the variables `object`, `oldObject` and `request`, and `namespaceObject`, which is null. An absent object is null.
    pub(super) fn new(object: Option<&Value>, old_object: Option<&Value>, request: Value) -> Self {
        let convert = |object: Option<&Value>| from_json(object.cloned().unwrap_or(Value::Null));
        Self {
            values: vec![
                ("object", convert(object)),
                ("oldObject", convert(old_object)),
                ("request", from_json(request)),
                ("namespaceObject", CelValue::Null),
            ],
            access: None,
        }
    }

    /// Adds the variables `authorizer` and `authorizer.requestResource`.
    pub(super) fn with_authorizer(
        mut self,
        access: &'a Access,
        user: &Arc<User>,
        write: &WriteRequest<'_>,
    ) -> Self {
        self.values.extend(authorizer::variables(user, write));
        Self { access: Some(access), ..self }
    }

    /// Returns the variables as match conditions see them: without the namespace, and with the resource of the request, whatever a rule named.
    pub(super) fn of_conditions(&self) -> Self {
        let mut inputs = Self { values: self.values.clone(), access: self.access };
        inputs.set("namespaceObject", CelValue::Null);
        let request = self.values.iter().find(|(name, _)| *name == "request");
        if let Some((_, CelValue::Map(request))) = request
            && let Some(resource) = request.map.get(&Key::String(Arc::new("requestResource".to_owned())))
        {
            inputs.set("request", CelValue::Map(with_entry(request.clone(), "resource", resource.clone())));
        }
        inputs
    }

    /// Sets a variable.
    pub(super) fn set(&mut self, name: &'static str, value: CelValue) {
        self.values.retain(|(known, _)| *known != name);
        self.values.push((name, value));
    }

    /// Evaluates an expression within what is left of `budget`.
    ///
    /// # Errors
    /// Why the expression has no value.
    pub(super) fn evaluate(&self, expression: &Expression, budget: &mut u64) -> Result<CelValue, Failure> {
        let limit = COST_LIMIT.min(*budget);
        let mut metered = Budget::new(limit);
        let result = expression.evaluate_with(self.values.clone(), &Methods(self.access), &mut metered);
        *budget -= limit - metered.left();
        result.map_err(|error| match error {
            EvaluationError::Cost if limit < COST_LIMIT => Failure::Budget,
            EvaluationError::Cost => {
                Failure::Error("operation cancelled: actual cost limit exceeded".to_owned())
            }
            other => Failure::Error(other.cel_message().unwrap_or_else(|| other.to_string())),
        })
    }
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Error(String),
    /// The expressions together exceeded their budget.
    Budget,
}

impl Failure {
    /// Returns the error of the expression `text`.
    pub(super) fn describe(&self, text: &str) -> String {
        match self {
            Self::Error(problem) => format!("expression '{text}' resulted in error: {problem}"),
            Self::Budget => {
                "validation failed due to running out of cost budget, no further validation rules will be run"
                    .to_owned()
            }
        }
    }
}

/// Returns a map with one more entry. The map is copied only if an expression still holds it.
pub(super) fn with_entry(mut map: Map, name: &str, value: CelValue) -> Map {
    Arc::make_mut(&mut map.map).insert(Key::String(Arc::new(name.to_owned())), value);
    map
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn optional_selections_and_whole_uses_of_a_variable_are_found() {
        let compiled = |text: &str| Expression::compile(text).expect(text);
        let expression = compiled("variables.?a.orValue(1) == variables.b[?0].value()");
        let root = expression.root();
        let mut found = Vec::new();
        members_of(root, "variables", &mut found);
        assert_eq!(found, ["a", "b"]);
        assert!(!uses_whole(root, "variables"));
        assert!(selects_optionally(root, "variables", "a") && !selects_optionally(root, "variables", "b"));
        for text in ["[variables].all(i, v, v.a)", "variables == null", "variables[?'a'].hasValue()"] {
            assert!(uses_whole(compiled(text).root(), "variables"), "{text}");
        }
    }

    #[test]
    fn members_of_a_variable_are_found_anywhere() {
        let text = "variables.a > 1 && object.x.all(y, y == variables.b)";
        let expression = Expression::compile(text).expect("valid");
        let mut found = Vec::new();
        members_of(expression.root(), "variables", &mut found);
        found.sort_unstable();
        assert_eq!(found, ["a", "b"]);
    }

    #[test]
    fn match_conditions_see_the_resource_of_the_request_and_no_namespace() {
        let request = json!({"resource": {"version": "v1"}, "requestResource": {"version": "v2"}});
        let mut inputs = Inputs::new(None, None, request);
        inputs.set("namespaceObject", CelValue::from("n"));
        let text = "namespaceObject == null && request.resource.version == 'v2'";
        let expression = Expression::compile(text).expect("valid");
        let mut budget = CONDITIONS_BUDGET;
        assert_eq!(inputs.of_conditions().evaluate(&expression, &mut budget), Ok(CelValue::Bool(true)));
        assert_eq!(inputs.evaluate(&expression, &mut budget), Ok(CelValue::Bool(false)));
    }

    #[test]
    fn evaluations_share_a_budget() {
        let inputs = Inputs::new(Some(&json!({"a": 1})), None, json!({}));
        let expression = Expression::compile("object.a == 1 && oldObject == null").expect("valid");
        let mut budget = CONDITIONS_BUDGET;
        assert_eq!(inputs.evaluate(&expression, &mut budget), Ok(CelValue::Bool(true)));
        assert!(budget < CONDITIONS_BUDGET);
        assert_eq!(inputs.evaluate(&expression, &mut 1), Err(Failure::Budget));
        let costly = "[1, 2, 3, 4, 5, 6, 7, 8, 9].all(a, [1, 2, 3, 4, 5, 6, 7, 8, 9].all(b, [1, 2, 3, 4, 5, 6, 7, 8, 9].all(c, \
                      [1, 2, 3, 4, 5, 6, 7, 8, 9].all(d, [1, 2, 3, 4, 5, 6, 7, 8, 9].all(e, [1, 2, 3, 4, 5, 6, 7, 8, 9].all(f, \
                      true))))))";
        let costly = Expression::compile(costly).expect("valid");
        let problem = "operation cancelled: actual cost limit exceeded".to_owned();
        assert_eq!(inputs.evaluate(&costly, &mut budget), Err(Failure::Error(problem)));
        let missing = Expression::compile("object.b == 1").expect("valid");
        let failure = inputs.evaluate(&missing, &mut budget).expect_err("no member");
        assert_eq!(
            failure.describe("object.b == 1"),
            "expression 'object.b == 1' resulted in error: no such key: b"
        );
    }
}
