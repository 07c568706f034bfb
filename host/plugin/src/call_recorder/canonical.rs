//! The parts of calls as JSON: what both calls of guests and calls of host functions contain.

use std::time::Duration;

use pilothouse_model::{Object, ObjectKey};
use serde_json::{Value, json};

use crate::{CachePage, IndexCursor, IndexPage, LivePage};

/// Returns the text as a JSON value, whose members are in the order of their names; the text itself if it is not JSON.
pub(super) fn text_as_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

pub(super) fn objects(objects: &[Object]) -> Value {
    objects.iter().map(Object::to_value).collect()
}

pub(super) fn cache_page(page: &CachePage) -> Value {
    let mut value = json!({"items": objects(&page.items), "more": page.more});
    if let Some(key) = &page.searched_to {
        value["searchedTo"] = key.as_str().into();
    }
    value
}

pub(super) fn live_page(page: &LivePage) -> Value {
    json!({"items": objects(&page.items), "next": page.next})
}

pub(super) fn index_part<T>(part: &IndexPage<T>, found: impl Fn(&T) -> Value) -> Value {
    let found: Vec<_> = part.found.iter().map(found).collect();
    json!({"found": found, "next": part.next.as_ref().map(cursor)})
}

pub(super) fn cursor(cursor: &IndexCursor) -> Value {
    json!({
        "part": cursor.reader,
        "value": cursor.value,
        "key": cursor.key.as_ref().map(ObjectKey::as_str),
    })
}

/// Reads a cursor. Errors with what is wrong.
pub(super) fn parse_cursor(value: &Value) -> Result<IndexCursor, String> {
    let part = value.get("part").and_then(Value::as_u64).and_then(|part| usize::try_from(part).ok());
    Ok(IndexCursor {
        reader: part.ok_or("a cursor without `part`")?,
        value: value.get("value").and_then(Value::as_str).map(str::to_owned),
        key: value.get("key").and_then(Value::as_str).map(parse_key),
    })
}

/// Reads `namespace/name` or `name`.
pub(super) fn parse_key(text: &str) -> ObjectKey {
    match text.split_once('/') {
        Some((namespace, name)) => ObjectKey::new(namespace, name),
        None => ObjectKey::cluster(text),
    }
}

/// Reads an object. Errors with what is wrong.
pub(super) fn parse_object(value: &Value) -> Result<Object, String> {
    Object::from_json(value.to_string()).map_err(|error| format!("an invalid object: {error}"))
}

/// Reads a list of objects. Errors with what is wrong.
pub(super) fn parse_objects(value: Option<&Value>) -> Result<Vec<Object>, String> {
    parse_list(value, parse_object)
}

/// Reads a list. Errors with what is wrong with it, or with one of its elements.
pub(super) fn parse_list<T>(
    value: Option<&Value>,
    parse: impl Fn(&Value) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    value.and_then(Value::as_array).ok_or("no list")?.iter().map(parse).collect()
}

/// Reads a part of an index. Errors with what is wrong.
pub(super) fn parse_index_part<T>(
    value: &Value,
    parse: impl Fn(&Value) -> Result<T, String>,
) -> Result<IndexPage<T>, String> {
    let next = value.get("next").filter(|next| !next.is_null()).map(parse_cursor).transpose()?;
    Ok(IndexPage { found: parse_list(value.get("found"), parse)?, next })
}
