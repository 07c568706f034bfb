//! Finds the variables, functions and message literals that an expression uses.

use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr};

use crate::functions::{namespace, unknown_function_of_namespace};
use crate::macros::BindingMacro;
use crate::type_values::is_type_name;

/// Returns the first variable that is neither in `known` nor bound by a macro around it (`all(item, …)`). The namespace of a function, as in
/// `sets.contains(a, b)`, is no variable.
pub fn first_unknown<'e>(expression: &'e IdedExpr, known: &mut Vec<&'e str>) -> Option<&'e str> {
    match &expression.expr {
        Expr::Unspecified | Expr::Literal(_) => None,
        // Names that start with @ are created by the parser.
        Expr::Ident(name) => {
            let name = name.as_str();
            (!name.starts_with('@') && !known.contains(&name) && !is_type_name(name)).then_some(name)
        }
        Expr::Call(call) => {
            if let Some(found) = BindingMacro::of(call) {
                return first_unknown_in_macro(&found, known);
            }
            let target = call.target.as_deref().filter(|_| namespace(call).is_none());
            first_unknown_of(target.into_iter().chain(&call.args), known)
        }
        Expr::List(list) => first_unknown_of(&list.elements, known),
        Expr::Select(select) => first_unknown(&select.operand, known)
            .filter(|_| qualified_name(expression).is_none_or(|name| !is_type_name(&name))),
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

fn first_unknown_in_macro<'e>(found: &BindingMacro<'e>, known: &mut Vec<&'e str>) -> Option<&'e str> {
    first_unknown(found.target, known).or_else(|| {
        let outer = known.len();
        known.push(found.variables.0);
        known.extend(found.variables.1);
        let inside = first_unknown_of(found.inside(), known);
        known.truncate(outer);
        inside
    })
}

fn first_unknown_of<'e>(
    expressions: impl IntoIterator<Item = &'e IdedExpr>,
    known: &mut Vec<&'e str>,
) -> Option<&'e str> {
    expressions.into_iter().find_map(|expression| first_unknown(expression, known))
}

/// Returns the text of a name or of selections from a name, such as `net.IP`.
pub(crate) fn qualified_name(part: &IdedExpr) -> Option<String> {
    match &part.expr {
        Expr::Ident(name) => Some(name.trim_start_matches('.').to_owned()),
        Expr::Select(select) if !select.test => {
            Some(format!("{}.{}", qualified_name(&select.operand)?, select.field))
        }
        _ => None,
    }
}

/// Whether a source can call a function of this name. Operators are functions, too, but with other characters in their names.
pub fn is_name(function: &str) -> bool {
    function.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether the call is that of a function in a namespace, such as `sets.contains(a, b)`.
pub fn is_in_namespace(call: &CallExpr) -> bool {
    namespace(call).is_some()
}

/// Returns the namespace of a call such as `sets.union(a, b)`, and the functions that the namespace has, if this function is not among them.
pub fn unknown_in_namespace(call: &CallExpr) -> Option<(&'static str, &'static [&'static str])> {
    unknown_function_of_namespace(call)
}

/// Returns the direct subexpressions. The variables that a macro binds are none.
pub fn subexpressions(expression: &Expr) -> Vec<&IdedExpr> {
    match expression {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => Vec::new(),
        Expr::Call(call) => match BindingMacro::of(call) {
            Some(found) => std::iter::once(found.target).chain(found.inside()).collect(),
            None => call.target.as_deref().into_iter().chain(&call.args).collect(),
        },
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Map(map) => map.entries.iter().flat_map(|entry| entry_expressions(&entry.expr)).collect(),
        Expr::Struct(message) => {
            message.entries.iter().flat_map(|entry| entry_expressions(&entry.expr)).collect()
        }
        Expr::Comprehension(macro_call) => vec![
            &macro_call.iter_range,
            &macro_call.accu_init,
            &macro_call.loop_cond,
            &macro_call.loop_step,
            &macro_call.result,
        ],
    }
}

/// Returns the expressions of an entry of a map or a message.
fn entry_expressions(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

/// Returns all calls in the expression, including operators. Macros are no calls.
pub fn calls(expression: &IdedExpr) -> Vec<&CallExpr> {
    let mut found: Vec<_> = subexpressions(&expression.expr).into_iter().flat_map(calls).collect();
    if let Expr::Call(call) = &expression.expr
        && BindingMacro::of(call).is_none()
    {
        found.push(call);
    }
    found
}

/// Whether a variable of this name is read anywhere. The variable of a macro with the same name is mistaken for it.
pub(crate) fn uses_variable(expression: &IdedExpr, name: &str) -> bool {
    matches!(&expression.expr, Expr::Ident(found) if found == name)
        || subexpressions(&expression.expr).into_iter().any(|part| uses_variable(part, name))
}

/// Whether the expression contains a message literal. There are no message types.
pub fn has_struct(expression: &IdedExpr) -> bool {
    matches!(expression.expr, Expr::Struct(_)) || subexpressions(&expression.expr).into_iter().any(has_struct)
}
