//! Evaluates a CEL expression within a budget.
//!
//! The library's own interpreter can be neither metered nor stopped, and copies a value at each step to it. This one shares values, charges
//! each operation before it is done, and asks the library for functions only (docs/decisions/0013-metered-expressions.md).

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, MapExpr, SelectExpr, operators,
};
use kube_cel::cel::objects::{KeyRef, Map};

use super::budget::Budget;
use super::failure::Failure;
use super::functions::{self, Patterns};
use super::values::{add, arithmetic, at, compare, contains, equal, of_key, owned_key};

/// One evaluation: its variables, innermost last, and what it may still cost.
pub(super) struct Evaluation<'e> {
    variables: Vec<(&'e str, Value)>,
    budget: Budget,
    patterns: &'e Patterns,
    /// What the functions that compare the old state with the new one answer.
    changed: &'e dyn Fn(&str) -> Option<bool>,
}

type Outcome = Result<Value, Failure>;

impl<'e> Evaluation<'e> {
    pub(super) fn new(
        variables: Vec<(&'e str, Value)>,
        patterns: &'e Patterns,
        changed: &'e dyn Fn(&str) -> Option<bool>,
    ) -> Self {
        Self { variables, budget: Budget::full(), patterns, changed }
    }

    /// The expression's value. The depth of the recursion is that of the expression, which was bounded before it was parsed.
    pub(super) fn value(&mut self, expression: &'e IdedExpr) -> Outcome {
        self.budget.charge(1)?;
        match &expression.expr {
            Expr::Literal(literal) => {
                match literal {
                    LiteralValue::String(text) => self.budget.charge_text(text.inner().len())?,
                    LiteralValue::Bytes(bytes) => self.budget.charge_text(bytes.inner().len())?,
                    _ => {}
                }
                Ok(of_literal(literal))
            }
            Expr::Ident(name) => {
                let found = self.variables.iter().rev().find(|(known, _)| known == name);
                found.map(|(_, value)| value.clone()).ok_or(Failure::Unsupported)
            }
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => {
                let elements: Result<Vec<_>, _> =
                    list.elements.iter().map(|element| self.value(element)).collect();
                Ok(Value::List(Arc::new(elements?)))
            }
            Expr::Map(map) => self.map(map),
            Expr::Comprehension(made) => self.comprehension(made),
            Expr::Struct(_) | Expr::Unspecified => Err(Failure::Unsupported),
        }
    }

    /// As the library: what is no map has no members, which is not an error but false.
    fn select(&mut self, select: &'e SelectExpr) -> Outcome {
        let Value::Map(map) = self.value(&select.operand)? else { return Ok(Value::Bool(false)) };
        let found = map.get(&KeyRef::String(&select.field));
        if select.test {
            return Ok(Value::Bool(found.is_some()));
        }
        found.cloned().ok_or_else(|| Failure::Member(select.field.clone()))
    }

    fn map(&mut self, map: &'e MapExpr) -> Outcome {
        let mut entries = HashMap::new();
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { return Err(Failure::Unsupported) };
            let key = owned_key(self.value(&entry.key)?)?;
            entries.insert(key, self.value(&entry.value)?);
        }
        Ok(Value::Map(Map { map: Arc::new(entries) }))
    }

    /// A macro such as `all` or `map`: `loop_step` makes the next accumulator of the last one and an element.
    fn comprehension(&mut self, made: &'e ComprehensionExpr) -> Outcome {
        let start = self.value(&made.accu_init)?;
        let range = self.value(&made.iter_range)?;
        let outside = self.variables.len();
        self.variables.push((&made.accu_var, start));
        self.variables.push((&made.iter_var, Value::Null));
        let outcome = match &range {
            Value::List(list) => self.steps(made, outside, list.iter().cloned()),
            Value::Map(map) => {
                // By key, so that the result, the cost and the first error do not depend on the order of hashes.
                let mut keys: Vec<_> = map.map.keys().collect();
                keys.sort_unstable();
                self.steps(made, outside, keys.into_iter().map(of_key))
            }
            _ => Err(Failure::Types("a macro over elements")),
        };
        let outcome = outcome.and_then(|()| {
            self.variables.truncate(outside + 1);
            self.value(&made.result)
        });
        self.variables.truncate(outside);
        outcome
    }

    fn steps(
        &mut self,
        made: &'e ComprehensionExpr,
        accumulator: usize,
        elements: impl Iterator<Item = Value>,
    ) -> Result<(), Failure> {
        for element in elements {
            self.variables[accumulator + 1].1 = element;
            if !self.boolean(&made.loop_cond)? {
                break;
            }
            let next = self.value(&made.loop_step)?;
            self.variables[accumulator].1 = next;
        }
        Ok(())
    }

