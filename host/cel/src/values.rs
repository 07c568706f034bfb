//! Operations on CEL values: conversion from JSON, comparison, addition, indexing and size. Each charges its cost to the budget.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::objects::{Key, KeyRef, Map, OptionalValue};

use crate::budget::Budget;
use crate::conversions::double;
use crate::error::{EvaluationError, Hidden};
use crate::objects::ObjectValue;
use crate::type_values::name_of_type;

/// Converts JSON to a CEL value. Whole numbers become ints, as in Kubernetes.
pub fn from_json(json: serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(value) => Value::Bool(value),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(int), _) => Value::Int(int),
            (None, Some(uint)) => Value::UInt(uint),
            (None, None) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(text) => Value::String(Arc::new(text)),
        serde_json::Value::Array(items) => Value::List(Arc::new(items.into_iter().map(from_json).collect())),
        serde_json::Value::Object(members) => {
            let entries =
                members.into_iter().map(|(name, value)| (Key::String(Arc::new(name)), from_json(value)));
            Value::Map(Map { map: Arc::new(entries.collect::<HashMap<_, _>>()) })
        }
    }
}

/// Returns the optional that a value is, such as that of `optional.none()`.
pub(crate) fn optional(value: &Value) -> Option<&OptionalValue> {
    <&OptionalValue>::try_from(value).ok()
}

/// Returns `optional.of(value)`, or `optional.none()` if there is no value.
pub fn to_optional(value: Option<Value>) -> Value {
    Value::Opaque(Arc::new(value.map_or_else(OptionalValue::none, OptionalValue::of)))
}

