//! Evaluates the rules of a schema for one object.

use std::cell::OnceCell;

use pilothouse_cel::{Budget, COST_LIMIT, EvaluationError, Expression, Value as CelValue, to_optional};
use serde_json::Value;

use super::super::correlation::OldItems;
use super::super::field;
use super::super::node::{AdditionalProperties, SchemaRef, Type};
use super::OBJECT_COST_LIMIT;
use super::rules::{CelRules, Compiled, Rule};
use super::values::Pair;
use crate::status::Cause;

/// The longest value of a `messageExpression` in bytes, as in Kubernetes. A longer one is replaced with the rule's message.
const MAX_MESSAGE_LENGTH: usize = 5 * 1024;

/// Evaluates the CEL rules of `schema` and of all nodes below it. Adds the failures to `causes`, and those of unchanged values to `tolerated`.
pub(in crate::schema) fn evaluate(
    schema: SchemaRef<'_>,
    new: &Value,
    old: Option<&Value>,
    causes: &mut Vec<Cause>,
    tolerated: &mut Vec<Cause>,
) {
    let mut evaluation = Evaluation { left: OBJECT_COST_LIMIT, causes, tolerated };
    let around = Correlation::new(None);
    let place = Place { path: "", around: &around, is_correlated: true };
    // The cause was added.
    let _ = evaluation.node(schema, Pair::new(new), old.map(Pair::new), place);
}

/// Evaluates the CEL rules of `schema` for a default, as if it did not change and as if it were new. `left` is what is left of the budget.
pub(in crate::schema) fn evaluate_default(
    schema: SchemaRef<'_>,
    default: &Value,
    left: &mut u64,
    causes: &mut Vec<Cause>,
) {
    let around = Correlation::new(None);
    let place = Place { path: "", around: &around, is_correlated: false };
    for old in [Some(default), None] {
        let before = causes.len();
        let mut evaluation = Evaluation { left: *left, causes, tolerated: &mut Vec::new() };
        // The cause was added.
        let _ = evaluation.node(schema, Pair::new(default), old.map(Pair::new), place);
        *left = evaluation.left;
        if causes.len() > before {
            return;
        }
    }
}

/// The evaluation of all rules for one object.
struct Evaluation<'c> {
    /// The units that are left of [`OBJECT_COST_LIMIT`].
    left: u64,
    causes: &'c mut Vec<Cause>,
    /// The failures of values that the write does not change (KEP-4008). They become warnings.
    tolerated: &'c mut Vec<Cause>,
}

/// A rule exceeded its cost limit, or all rules together exceeded theirs. No further rules are evaluated.
#[derive(Debug)]
struct CostExceeded;

/// The value that rules are evaluated for.
struct Subject<'a> {
    path: &'a str,
    ty: Type,
    json: &'a Value,
    value: CelValue,
    /// The value or, if it has no old value, the nearest one around it that has one.
    nearest: &'a Correlation<'a>,
}

/// The place of a value in the object.
#[derive(Clone, Copy)]
struct Place<'a> {
    path: &'a str,
    /// The nearest value around this one that has an old value.
    around: &'a Correlation<'a>,
    /// Whether the old value of this value counts. It does not below an item without a counterpart, nor in `allOf`.
    is_correlated: bool,
}

/// A value and its old value, which are compared only once and only if a rule fails.
struct Correlation<'a> {
    values: Option<(&'a Value, &'a Value)>,
    is_equal: OnceCell<bool>,
}

impl<'a> Correlation<'a> {
    fn new(values: Option<(&'a Value, &'a Value)>) -> Self {
        Self { values, is_equal: OnceCell::new() }
    }

    /// Whether there is an old value and the value is equal to it.
    fn is_unchanged(&self) -> bool {
        *self.is_equal.get_or_init(|| self.values.is_some_and(|(new, old)| new == old))
    }
}