    fn boolean(&mut self, expression: &'e IdedExpr) -> Result<bool, Failure> {
        match self.value(expression)? {
            Value::Bool(value) => Ok(value),
            _ => Err(Failure::Types("a condition")),
        }
    }

    fn call(&mut self, call: &'e CallExpr) -> Outcome {
        if let Some(target) = call.target.as_deref() {
            let target = self.value(target)?;
            return self.function(call, Some(target));
        }
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::CONDITIONAL, [condition, yes, no]) => {
                if self.boolean(condition)? {
                    self.value(yes)
                } else {
                    self.value(no)
                }
            }
            (operators::LOGICAL_OR, [left, right]) => self.junction(left, right, true),
            (operators::LOGICAL_AND, [left, right]) => self.junction(left, right, false),
            (operators::LOGICAL_NOT, [inner]) => match self.value(inner)? {
                Value::Bool(value) => Ok(Value::Bool(!value)),
                _ => Err(Failure::Types("!")),
            },
            (operators::NOT_STRICTLY_FALSE, [inner]) => match self.value(inner) {
                Err(Failure::Cost) => Err(Failure::Cost),
                Ok(Value::Bool(value)) => Ok(Value::Bool(value)),
                _ => Ok(Value::Bool(true)),
            },
            (operators::NEGATE, [inner]) => match self.value(inner)? {
                Value::Int(value) => value.checked_neg().map(Value::Int).ok_or(Failure::Arithmetic),
                Value::Float(value) => Ok(Value::Float(-value)),
                _ => Err(Failure::Types("-")),
            },
            (operators::ADD, [left, right]) => {
                let left = self.operand_of_sum(left)?;
                let right = self.value(right)?;
                add(left, right, &mut self.budget)
            }
            (operator, [left, right]) if !is_name(operator) => self.binary(operator, left, right),
            (name, []) if (self.changed)(name).is_some() => {
                (self.changed)(name).map(Value::Bool).ok_or(Failure::Unsupported)
            }
            (name, _) if is_name(name) => self.function(call, None),
            _ => Err(Failure::Unsupported),
        }
    }

    /// The accumulator of a macro is replaced by the sum, so that the sum may have it: else each step of `map` would copy what there is.
    fn operand_of_sum(&mut self, expression: &'e IdedExpr) -> Outcome {
        if let Expr::Ident(name) = &expression.expr
            && name.starts_with('@')
            && let Some((_, value)) = self.variables.iter_mut().rev().find(|(known, _)| known == name)
        {
            return Ok(std::mem::replace(value, Value::Null));
        }
        self.value(expression)
    }

    fn binary(&mut self, operator: &str, left: &'e IdedExpr, right: &'e IdedExpr) -> Outcome {
        let (left, right) = (self.value(left)?, self.value(right)?);
        let budget = &mut self.budget;
        let result = match operator {
            operators::EQUALS => equal(&left, &right, budget)?,
            operators::NOT_EQUALS => !equal(&left, &right, budget)?,
            operators::LESS => compare(&left, &right, budget)?.is_lt(),
            operators::LESS_EQUALS => compare(&left, &right, budget)?.is_le(),
            operators::GREATER => compare(&left, &right, budget)?.is_gt(),
            operators::GREATER_EQUALS => compare(&left, &right, budget)?.is_ge(),
            operators::IN => contains(&right, &left, budget)?,
            operators::INDEX => return at(&left, &right),
            operators::SUBSTRACT => return arithmetic("-", left - right),
            operators::MULTIPLY => return arithmetic("*", left * right),
            operators::DIVIDE => return arithmetic("/", left / right),
            operators::MODULO => return arithmetic("%", left % right),
            _ => return Err(Failure::Unsupported),
        };
        Ok(Value::Bool(result))
    }

    /// `||` where `decisive` is true, `&&` where it is false: an error of one side counts only if the other does not decide.
    fn junction(&mut self, left: &'e IdedExpr, right: &'e IdedExpr, decisive: bool) -> Outcome {
        let left = self.boolean(left);
        if matches!(left, Ok(value) if value == decisive) || left == Err(Failure::Cost) {
            return left.map(Value::Bool);
        }
        let right = self.boolean(right)?;
        if right == decisive { Ok(Value::Bool(decisive)) } else { left.map(Value::Bool) }
    }

    fn function(&mut self, call: &'e CallExpr, target: Option<Value>) -> Outcome {
        let arguments: Result<Vec<_>, _> = call.args.iter().map(|argument| self.value(argument)).collect();
        functions::call(&call.func_name, target, arguments?, self.patterns, &mut self.budget)
    }
}

/// Operators, which are functions too, have names that no source can spell.
pub(super) fn is_name(function: &str) -> bool {
    function.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn of_literal(literal: &LiteralValue) -> Value {
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
