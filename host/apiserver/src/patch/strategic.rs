//! Strategic merge patch: a merge patch that merges lists by the merge keys of the schema.
//!
//! It follows `k8s.io/apimachinery/pkg/util/strategicpatch`, including the directives `$patch`,
//! `$deleteFromPrimitiveList`, `$setElementOrder` and `$retainKeys`.

use serde_json::{Map, Value};

use super::PatchError;
use crate::go;
use crate::schema::{PatchStrategy, Schema, SchemaRef};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ELEMENT_ORDER: &str = "$setElementOrder/";

type Object = Map<String, Value>;
type Result<T> = std::result::Result<T, PatchError>;

/// Returns `target`, an object of a built-in kind, with `patch` applied.
///
/// # Errors
/// [`PatchError::Malformed`] if the patch or a directive is of the wrong type; [`PatchError::Unclassified`] for unknown directives and for list
/// items without their merge key.
pub fn strategic_merge_patch(schema: &Schema, target: &Value, patch: &Value) -> Result<Value> {
    let (Some(target), Some(patch)) = (target.as_object(), patch.as_object()) else {
        return Err(PatchError::Malformed("a strategic merge patch must be a JSON object".into()));
    };
    merge_objects(target.clone(), patch, Some(schema.root())).map(Value::Object)
}

fn merge_objects(mut target: Object, patch: &Object, schema: Option<SchemaRef<'_>>) -> Result<Object> {
    match directive(patch)? {
        Some(Directive::Replace) => {
            let mut replacement = patch.clone();
            replacement.remove(DIRECTIVE);
            return Ok(replacement);
        }
        Some(Directive::Delete) => return Ok(Object::new()),
        Some(Directive::Merge) | None => {}
    }
    retain_keys(&mut target, patch)?;
    let orders = element_orders(&target, patch)?;
    for (directive, value) in patch {
        if let Some(name) = directive.strip_prefix(DELETE_FROM) {
            delete_from(&mut target, name, directive_list(directive, value)?);
        }
    }
    for (name, value) in patch.iter().filter(|(name, _)| !name.starts_with('$')) {
        if value.is_null() {
            target.remove(name);
            continue;
        }
        let child_schema = schema.and_then(|schema| schema.field(name));
        let strategy = schema.and_then(|schema| schema.patch_strategy(name));
        let merged = match (target.remove(name), value) {
            (Some(Value::Object(old)), Value::Object(new)) if !strategy.is_some_and(|s| s.replace) => {
                Value::Object(merge_objects(old, new, child_schema)?)
            }
            (Some(Value::Array(old)), Value::Array(new)) => {
                match strategy.filter(|strategy| strategy.merge) {
                    Some(strategy) => Value::Array(merge_lists(name, old, new, strategy, child_schema)?),
                    None => without_directives(value)?,
                }
            }
            _ => without_directives(value)?,
        };
        target.insert(name.clone(), merged);
    }
    for order in orders {
        let key = schema.and_then(|schema| schema.patch_strategy(order.name)?.merge_key.as_deref());
        if let Some(items) = target.get_mut(order.name).and_then(Value::as_array_mut) {
            order.restore(items, key);
        }
    }
    Ok(target)
}

/// The value of `$patch`.
enum Directive {
    Replace,
    Delete,
    Merge,
}

fn directive(patch: &Object) -> Result<Option<Directive>> {
    match patch.get(DIRECTIVE) {
        None => Ok(None),
        Some(Value::String(name)) if name == "replace" => Ok(Some(Directive::Replace)),
        Some(Value::String(name)) if name == "delete" => Ok(Some(Directive::Delete)),
        Some(Value::String(name)) if name == "merge" => Ok(Some(Directive::Merge)),
        Some(Value::String(name)) => Err(PatchError::Unclassified(format!(
            "unknown patch type: {name} in map: {}",
            go::printed(&Value::Object(patch.clone()))
        ))),
        Some(other) => Err(PatchError::Malformed(format!(
            "the directive $patch must be a text, not {other}: use replace, merge or delete"
        ))),
    }
}