impl Evaluation<'_> {
    fn node(
        &mut self,
        schema: SchemaRef<'_>,
        mut new: Pair<'_>,
        mut old: Option<Pair<'_>>,
        place: Place<'_>,
    ) -> Result<(), CostExceeded> {
        let node = schema.node();
        let own = old.as_ref().filter(|_| place.is_correlated).map(|old| (new.json, old.json));
        let is_correlated = own.is_some();
        let own = Correlation::new(own);
        let nearest = if is_correlated { &own } else { place.around };
        if let Some(rules) = &node.rules
            && !new.json.is_null()
        {
            let value = new.cel_value(schema);
            let has_old = old.is_some();
            let old_value = old.as_mut().filter(|_| rules.needs_old()).map(|old| old.cel_value(schema));
            let subject = Subject { path: place.path, ty: node.ty, json: new.json, value, nearest };
            self.rules(rules, &subject, (has_old, old_value))?;
        }
        for id in node.validations.iter().flat_map(|validations| &validations.all_of) {
            let place = Place { is_correlated: false, ..place };
            self.node(schema.resolve(*id), new.clone(), old.clone(), place)?;
        }
        let below = Place { around: nearest, is_correlated, ..place };
        match new.json {
            Value::Object(object) => {
                for (name, child) in object {
                    let Some(child_schema) = schema.field(name) else { continue };
                    let is_map_entry = matches!(node.additional, AdditionalProperties::Schema(_))
                        && !node.properties.contains_key(name);
                    let path = if is_map_entry {
                        field::key(place.path, name)
                    } else {
                        field::child(place.path, name)
                    };
                    let old_child = old.as_ref().and_then(|old| old.old_member(schema, name));
                    let child = new.member(schema, name, child);
                    self.node(child_schema, child, old_child, Place { path: &path, ..below })?;
                }
            }
            Value::Array(items) => {
                let Some(item_schema) = schema.items() else { return Ok(()) };
                let old_items = OldItems::new(&node.list_type, old.as_ref().map(|old| old.json));
                for (index, item) in items.iter().enumerate() {
                    let old_item = old_items.find(item).zip(old.as_ref());
                    let old_item = old_item.map(|((index, item), old)| old.item(index, item));
                    let path = field::index(place.path, index);
                    let item = new.item(index, item);
                    self.node(item_schema, item, old_item, Place { path: &path, ..below })?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Evaluates the rules with `self` bound to the value. `old` says whether there is an old value, and has that value if a rule needs it.
    fn rules(
        &mut self,
        rules: &CelRules,
        subject: &Subject<'_>,
        old: (bool, Option<CelValue>),
    ) -> Result<(), CostExceeded> {
        // As in Kubernetes, messages about errors contain the type instead of the value.
        let type_name = Value::from(subject.ty.name());
        let (has_old, old_value) = old;
        let at = subject.path;
        for rule in &*rules.0 {
            let compiled = match &rule.compiled {
                Ok(compiled) => compiled,
                Err(problem) => {
                    let detail = format!("rule compile error: {}", problem.detail());
                    self.report(field::invalid(at, &type_name, &detail))?;
                    continue;
                }
            };
            let old_is_optional = rule.source.optional_old_self == Some(true);
            if compiled.is_transition && !has_old && !old_is_optional {
                continue;
            }
            let mut variables = vec![("self", subject.value.clone())];
            if old_is_optional {
                variables.push(("oldSelf", to_optional(old_value.clone())));
            } else if let Some(old) = &old_value {
                variables.push(("oldSelf", old.clone()));
            }
            let problem = match self.run(&compiled.rule, variables.clone()) {
                Ok(CelValue::Bool(true)) => continue,
                Ok(CelValue::Bool(false)) => {
                    let cause = self.failure(rule, compiled, subject, variables);
                    // Validation ratcheting (KEP-4008): an unchanged value may fail all rules but transition rules.
                    if !compiled.is_transition && subject.nearest.is_unchanged() {
                        self.charge(&cause);
                        self.tolerated.push(cause);
                        self.check_cost()?;
                    } else {
                        self.report(cause)?;
                    }
                    continue;
                }
                Ok(_) => "the value is not a boolean".to_owned(),
                Err(Stop::Failed(EvaluationError::Types(_))) => {
                    let detail = Stop::no_such_overload(rule.name());
                    self.report(field::invalid(at, &type_name, &detail))?;
                    continue;
                }
                Err(Stop::Failed(error)) => error.cel_message().unwrap_or_else(|| error.to_string()),
                Err(stop) => {
                    self.causes.push(field::invalid(at, &type_name, &stop.detail(rule.name())));
                    return Err(CostExceeded);
                }
            };
            let detail = format!("{problem} evaluating rule: {}", rule.name());
            self.report(field::invalid(at, &type_name, &detail))?;
        }
        Ok(())
    }

    /// Adds a failure. It costs one unit per byte, more than other texts, because all failures are kept and the response copies them.
    fn report(&mut self, cause: Cause) -> Result<(), CostExceeded> {
        self.charge(&cause);
        self.causes.push(cause);
        self.check_cost()
    }

    fn charge(&mut self, cause: &Cause) {
        let cost = u64::try_from(cause.field.len() + cause.message.len()).unwrap_or(u64::MAX);
        self.left = self.left.saturating_sub(cost);
    }

    /// Errors if nothing is left of the budget.
    fn check_cost(&mut self) -> Result<(), CostExceeded> {
        if self.left > 0 {
            return Ok(());
        }
        // Not at the path of the failure, which may be very long.
        self.causes.push(field::invalid("", &Value::Null, &Stop::ObjectCost.detail("")));
        Err(CostExceeded)
    }

    /// Evaluates an expression within what is left of the budget.
    fn run(&mut self, expression: &Expression, variables: Vec<(&str, CelValue)>) -> Result<CelValue, Stop> {
        let limit = COST_LIMIT.min(self.left);
        let mut budget = Budget::new(limit);
        let result = expression.evaluate(variables, &mut budget);
        self.left -= limit - budget.left();
        result.map_err(|error| match error {
            EvaluationError::Cost if limit < COST_LIMIT => Stop::ObjectCost,
            EvaluationError::Cost => Stop::RuleCost,
            other => Stop::Failed(other),
        })
    }

    /// Returns the cause of a rule that is false.
    fn failure(
        &mut self,
        rule: &Rule,
        compiled: &Compiled,
        subject: &Subject<'_>,
        variables: Vec<(&str, CelValue)>,
    ) -> Cause {
        let path = subject.path;
        let evaluated = compiled.message.as_ref().and_then(|message| self.run(message, variables).ok());
        let message = match evaluated {
            Some(CelValue::String(text)) if is_message(&text) => text.trim().to_owned(),
            _ => rule.message(),
        };
        let at = match rule.source.field_path.as_deref() {
            None | Some("") => path.to_owned(),
            Some(relative) if relative.starts_with(['.', '[']) => format!("{path}{relative}"),
            Some(relative) => field::child(path, relative),
        };
        let at = at.trim_start_matches('.');
        // As in Kubernetes, messages contain scalars, but neither objects nor lists, which may be large.
        let shown = (!matches!(subject.ty, Type::Object | Type::Array)).then_some(subject.json);
        match (rule.source.reason.as_deref(), shown) {
            (Some("FieldValueForbidden"), _) => field::forbidden(at, &message),
            (Some("FieldValueRequired"), _) => field::required(at, &message),
            (Some("FieldValueDuplicate"), Some(value)) => field::duplicate(at, value),
            (Some("FieldValueDuplicate"), None) => field::duplicate_omitted(at),
            (_, Some(value)) => field::invalid(at, value, &message),
            (_, None) => field::invalid_omitted(at, &message),
        }
    }
}

/// Why an evaluation has no value.
enum Stop {
    Failed(EvaluationError),
    /// The evaluation exceeded [`COST_LIMIT`].
    RuleCost,
    /// All evaluations for the object exceeded [`OBJECT_COST_LIMIT`].
    ObjectCost,
}

impl Stop {
    /// Kubernetes' text for operands that an operator or a function does not take.
    fn no_such_overload(rule: &str) -> String {
        format!(
            "'no such overload': call arguments did not match a supported operator, function or macro signature for \
             rule: {rule}"
        )
    }

    /// Kubernetes' text.
    fn detail(&self, rule: &str) -> String {
        match self {
            Self::Failed(error) => format!("{error} evaluating rule: {rule}"),
            Self::RuleCost => format!(
                "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to \
                 call cost exceeds limit for rule: {rule}"
            ),
            Self::ObjectCost => {
                "validation failed due to running out of cost budget, no further validation rules will be run"
                    .to_owned()
            }
        }
    }
}

/// Whether the value of a `messageExpression` is used, as in Kubernetes.
fn is_message(text: &str) -> bool {
    let text = text.trim();
    !text.is_empty() && text.len() <= MAX_MESSAGE_LENGTH && !text.contains('\n')
}
