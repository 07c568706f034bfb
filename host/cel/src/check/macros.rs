//! The types of the macros that bind variables ([`crate::macros`]).

use kube_cel::cel::common::ast::IdedExpr;

use super::{Checked, Checker, Exhausted, Type};
use crate::macros::{BindingMacro, MacroKind};

impl<'e> Checker<'e, '_> {
    pub(super) fn binding_macro(&mut self, part: &'e IdedExpr, found: &BindingMacro<'e>) -> Checked {
        let target = self.expression(found.target)?;
        let target = self.bindings.substitute(&target)?;
        let outer = self.variables.len();
        let result = match found.kind {
            MacroKind::OptMap | MacroKind::OptFlatMap => self.of_optional(part, found, &target),
            MacroKind::SortBy => self.sort_by(part, found, &target),
            _ => self.over_pairs(part, found, &target),
        };
        self.variables.truncate(outer);
        result
    }

    fn of_optional(&mut self, part: &'e IdedExpr, found: &BindingMacro<'e>, target: &Type) -> Checked {
        let inner = match target {
            Type::Optional(inner) => (**inner).clone(),
            other => {
                let missing = |function: &str| {
                    format!("found no matching overload for '{function}' applied to '{other}.()'")
                };
                let ty = self.dynamic_or(part, other, |_| missing("hasValue"))?;
                if ty == Type::Error { self.error(part, missing("value")) } else { ty }
            }
        };
        self.variables.push((found.variables.0, inner));
        let body = self.expression(found.body)?;
        if found.kind == MacroKind::OptMap {
            return Ok(Type::optional(body));
        }
        Ok(match self.bindings.substitute(&body)? {
            optional @ Type::Optional(_) => optional,
            other => {
                let ty = self.dynamic_or(part, &other, |ty| {
                    let optional = Type::optional(Type::Dyn);
                    format!("found no matching overload for '_?_:_' applied to '(bool, {ty}, {optional})'")
                })?;
                Type::optional(ty)
            }
        })
    }

    fn sort_by(&mut self, part: &'e IdedExpr, found: &BindingMacro<'e>, target: &Type) -> Checked {
        let element = match target {
            Type::List(element) => (**element).clone(),
            Type::Map(types) => types.0.clone(),
            other if other.is_dyn_or_error() => Type::Dyn,
            other => self.dynamic_or(part, other, no_range)?,
        };
        self.variables.push((found.variables.0, element.clone()));
        let key = self.expression(found.body)?;
        let key = self.bindings.substitute(&key)?;
        let is_sortable = matches!(
            key,
            Type::Int
                | Type::Uint
                | Type::Double
                | Type::Bool
                | Type::String
                | Type::Bytes
                | Type::Duration
                | Type::Timestamp
                | Type::Parameter(_)
                | Type::Dyn
                | Type::Error
        );
        match target {
            Type::List(_) if is_sortable => return Ok(Type::list(element)),
            Type::Dyn | Type::Error | Type::Parameter(_) if is_sortable => return Ok(Type::list(Type::Dyn)),
            _ => {}
        }
        let problem = format!(
            "found no matching overload for '@sortByAssociatedKeys' applied to '{target}.(list({key}))'"
        );
        Ok(self.error(part, problem))
    }

    fn over_pairs(&mut self, part: &'e IdedExpr, found: &BindingMacro<'e>, target: &Type) -> Checked {
        let (first, second) = match target {
            Type::List(element) => (Type::Int, (**element).clone()),
            Type::Map(types) => (types.0.clone(), types.1.clone()),
            other => {
                let ty = self.dynamic_or(found.target, other, no_range)?;
                (ty.clone(), ty)
            }
        };
        self.variables.push((found.variables.0, first.clone()));
        if let Some(name) = found.variables.1 {
            self.variables.push((name, second));
        }
        if let Some(filter) = found.filter {
            self.expect(filter, &Type::Bool)?;
        }
        match found.kind {
            MacroKind::TransformList => {
                let body = self.expression(found.body)?;
                Ok(Type::list(body))
            }
            MacroKind::TransformMap => {
                let body = self.expression(found.body)?;
                Ok(Type::map(first, body))
            }
            MacroKind::TransformMapEntry => {
                let body = self.expression(found.body)?;
                match self.bindings.substitute(&body)? {
                    map @ Type::Map(_) => Ok(map),
                    other => self.dynamic_or(part, &other, |ty| {
                        let map = Type::map(Type::Dyn, Type::Dyn);
                        format!("found no matching overload for 'cel.@mapInsert' applied to '({map}, {ty})'")
                    }),
                }
            }
            _ => {
                self.expect(found.body, &Type::Bool)?;
                Ok(Type::Bool)
            }
        }
    }

    /// Returns `dyn` for a type that is not known, and reports any other one.
    fn dynamic_or(
        &mut self,
        at: &IdedExpr,
        ty: &Type,
        problem: impl FnOnce(&Type) -> String,
    ) -> Result<Type, Exhausted> {
        match ty {
            Type::Parameter(_) => {
                self.bindings.assign(&[Type::Dyn], std::slice::from_ref(ty))?;
                Ok(Type::Dyn)
            }
            other if other.is_dyn_or_error() => Ok(Type::Dyn),
            other => Ok(self.error(at, problem(other))),
        }
    }
}

/// Returns the error for a target that has no elements.
fn no_range(ty: &Type) -> String {
    format!("expression of type '{ty}' cannot be range of a comprehension (must be list, map, or dynamic)")
}
