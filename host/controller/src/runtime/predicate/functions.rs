//! Calls of CEL functions. Common functions are implemented here, the others by the library. Each call is charged by the size of its
//! arguments and of its largest possible result.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr};
use kube_cel::cel::{Context, ExecutionError, Value};
use regex::{Regex, RegexBuilder};

use super::budget::Budget;
use super::error::EvaluationError;
use super::values::size;

/// The library's functions. Registering about a hundred functions is slow, so it is done once.
static LIBRARY: LazyLock<Context<'static>> = LazyLock::new(|| Context::default().with_all());

const PATTERN_FUNCTIONS: [&str; 3] = ["matches", "find", "findAll"];

/// A compiled regular expression.
struct Pattern {
    regex: Regex,
    /// The cost per ten bytes of text.
    factor: u64,
}

impl Pattern {
    /// Maximum compiled sizes in bytes, each with the cost per ten bytes of text.
    const SIZES: [(usize, u64); 2] = [(16 << 10, 30), (256 << 10, 1000)];
    /// The maximum length of a pattern in bytes.
    const MAX_LENGTH: usize = 4096;

    fn new(text: &str) -> Option<Self> {
        let compiled = |(size, factor): (usize, u64)| {
            let regex =
                RegexBuilder::new(text).size_limit(size).dfa_size_limit(1 << 20).nest_limit(50).build();
            regex.ok().map(|regex| Self { regex, factor })
        };
        if text.len() > Self::MAX_LENGTH { None } else { Self::SIZES.into_iter().find_map(compiled) }
    }
}

/// The patterns that are literals in an expression, compiled with it.
#[derive(Default)]
pub(super) struct Patterns(HashMap<String, Pattern>);

impl Patterns {
    /// Compiles the pattern of a call, if it is a literal.
    ///
    /// # Errors
    /// The pattern is not a regular expression, or is too large.
    pub(super) fn add(&mut self, call: &CallExpr) -> Result<(), EvaluationError> {
        use kube_cel::cel::common::ast::LiteralValue;
        if !PATTERN_FUNCTIONS.contains(&call.func_name.as_str()) {
            return Ok(());
        }
        // `'text'.matches('pattern')`, or `matches('text', 'pattern')`.
        let argument = call.args.get(usize::from(call.target.is_none()));
        let Some(Expr::Literal(LiteralValue::String(text))) = argument.map(|argument| &argument.expr) else {
            return Ok(());
        };
        let pattern =
            Pattern::new(text.inner()).ok_or_else(|| EvaluationError::Pattern(call.func_name.clone()))?;
        self.0.insert(text.inner().to_owned(), pattern);
        Ok(())
    }
}

/// Whether the library has no function of this name. Calls it without arguments: the error of a known function is about those.
pub(super) fn is_unknown(name: &str) -> bool {
    let call = CallExpr { func_name: name.to_owned(), target: None, args: Vec::new() };
    matches!(resolve(call, &LIBRARY), Some(Err(ExecutionError::UndeclaredReference(_))))
}

/// Calls a function.
pub(super) fn call(
    name: &str,
    target: Option<Value>,
    arguments: Vec<Value>,
    patterns: &Patterns,
    budget: &mut Budget,
) -> Result<Value, EvaluationError> {
    let refused = || EvaluationError::Function(name.to_owned());
    // The function form has the target as its first argument.
    let (this, others) = match &target {
        Some(target) => (target, arguments.as_slice()),
        None => arguments.split_first().ok_or_else(refused)?,
    };
    match (name, this, others) {
        ("size", Value::String(text), []) => return length(text.len()),
        ("size", Value::List(list), []) => return length(list.len()),
        ("size", Value::Map(map), []) => return length(map.map.len()),
        ("startsWith", Value::String(text), [Value::String(start)]) => {
            budget.charge_text(start.len())?;
            return Ok(Value::Bool(text.starts_with(start.as_str())));
        }
        ("endsWith", Value::String(text), [Value::String(end)]) => {
            budget.charge_text(end.len())?;
            return Ok(Value::Bool(text.ends_with(end.as_str())));
        }
        ("contains", Value::String(text), [Value::String(part)]) => {
            budget.charge_text(text.len().saturating_add(part.len()))?;
            return Ok(Value::Bool(text.contains(part.as_str())));
        }
        ("matches" | "find" | "findAll", Value::String(text), [Value::String(pattern), ..]) => {
            return call_pattern_function(name, text, pattern, others, patterns, budget);
        }
        _ => {}
    }
    let mut total_size = size(this, budget)?;
    for argument in others {
        total_size = total_size.saturating_add(size(argument, budget)?);
    }
    charge_library(name, this, others, total_size, budget)?;
    library(name, target, arguments).ok_or_else(refused)
}

fn length(length: usize) -> Result<Value, EvaluationError> {
    i64::try_from(length).map(Value::Int).map_err(|_| EvaluationError::Arithmetic)
}

