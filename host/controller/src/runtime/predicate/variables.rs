//! What a CEL expression takes from outside: variables and functions.

use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr};

use super::reads::{inner, parts};

/// The first variable that is neither in `known` nor bound by a macro around it (`all(item, …)`).
pub(super) fn first_unknown<'e>(expression: &'e IdedExpr, known: &mut Vec<&'e str>) -> Option<&'e str> {
    match &expression.expr {
        Expr::Unspecified | Expr::Literal(_) => None,
        // What begins with @ is the parser's own.
        Expr::Ident(name) => {
            (!name.starts_with('@') && !known.contains(&name.as_str())).then_some(name.as_str())
        }
        Expr::Call(call) => first_of(call.target.as_deref().into_iter().chain(&call.args), known),
        Expr::List(list) => first_of(&list.elements, known),
        Expr::Select(select) => first_unknown(&select.operand, known),
        Expr::Map(map) => first_of(map.entries.iter().flat_map(|entry| parts(&entry.expr)), known),
        Expr::Struct(made) => first_of(made.entries.iter().flat_map(|entry| parts(&entry.expr)), known),
        Expr::Comprehension(made) => first_of([&made.iter_range, &made.accu_init], known).or_else(|| {
            let outside = known.len();
            known.extend([made.iter_var.as_str(), made.accu_var.as_str()]);
            known.extend(made.iter_var2.as_deref());
            let found = first_of([&made.loop_cond, &made.loop_step, &made.result], known);
            known.truncate(outside);
            found
        }),
    }
}

fn first_of<'e>(
    expressions: impl IntoIterator<Item = &'e IdedExpr>,
    known: &mut Vec<&'e str>,
) -> Option<&'e str> {
    expressions.into_iter().find_map(|expression| first_unknown(expression, known))
}

/// All calls in the expression, operators included.
pub(super) fn calls(expression: &IdedExpr) -> Vec<&CallExpr> {
    let mut found: Vec<_> = inner(&expression.expr).into_iter().flat_map(calls).collect();
    if let Expr::Call(call) = &expression.expr {
        found.push(call);
    }
    found
}

/// Whether the expression makes a message, which there is none of here.
pub(super) fn has_struct(expression: &IdedExpr) -> bool {
    matches!(expression.expr, Expr::Struct(_)) || inner(&expression.expr).into_iter().any(has_struct)
}
