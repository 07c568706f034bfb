//! CEL values: made from JSON, compared, added and measured, with what that costs.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::objects::{Key, KeyRef, Map};

use super::budget::Budget;
use super::failure::Failure;

/// The value of a JSON tree. Whole numbers are of the type int, as Kubernetes has it.
pub(super) fn of_json(json: serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(value) => Value::Bool(value),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(int), _) => Value::Int(int),
            (None, Some(uint)) => Value::UInt(uint),
            (None, None) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(text) => Value::String(Arc::new(text)),
        serde_json::Value::Array(items) => Value::List(Arc::new(items.into_iter().map(of_json).collect())),
        serde_json::Value::Object(members) => {
            let entries =
                members.into_iter().map(|(name, value)| (Key::String(Arc::new(name)), of_json(value)));
            Value::Map(Map { map: Arc::new(entries.collect::<HashMap<_, _>>()) })
        }
    }
}

/// Whether two values are the same; numbers are compared by what they are worth, as CEL defines it.
pub(super) fn equal(left: &Value, right: &Value, budget: &mut Budget) -> Result<bool, Failure> {
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
            for (key, left) in left.map.iter() {
                let Some(right) = right.map.get(key) else { return Ok(false) };
                if !equal(left, right, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        _ => Ok(left == right),
    }
}

/// The order of two values.
///
/// # Errors
/// They have none.
pub(super) fn compare(left: &Value, right: &Value, budget: &mut Budget) -> Result<Ordering, Failure> {
    if let (Value::String(left), Value::String(right)) = (left, right) {
        budget.charge_text(left.len().min(right.len()))?;
    }
    match left {
        Value::Null | Value::List(_) | Value::Map(_) => None,
        _ => left.partial_cmp(right),
    }
    .ok_or(Failure::Types("a comparison"))
}

/// The sum, or what both make joined.
pub(super) fn add(left: Value, right: Value, budget: &mut Budget) -> Result<Value, Failure> {
    match (&left, &right) {
        (Value::String(left), Value::String(right)) => {
            budget.charge_text(left.len().saturating_add(right.len()))?;
        }
        (Value::List(list), Value::List(added)) => {
            // A list that nobody else has grows where it is.
            let copied = if Arc::strong_count(list) == 1 { 0 } else { list.len() };
            budget.charge_elements(copied.saturating_add(added.len()))?;
        }
        (Value::Bytes(left), Value::Bytes(right)) => {
            budget.charge_text(left.len().saturating_add(right.len()))?;
            return Ok(Value::Bytes(Arc::new([left.as_slice(), right.as_slice()].concat())));
        }
        (Value::List(_), _) | (_, Value::List(_)) => return Err(Failure::Types("+")),
        _ => {}
    }
    arithmetic("+", left + right)
}

/// The result of an operator of the library, without the values that its errors have.
pub(super) fn arithmetic(
    operator: &'static str,
    result: Result<Value, kube_cel::cel::ExecutionError>,
) -> Result<Value, Failure> {
    use kube_cel::cel::ExecutionError;
    result.map_err(|error| match error {
        ExecutionError::UnsupportedBinaryOperator(..) | ExecutionError::NoSuchOverload => {
            Failure::Types(operator)
        }
        _ => Failure::Arithmetic,
    })
}

/// The element or entry at an index.
pub(super) fn at(container: &Value, index: &Value) -> Result<Value, Failure> {
    match container {
        Value::List(list) => {
            let position = match index {
                Value::Int(position) => usize::try_from(*position).map_err(|_| Failure::Index)?,
                Value::UInt(position) => usize::try_from(*position).map_err(|_| Failure::Index)?,
                _ => return Err(Failure::Types("an index")),
            };
            list.get(position).cloned().ok_or(Failure::Index)
        }
        Value::Map(map) => {
            let key = key(index).ok_or(Failure::Types("a key"))?;
            map.get(&key).cloned().ok_or(Failure::Key)
        }
        _ => Err(Failure::Types("an index")),
    }
}

/// Whether a list has an element, or a map a key.
pub(super) fn contains(container: &Value, value: &Value, budget: &mut Budget) -> Result<bool, Failure> {
    match container {
        Value::List(list) => {
            for element in list.iter() {
                if equal(element, value, budget)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Map(map) => Ok(map.get(&key(value).ok_or(Failure::Types("a key"))?).is_some()),
        _ => Err(Failure::Types("in")),
    }
}

fn key(value: &Value) -> Option<KeyRef<'_>> {
    match value {
        Value::String(text) => Some(KeyRef::String(text)),
        Value::Int(int) => Some(KeyRef::Int(*int)),
        Value::UInt(uint) => Some(KeyRef::Uint(*uint)),
        Value::Bool(value) => Some(KeyRef::Bool(*value)),
        _ => None,
    }
}

/// The key of an entry of a map literal.
pub(super) fn owned_key(value: Value) -> Result<Key, Failure> {
    match value {
        Value::String(text) => Ok(Key::String(text)),
        Value::Int(int) => Ok(Key::Int(int)),
        Value::UInt(uint) => Ok(Key::Uint(uint)),
        Value::Bool(value) => Ok(Key::Bool(value)),
        _ => Err(Failure::Types("a key")),
    }
}

pub(super) fn of_key(key: &Key) -> Value {
    match key {
        Key::String(text) => Value::String(Arc::clone(text)),
        Key::Int(int) => Value::Int(*int),
        Key::Uint(uint) => Value::UInt(*uint),
        Key::Bool(value) => Value::Bool(*value),
    }
}

/// Elements and bytes of a value with all that it has, which are charged while they are counted.
pub(super) fn size(value: &Value, budget: &mut Budget) -> Result<usize, Failure> {
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
        _ => {}
    }
    Ok(sum)
}