fn directive_list<'a>(directive: &str, value: &'a Value) -> Result<&'a [Value]> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| {
        PatchError::Malformed(format!("the value of the directive {directive} must be a list, not {value}"))
    })
}

/// Removes the members of `target` that `$retainKeys` does not list. Patches of unions use it to clear the member that
/// another one replaces.
fn retain_keys(target: &mut Object, patch: &Object) -> Result<()> {
    let Some(value) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let retained = directive_list(RETAIN_KEYS, value)?;
    if let Some(unlisted) =
        patch.keys().find(|name| !name.starts_with('$') && !retained.iter().any(|key| key == *name))
    {
        let message =
            format!("{RETAIN_KEYS} must list all fields of the patch, but {unlisted:?} is not in {value}");
        return Err(PatchError::Malformed(message));
    }
    target.retain(|name, _| retained.iter().any(|key| key == name));
    Ok(())
}

fn delete_from(target: &mut Object, name: &str, deleted: &[Value]) {
    if let Some(items) = target.get_mut(name).and_then(Value::as_array_mut) {
        items.retain(|item| !deleted.contains(item));
    }
}

fn merge_lists(
    name: &str,
    mut old: Vec<Value>,
    new: &[Value],
    strategy: &PatchStrategy,
    schema: Option<SchemaRef<'_>>,
) -> Result<Vec<Value>> {
    let Some(key) = &strategy.merge_key else {
        let order = ElementOrder { name, client: new, server: old.clone() };
        for item in new {
            if !old.contains(item) {
                old.push(item.clone());
            }
        }
        order.restore(&mut old, None);
        return Ok(old);
    };
    let item_schema = schema.and_then(SchemaRef::items);
    let mut replace = false;
    let mut additions = Vec::new();
    for item in new {
        let Some(object) = item.as_object() else {
            let message = format!("items of {name} must be objects, not {item}");
            return Err(PatchError::Malformed(message));
        };
        match directive(object)? {
            Some(Directive::Replace) => {
                replace = true;
                if object.len() > 1 {
                    additions.push(object);
                }
            }
            Some(Directive::Delete) => {
                let key_value = merge_key(object, key)?;
                old.retain(|candidate| candidate.get(key) != Some(key_value));
            }
            Some(Directive::Merge) | None => additions.push(object),
        }
    }
    if replace {
        let items = additions.into_iter().map(|object| without_directives(&Value::Object(object.clone())));
        return items.collect();
    }
    // As in Kubernetes, the items of the patch keep their order, and the other items stay before those that followed them.
    let client: Vec<Value> = additions.iter().map(|object| Value::Object((*object).clone())).collect();
    let order = ElementOrder { name, client: &client, server: old.clone() };
    for object in additions {
        let key_value = merge_key(object, key)?;
        match old.iter_mut().find(|candidate| candidate.get(key) == Some(key_value)) {
            Some(existing) => {
                let current = existing.as_object_mut().map(std::mem::take).unwrap_or_default();
                *existing = Value::Object(merge_objects(current, object, item_schema)?);
            }
            None => old.push(without_directives(&Value::Object(object.clone()))?),
        }
    }
    order.restore(&mut old, Some(key));
    Ok(old)
}

fn merge_key<'a>(item: &'a Object, key: &str) -> Result<&'a Value> {
    item.get(key).ok_or_else(|| {
        let item = go::printed(&Value::Object(item.clone()));
        PatchError::Unclassified(format!("map: {item} does not contain declared merge key: {key}"))
    })
}

/// The `$setElementOrder` directive of one list.
struct ElementOrder<'a> {
    /// The field name of the list.
    name: &'a str,
    /// The items that the client knows, in the client's order.
    client: &'a [Value],
    /// All items before the patch, in the server's order.
    server: Vec<Value>,
}

