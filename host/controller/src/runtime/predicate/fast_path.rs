//! Predicates that are judged without CEL: those that join nothing but the functions that compare the old state with the new one. Most are,
//! and they are asked for every event.

use kube_cel::cel::common::ast::{Expr, IdedExpr, operators};

/// An expression of such functions, by what it calls.
#[derive(Debug, PartialEq)]
pub(super) enum Quick {
    /// One of the functions.
    Changed(&'static str),
    Not(Box<Quick>),
    All(Vec<Quick>),
    Any(Vec<Quick>),
}

impl Quick {
    /// The expression, if it has nothing but these `functions` and what joins them.
    pub(super) fn of(expression: &IdedExpr, functions: &[&'static str]) -> Option<Self> {
        let Expr::Call(call) = &expression.expr else { return None };
        if call.target.is_some() {
            return None;
        }
        let parts = || call.args.iter().map(|part| Self::of(part, functions)).collect::<Option<Vec<_>>>();
        match call.func_name.as_str() {
            operators::LOGICAL_AND => parts().map(Self::All),
            operators::LOGICAL_OR => parts().map(Self::Any),
            operators::LOGICAL_NOT => parts()?.pop().map(|part| Self::Not(Box::new(part))),
            name if call.args.is_empty() => {
                functions.iter().find(|known| **known == name).map(|known| Self::Changed(known))
            }
            _ => None,
        }
    }

    /// Its value, where `changed` says what the functions answer.
    pub(super) fn holds(&self, changed: &impl Fn(&'static str) -> bool) -> bool {
        match self {
            Self::Changed(name) => changed(name),
            Self::Not(part) => !part.holds(changed),
            Self::All(parts) => parts.iter().all(|part| part.holds(changed)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(changed)),
        }
    }
}
