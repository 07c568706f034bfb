//! Evaluates a CEL expression within a budget.
//!
//! The library's own interpreter can be neither metered nor stopped, and copies a value at each step of a path. This one shares values,
//! charges each operation before it runs, and uses the library for functions only (docs/decisions/0013-metered-expressions.md).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, SelectExpr,
    StructExpr, operators,
};
use kube_cel::cel::objects::{KeyRef, Map};

use crate::budget::Budget;
use crate::error::EvaluationError;
use crate::functions;
use crate::host_functions::HostFunctions;
use crate::macros::BindingMacro;
use crate::objects::ObjectValue;
use crate::patterns::Patterns;
use crate::syntax::{is_name, qualified_name};
use crate::type_values::{go_name_of_type, type_named};
use crate::values::{
    add, arithmetic, compare, contains, equal, from_key, index_value, optional, optional_index, owned_key,
    sorted_keys, to_optional,
};

/// One evaluation.
pub(crate) struct Evaluation<'e> {
    /// The innermost variable is the last.
    variables: Vec<(&'e str, Value)>,
    budget: &'e mut Budget,
    patterns: &'e Patterns,
    /// The functions beside those of the library.
    functions: &'e dyn HostFunctions,
    mode: Mode,
    /// Whether a variable has a name of several parts, such as `authorizer.requestResource`.
    has_qualified_variables: bool,
}

/// What an expression may do, and how it is evaluated.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mode {
    pub(crate) selection: Selection,
    pub(crate) constructs_objects: bool,
}

/// What a selection from a value without members, such as null, is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// The error of cel-go.
    #[default]
    Strict,
    /// False.
    FalseWithoutMembers,
}

pub(crate) type EvaluationResult = Result<Value, EvaluationError>;

