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

    /// `optMap` and `optFlatMap` are `target.hasValue() ? … : optional.none()`, in which the variable is `target.value()`.
    fn of_optional(&mut self, part: &'e IdedExpr, found: &BindingMacro<'e>, target: &Type) -> Checked {
        let (has_value, value) = match target {
            Type::Optional(inner) => (Type::Bool, (**inner).clone()),
            Type::Null | Type::Parameter(_) => (Type::Bool, Type::Parameter(self.bindings.parameters(1))),
            other if other.is_dyn_or_error() => (Type::Bool, Type::Parameter(self.bindings.parameters(1))),
            other => {
                for function in ["hasValue", "value"] {
                    self.error(part, no_overload(function, &format!("{other}.()")));
                }
                (Type::Error, Type::Error)
            }
        };
        self.variables.push((found.variables.0, value));
        let body = self.expression(found.body)?;
        if found.kind == MacroKind::OptMap {
            return Ok(Type::optional(body));
        }
        Ok(match self.bindings.substitute(&body)? {
            optional @ (Type::Optional(_) | Type::Error) => optional,
            Type::Dyn | Type::Parameter(_) if has_value == Type::Error => Type::Dyn,
            Type::Dyn | Type::Parameter(_) => Type::optional(Type::Dyn),
            other => {
                let none = Type::optional(Type::Dyn);
                self.error(part, no_overload("_?_:_", &format!("({has_value}, {other}, {none})")))
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
            Type::List(_) | Type::Dyn | Type::Error | Type::Parameter(_) if key == Type::Error => {
                Ok(Type::Dyn)
            }
            Type::List(_) if is_sortable => Ok(Type::list(element)),
            Type::Dyn | Type::Parameter(_) if is_sortable => Ok(Type::list(Type::Dyn)),
            Type::Error if is_sortable => Ok(Type::Dyn),
            _ => {
                Ok(self.error(part, no_overload("@sortByAssociatedKeys", &format!("{target}.(list({key}))"))))
            }
        }
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
        let filter = match found.filter {
            Some(filter) => Some(self.expression(filter)?),
            None => None,
        };
        match found.kind {
            MacroKind::TransformList => {
                let body = self.expression(found.body)?;
                self.conditional(part, filter, Type::list(body))
            }
            MacroKind::TransformMap => {
                let body = self.expression(found.body)?;
                self.conditional(part, filter, Type::map(first, body))
            }
            MacroKind::TransformMapEntry => {
                let body = self.expression(found.body)?;
                match self.bindings.substitute(&body)? {
                    map @ Type::Map(_) => self.conditional(part, filter, map),
                    other => self.dynamic_or(part, &other, |ty| {
                        let map = Type::map(Type::Dyn, Type::Dyn);
                        no_overload("cel.@mapInsert", &format!("({map}, {ty})"))
                    }),
                }
            }
            MacroKind::ExistsOne => {
                let body = self.expression(found.body)?;
                self.conditional(part, Some(body), Type::Int)?;
                Ok(Type::Bool)
            }
            _ => {
                self.expect(found.body, &Type::Bool)?;
                Ok(Type::Bool)
            }
        }
    }

    /// Returns the type of the next accumulator, which a condition decides about: `condition ? … : accumulator`.
    fn conditional(&mut self, part: &IdedExpr, condition: Option<Type>, accumulator: Type) -> Checked {
        let Some(condition) = condition else { return Ok(accumulator) };
        if self.bindings.assign(std::slice::from_ref(&condition), &[Type::Bool])? {
            return Ok(accumulator);
        }
        let (condition, shown) =
            (self.bindings.substitute(&condition)?, self.bindings.substitute(&accumulator)?);
        self.error(part, no_overload("_?_:_", &format!("({condition}, {shown}, {shown})")));
        Ok(accumulator)
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

fn no_overload(function: &str, arguments: &str) -> String {
    format!("found no matching overload for '{function}' applied to '{arguments}'")
}
