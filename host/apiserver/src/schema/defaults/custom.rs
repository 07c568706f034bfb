//! The defaults of custom resources, from their schemas.

use serde_json::Value;

use crate::schema::default_budget::{Budget, DefaultsTooLarge};
use crate::schema::node::{Node, SchemaRef, Type};

/// What happens to a `null` that the schema of a custom resource does not allow, and for which it has no default.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Nulls {
    Preserve,
    Remove,
}

/// Sets the defaults of a custom resource, after `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting`. A
/// `null` that the schema does not allow gets the default.
pub(super) fn default_custom(
    value: &mut Value,
    schema: SchemaRef<'_>,
    nulls: Nulls,
    budget: &mut Budget,
) -> Result<(), DefaultsTooLarge> {
    match value {
        Value::Object(object) => {
            object.retain(|name, value| {
                !value.is_null() || schema.field(name).is_none_or(|field| keeps_null(field.node(), nulls))
            });
            for (name, property) in &schema.node().properties {
                let node = schema.resolve(property.node).node();
                let absent = object.get(name).is_none_or(|value| value.is_null() && !node.nullable);
                if absent && let Some(default) = &node.default {
                    budget.take(name, default)?;
                    object.insert(name.clone(), default.clone());
                }
            }
            for (name, child) in object.iter_mut() {
                let Some(child_schema) = schema.field(name) else { continue };
                replace_null(child, child_schema.node(), budget)?;
                default_custom(child, child_schema, nulls, budget)?;
            }
        }
        Value::Array(items) => {
            let Some(item_schema) = schema.items() else { return Ok(()) };
            for item in items {
                replace_null(item, item_schema.node(), budget)?;
                default_custom(item, item_schema, nulls, budget)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Whether a `null` stays, as that of a property or as a value of a map. One of a field with a default becomes the default.
fn keeps_null(node: &Node, nulls: Nulls) -> bool {
    let allows_everything = node.ty == Type::Any && !node.int_or_string;
    node.nullable || node.default.is_some() || (nulls == Nulls::Preserve && !allows_everything)
}

/// Replaces a `null` that the schema does not allow with the default.
fn replace_null(value: &mut Value, node: &Node, budget: &mut Budget) -> Result<(), DefaultsTooLarge> {
    if value.is_null()
        && !node.nullable
        && let Some(default) = &node.default
    {
        budget.take("", default)?;
        *value = default.clone();
    }
    Ok(())
}