fn element_orders<'a>(target: &Object, patch: &'a Object) -> Result<Vec<ElementOrder<'a>>> {
    let mut orders = Vec::new();
    for (directive, value) in patch {
        if let Some(name) = directive.strip_prefix(ELEMENT_ORDER) {
            let server = target.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
            orders.push(ElementOrder { name, client: directive_list(directive, value)?, server });
        }
    }
    Ok(orders)
}

impl ElementOrder<'_> {
    /// Sorts the items that the client knows by the client's order. Items that only the server knows keep their relative
    /// order and stay before the client's items that followed them.
    fn restore(&self, items: &mut Vec<Value>, key: Option<&str>) {
        let same = |a: &Value, b: &Value| match key {
            Some(key) => a.get(key).is_some() && a.get(key) == b.get(key),
            None => a == b,
        };
        let position_in =
            |order: &[Value], item: &Value| order.iter().position(|candidate| same(candidate, item));
        let all = std::mem::take(items);
        let (mut client_items, server_items): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|item| position_in(self.client, item).is_some());
        client_items.sort_by_key(|item| position_in(self.client, item));
        let mut client_items = client_items.into_iter().peekable();
        let mut server_items = server_items.into_iter().peekable();
        loop {
            let next = match (server_items.peek(), client_items.peek()) {
                (Some(server), Some(client)) => {
                    match (position_in(&self.server, server), position_in(&self.server, client)) {
                        (Some(left), Some(right)) if left < right => server_items.next(),
                        _ => client_items.next(),
                    }
                }
                (Some(_), None) => server_items.next(),
                (None, _) => client_items.next(),
            };
            let Some(next) = next else { return };
            items.push(next);
        }
    }
}

