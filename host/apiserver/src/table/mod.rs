//! Tables for `kubectl get` (`meta.k8s.io/v1 Table`): the columns of each kind and their cells.

mod age;
mod columns;
mod descriptions;
mod jsonpath;

use std::sync::{Arc, LazyLock};

use columns::{Column, Row};
use jiff::Timestamp;
use jsonpath::Path;
use serde_json::{Map, Value, json};

/// The part of each object that its row includes (`includeObject`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// A `PartialObjectMetadata`.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

impl IncludeObject {
    /// Parses the query parameter. An empty one is the default, `Metadata`.
    ///
    /// # Errors
    /// If the value is not one of `None`, `Metadata` and `Object`.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => Err(format!("unrecognized includeObject value: {other:?}")),
        }
    }
}

/// The printer columns of one version of a kind. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Columns {
    definitions: Arc<Definitions>,
    cells: Cells,
}

/// The `columnDefinitions`. Those of the built-in kinds are made when the first table is asked for: a server has many kinds, of which few are
/// shown.
type Definitions = LazyLock<Value, Box<dyn FnOnce() -> Value + Send>>;

#[derive(Clone, Debug)]
enum Cells {
    BuiltIn(&'static [Column]),
    Custom(Arc<[CustomColumn]>),
}

#[derive(Debug)]
struct CustomColumn {
    ty: String,
    path: Path,
}

impl Columns {
    /// Returns the columns that kube-apiserver has for a built-in kind: by default, name and creation time.
    pub fn built_in(group: &str, kind: &str) -> Self {
        let columns = columns::for_kind(group, kind);
        let (group, kind) = (group.to_owned(), kind.to_owned());
        let definitions = move || {
            let of = |column: &Column| {
                let format = if column.name == "Name" { "name" } else { "" };
                let description = descriptions::of(&group, &kind, column.name);
                definition(column.name, column.ty, format, description, i64::from(column.wide))
            };
            columns.iter().map(of).collect()
        };
        let definitions: Definitions = LazyLock::new(Box::new(definitions));
        Self { definitions: Arc::new(definitions), cells: Cells::BuiltIn(columns) }
    }

    /// Returns the columns of a custom resource: the name and the `additionalPrinterColumns` of its version, or name and
    /// age if there are none.
    ///
    /// # Errors
    /// If the `jsonPath` of a column is invalid.
    pub fn custom(printer_columns: &Value) -> Result<Self, String> {
        let mut definitions = vec![definition("Name", "string", "name", descriptions::of("", "", "Name"), 0)];
        let mut cells = Vec::new();
        let declared = printer_columns.as_array().map_or(&[][..], Vec::as_slice);
        let age = [json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"})];
        for column in if declared.is_empty() { &age } else { declared } {
            let text = |name: &str| column.get(name).and_then(Value::as_str).unwrap_or_default();
            let path = Path::parse(text("jsonPath"))
                .map_err(|error| format!("printer column {:?}: {error}", text("name")))?;
            let priority = column.get("priority").and_then(Value::as_i64).unwrap_or_default();
            let description = match text("description") {
                "" => {
                    &format!("Custom resource definition column (in JSONPath format): {}", text("jsonPath"))
                }
                description => description,
            };
            definitions.push(definition(text("name"), text("type"), text("format"), description, priority));
            cells.push(CustomColumn { ty: text("type").to_owned(), path });
        }
        let definitions: Definitions = LazyLock::new(Box::new(move || Value::Array(definitions)));
        Ok(Self { definitions: Arc::new(definitions), cells: Cells::Custom(cells.into()) })
    }

    /// Returns the table of a list, or of one object. `metadata` is that of the list (`resourceVersion`, `continue`,
    /// `remainingItemCount`), or the object's `resourceVersion`.
    pub fn table<'a>(
        &self,
        objects: impl IntoIterator<Item = &'a Value>,
        metadata: Value,
        include: IncludeObject,
        now: Timestamp,
    ) -> Value {
        let rows = objects.into_iter().map(|object| self.row(object, include, now));
        table(&self.definitions, rows.collect(), metadata)
    }

    /// Returns the table of one watch event. Only the first event of a watch has the column definitions.
    pub fn event_table(&self, object: &Value, first: bool, include: IncludeObject, now: Timestamp) -> Value {
        let version = object.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
        let definitions = if first { &**self.definitions } else { &Value::Null };
        table(
            definitions,
            Value::Array(vec![self.row(object, include, now)]),
            json!({"resourceVersion": version}),
        )
    }

    fn row(&self, object: &Value, include: IncludeObject, now: Timestamp) -> Value {
        let row = Row { object, now };
        let cells: Vec<Value> = match &self.cells {
            Cells::BuiltIn(columns) => columns.iter().map(|column| (column.render)(&row)).collect(),
            Cells::Custom(columns) => {
                let custom = columns.iter().map(|column| custom_cell(column, &row));
                std::iter::once(Value::from(row.text("/metadata/name"))).chain(custom).collect()
            }
        };
        let included = match include {
            IncludeObject::None => Value::Null,
            IncludeObject::Object => object.clone(),
            IncludeObject::Metadata => json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"],
            }),
        };
        json!({"cells": cells, "object": included})
    }
}

fn table(definitions: &Value, rows: Value, metadata: Value) -> Value {
    let mut table = Map::new();
    table.insert("kind".into(), "Table".into());
    table.insert("apiVersion".into(), "meta.k8s.io/v1".into());
    table.insert("metadata".into(), metadata);
    table.insert("columnDefinitions".into(), definitions.clone());
    table.insert("rows".into(), rows);
    Value::Object(table)
}

fn definition(name: &str, ty: &str, format: &str, description: &str, priority: i64) -> Value {
    json!({"name": name, "type": ty, "format": format, "description": description, "priority": priority})
}

/// Returns the cell of a custom column, or null if the value does not have the column's type.
fn custom_cell(column: &CustomColumn, row: &Row<'_>) -> Value {
    let Some(value) = column.path.first(row.object) else { return Value::Null };
    match (column.ty.as_str(), value) {
        ("integer", Value::Number(number)) => {
            // Integer cells have no fraction, even where the value does.
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a cell that is out of range shows the nearest integer"
            )]
            let whole = number.as_i64().unwrap_or_else(|| number.as_f64().unwrap_or_default() as i64);
            whole.into()
        }
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("string", Value::String(text)) => text.clone().into(),
        ("string", Value::Null) => Value::Null,
        ("string", other) => other.to_string().into(),
        ("date", Value::String(time)) => age::since(time, row.now).into(),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests;
