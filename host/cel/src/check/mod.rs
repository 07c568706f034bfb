//! Static types of expressions, after `github.com/google/cel-go/checker`.
//!
//! kube-apiserver refuses a CRD whose rules have a type error. The functions are those that it declares (`declarations.txt`). A check makes a
//! bounded number of steps: an expression that needs more is not checked to its end, and is metered when it is evaluated like any other.

mod calls;
mod collections;
mod declarations;
mod literals;
mod macros;
mod positions;
pub(crate) mod report;
#[cfg(test)]
mod tests;
mod type_names;
mod types;
mod unify;

use kube_cel::cel::common::ast::{
    ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, StructExpr,
};

use crate::expression::Expression;
use crate::syntax::qualified_name;
use literals::Literals;
use positions::Positions;
use report::Report;
use type_names::named_type;
pub use types::Type;
use unify::{Bindings, Exhausted};

/// How many steps a check makes: comparisons of types, and parts of types that it copies.
const MAX_STEPS: usize = 200_000;

/// The objects and functions of the caller that an expression can refer to.
pub trait Objects {
    /// Returns the type of a member of the object type with this id; `None` if it has no member of this name.
    fn member(&self, id: usize, name: &str) -> Option<Type>;

    /// Returns the type of the objects that an expression constructs by this name, such as `Object.spec`; `None` if there is none.
    fn constructed(&self, _name: &str) -> Option<Type> {
        None
    }

    /// Returns the type of the results of a function of the caller; `None` if it has no function of this name. Arguments are not checked.
    fn function(&self, _name: &str) -> Option<Type> {
        None
    }
}

/// No objects, and functions of the caller with the types of their results.
struct Functions<'a>(&'a [(&'a str, Type)]);

impl Objects for Functions<'_> {
    fn member(&self, _: usize, _: &str) -> Option<Type> {
        None
    }

    fn function(&self, name: &str) -> Option<Type> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, ty)| ty.clone())
    }
}

/// Checks that an expression can be a condition. `variables` have any type. An expression with a type error passes: it fails where it is
/// evaluated, with a message of its own.
///
/// # Errors
/// Errors with one line if each value of the expression is of another type than `bool`.
pub fn check_condition(
    expression: &Expression,
    text: &str,
    variables: &[&str],
    functions: &[(&str, Type)],
) -> Result<(), String> {
    check_type(expression, text, variables, functions, &Type::Bool)
        .map_err(|ty| format!("it is of the type {ty}, not bool; compare it with what you expect"))
}

/// Checks that an expression can be a number of times, like [`check_condition`].
///
/// # Errors
/// Errors with one line if each value of the expression is of another type than `int`.
pub fn check_count(
    expression: &Expression,
    text: &str,
    variables: &[&str],
    functions: &[(&str, Type)],
) -> Result<(), String> {
    check_type(expression, text, variables, functions, &Type::Int).map_err(|ty| {
        format!("it is of the type {ty}, not int; write a whole number, or convert it with int()")
    })
}

/// Checks that an expression can have a value of the type.
///
/// # Errors
/// Returns the type that each of its values has.
fn check_type(
    expression: &Expression,
    text: &str,
    variables: &[&str],
    functions: &[(&str, Type)],
    expected: &Type,
) -> Result<(), Type> {
    let variables: Vec<_> = variables.iter().map(|name| (*name, Type::Dyn)).collect();
    match check(expression, text, &variables, &Functions(functions)) {
        Err(_) | Ok(None | Some(Type::Dyn | Type::Error)) => Ok(()),
        Ok(Some(ty)) if ty == *expected => Ok(()),
        Ok(Some(ty)) => Err(ty),
    }
}

/// Returns the type of an expression, or the text of its type errors. The type is `None` if finding it takes too many steps.
///
/// # Errors
/// The expression has a type error. The text is that of cel-go, with the position of each error.
pub fn check(
    expression: &Expression,
    text: &str,
    variables: &[(&str, Type)],
    objects: &dyn Objects,
) -> Result<Option<Type>, String> {
    check_within(expression, text, variables, objects, MAX_STEPS)
}