/// Returns a value of the patch that is used as a whole instead of being merged: without directives and nulls.
fn without_directives(value: &Value) -> Result<Value> {
    match value {
        Value::Object(object) => {
            if let Some(Directive::Delete) = directive(object)? {
                return Ok(Value::Object(Object::new()));
            }
            let mut plain = Object::new();
            for (name, child) in
                object.iter().filter(|(name, child)| !name.starts_with('$') && !child.is_null())
            {
                plain.insert(name.clone(), without_directives(child)?);
            }
            Ok(Value::Object(plain))
        }
        Value::Array(items) => {
            let mut plain = Vec::with_capacity(items.len());
            for item in items {
                let is_directive = item.as_object().is_some_and(|object| {
                    object.get(DIRECTIVE).is_some_and(|value| value == "delete" || object.len() == 1)
                });
                if !is_directive {
                    plain.push(without_directives(item)?);
                }
            }
            Ok(Value::Array(plain))
        }
        scalar => Ok(scalar.clone()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn pods() -> Arc<Schema> {
        Schema::builtin("", "v1", "Pod").expect("Pod is built in")
    }

    #[expect(clippy::needless_pass_by_value, reason = "callers build the values for this call")]
    fn patched(spec: Value, patch: Value) -> Value {
        let result = strategic_merge_patch(&pods(), &json!({"spec": spec}), &json!({"spec": patch}));
        result.expect("the patch applies")["spec"].clone()
    }

    #[test]
    fn lists_with_a_merge_key_are_merged_and_others_are_replaced() {
        let spec = json!({
            "containers": [{"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "1"}],
            "tolerations": [{"key": "x"}]
        });
        let patch = json!({
            "containers": [{"name": "b", "image": "2"}, {"name": "c", "image": "3"}],
            "tolerations": [{"key": "y"}]
        });
        assert_eq!(
            patched(spec, patch),
            json!({
                "containers": [
                    {"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "2"}, {"name": "c", "image": "3"}
                ],
                "tolerations": [{"key": "y"}]
            })
        );
    }

    #[test]
    fn nested_lists_merge_by_their_own_keys_and_null_removes_fields() {
        let spec = json!({"containers": [{
            "name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}], "tty": true,
            "ports": [{"containerPort": 80, "name": "http"}]
        }]});
        let patch = json!({"containers": [{
            "name": "a", "tty": null, "env": [{"name": "Y", "value": "3"}], "ports": [{"containerPort": 80, "name": "web"}]
        }]});
        assert_eq!(
            patched(spec, patch),
            json!({"containers": [{
                "name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "3"}],
                "ports": [{"containerPort": 80, "name": "web"}]
            }]})
        );
    }

    #[test]
    fn patch_directive_deletes_and_replaces() {
        let spec =
            || json!({"containers": [{"name": "a"}, {"name": "b"}], "securityContext": {"runAsUser": 1}});
        let delete = json!({"containers": [{"$patch": "delete", "name": "a"}]});
        assert_eq!(patched(spec(), delete)["containers"], json!([{"name": "b"}]));
        let replace = json!({"containers": [{"$patch": "replace"}, {"name": "c"}]});
        assert_eq!(patched(spec(), replace)["containers"], json!([{"name": "c"}]));
        let object = json!({"securityContext": {"$patch": "replace", "runAsGroup": 2}});
        assert_eq!(patched(spec(), object)["securityContext"], json!({"runAsGroup": 2}));
        let deleted = json!({"securityContext": {"$patch": "delete"}});
        assert_eq!(patched(spec(), deleted)["securityContext"], json!({}));
    }

    #[test]
    fn scalar_lists_merge_as_sets_and_lose_deleted_items() {
        let target = json!({"metadata": {"finalizers": ["a", "b"]}});
        let patch = json!({"metadata": {
            "finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"],
            "$setElementOrder/finalizers": ["c", "b"]
        }});
        let result = strategic_merge_patch(&pods(), &target, &patch).expect("applies");
        assert_eq!(result, json!({"metadata": {"finalizers": ["c", "b"]}}));
    }

    #[test]
    fn client_element_order_is_kept_around_items_of_the_server() {
        let spec = json!({"containers": [{"name": "sidecar"}, {"name": "a"}, {"name": "b"}]});
        let patch = json!({
            "$setElementOrder/containers": [{"name": "b"}, {"name": "new"}, {"name": "a"}],
            "containers": [{"name": "new"}]
        });
        assert_eq!(
            patched(spec, patch)["containers"],
            json!([{"name": "sidecar"}, {"name": "b"}, {"name": "new"}, {"name": "a"}])
        );
    }

    #[test]
    fn retain_keys_clears_the_replaced_union_member() {
        let schema = Schema::builtin("apps", "v1", "Deployment").expect("built in");
        let target =
            json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
        let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
        let result = strategic_merge_patch(&schema, &target, &patch).expect("applies");
        assert_eq!(result, json!({"spec": {"strategy": {"type": "Recreate"}}}));
    }

    #[test]
    fn directives_are_removed_from_a_new_list() {
        let patch = json!({
            "$setElementOrder/containers": [{"name": "a"}],
            "containers": [{"name": "a", "tty": null}, {"$patch": "delete", "name": "b"}]
        });
        assert_eq!(patched(json!({}), patch), json!({"containers": [{"name": "a"}]}));
    }

    #[test]
    fn errors_of_malformed_patches_name_the_problem() {
        let error_of = |patch: Value| {
            let target = json!({"spec": {"containers": [{"name": "a"}]}});
            strategic_merge_patch(&pods(), &target, &json!({"spec": patch}))
                .expect_err("malformed")
                .to_string()
        };
        let missing_key = error_of(json!({"containers": [{"image": "x"}]}));
        assert!(
            missing_key.contains("map: map[image:x] does not contain declared merge key: name"),
            "{missing_key}"
        );
        assert!(error_of(json!({"$patch": "explode"})).contains("explode"));
        assert!(error_of(json!({"$retainKeys": ["a"], "b": 1})).contains("\"b\""));
    }
}
