//! The defaults of built-in kinds: those in `defaults.txt`, and those that depend on other fields.

use std::sync::OnceLock;

use pilothouse_model::hash::HashMap;
use serde_json::{Map, Value};

use super::conditional::set_conditional_defaults;
use crate::schema::default_budget::{Budget, DefaultsTooLarge};
use crate::schema::node::SchemaRef;

/// Sets the defaults of an object of a built-in kind.
pub(super) fn default_built_in(
    value: &mut Value,
    schema: SchemaRef<'_>,
    budget: &mut Budget,
) -> Result<(), DefaultsTooLarge> {
    match value {
        Value::Object(object) => {
            if let Some(definition) = &schema.node().definition {
                default_struct(definition, object, budget)?;
            }
            for (name, child) in object.iter_mut() {
                if let Some(child_schema) = schema.field(name) {
                    default_built_in(child, child_schema, budget)?;
                }
            }
        }
        Value::Array(items) => {
            let Some(item_schema) = schema.items() else { return Ok(()) };
            for item in items {
                default_built_in(item, item_schema, budget)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Sets the defaults of the fields of one definition.
fn default_struct(
    definition: &str,
    object: &mut Map<String, Value>,
    budget: &mut Budget,
) -> Result<(), DefaultsTooLarge> {
    set_conditional_defaults(definition, object);
    for (name, default) in table().get(definition).into_iter().flatten() {
        if object.get(*name).is_none_or(Value::is_null) {
            budget.take(name, default)?;
            object.insert((*name).to_owned(), default.clone());
        }
    }
    Ok(())
}

/// Returns the fields and defaults in `defaults.txt`, by definition.
pub(super) fn table() -> &'static HashMap<&'static str, Vec<(&'static str, Value)>> {
    static TABLE: OnceLock<HashMap<&'static str, Vec<(&'static str, Value)>>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table: HashMap<_, Vec<_>> = HashMap::default();
        for line in include_str!("../defaults.txt").lines().filter(|line| !line.starts_with('#')) {
            let mut columns = line.splitn(3, ' ');
            if let (Some(definition), Some(name), Some(json)) =
                (columns.next(), columns.next(), columns.next())
            {
                let default = serde_json::from_str(json).expect("defaults.txt holds JSON");
                table.entry(definition).or_default().push((name, default));
            }
        }
        table
    })
}
