//! The table of built-in kinds: an object of each, and changes.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::scenario::document::parse_yaml;

/// Stands for the object's name in the table.
const NAME: &str = "NAME";

static TABLE: LazyLock<Result<Vec<Row>, String>> = LazyLock::new(|| parse_yaml(include_str!("builtin.yaml")));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    kind: String,
    object: Map<String, Value>,
    change: Value,
    /// A later change, if the first one does not change what most users change.
    then: Option<Value>,
}

/// Returns the members of an object of a kind beside its metadata.
///
/// # Errors
/// Errors with one line if the table has no such kind.
pub(super) fn object(kind: &str, name: &str) -> Result<Map<String, Value>, String> {
    let row = row(kind)?.ok_or("the table of built-in kinds does not contain it")?;
    Ok(row.object.iter().map(|(member, value)| (member.clone(), named(value, name))).collect())
}

/// Returns merge patches that change the object, one after the other.
pub(super) fn changes(kind: &str, name: &str) -> Vec<Value> {
    let row = row(kind).ok().flatten();
    row.into_iter()
        .flat_map(|row| [&row.change].into_iter().chain(&row.then))
        .map(|change| named(change, name))
        .collect()
}

fn row(kind: &str) -> Result<Option<&'static Row>, String> {
    TABLE.as_ref().map(|rows| rows.iter().find(|row| row.kind == kind)).map_err(String::clone)
}

/// Returns a value with the name inserted into its texts.
fn named(value: &Value, name: &str) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace(NAME, name)),
        Value::Array(items) => Value::Array(items.iter().map(|item| named(item, name)).collect()),
        Value::Object(members) => Value::Object(
            members.iter().map(|(member, value)| (member.clone(), named(value, name))).collect(),
        ),
        other => other.clone(),
    }
}