impl<'e> Evaluation<'e> {
    pub(crate) fn new(
        variables: Vec<(&'e str, Value)>,
        patterns: &'e Patterns,
        functions: &'e dyn HostFunctions,
        budget: &'e mut Budget,
    ) -> Self {
        let has_qualified_variables = variables.iter().any(|(name, _)| name.contains('.'));
        Self { variables, budget, patterns, functions, mode: Mode::default(), has_qualified_variables }
    }

    /// Sets the mode.
    pub(crate) fn with_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Returns the expression's value. Recurses as deeply as the expression is nested, which was limited before it was parsed.
    pub(crate) fn evaluate(&mut self, expression: &'e IdedExpr) -> EvaluationResult {
        self.budget.charge(1)?;
        match &expression.expr {
            Expr::Literal(literal) => {
                match literal {
                    LiteralValue::String(text) => self.budget.charge_text(text.inner().len())?,
                    LiteralValue::Bytes(bytes) => self.budget.charge_text(bytes.inner().len())?,
                    _ => {}
                }
                Ok(from_literal(literal))
            }
            Expr::Ident(name) => {
                let found = self.variables.iter().rev().find(|(known, _)| known == name);
                found.map(|(_, value)| value.clone()).map_or_else(|| type_or_unknown(name), Ok)
            }
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => self.list(list),
            Expr::Map(map) => self.map(map),
            Expr::Comprehension(macro_call) => self.comprehension(macro_call),
            Expr::Struct(message) if self.mode.constructs_objects => self.object(message),
            Expr::Struct(_) | Expr::Unspecified => Err(EvaluationError::Unsupported),
        }
    }

    /// Returns the budget.
    pub(crate) fn budget(&mut self) -> &mut Budget {
        self.budget
    }

    /// Returns the value of an expression in which these variables are bound.
    pub(crate) fn with_variables(
        &mut self,
        variables: &[(&'e str, Value)],
        expression: &'e IdedExpr,
    ) -> EvaluationResult {
        let outer = self.variables.len();
        self.variables.extend_from_slice(variables);
        let outcome = self.evaluate(expression);
        self.variables.truncate(outer);
        outcome
    }

    /// An optional element without a value is left out.
    fn list(&mut self, list: &'e ListExpr) -> EvaluationResult {
        let mut elements = Vec::with_capacity(list.elements.len());
        for (position, element) in list.elements.iter().enumerate() {
            let value = self.evaluate(element)?;
            // The positions are in their order.
            if list.optional_indices.binary_search(&position).is_ok() {
                elements.extend(value_of_optional(&value)?);
            } else {
                elements.push(value);
            }
        }
        Ok(Value::List(Arc::new(elements)))
    }

    /// Looks up a member. A selection from an optional selects from its value, and the result is an optional. As in cel-go, a value that is
    /// neither a map nor a list is like an empty map.
    fn select(&mut self, select: &'e SelectExpr) -> EvaluationResult {
        if let Some(value) = self.qualified_variable(select) {
            return Ok(value);
        }
        let operand = match self.evaluate(&select.operand) {
            Ok(operand) => operand,
            Err(EvaluationError::Variable(variable)) => return type_of_members(select, variable),
            Err(error) => return Err(error),
        };
        if optional(&operand).is_some() {
            let found = self.optional_member(&operand, &select.field)?;
            return Ok(if select.test { Value::Bool(found.is_some()) } else { to_optional(found) });
        }
        if let Some(object) = ObjectValue::of(&operand) {
            let found = object.fields().get(&select.field).cloned();
            if select.test {
                return Ok(Value::Bool(found.is_some()));
            }
            return found.ok_or_else(|| EvaluationError::Member(select.field.clone()));
        }
        let map = match &operand {
            Value::Map(map) => map,
            _ if self.mode.selection == Selection::FalseWithoutMembers => return Ok(Value::Bool(false)),
            Value::List(_) => return Err(EvaluationError::IndexType("string")),
            _ if select.test => return Ok(Value::Bool(false)),
            _ => return Err(EvaluationError::Member(select.field.clone())),
        };
        // The names of fields are short, except in an expression that is made to be slow.
        self.budget.charge_elements(select.field.len() / 10)?;
        let found = map.get(&KeyRef::String(&select.field));
        if select.test {
            return Ok(Value::Bool(found.is_some()));
        }
        found.cloned().ok_or_else(|| EvaluationError::Member(select.field.clone()))
    }

    /// Returns the value of a variable whose name has two parts, if the selection names one.
    fn qualified_variable(&self, select: &SelectExpr) -> Option<Value> {
        if !self.has_qualified_variables || select.test {
            return None;
        }
        let Expr::Ident(prefix) = &select.operand.expr else { return None };
        let is_named = |name: &str| {
            name.strip_prefix(prefix.as_str()).and_then(|rest| rest.strip_prefix('.'))
                == Some(select.field.as_str())
        };
        // The variable of a macro may hide the first part.
        let found = self.variables.iter().rev().find(|(name, _)| *name == prefix.as_str() || is_named(name));
        found.filter(|(name, _)| is_named(name)).map(|(_, value)| value.clone())
    }

    /// Constructs an object. An optional field without a value is left out.
    fn object(&mut self, message: &'e StructExpr) -> EvaluationResult {
        let mut fields = BTreeMap::new();
        for entry in &message.entries {
            let EntryExpr::StructField(field) = &entry.expr else { return Err(EvaluationError::Unsupported) };
            self.budget.charge_text(field.field.len())?;
            let value = self.evaluate(&field.value)?;
            let value = if field.optional { value_of_optional(&value)? } else { Some(value) };
            fields.extend(value.map(|value| (field.field.clone(), value)));
        }
        self.budget.charge_text(message.type_name.len())?;
        Ok(ObjectValue::value(&message.type_name, fields))
    }

    /// Returns the member of a value, or of the value of an optional; `None` if there is no such value or member.
    fn optional_member(&mut self, operand: &Value, name: &str) -> Result<Option<Value>, EvaluationError> {
        self.budget.charge_elements(name.len() / 10)?;
        let value = match optional(operand) {
            Some(inner) => inner.value(),
            None => Some(operand),
        };
        if let Some(object) = value.and_then(ObjectValue::of) {
            return Ok(object.fields().get(name).cloned());
        }
        Ok(match value {
            Some(Value::Map(map)) => map.get(&KeyRef::String(name)).cloned(),
            Some(Value::List(_)) => return Err(EvaluationError::IndexType("string")),
            _ => None,
        })
    }

    /// An optional value that is none is left out with its key.
    fn map(&mut self, map: &'e MapExpr) -> EvaluationResult {
        let mut entries = HashMap::new();
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { return Err(EvaluationError::Unsupported) };
            let key = owned_key(self.evaluate(&entry.key)?)?;
            self.budget.charge_key(&key)?;
            let value = self.evaluate(&entry.value)?;
            let value = if entry.optional { value_of_optional(&value)? } else { Some(value) };
            entries.extend(value.map(|value| (key, value)));
        }
        Ok(Value::Map(Map { map: Arc::new(entries) }))
    }

    /// Evaluates a macro such as `all` or `map`: `loop_step` computes the next accumulator from the last one and an element.
    fn comprehension(&mut self, macro_call: &'e ComprehensionExpr) -> EvaluationResult {
        let start = self.evaluate(&macro_call.accu_init)?;
        let range = self.evaluate(&macro_call.iter_range)?;
        let outer = self.variables.len();
        self.variables.push((&macro_call.accu_var, start));
        self.variables.push((&macro_call.iter_var, Value::Null));
        let outcome = match &range {
            Value::List(list) => self.iterate(macro_call, outer, list.iter().cloned()),
            Value::Map(map) => {
                // In the order of the keys, so that the result, the cost and the first error do not depend on hashes.
                sorted_keys(map, self.budget)
                    .and_then(|keys| self.iterate(macro_call, outer, keys.into_iter().map(from_key)))
            }
            other => Err(EvaluationError::NotIterable(go_name_of_type(other))),
        };
        let outcome = outcome.and_then(|()| {
            self.variables.truncate(outer + 1);
            self.evaluate(&macro_call.result)
        });
        self.variables.truncate(outer);
        outcome
    }

    fn iterate(
        &mut self,
        macro_call: &'e ComprehensionExpr,
        accumulator: usize,
        elements: impl Iterator<Item = Value>,
    ) -> Result<(), EvaluationError> {
        for element in elements {
            self.variables[accumulator + 1].1 = element;
            if !self.boolean(&macro_call.loop_cond)? {
                break;
            }
            let next = self.evaluate(&macro_call.loop_step)?;
            self.variables[accumulator].1 = next;
        }
        Ok(())
    }

    fn boolean(&mut self, expression: &'e IdedExpr) -> Result<bool, EvaluationError> {
        match self.evaluate(expression)? {
            Value::Bool(value) => Ok(value),
            _ => Err(EvaluationError::Types("a condition")),
        }
    }

    fn call(&mut self, call: &'e CallExpr) -> EvaluationResult {
        if let Some(namespace) = functions::namespace(call) {
            let arguments = self.arguments(call)?;
            return functions::call_in_namespace(namespace, &call.func_name, arguments, self.budget);
        }
        if let Some(found) = BindingMacro::of(call) {
            return self.binding_macro(&found);
        }
        if let Some(target) = call.target.as_deref() {
            let target = self.evaluate(target)?;
            return self.function(call, Some(target));
        }
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::CONDITIONAL, [condition, yes, no]) => {
                if self.boolean(condition)? {
                    self.evaluate(yes)
                } else {
                    self.evaluate(no)
                }
            }
            (operators::LOGICAL_OR, [left, right]) => self.logical_operator(left, right, true),
            (operators::LOGICAL_AND, [left, right]) => self.logical_operator(left, right, false),
            (operators::LOGICAL_NOT, [inner]) => match self.evaluate(inner)? {
                Value::Bool(value) => Ok(Value::Bool(!value)),
                _ => Err(EvaluationError::Types("!")),
            },
            (operators::NOT_STRICTLY_FALSE, [inner]) => match self.evaluate(inner) {
                Err(EvaluationError::Cost) => Err(EvaluationError::Cost),
                Ok(Value::Bool(value)) => Ok(Value::Bool(value)),
                _ => Ok(Value::Bool(true)),
            },
            (operators::NEGATE, [inner]) => match self.evaluate(inner)? {
                Value::Int(value) => value.checked_neg().map(Value::Int).ok_or(EvaluationError::Arithmetic),
                Value::Float(value) => Ok(Value::Float(-value)),
                _ => Err(EvaluationError::Types("-")),
            },
            (operators::ADD, [left, right]) => {
                let left = self.operand_of_sum(left)?;
                let right = self.evaluate(right)?;
                add(left, right, self.budget)
            }
            (
                operators::OPT_SELECT,
                [operand, IdedExpr { expr: Expr::Literal(LiteralValue::String(name)), .. }],
            ) => {
                let operand = self.evaluate(operand)?;
                self.optional_member(&operand, name.inner()).map(to_optional)
            }
            (operators::OPT_INDEX, [container, index]) => {
                let (container, index) = (self.evaluate(container)?, self.evaluate(index)?);
                optional_index(&container, &index, self.budget).map(to_optional)
            }
            (operator, [left, right]) if !is_name(operator) => self.binary(operator, left, right),
            (name, _) if is_name(name) => self.function(call, None),
            _ => Err(EvaluationError::Unsupported),
        }
    }

