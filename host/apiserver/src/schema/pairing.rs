//! Which item of an old list is the former state of an item of the new one.

use serde_json::Value;

use super::node::ListType;

/// The old item that `item` is the new state of. Items of sets have none (another value is another item), those of
/// atomic lists neither.
pub(super) fn paired<'a>(list_type: &ListType, item: &Value, old: Option<&'a Value>) -> Option<&'a Value> {
    let ListType::Map(keys) = list_type else { return None };
    let wanted = identity(item, keys);
    old?.as_array()?.iter().find(|candidate| identity(candidate, keys) == wanted)
}

/// The keys of an item, with their values.
pub(super) fn identity(item: &Value, keys: &[String]) -> Value {
    let fields = keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
    Value::Object(fields.collect())
}
