//! Calls of CEL functions. Common functions are implemented here, the others by the library. Each call is charged by the size of its
//! arguments and of its largest possible result.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr};
use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{Context, ExecutionError, Value};

use crate::budget::Budget;
use crate::conversions::{convert, format_arguments, target_of_conversion};
use crate::error::EvaluationError;
use crate::patterns::{Patterns, call_pattern_function};
use crate::type_values::type_of;
use crate::values::{equal, optional, size, to_optional};

/// The library's functions. Registering about a hundred functions is slow, so it is done once.
static LIBRARY: LazyLock<Context<'static>> = LazyLock::new(|| Context::default().with_all());

/// The name of the method that returns the values of a list of optionals.
const UNWRAP: &str = "unwrapOpt";
/// The names of the functions that the library does not have.
const OWN: [&str; 3] = ["dyn", "type", UNWRAP];

/// Namespaces of functions, with those of their functions whose cost is known. The library has more.
static NAMESPACES: [(&str, &[&str]); 8] = [
    ("base64", &["decode", "encode"]),
    (
        "format",
        &[
            "byte",
            "date",
            "datetime",
            "dns1035Label",
            "dns1035LabelPrefix",
            "dns1123Label",
            "dns1123LabelPrefix",
            "dns1123Subdomain",
            "dns1123SubdomainPrefix",
            "labelValue",
            "named",
            "qualifiedName",
            "uri",
            "uuid",
        ],
    ),
    ("ip", &["isCanonical"]),
    ("jsonpatch", &["escapeKey"]),
    (
        "math",
        &[
            "abs",
            "bitAnd",
            "bitNot",
            "bitOr",
            "bitShiftLeft",
            "bitShiftRight",
            "bitXor",
            "ceil",
            "floor",
            "greatest",
            "isFinite",
            "isInf",
            "isNaN",
            "least",
            "round",
            "sign",
            "sqrt",
            "trunc",
        ],
    ),
    ("optional", &["none", "of", "ofNonZeroValue", "unwrap"]),
    ("sets", &["contains", "equivalent", "intersects"]),
    ("strings", &["quote"]),
];

/// The longest text that is converted to a type of the library, such as a URL. The size of such a value is unknown afterwards.
const MAX_CONVERTED_LENGTH: usize = 4096;

/// Returns the namespace of a call such as `sets.contains(a, b)`; `None` for a method of a value.
pub(crate) fn namespace(call: &CallExpr) -> Option<&'static str> {
    let (namespace, functions) = named_namespace(call)?;
    functions.contains(&call.func_name.as_str()).then_some(namespace)
}