    /// Takes the accumulator of a macro out of its variable, because the sum replaces it. Otherwise each step of `map` would copy the list.
    fn operand_of_sum(&mut self, expression: &'e IdedExpr) -> EvaluationResult {
        if let Expr::Ident(name) = &expression.expr
            && name.starts_with('@')
            && let Some((_, value)) = self.variables.iter_mut().rev().find(|(known, _)| known == name)
        {
            return Ok(std::mem::replace(value, Value::Null));
        }
        self.evaluate(expression)
    }

    fn binary(&mut self, operator: &str, left: &'e IdedExpr, right: &'e IdedExpr) -> EvaluationResult {
        let (left, right) = (self.evaluate(left)?, self.evaluate(right)?);
        let budget = &mut *self.budget;
        let result = match operator {
            operators::EQUALS => equal(&left, &right, budget)?,
            operators::NOT_EQUALS => !equal(&left, &right, budget)?,
            operators::LESS => compare(&left, &right, budget)?.is_lt(),
            operators::LESS_EQUALS => compare(&left, &right, budget)?.is_le(),
            operators::GREATER => compare(&left, &right, budget)?.is_gt(),
            operators::GREATER_EQUALS => compare(&left, &right, budget)?.is_ge(),
            operators::IN => contains(&right, &left, budget)?,
            operators::INDEX if optional(&left).is_some() => {
                return optional_index(&left, &right, budget).map(to_optional);
            }
            operators::INDEX => return index_value(&left, &right, budget),
            operators::SUBSTRACT => return arithmetic("-", left - right),
            operators::MULTIPLY => return arithmetic("*", left * right),
            operators::DIVIDE => return arithmetic("/", left / right),
            operators::MODULO => return arithmetic("%", left % right),
            _ => return Err(EvaluationError::Unsupported),
        };
        Ok(Value::Bool(result))
    }

