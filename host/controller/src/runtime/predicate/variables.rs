//! Finds the variables, functions and message literals that a CEL expression uses.

use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr};

use super::read_set::{entry_expressions, subexpressions};

/// Returns the first variable that is neither in `known` nor bound by a macro around it (`all(item, …)`).
pub(super) fn first_unknown<'e>(expression: &'e IdedExpr, known: &mut Vec<&'e str>) -> Option<&'e str> {
    match &expression.expr {
        Expr::Unspecified | Expr::Literal(_) => None,
        // Names that start with @ are created by the parser.
        Expr::Ident(name) => {
            (!name.starts_with('@') && !known.contains(&name.as_str())).then_some(name.as_str())
        }
        Expr::Call(call) => first_unknown_of(call.target.as_deref().into_iter().chain(&call.args), known),
        Expr::List(list) => first_unknown_of(&list.elements, known),
        Expr::Select(select) => first_unknown(&select.operand, known),
        Expr::Map(map) => {
            first_unknown_of(map.entries.iter().flat_map(|entry| entry_expressions(&entry.expr)), known)
        }
        Expr::Struct(message) => {
            first_unknown_of(message.entries.iter().flat_map(|entry| entry_expressions(&entry.expr)), known)
        }
        Expr::Comprehension(macro_call) => {
            first_unknown_of([&macro_call.iter_range, &macro_call.accu_init], known).or_else(|| {
                let outer = known.len();
                known.extend([macro_call.iter_var.as_str(), macro_call.accu_var.as_str()]);
                known.extend(macro_call.iter_var2.as_deref());
                let inner = [&macro_call.loop_cond, &macro_call.loop_step, &macro_call.result];
                let found = first_unknown_of(inner, known);
                known.truncate(outer);
                found
            })
        }
    }
}

fn first_unknown_of<'e>(
    expressions: impl IntoIterator<Item = &'e IdedExpr>,
    known: &mut Vec<&'e str>,
) -> Option<&'e str> {
    expressions.into_iter().find_map(|expression| first_unknown(expression, known))
}

/// Returns all calls in the expression, including operators.
pub(super) fn calls(expression: &IdedExpr) -> Vec<&CallExpr> {
    let mut found: Vec<_> = subexpressions(&expression.expr).into_iter().flat_map(calls).collect();
    if let Expr::Call(call) = &expression.expr {
        found.push(call);
    }
    found
}

/// Whether the expression contains a message literal. Predicates have no message types.
pub(super) fn has_struct(expression: &IdedExpr) -> bool {
    matches!(expression.expr, Expr::Struct(_)) || subexpressions(&expression.expr).into_iter().any(has_struct)
}
