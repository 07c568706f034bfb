//! JSON pointers, JSON Merge Patch and JSON Patch, for the fake API server.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Why a JSON Patch was not applied.
#[derive(Debug)]
pub(super) enum PatchError {
    /// It is not a list of operations.
    Malformed(String),
    /// An operation cannot be applied.
    Failed(String),
}

/// Returns a name as a segment of a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn unescaped(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

/// Returns the values by JSON pointer. Lists and empty objects count as values.
pub(super) fn leaves(value: &Value) -> BTreeMap<String, Value> {
    fn collect(value: &Value, pointer: &str, into: &mut BTreeMap<String, Value>) {
        match value.as_object().filter(|members| !members.is_empty()) {
            Some(members) => {
                for (name, inner) in members {
                    collect(inner, &format!("{pointer}/{}", escaped(name)), into);
                }
            }
            None => {
                into.insert(pointer.to_owned(), value.clone());
            }
        }
    }
    let mut found = BTreeMap::new();
    collect(value, "", &mut found);
    found
}

/// Sets the value at a JSON pointer in nested objects, which are created as needed.
pub(super) fn put(value: &mut Value, pointer: &str, new: Value) {
    let mut target = value;
    for token in pointer.split('/').skip(1) {
        target = members_of(target).entry(unescaped(token)).or_insert(Value::Null);
    }
    *target = new;
}

/// Returns the members of an object; another value becomes an empty object.
fn members_of(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it was made an object")
}

/// Removes the value at a JSON pointer in nested objects, with the objects around it that become empty.
pub(super) fn remove(value: &mut Value, pointer: &str) {
    let Some(members) = value.as_object_mut() else { return };
    let (first, rest) = match pointer[1..].split_once('/') {
        Some((first, rest)) => (unescaped(first), Some(format!("/{rest}"))),
        None => (unescaped(&pointer[1..]), None),
    };
    if let (Some(rest), Some(inner)) = (rest, members.get_mut(&first)) {
        remove(inner, &rest);
        if inner.as_object().is_none_or(|members| !members.is_empty()) {
            return;
        }
    }
    members.remove(&first);
}

/// Applies a JSON Merge Patch (RFC 7386).
pub(super) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    let members = members_of(target);
    for (name, value) in changes {
        if value.is_null() {
            members.remove(name);
        } else {
            merge(members.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

/// Applies a JSON Patch (RFC 6902).
pub(super) fn json_patch(document: &Value, patch: &Value) -> Result<Value, PatchError> {
    let malformed = || PatchError::Malformed("a JSON patch is a list of operations".to_owned());
    let mut result = document.clone();
    for operation in patch.as_array().ok_or_else(malformed)? {
        perform(&mut result, operation)?;
    }
    Ok(result)
}

fn perform(document: &mut Value, operation: &Value) -> Result<(), PatchError> {
    let name = operation["op"].as_str().unwrap_or_default();
    let path = pointer(operation, "path")?;
    let value = || {
        let missing = || PatchError::Malformed(format!("the operation {name} needs a value"));
        operation.get("value").cloned().ok_or_else(missing)
    };
    match name {
        "add" => add(document, path, value()?),
        "remove" => take(document, path).map(drop),
        "replace" => {
            let value = value()?;
            take(document, path)?;
            add(document, path, value)
        }
        "move" => {
            let value = take(document, pointer(operation, "from")?)?;
            add(document, path, value)
        }
        "copy" => {
            let from = pointer(operation, "from")?;
            let value = document.pointer(from).cloned().ok_or_else(|| nothing_at(from))?;
            add(document, path, value)
        }
        "test" if document.pointer(path) == Some(&value()?) => Ok(()),
        "test" => Err(PatchError::Failed(format!("the test of {path} failed"))),
        _ => Err(PatchError::Malformed(format!("unknown operation {name:?}"))),
    }
}

fn pointer<'a>(operation: &'a Value, field: &str) -> Result<&'a str, PatchError> {
    operation[field]
        .as_str()
        .filter(|pointer| pointer.is_empty() || pointer.starts_with('/'))
        .ok_or_else(|| PatchError::Malformed(format!("{field} is not a JSON pointer")))
}

fn nothing_at(path: &str) -> PatchError {
    PatchError::Failed(format!("nothing is at {path}"))
}

/// Returns what holds the value at a path, and the path's last token.
fn holder<'a>(document: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), PatchError> {
    let (parent, last) = path.rsplit_once('/').ok_or_else(|| nothing_at(path))?;
    let holder = document.pointer_mut(parent).ok_or_else(|| nothing_at(path))?;
    Ok((holder, unescaped(last)))
}

fn add(document: &mut Value, path: &str, value: Value) -> Result<(), PatchError> {
    if path.is_empty() {
        *document = value;
        return Ok(());
    }
    let (holder, last) = holder(document, path)?;
    match holder {
        Value::Object(members) => {
            members.insert(last, value);
            Ok(())
        }
        Value::Array(items) => {
            let position = if last == "-" { Some(items.len()) } else { last.parse().ok() };
            let position = position
                .filter(|position| *position <= items.len())
                .ok_or_else(|| PatchError::Failed(format!("{path} is not a position in the list")))?;
            items.insert(position, value);
            Ok(())
        }
        _ => Err(nothing_at(path)),
    }
}

fn take(document: &mut Value, path: &str) -> Result<Value, PatchError> {
    if path.is_empty() {
        return Ok(document.take());
    }
    let (holder, last) = holder(document, path)?;
    let taken = match holder {
        Value::Object(members) => members.remove(&last),
        Value::Array(items) => last
            .parse()
            .ok()
            .filter(|position: &usize| *position < items.len())
            .map(|position| items.remove(position)),
        _ => None,
    };
    taken.ok_or_else(|| nothing_at(path))
}
