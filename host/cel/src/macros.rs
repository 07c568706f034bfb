//! The macros that the library's parser does not expand: `optMap`, `optFlatMap`, `sortBy` and those of two variables. They follow
//! `github.com/google/cel-go/{cel/library.go,ext/comprehensions.go,ext/lists.go}`.
//!
//! The parser leaves them as calls. They are evaluated and checked as they are written.

use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr};

/// Which macro it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MacroKind {
    All,
    Exists,
    ExistsOne,
    TransformList,
    TransformMap,
    TransformMapEntry,
    OptMap,
    OptFlatMap,
    SortBy,
}

/// The macros: name, kind, number of variables, and least and most expressions after them.
const MACROS: [(&str, MacroKind, usize, [usize; 2]); 10] = [
    ("all", MacroKind::All, 2, [1, 1]),
    ("exists", MacroKind::Exists, 2, [1, 1]),
    ("existsOne", MacroKind::ExistsOne, 2, [1, 1]),
    ("exists_one", MacroKind::ExistsOne, 2, [1, 1]),
    ("transformList", MacroKind::TransformList, 2, [1, 2]),
    ("transformMap", MacroKind::TransformMap, 2, [1, 2]),
    ("transformMapEntry", MacroKind::TransformMapEntry, 2, [1, 2]),
    ("optMap", MacroKind::OptMap, 1, [1, 1]),
    ("optFlatMap", MacroKind::OptFlatMap, 1, [1, 1]),
    ("sortBy", MacroKind::SortBy, 1, [1, 1]),
];

/// A macro in an expression, such as `list.all(index, value, condition)`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BindingMacro<'e> {
    pub(crate) kind: MacroKind,
    /// The list, map or optional that the macro is called on.
    pub(crate) target: &'e IdedExpr,
    /// The names of its first variable and, if it has two, of its second one.
    pub(crate) variables: (&'e str, Option<&'e str>),
    /// The filter of a transformation.
    pub(crate) filter: Option<&'e IdedExpr>,
    /// The expression that is evaluated for each binding of the variables.
    pub(crate) body: &'e IdedExpr,
}

impl<'e> BindingMacro<'e> {
    /// Returns the macro that a call is; `None` for a call of a function, and for a macro that is used in another way.
    pub(crate) fn of(call: &'e CallExpr) -> Option<Self> {
        let target = call.target.as_deref()?;
        let (_, kind, variables, [least, most]) =
            *MACROS.iter().find(|(name, ..)| *name == call.func_name)?;
        let (names, rest) = call.args.split_at_checked(variables)?;
        let variables = match names {
            [one] => (variable(one)?, None),
            [first, second] => (variable(first)?, Some(variable(second)?)),
            _ => return None,
        };
        if !(least..=most).contains(&rest.len()) || variables.1 == Some(variables.0) {
            return None;
        }
        let (body, filter) = rest.split_last()?;
        Some(Self { kind, target, variables, filter: filter.first(), body })
    }

    /// Returns what is wrong with a call that has the name of a macro and as many arguments, and the expression to which that applies.
    pub(crate) fn misused(call: &'e CallExpr) -> Option<(&'e IdedExpr, String)> {
        let target = call.target.as_deref()?;
        let (name, kind, variables, [least, most]) =
            *MACROS.iter().find(|(name, ..)| *name == call.func_name)?;
        let (names, rest) = call.args.split_at_checked(variables)?;
        if !(least..=most).contains(&rest.len()) {
            return None;
        }
        match (kind, names) {
            (MacroKind::OptMap | MacroKind::OptFlatMap, [one]) if variable(one).is_none() => {
                Some((one, format!("{name}() variable name must be a simple identifier")))
            }
            (MacroKind::SortBy, [one]) if variable(one).is_none() => {
                Some((one, "argument is not an identifier".to_owned()))
            }
            (_, [_, _]) if names.iter().any(|name| variable(name).is_none()) => {
                let at = names.iter().find(|name| variable(name).is_none())?;
                Some((at, "argument must be a simple name".to_owned()))
            }
            (_, [first, second]) if variable(first).is_some() && variable(first) == variable(second) => {
                Some((second, format!("duplicate variable name: {}", variable(second)?)))
            }
            (MacroKind::SortBy, _) if matches!(target.expr, Expr::Literal(_) | Expr::Map(_)) => Some((
                target,
                "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
                    .to_owned(),
            )),
            _ => None,
        }
    }

    /// Returns the expressions in which the variables are bound.
    pub(crate) fn inside(&self) -> impl Iterator<Item = &'e IdedExpr> + use<'e> {
        self.filter.into_iter().chain([self.body])
    }
}

/// Returns the name if the expression is a name only.
fn variable(expression: &IdedExpr) -> Option<&str> {
    match &expression.expr {
        Expr::Ident(name) => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Expression;

    #[test]
    fn a_macro_needs_different_names_and_the_right_number_of_expressions() {
        let kind = |text: &str| {
            let expression = Expression::compile(text).expect(text);
            let Expr::Call(call) = &expression.root().expr else { panic!("{text}") };
            BindingMacro::of(call).map(|found| (found.kind, found.filter.is_some()))
        };
        assert_eq!(kind("a.all(i, v, v > i)"), Some((MacroKind::All, false)));
        assert_eq!(kind("a.transformList(i, v, v > i, v)"), Some((MacroKind::TransformList, true)));
        assert_eq!(kind("a.optMap(v, v)"), Some((MacroKind::OptMap, false)));
        for text in [
            "a.all(i, i, true)",
            "a.all(i, v, true, true)",
            "a.optMap(1, v)",
            "a.optMap(v)",
            "a.transformMap(k, v)",
            "a.size()",
            "optMap(v, v)",
        ] {
            assert_eq!(kind(text), None, "{text}");
        }
    }
}
