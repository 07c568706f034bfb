//! Rules for literals that Kubernetes checks after the types: the elements of a list or map have one type, and literal durations and timestamps are
//! valid. As in Kubernetes, an error of a literal is reported only if the expression has no type error.

use kube_cel::cel::common::ast::{CallExpr, Expr, LiteralValue};

use super::Type;
use super::positions::Positions;
use super::report::Report;
use super::unify::{Bindings, Exhausted};
use crate::functions::{duration, timestamp};

/// The literals that were found so far.
#[derive(Default)]
pub(super) struct Literals {
    /// The elements of each list, and the keys and values of each map. Their types may not be known before the whole expression was checked.
    elements: Vec<Elements>,
    report: Report,
}

struct Elements {
    /// The offset and the type of each.
    types: Vec<(usize, Type)>,
    /// Whether these are the elements of a list. Of those, only the first one of another type is reported.
    is_list: bool,
}

impl Literals {
    /// Adds the elements of a list, or the keys or values of a map.
    pub(super) fn add(&mut self, types: Vec<(usize, Type)>, is_list: bool) {
        if types.len() > 1 {
            self.elements.push(Elements { types, is_list });
        }
    }

    /// Checks the argument of a call if it is a literal.
    pub(super) fn argument(&mut self, call: &CallExpr, positions: &Positions) {
        let [argument] = call.args.as_slice() else { return };
        let Expr::Literal(literal) = &argument.expr else { return };
        let is_valid = match (&call.target, call.func_name.as_str(), literal) {
            (None, "duration", LiteralValue::String(text)) => duration(text.inner()).is_some(),
            (None, "duration", _) => false,
            (None, "timestamp", LiteralValue::String(text)) => timestamp(text.inner()).is_some(),
            (None, "timestamp", literal) => !matches!(literal, LiteralValue::Null),
            _ => true,
        };
        if !is_valid {
            let offset = positions.offset(argument).unwrap_or_default();
            self.report.add(offset, format!("invalid {} argument", call.func_name));
        }
    }

    /// Returns the errors.
    pub(super) fn report(mut self, bindings: &mut Bindings) -> Result<Report, Exhausted> {
        for Elements { types, is_list } in self.elements {
            let mut first = None;
            for (offset, ty) in types {
                let ty = without_parameters(bindings.substitute(&ty)?);
                let Some(expected) = &first else {
                    first = Some(ty);
                    continue;
                };
                if *expected != ty {
                    self.report.add(offset, format!("expected type '{expected}' but found '{ty}'"));
                    if is_list {
                        break;
                    }
                }
            }
        }
        Ok(self.report)
    }
}

/// Returns the type with `dyn` in place of each type parameter.
fn without_parameters(ty: Type) -> Type {
    match ty {
        Type::Parameter(_) => Type::Dyn,
        Type::List(inner) => Type::list(without_parameters((*inner).clone())),
        Type::Optional(inner) => Type::optional(without_parameters((*inner).clone())),
        Type::Type(inner) => Type::Type(without_parameters((*inner).clone()).into()),
        Type::Map(types) => {
            Type::map(without_parameters(types.0.clone()), without_parameters(types.1.clone()))
        }
        other => other,
    }
}
