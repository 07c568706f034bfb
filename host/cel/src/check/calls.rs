//! The types of calls of functions, methods and operators.

use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};

use super::declarations::{Overload, overloads};
use super::types::Type;
use super::{Checked, Checker};
use crate::macros::BindingMacro;
use crate::syntax::qualified_name;

impl<'e> Checker<'e, '_> {
    pub(super) fn call(&mut self, part: &'e IdedExpr, call: &'e CallExpr) -> Checked {
        let is_format = usize::from(call.func_name == "format");
        self.formats += is_format;
        let ty = self.call_of(part, call);
        self.formats -= is_format;
        ty
    }

    fn call_of(&mut self, part: &'e IdedExpr, call: &'e CallExpr) -> Checked {
        let name = call.func_name.as_str();
        if let Some((at, problem)) = BindingMacro::misused(call) {
            return Ok(self.error(at, problem));
        }
        if let Some(found) = BindingMacro::of(call) {
            return self.binding_macro(part, &found);
        }
        self.literals.argument(call, &self.positions);
        if let (
            operators::OPT_SELECT,
            [operand, IdedExpr { expr: Expr::Literal(LiteralValue::String(field)), .. }],
        ) = (name, call.args.as_slice())
        {
            let (member, _) = self.member(part, operand, field.inner())?;
            return Ok(Type::optional(member));
        }
        let mut arguments = Vec::with_capacity(call.args.len() + 1);
        for argument in &call.args {
            arguments.push(self.expression(argument)?);
        }
        if matches!(name, operators::LOGICAL_AND | operators::LOGICAL_OR) {
            return self.logical_operator(call, &arguments);
        }
        let Some(target) = &call.target else {
            if let Some(result) = self.objects.function(name) {
                return Ok(result);
            }
            return match overloads(name) {
                Some(overloads) => self.resolve(part, name, overloads, &arguments, false),
                None => Ok(self.undeclared(part, name)),
            };
        };
        let qualified = qualified_name(target).map(|prefix| format!("{prefix}.{name}"));
        if let Some(qualified) = &qualified
            && let Some(overloads) = overloads(qualified)
        {
            return self.resolve(part, qualified, overloads, &arguments, false);
        }
        if let Some(result) = qualified.and_then(|qualified| self.objects.function(&qualified)) {
            return Ok(result);
        }
        arguments.insert(0, self.expression(target)?);
        match overloads(name) {
            Some(overloads) => self.resolve(part, name, overloads, &arguments, true),
            None => Ok(self.undeclared(part, name)),
        }
    }

    fn logical_operator(&mut self, call: &'e CallExpr, arguments: &[Type]) -> Checked {
        let mut result = Type::Bool;
        for (argument, ty) in call.args.iter().zip(arguments) {
            if !self.bindings.assign(std::slice::from_ref(ty), &[Type::Bool])? {
                let problem = self.mismatch(&Type::Bool, ty)?;
                result = self.error(argument, problem);
            }
        }
        Ok(result)
    }

    /// Returns the type of a call: that of the only form of the function that takes the arguments, or `dyn` if forms with different results do.
    fn resolve(
        &mut self,
        part: &IdedExpr,
        name: &str,
        overloads: &[Overload],
        arguments: &[Type],
        is_method: bool,
    ) -> Checked {
        let mut result: Option<Type> = None;
        for overload in overloads.iter().filter(|overload| overload.is_method == is_method) {
            self.bindings.step()?;
            if overload.arguments.len() != arguments.len() {
                continue;
            }
            let first = self.bindings.parameters(overload.parameters);
            let expected: Vec<Type> =
                overload.arguments.iter().map(|argument| instantiate(argument, first)).collect();
            if !self.bindings.assign(arguments, &expected)? {
                continue;
            }
            let own = self.bindings.substitute(&instantiate(&overload.result, first))?;
            result = Some(match result {
                None => own,
                Some(Type::Dyn) => Type::Dyn,
                Some(earlier) if earlier == own => earlier,
                Some(_) => Type::Dyn,
            });
        }
        if let Some(result) = result {
            return Ok(result);
        }
        let mut texts = Vec::with_capacity(arguments.len());
        for argument in arguments {
            texts.push(self.bindings.substitute(argument)?.to_string());
        }
        let target = if is_method { format!("{}.", texts.remove(0)) } else { String::new() };
        let signature = format!("{target}({})", texts.join(", "));
        Ok(self.error(part, format!("found no matching overload for '{name}' applied to '{signature}'")))
    }
}

/// Gives the parameters of a declaration the numbers from `first`.
fn instantiate(ty: &Type, first: usize) -> Type {
    match ty {
        Type::Parameter(number) => Type::Parameter(first + number),
        Type::List(inner) => Type::list(instantiate(inner, first)),
        Type::Optional(inner) => Type::optional(instantiate(inner, first)),
        Type::Type(inner) => Type::Type(instantiate(inner, first).into()),
        Type::Map(types) => Type::map(instantiate(&types.0, first), instantiate(&types.1, first)),
        other => other.clone(),
    }
}