fn check_within(
    expression: &Expression,
    text: &str,
    variables: &[(&str, Type)],
    objects: &dyn Objects,
    steps: usize,
) -> Result<Option<Type>, String> {
    let root = expression.root();
    let mut checker = Checker {
        variables: variables.to_vec(),
        bindings: Bindings::new(steps),
        positions: Positions::of(text, root),
        report: Report::default(),
        literals: Literals::default(),
        formats: 0,
        objects,
    };
    let ty = checker.expression(root).and_then(|ty| checker.bindings.substitute(&ty));
    match ty {
        Err(Exhausted) => Ok(None),
        Ok(_) if !checker.report.is_empty() => Err(checker.report.text(text)),
        Ok(ty) => match checker.literals.report(&mut checker.bindings) {
            Err(Exhausted) => Ok(None),
            Ok(report) if !report.is_empty() => Err(report.text(text)),
            Ok(_) if matches!(ty, Type::Parameter(_)) => Ok(Some(Type::Dyn)),
            Ok(_) => Ok(Some(ty)),
        },
    }
}

struct Checker<'e, 'o> {
    /// The innermost variable is the last.
    variables: Vec<(&'e str, Type)>,
    bindings: Bindings,
    positions: Positions,
    report: Report,
    literals: Literals,
    /// How many calls of `format` are around the current part. Their literals may be mixed.
    formats: usize,
    objects: &'o dyn Objects,
}

type Checked = Result<Type, Exhausted>;

impl<'e> Checker<'e, '_> {
    fn error(&mut self, at: &IdedExpr, problem: String) -> Type {
        self.error_at(at.id, problem);
        Type::Error
    }

    fn error_at(&mut self, id: u64, problem: String) {
        self.report.add(self.positions.of_id(id).unwrap_or_default(), problem);
    }