/// Returns the namespace that the call's target names, with its functions, if the called function is not one of them.
pub(crate) fn unknown_function_of_namespace(
    call: &CallExpr,
) -> Option<(&'static str, &'static [&'static str])> {
    named_namespace(call).filter(|(_, functions)| !functions.contains(&call.func_name.as_str()))
}

/// Returns the namespace that the call's target names, with its functions. The target may also be a variable of the same name.
fn named_namespace(call: &CallExpr) -> Option<(&'static str, &'static [&'static str])> {
    let Expr::Ident(target) = &call.target.as_deref()?.expr else { return None };
    NAMESPACES.iter().copied().find(|(namespace, _)| *namespace == target.as_str())
}

/// Whether there is no function of this name, as a function or as a method. Operators are no functions.
pub fn is_missing_from_library(name: &str) -> bool {
    if OWN.contains(&name) {
        return false;
    }
    // Without arguments, the library's error about a known function is about those.
    let call = CallExpr { func_name: name.to_owned(), target: None, args: Vec::new() };
    matches!(resolve(call, &LIBRARY), Some(Err(ExecutionError::UndeclaredReference(_))))
}

/// Calls a function.
pub(crate) fn call(
    name: &str,
    target: Option<Value>,
    arguments: Vec<Value>,
    patterns: &Patterns,
    budget: &mut Budget,
) -> Result<Value, EvaluationError> {
    let argument_error = || EvaluationError::Function(name.to_owned());
    // The function form has the target as its first argument.
    let (receiver, rest) = match &target {
        Some(target) => (target, arguments.as_slice()),
        None => arguments.split_first().ok_or_else(argument_error)?,
    };
    match (name, receiver, rest) {
        ("dyn", _, []) if target.is_none() => return Ok(receiver.clone()),
        ("type", _, []) if target.is_none() => return Ok(type_of(receiver)),
        ("size", Value::String(text), []) => {
            budget.charge_text(text.len())?;
            return length(text.chars().count());
        }
        ("size", Value::List(list), []) => return length(list.len()),
        ("size", Value::Map(map), []) => return length(map.map.len()),
        ("first", Value::List(list), []) => return Ok(to_optional(list.first().cloned())),
        ("last", Value::List(list), []) => return Ok(to_optional(list.last().cloned())),
        (UNWRAP, Value::List(list), []) => return unwrap(list, budget),
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
            return call_pattern_function(name, text, pattern, rest, patterns, budget);
        }
        (_, Value::Opaque(_), _) => {
            if let Some(result) =
                optional(receiver).and_then(|inner| call_of_optional(name, receiver, inner, rest))
            {
                return Ok(result);
            }
        }
        _ => {}
    }
    let mut total_size = size(receiver, budget)?;
    if target.is_none()
        && rest.is_empty()
        && let Some(converted) = convert(name, receiver)
    {
        return converted;
    }
    for argument in rest {
        total_size = total_size.saturating_add(size(argument, budget)?);
    }
    charge_library(name, receiver, rest, total_size, budget)?;
    if let ("format", Value::String(format), [Value::List(values)]) = (name, receiver, rest) {
        let values = Value::List(Arc::new(format_arguments(format, values)));
        return library(name, target.map(Receiver::Value), vec![values]).ok_or_else(argument_error);
    }
    let conversion = match receiver {
        Value::String(_) if target.is_none() && rest.is_empty() => target_of_conversion(name),
        _ => None,
    };
    let failed = || conversion.map_or_else(argument_error, EvaluationError::Conversion);
    library(name, target.map(Receiver::Value), arguments).ok_or_else(failed)
}

/// Calls a method of an optional without copying its value; `None` for unknown methods and other arguments.
fn call_of_optional(name: &str, receiver: &Value, inner: &OptionalValue, rest: &[Value]) -> Option<Value> {
    match (name, rest) {
        ("hasValue", []) => Some(Value::Bool(inner.value().is_some())),
        ("value", []) => inner.value().cloned(),
        ("orValue", [other]) => Some(inner.value().unwrap_or(other).clone()),
        ("or", [other]) if inner.value().is_some() || optional(other).is_some() => {
            Some(if inner.value().is_some() { receiver.clone() } else { other.clone() })
        }
        _ => None,
    }
}

/// Calls a function of a namespace.
pub(crate) fn call_in_namespace(
    namespace: &'static str,
    name: &str,
    arguments: Vec<Value>,
    budget: &mut Budget,
) -> Result<Value, EvaluationError> {
    match (namespace, name, arguments.as_slice()) {
        ("optional", "none", []) => return Ok(Value::Opaque(Arc::new(OptionalValue::none()))),
        ("optional", "of", [value]) => return Ok(Value::Opaque(Arc::new(OptionalValue::of(value.clone())))),
        ("optional", "unwrap", [Value::List(list)]) => return unwrap(list, budget),
        ("sets", _, [Value::List(left), Value::List(right)]) => {
            return call_of_sets(name, left, right, budget);
        }
        _ => {}
    }
    let mut total_size = 0_usize;
    for argument in &arguments {
        total_size = total_size.saturating_add(size(argument, budget)?);
    }
    // The library converts the arguments and the result, which is at most some times as long.
    budget.charge(10)?;
    budget.charge_text(total_size.saturating_mul(8))?;
    library(name, Some(Receiver::Namespace(namespace)), arguments)
        .ok_or_else(|| EvaluationError::Function(format!("{namespace}.{name}")))
}

/// Returns the values of a list of optionals.
fn unwrap(list: &[Value], budget: &mut Budget) -> Result<Value, EvaluationError> {
    budget.charge_elements(list.len())?;
    let mut values = Vec::with_capacity(list.len());
    for element in list {
        let inner = optional(element).ok_or_else(|| EvaluationError::Function(UNWRAP.to_owned()))?;
        values.extend(inner.value().cloned());
    }
    Ok(Value::List(Arc::new(values)))
}

/// Calls a function of `sets`, which compares each element with each other one.
fn call_of_sets(
    name: &str,
    left: &[Value],
    right: &[Value],
    budget: &mut Budget,
) -> Result<Value, EvaluationError> {
    let mut contains = |container: &[Value], value: &Value| -> Result<bool, EvaluationError> {
        for element in container {
            if equal(element, value, budget)? {
                return Ok(true);
            }
        }
        Ok(false)
    };
    // The element that decides: one that must be in the other list and is not, or one that is in both.
    let is_intersection = name == "intersects";
    for value in right {
        if contains(left, value)? == is_intersection {
            return Ok(Value::Bool(is_intersection));
        }
    }
    if name == "equivalent" {
        for value in left {
            if !contains(right, value)? {
                return Ok(Value::Bool(false));
            }
        }
    }
    Ok(Value::Bool(!is_intersection))
}

/// Returns the timestamp that an RFC 3339 text describes.
pub fn timestamp(text: &str) -> Option<Value> {
    library("timestamp", None, vec![Value::from(text)])
}

/// Returns the duration that a text such as `1h30m` describes.
pub fn duration(text: &str) -> Option<Value> {
    library("duration", None, vec![Value::from(text)])
}

/// Returns the bytes that a base64 text encodes.
pub fn base64_bytes(text: &str) -> Option<Value> {
    library("decode", Some(Receiver::Namespace("base64")), vec![Value::from(text)])
}

fn length(length: usize) -> Result<Value, EvaluationError> {
    i64::try_from(length).map(Value::Int).map_err(|_| EvaluationError::Arithmetic)
}

/// Charges a call of a library function before it runs, beyond the cost of measuring its arguments. `total_size` is that of the arguments.
fn charge_library(
    name: &str,
    receiver: &Value,
    rest: &[Value],
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
    let argument_error = || EvaluationError::Function(name.to_owned());
    match (name, rest) {
        ("url" | "quantity" | "ip" | "cidr" | "semver", _) if text(receiver) > MAX_CONVERTED_LENGTH => {
            Err(argument_error())
        }
        ("replace", [from, to, ..]) => {
            let matches = text(receiver) / text(from).max(1) + 1;
            budget.charge_text(matches.saturating_mul(text(to)).saturating_add(text(receiver)))
        }
        ("split", [separator, ..]) => budget.charge_elements(text(receiver) / text(separator).max(1) + 1),
        ("join", _) => {
            // The library would print elements that are not texts.
            if let Value::List(list) = receiver
                && !list.iter().all(|element| matches!(element, Value::String(_)))
            {
                return Err(argument_error());
            }
            budget.charge_text(elements(receiver).saturating_mul(rest.first().map_or(0, text)))
        }
        ("indexOf" | "lastIndexOf", [part, ..]) => {
            budget.charge_text(text(receiver).saturating_mul(text(part)))
        }
        ("contains", [part]) => match (receiver, part) {
            (Value::Bytes(bytes), Value::Bytes(part)) => {
                budget.charge_text(bytes.len().saturating_mul(part.len() + 1))
            }
            _ => Ok(()),
        },
        ("distinct", _) => budget.charge_elements(elements(receiver).saturating_mul(total_size)),
        // The library would copy the sum of texts or lists at each step.
        ("sum", _) => match receiver {
            Value::List(list) if !list.iter().all(is_plain) => Err(argument_error()),
            _ => Ok(()),
        },
        ("sort" | "isSorted" | "min" | "max", _) => budget.charge_text(total_size.saturating_mul(16)),
        // With a high precision, the library writes very many digits, or panics.
        ("format", _) => match receiver {
            Value::String(text) if has_long_precision(text) => Err(argument_error()),
            _ => budget.charge_text(total_size.saturating_mul(8)),
        },
        _ => Ok(()),
    }
}

/// Whether a format has a precision of more than two digits, such as `%.100f`.
fn has_long_precision(format: &str) -> bool {
    format.split("%.").skip(1).any(|rest| rest.bytes().take_while(u8::is_ascii_digit).count() > 2)
}

/// The target of a call.
enum Receiver {
    Value(Value),
    /// The name before the dot of `sets.contains`.
    Namespace(&'static str),
}

/// Calls a library function; `None` if it fails. The library's errors contain values, so they are not passed on.
fn library(name: &str, receiver: Option<Receiver>, arguments: Vec<Value>) -> Option<Value> {
    let variable = |name: String| IdedExpr { id: 0, expr: Expr::Ident(name) };
    let mut context = LIBRARY.new_inner_scope();
    let mut call =
        CallExpr { func_name: name.to_owned(), target: None, args: Vec::with_capacity(arguments.len()) };
    // The parser never produces names that start with @, so they cannot be mistaken for the namespace of a function.
    match receiver {
        Some(Receiver::Value(value)) => {
            context.add_variable_from_value("@target", value);
            call.target = Some(Box::new(variable("@target".to_owned())));
        }
        Some(Receiver::Namespace(namespace)) => {
            call.target = Some(Box::new(variable(namespace.to_owned())));
        }
        None => {}
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
