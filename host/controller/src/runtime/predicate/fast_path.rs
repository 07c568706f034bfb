//! Predicates that are evaluated without CEL: those that combine only the functions that compare the old state with the new one. Most
//! predicates do, and every event is checked against them.

use pilothouse_cel::ast::{Expr, IdedExpr, operators};

/// A boolean expression of such functions.
#[derive(Debug, PartialEq)]
pub(super) enum FastPath {
    /// One of the functions.
    Changed(&'static str),
    Not(Box<FastPath>),
    All(Vec<FastPath>),
    Any(Vec<FastPath>),
}

impl FastPath {
    /// Returns the expression if it consists only of calls of these `functions` and `&&`, `||` and `!`.
    pub(super) fn of(expression: &IdedExpr, functions: &[&'static str]) -> Option<Self> {
        let Expr::Call(call) = &expression.expr else { return None };
        if call.target.is_some() {
            return None;
        }
        let operands =
            || call.args.iter().map(|operand| Self::of(operand, functions)).collect::<Option<Vec<_>>>();
        match call.func_name.as_str() {
            operators::LOGICAL_AND => operands().map(Self::All),
            operators::LOGICAL_OR => operands().map(Self::Any),
            operators::LOGICAL_NOT => operands()?.pop().map(|operand| Self::Not(Box::new(operand))),
            name if call.args.is_empty() => {
                functions.iter().find(|known| **known == name).map(|known| Self::Changed(known))
            }
            _ => None,
        }
    }

    /// Returns the expression's value; `changed` is the value of each function.
    pub(super) fn evaluate(&self, changed: &impl Fn(&'static str) -> bool) -> bool {
        match self {
            Self::Changed(name) => changed(name),
            Self::Not(operand) => !operand.evaluate(changed),
            Self::All(operands) => operands.iter().all(|operand| operand.evaluate(changed)),
            Self::Any(operands) => operands.iter().any(|operand| operand.evaluate(changed)),
        }
    }
}
