//! Correlates the items of a list with those of its old value, like Kubernetes' `CorrelatedObject`
//! (`k8s.io/apiserver/pkg/cel/common`).

use serde_json::Value;

use super::node::ListType;

/// Returns the item of `old`, the list's old value, with the same keys as `item`. Only items of lists of type `map` can
/// be correlated: items of sets do not change, and items of atomic lists have no identity.
pub(super) fn correlated_item<'a>(
    list_type: &ListType,
    item: &Value,
    old: Option<&'a Value>,
) -> Option<&'a Value> {
    let ListType::Map(keys) = list_type else { return None };
    let item_keys = key_fields(item, keys);
    old?.as_array()?.iter().find(|candidate| key_fields(candidate, keys) == item_keys)
}

/// Returns the key fields of an item as an object.
pub(super) fn key_fields(item: &Value, keys: &[String]) -> Value {
    let fields = keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
    Value::Object(fields.collect())
}