    fn undeclared(&mut self, at: &IdedExpr, name: &str) -> Type {
        self.error(at, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn mismatch(&mut self, expected: &Type, actual: &Type) -> Result<String, Exhausted> {
        let (expected, actual) = (self.bindings.substitute(expected)?, self.bindings.substitute(actual)?);
        Ok(format!("expected type '{expected}' but found '{actual}'"))
    }

    /// Returns the type of an expression. Recurses as deeply as the expression is nested, which was limited before it was parsed.
    fn expression(&mut self, part: &'e IdedExpr) -> Checked {
        self.bindings.step()?;
        match &part.expr {
            Expr::Literal(literal) => Ok(literal_type(literal)),
            Expr::Ident(name) => Ok(match self.variable(name) {
                Some(ty) => ty,
                None => self.undeclared(part, name),
            }),
            Expr::Select(select) => self.select(part, select),
            Expr::Call(call) => self.call(part, call),
            Expr::List(list) => self.list(list),
            Expr::Map(map) => self.map(map),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Struct(message) => self.object(part, message),
            Expr::Unspecified => Ok(Type::Dyn),
        }
    }

    fn variable(&self, name: &str) -> Option<Type> {
        let name = name.strip_prefix('.').unwrap_or(name);
        let found = self.variables.iter().rev().find(|(known, _)| *known == name).map(|(_, ty)| ty.clone());
        found.or_else(|| named_type(name))
    }

    fn select(&mut self, part: &'e IdedExpr, select: &'e SelectExpr) -> Checked {
        if let Some(name) = qualified_name(part)
            && let Some(ty) = self.qualified_variable(&name).or_else(|| named_type(&name))
        {
            return Ok(ty);
        }
        let (member, is_optional) = self.member(part, &select.operand, &select.field)?;
        Ok(match (select.test, is_optional) {
            (true, _) => Type::Bool,
            (false, true) => Type::optional(member),
            (false, false) => member,
        })
    }

    /// Returns the type of a variable whose name has several parts, such as `authorizer.requestResource`.
    fn qualified_variable(&self, name: &str) -> Option<Type> {
        self.variables.iter().find(|(known, _)| *known == name).map(|(_, ty)| ty.clone())
    }

    fn object(&mut self, part: &'e IdedExpr, message: &'e StructExpr) -> Checked {
        let name = message.type_name.trim_start_matches('.');
        let Some(ty) = self.objects.constructed(name) else {
            return Ok(self.undeclared(part, name));
        };
        let Type::Object { id, .. } = ty else { return Ok(ty) };
        for entry in &message.entries {
            let EntryExpr::StructField(field) = &entry.expr else { continue };
            let mut actual = self.expression(&field.value)?;
            if field.optional {
                actual = self.value_of_optional(&field.value, &actual)?;
            }
            let Some(expected) = self.objects.member(id, &field.field) else {
                self.error_at(entry.id, format!("undefined field '{}'", field.field));
                continue;
            };
            if !self.bindings.assign(std::slice::from_ref(&expected), std::slice::from_ref(&actual))? {
                let actual = self.bindings.substitute(&actual)?;
                let field = &field.field;
                let problem = format!(
                    "expected type of field '{field}' is '{expected}' but provided type is '{actual}'"
                );
                self.error_at(entry.id, problem);
            }
        }
        Ok(ty)
    }

    /// Returns the type of a member, and whether it is that of the value of an optional.
    fn member(
        &mut self,
        part: &'e IdedExpr,
        operand: &'e IdedExpr,
        field: &str,
    ) -> Result<(Type, bool), Exhausted> {
        let operand = self.expression(operand)?;
        let operand = self.bindings.substitute(&operand)?;
        let (target, is_optional) = match operand {
            Type::Optional(inner) => ((*inner).clone(), true),
            other => (other, false),
        };
        let member = match &target {
            Type::Map(types) => types.1.clone(),
            Type::Object { id, .. } => match self.objects.member(*id, field) {
                Some(ty) => ty,
                None => self.error(part, format!("undefined field '{field}'")),
            },
            // cel-go's texts for the types of Kubernetes and for those of networks.
            Type::Library(name) if name.starts_with("kubernetes.") => {
                self.error(part, format!("unexpected failed resolution of '{name}'"))
            }
            Type::Parameter(_) => {
                self.bindings.assign(&[Type::Dyn], &[target])?;
                Type::Dyn
            }
            other if other.is_dyn_or_error() => Type::Dyn,
            other => {
                self.error(part, format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        Ok((member, is_optional))
    }

    fn comprehension(&mut self, comprehension: &'e ComprehensionExpr) -> Checked {
        let range = self.expression(&comprehension.iter_range)?;
        let range = self.bindings.substitute(&range)?;
        let accumulator = self.expression(&comprehension.accu_init)?;
        let element = match &range {
            Type::List(element) => (**element).clone(),
            Type::Map(types) => types.0.clone(),
            Type::Dyn | Type::Error => Type::Dyn,
            Type::Parameter(_) => {
                self.bindings.assign(&[Type::Dyn], std::slice::from_ref(&range))?;
                Type::Dyn
            }
            other => {
                let problem = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.error(&comprehension.iter_range, problem)
            }
        };
        let outer = self.variables.len();
        self.variables.push((&comprehension.accu_var, accumulator.clone()));
        self.variables.push((&comprehension.iter_var, element));
        self.expect(&comprehension.loop_cond, &Type::Bool)?;
        self.expect(&comprehension.loop_step, &accumulator)?;
        self.variables.truncate(outer + 1);
        let result = self.expression(&comprehension.result)?;
        self.variables.truncate(outer);
        self.bindings.substitute(&result)
    }

    fn expect(&mut self, part: &'e IdedExpr, expected: &Type) -> Result<(), Exhausted> {
        let actual = self.expression(part)?;
        if !self.bindings.assign(std::slice::from_ref(expected), std::slice::from_ref(&actual))? {
            let problem = self.mismatch(expected, &actual)?;
            self.error(part, problem);
        }
        Ok(())
    }
}

fn literal_type(literal: &LiteralValue) -> Type {
    match literal {
        LiteralValue::Boolean(_) => Type::Bool,
        LiteralValue::Bytes(_) => Type::Bytes,
        LiteralValue::Double(_) => Type::Double,
        LiteralValue::Int(_) => Type::Int,
        LiteralValue::Null => Type::Null,
        LiteralValue::String(_) => Type::String,
        LiteralValue::UInt(_) => Type::Uint,
    }
}