    /// Evaluates `||` if `decisive` is true, `&&` if it is false. As CEL defines it, an error of one side is ignored if the other side
    /// decides. Exceeding the budget is never ignored.
    fn logical_operator(
        &mut self,
        left: &'e IdedExpr,
        right: &'e IdedExpr,
        decisive: bool,
    ) -> EvaluationResult {
        let left = self.boolean(left);
        if matches!(left, Ok(value) if value == decisive) || left == Err(EvaluationError::Cost) {
            return left.map(Value::Bool);
        }
        let right = self.boolean(right)?;
        if right == decisive { Ok(Value::Bool(decisive)) } else { left.map(Value::Bool) }
    }

    fn function(&mut self, call: &'e CallExpr, target: Option<Value>) -> EvaluationResult {
        let arguments = self.arguments(call)?;
        let result = match &target {
            None => self.functions.call(&call.func_name, &arguments, self.budget),
            Some(target @ Value::Opaque(_)) => {
                self.functions.call_method(&call.func_name, target, &arguments, self.budget)
            }
            Some(_) => None,
        };
        if let Some(result) = result {
            return result;
        }
        functions::call(&call.func_name, target, arguments, self.patterns, self.budget)
    }

    fn arguments(&mut self, call: &'e CallExpr) -> Result<Vec<Value>, EvaluationError> {
        call.args.iter().map(|argument| self.evaluate(argument)).collect()
    }
}

/// Returns the type with this name.
fn type_or_unknown(name: &str) -> EvaluationResult {
    type_named(name).ok_or_else(|| EvaluationError::Variable(name.to_owned()))
}

/// Returns the type with a name of several parts, such as `net.IP`, which begins with an unknown variable.
fn type_of_members(select: &SelectExpr, variable: String) -> EvaluationResult {
    let prefix = qualified_name(&select.operand).filter(|_| !select.test);
    let found = prefix.and_then(|prefix| type_named(&format!("{prefix}.{}", select.field)));
    found.ok_or(EvaluationError::Variable(variable))
}

/// Returns the value of an optional.
///
/// # Errors
/// The value is no optional.
fn value_of_optional(value: &Value) -> Result<Option<Value>, EvaluationError> {
    let inner = optional(value).ok_or(EvaluationError::Types("an optional element"))?;
    Ok(inner.value().cloned())
}

fn from_literal(literal: &LiteralValue) -> Value {
    match literal {
        LiteralValue::Boolean(value) => Value::Bool(*value.inner()),
        LiteralValue::Bytes(bytes) => Value::Bytes(Arc::new(bytes.inner().to_vec())),
        LiteralValue::Double(value) => Value::Float(*value.inner()),
        LiteralValue::Int(value) => Value::Int(*value.inner()),
        LiteralValue::Null => Value::Null,
        LiteralValue::String(text) => Value::String(Arc::new(text.inner().to_owned())),
        LiteralValue::UInt(value) => Value::UInt(*value.inner()),
    }
}