/// Whether two values are equal. Numbers of different types are compared by value, as CEL defines it.
pub(crate) fn equal(left: &Value, right: &Value, budget: &mut Budget) -> Result<bool, EvaluationError> {
    budget.charge(1)?;
    match (left, right) {
        (Value::String(left), Value::String(right)) => {
            budget.charge_text(left.len().min(right.len()))?;
            Ok(left == right)
        }
        (Value::Bytes(left), Value::Bytes(right)) => {
            budget.charge_text(left.len().min(right.len()))?;
            Ok(left == right)
        }
        (Value::List(left), Value::List(right)) => {
            if left.len() != right.len() {
                return Ok(false);
            }
            for (left, right) in left.iter().zip(right.iter()) {
                if !equal(left, right, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Map(left), Value::Map(right)) => {
            if left.map.len() != right.map.len() {
                return Ok(false);
            }
            // All entries are compared, so that the cost does not depend on their random order.
            let mut is_equal = true;
            for (key, left) in left.map.iter() {
                budget.charge_key(key)?;
                match right.map.get(key) {
                    Some(right) => is_equal &= equal(left, right, budget)?,
                    None => is_equal = false,
                }
            }
            Ok(is_equal)
        }
        (Value::Opaque(_), Value::Opaque(_)) => match (optional(left), optional(right)) {
            (Some(left), Some(right)) => match (left.value(), right.value()) {
                (Some(left), Some(right)) => equal(left, right, budget),
                (left, right) => Ok(left.is_none() && right.is_none()),
            },
            _ => match (ObjectValue::of(left), ObjectValue::of(right)) {
                (Some(left), Some(right)) => equal_objects(left, right, budget),
                _ => Ok(left == right),
            },
        },
        _ => Ok(left == right),
    }
}

fn equal_objects(
    left: &ObjectValue,
    right: &ObjectValue,
    budget: &mut Budget,
) -> Result<bool, EvaluationError> {
    if left.type_name() != right.type_name() || left.fields().len() != right.fields().len() {
        return Ok(false);
    }
    for ((left_name, left), (right_name, right)) in left.fields().iter().zip(right.fields()) {
        budget.charge_text(left_name.len())?;
        if left_name != right_name || !equal(left, right, budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Compares two values.
///
/// # Errors
/// Values of their types have no order.
pub(crate) fn compare(left: &Value, right: &Value, budget: &mut Budget) -> Result<Ordering, EvaluationError> {
    if let (Value::String(left), Value::String(right)) = (left, right) {
        budget.charge_text(left.len().min(right.len()))?;
    }
    if let (Value::Bytes(left), Value::Bytes(right)) = (left, right) {
        budget.charge_text(left.len().min(right.len()))?;
        return Ok(left.cmp(right));
    }
    match left {
        Value::Null | Value::List(_) | Value::Map(_) => None,
        _ => left.partial_cmp(right),
    }
    .ok_or(EvaluationError::Types("a comparison"))
}

/// Adds two numbers, or concatenates two texts or lists.
pub(crate) fn add(left: Value, right: Value, budget: &mut Budget) -> Result<Value, EvaluationError> {
    match (&left, &right) {
        (Value::String(left), Value::String(right)) => {
            budget.charge_text(left.len().saturating_add(right.len()))?;
        }
        (Value::List(list), Value::List(added)) => {
            // A list without another owner is extended in place.
            let copied = if Arc::strong_count(list) == 1 { 0 } else { list.len() };
            budget.charge_elements(copied.saturating_add(added.len()))?;
        }
        (Value::Bytes(left), Value::Bytes(right)) => {
            budget.charge_text(left.len().saturating_add(right.len()))?;
            return Ok(Value::Bytes(Arc::new([left.as_slice(), right.as_slice()].concat())));
        }
        (Value::List(_), _) | (_, Value::List(_)) => return Err(EvaluationError::Types("+")),
        _ => {}
    }
    arithmetic("+", left + right)
}

/// Converts the result of a library operator. The library's errors contain values, so they are not passed on.
pub(crate) fn arithmetic(
    operator: &'static str,
    result: Result<Value, kube_cel::cel::ExecutionError>,
) -> Result<Value, EvaluationError> {
    use kube_cel::cel::ExecutionError;
    result.map_err(|error| match error {
        ExecutionError::UnsupportedBinaryOperator(..) | ExecutionError::NoSuchOverload => {
            EvaluationError::Types(operator)
        }
        ExecutionError::DivisionByZero(_) => EvaluationError::Division,
        ExecutionError::RemainderByZero(_) => EvaluationError::Remainder,
        _ => EvaluationError::Arithmetic,
    })
}

/// Returns the element of a list, or the entry of a map, at an index.
pub(crate) fn index_value(
    container: &Value,
    index: &Value,
    budget: &mut Budget,
) -> Result<Value, EvaluationError> {
    match container {
        Value::List(list) => {
            let position = match index {
                Value::Int(position) => usize::try_from(*position).ok(),
                Value::UInt(position) => usize::try_from(*position).ok(),
                // As in cel-go, a whole number of this type is a position, too.
                Value::Float(position) if position.fract() == 0.0 => {
                    (*position >= 0.0).then_some(*position as usize)
                }
                Value::Float(position) => return Err(EvaluationError::IndexValue(Hidden(double(*position)))),
                other => return Err(EvaluationError::IndexType(name_of_type(other))),
            };
            position
                .and_then(|position| list.get(position).cloned())
                .ok_or_else(|| EvaluationError::Index(Hidden(key_text(index))))
        }
        Value::Map(map) => {
            let found = match key(index, budget) {
                Ok(key) => map.get(&key).cloned(),
                // No key is a fraction.
                Err(EvaluationError::Types(_)) if matches!(index, Value::Float(_)) => None,
                Err(error) => return Err(error),
            };
            found.ok_or_else(|| EvaluationError::Key(Hidden(key_text(index))))
        }
        // As in cel-go, such a value is like an empty map.
        _ if matches!(index, Value::Float(_)) => Err(EvaluationError::Key(Hidden(key_text(index)))),
        _ => {
            key(index, budget)?;
            Err(EvaluationError::Key(Hidden(key_text(index))))
        }
    }
}

/// Returns the text of a key or an index for an error. A key that is a text was charged before.
fn key_text(key: &Value) -> String {
    match key {
        Value::String(text) => text.to_string(),
        Value::Int(int) => int.to_string(),
        Value::UInt(uint) => uint.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Float(number) => double(*number),
        _ => String::new(),
    }
}

/// Returns the element of a list, or the entry of a map, at an index; `None` if there is none, or the container is neither, or an optional without a
/// value.
pub(crate) fn optional_index(
    container: &Value,
    index: &Value,
    budget: &mut Budget,
) -> Result<Option<Value>, EvaluationError> {
    let container = match optional(container) {
        Some(inner) => match inner.value() {
            Some(value) => value,
            None => return Ok(None),
        },
        None => container,
    };
    if !matches!(container, Value::List(_) | Value::Map(_)) {
        return Ok(None);
    }
    match index_value(container, index, budget) {
        Ok(value) => Ok(Some(value)),
        Err(EvaluationError::Index(_) | EvaluationError::Key(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a list contains an element, or a map a key.
pub(crate) fn contains(
    container: &Value,
    value: &Value,
    budget: &mut Budget,
) -> Result<bool, EvaluationError> {
    match container {
        Value::List(list) => {
            for element in list.iter() {
                if equal(element, value, budget)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Map(map) => match key(value, budget) {
            Ok(key) => Ok(map.get(&key).is_some()),
            // A map has no key of such a type.
            Err(EvaluationError::Types(_)) => Ok(false),
            Err(error) => Err(error),
        },
        _ => Err(EvaluationError::Types("in")),
    }
}

/// Returns a value as the key to look up in a map. Charges the cost of hashing it.
fn key<'v>(value: &'v Value, budget: &mut Budget) -> Result<KeyRef<'v>, EvaluationError> {
    match value {
        Value::String(text) => {
            budget.charge_text(text.len())?;
            Ok(KeyRef::String(text))
        }
        Value::Int(int) => Ok(KeyRef::Int(*int)),
        Value::UInt(uint) => Ok(KeyRef::Uint(*uint)),
        Value::Bool(value) => Ok(KeyRef::Bool(*value)),
        // As in cel-go, a whole number of this type finds an int.
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => {
            Ok(KeyRef::Int(*number as i64))
        }
        _ => Err(EvaluationError::Types("a key")),
    }
}

/// Returns the keys of a map in their order. Charges the cost before it sorts.
pub(crate) fn sorted_keys<'m>(map: &'m Map, budget: &mut Budget) -> Result<Vec<&'m Key>, EvaluationError> {
    let length = |key: &Key| if let Key::String(text) = key { text.len() } else { 0 };
    budget.charge_sort(map.map.len(), map.map.keys().map(length).sum())?;
    let mut keys: Vec<_> = map.map.keys().collect();
    keys.sort_unstable();
    Ok(keys)
}

/// Converts a value to the key of a map literal's entry.
pub(crate) fn owned_key(value: Value) -> Result<Key, EvaluationError> {
    match value {
        Value::String(text) => Ok(Key::String(text)),
        Value::Int(int) => Ok(Key::Int(int)),
        Value::UInt(uint) => Ok(Key::Uint(uint)),
        Value::Bool(value) => Ok(Key::Bool(value)),
        _ => Err(EvaluationError::Types("a key")),
    }
}

pub(crate) fn from_key(key: &Key) -> Value {
    match key {
        Key::String(text) => Value::String(Arc::clone(text)),
        Key::Int(int) => Value::Int(*int),
        Key::Uint(uint) => Value::UInt(*uint),
        Key::Bool(value) => Value::Bool(*value),
    }
}

/// Returns the number of elements and bytes of a value, including nested ones. Charges the cost while counting.
pub(crate) fn size(value: &Value, budget: &mut Budget) -> Result<usize, EvaluationError> {
    budget.charge(1)?;
    let mut sum = 1_usize;
    match value {
        Value::String(text) => {
            budget.charge_text(text.len())?;
            sum = sum.saturating_add(text.len());
        }
        Value::Bytes(bytes) => {
            budget.charge_text(bytes.len())?;
            sum = sum.saturating_add(bytes.len());
        }
        Value::List(list) => {
            for element in list.iter() {
                sum = sum.saturating_add(size(element, budget)?);
            }
        }
        Value::Map(map) => {
            for (key, value) in map.map.iter() {
                let key = if let Key::String(name) = key { name.len() } else { 1 };
                budget.charge_text(key)?;
                sum = sum.saturating_add(key).saturating_add(size(value, budget)?);
            }
        }
        Value::Opaque(_) => {
            if let Some(inner) = optional(value).and_then(OptionalValue::value) {
                sum = sum.saturating_add(size(inner, budget)?);
            }
            for (name, value) in ObjectValue::of(value).into_iter().flat_map(ObjectValue::fields) {
                budget.charge_text(name.len())?;
                sum = sum.saturating_add(name.len()).saturating_add(size(value, budget)?);
            }
        }
        _ => {}
    }
    Ok(sum)
}