fn call_pattern_function(
    name: &str,
    text: &str,
    pattern: &str,
    others: &[Value],
    patterns: &Patterns,
    budget: &mut Budget,
) -> Result<Value, EvaluationError> {
    let compiled;
    let pattern = match patterns.0.get(pattern) {
        Some(literal) => literal,
        None => {
            budget.charge(20_000)?;
            compiled = Pattern::new(pattern).ok_or_else(|| EvaluationError::Pattern(name.to_owned()))?;
            &compiled
        }
    };
    budget.charge((text.len() as u64 / 10 + 1).saturating_mul(pattern.factor))?;
    let found = |found: regex::Match<'_>| Value::from(found.as_str());
    match (name, others) {
        ("matches", [_]) => Ok(Value::Bool(pattern.regex.is_match(text))),
        ("find", [_]) => Ok(pattern.regex.find(text).map_or_else(|| Value::from(""), found)),
        ("findAll", [_]) => Ok(Value::from(pattern.regex.find_iter(text).map(found).collect::<Vec<_>>())),
        ("findAll", [_, Value::Int(limit)]) => {
            let limit = usize::try_from(*limit).unwrap_or(usize::MAX);
            Ok(Value::from(pattern.regex.find_iter(text).take(limit).map(found).collect::<Vec<_>>()))
        }
        _ => Err(EvaluationError::Function(name.to_owned())),
    }
}

/// Charges a call of a library function before it runs, beyond the cost of measuring its arguments. `total_size` is that of the arguments.
fn charge_library(
    name: &str,
    this: &Value,
    others: &[Value],
    total_size: usize,
    budget: &mut Budget,
) -> Result<(), EvaluationError> {
    let text = |value: &Value| if let Value::String(text) = value { text.len() } else { 0 };
    let elements = |value: &Value| if let Value::List(list) = value { list.len() } else { 0 };
    let is_plain =
        |value: &Value| !matches!(value, Value::String(_) | Value::List(_) | Value::Map(_) | Value::Bytes(_));
    // The library converts the arguments and the result.
    budget.charge(10)?;
    budget.charge_text(total_size)?;
    let refused = || EvaluationError::Function(name.to_owned());
    match (name, others) {
        ("replace", [from, to, ..]) => {
            let matches = text(this) / text(from).max(1) + 1;
            budget.charge_text(matches.saturating_mul(text(to)).saturating_add(text(this)))
        }
        ("split", [separator, ..]) => budget.charge_elements(text(this) / text(separator).max(1) + 1),
        ("join", _) => {
            // The library would print elements that are not texts.
            if let Value::List(list) = this
                && !list.iter().all(|element| matches!(element, Value::String(_)))
            {
                return Err(refused());
            }
            budget.charge_text(elements(this).saturating_mul(others.first().map_or(0, text)))
        }
        ("indexOf" | "lastIndexOf", [part, ..]) => budget.charge_text(text(this).saturating_mul(text(part))),
        ("contains", [part]) => match (this, part) {
            (Value::Bytes(bytes), Value::Bytes(part)) => {
                budget.charge_text(bytes.len().saturating_mul(part.len() + 1))
            }
            _ => Ok(()),
        },
        ("distinct", _) => budget.charge_elements(elements(this).saturating_mul(total_size)),
        // The library would copy the sum of texts or lists at each step.
        ("sum", _) => match this {
            Value::List(list) if !list.iter().all(is_plain) => Err(refused()),
            _ => Ok(()),
        },
        ("sort" | "isSorted" | "min" | "max", _) => budget.charge_text(total_size.saturating_mul(16)),
        // With a high precision, the library writes very many digits, or panics.
        ("format", _) => match this {
            Value::String(text) if has_long_precision(text) => Err(refused()),
            _ => budget.charge_text(total_size.saturating_mul(8)),
        },
        _ => Ok(()),
    }
}

/// Whether a format has a precision of more than two digits, such as `%.100f`.
fn has_long_precision(format: &str) -> bool {
    format.split("%.").skip(1).any(|rest| rest.bytes().take_while(u8::is_ascii_digit).count() > 2)
}

/// Calls a library function; `None` if it fails. The library's errors contain values, so they are not passed on.
fn library(name: &str, target: Option<Value>, arguments: Vec<Value>) -> Option<Value> {
    let variable = |name: String| IdedExpr { id: 0, expr: Expr::Ident(name) };
    let mut context = LIBRARY.new_inner_scope();
    let mut call =
        CallExpr { func_name: name.to_owned(), target: None, args: Vec::with_capacity(arguments.len()) };
    // The parser never produces names that start with @, so they cannot be mistaken for the namespace of a function.
    if let Some(target) = target {
        context.add_variable_from_value("@target", target);
        call.target = Some(Box::new(variable("@target".to_owned())));
    }
    for (position, argument) in arguments.into_iter().enumerate() {
        let name = format!("@{position}");
        context.add_variable_from_value(name.as_str(), argument);
        call.args.push(variable(name));
    }
    resolve(call, &context)?.ok()
}

/// Evaluates a call with the library; `None` if it panics.
fn resolve(call: CallExpr, context: &Context<'_>) -> Option<Result<Value, ExecutionError>> {
    let call = IdedExpr { id: 0, expr: Expr::Call(call) };
    catch_unwind(AssertUnwindSafe(|| Value::resolve(&call, context))).ok()
}
