//! Defaulting: `default` in the schemas of custom resources, and Kubernetes' defaults of the built-in kinds.

mod built_in;
mod conditional;
mod custom;

use serde_json::{Value, json};

use built_in::{default_built_in, table};
use conditional::set_if_absent;
use custom::{Nulls, default_custom};

use super::default_budget::Budget;
pub use super::default_budget::DefaultsTooLarge;
use super::node::SchemaRef;
use super::{Schema, quantity};

/// The definition of quantities, which are stored in canonical form.
pub(super) const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";

impl Schema {
    /// Sets the defaults of absent fields, and rewrites the quantities of built-in kinds to canonical form. Idempotent.
    ///
    /// # Errors
    /// [`DefaultsTooLarge`] if the defaults take more than 1.5 MiB: each of many short elements of a list may get a long one.
    pub fn apply_defaults(&self, object: &mut Value) -> Result<(), DefaultsTooLarge> {
        self.apply_defaults_with(object, Nulls::Remove)
    }

    /// Sets the defaults as [`Self::apply_defaults`] does, but keeps each `null` without a default, unless the schema allows every value. As in
    /// Kubernetes, validation refuses a `null` of an applied configuration unless the schema allows it.
    ///
    /// # Errors
    /// Those of [`Self::apply_defaults`].
    pub(crate) fn apply_defaults_keeping_null(&self, object: &mut Value) -> Result<(), DefaultsTooLarge> {
        self.apply_defaults_with(object, Nulls::Preserve)
    }

    fn apply_defaults_with(&self, object: &mut Value, nulls: Nulls) -> Result<(), DefaultsTooLarge> {
        let mut budget = Budget::new();
        if self.is_built_in() {
            self.add_spec(object);
            canonicalize_quantities(object, self.root());
            default_built_in(object, self.root(), &mut budget)
        } else {
            default_custom(object, self.root(), nulls, &mut budget)
        }
    }

    /// Gives a stored or converted object the form of this schema: removes unknown fields, and sets as many defaults as an object can hold.
    pub(crate) fn give_form(&self, object: &mut Value) {
        self.prune(object);
        let _ = self.apply_defaults(object);
    }

    /// Adds an absent `spec`, which Go's encoder writes even if it is empty.
    fn add_spec(&self, object: &mut Value) {
        let is_struct = self.root().field("spec").is_some_and(|spec| spec.node().definition.is_some());
        if let Value::Object(object) = object
            && is_struct
        {
            set_if_absent(object, "spec", || json!({}));
        }
    }
}

fn canonicalize_quantities(value: &mut Value, schema: SchemaRef<'_>) {
    if schema.node().definition.as_deref() == Some(QUANTITY) {
        if let Some(canonical) = quantity::canonical(value) {
            *value = canonical.into();
        }
        return;
    }
    match value {
        Value::Object(object) => {
            for (name, child) in object.iter_mut() {
                if let Some(child_schema) = schema.field(name) {
                    canonicalize_quantities(child, child_schema);
                }
            }
        }
        Value::Array(items) => {
            let Some(item_schema) = schema.items() else { return };
            items.iter_mut().for_each(|item| canonicalize_quantities(item, item_schema));
        }
        _ => {}
    }
}

/// Returns the default of the field `name`, if it has one that does not depend on other fields. Keys of list items may be
/// absent if they have a default.
pub(crate) fn default_of(schema: SchemaRef<'_>, name: &str) -> Option<Value> {
    let node = schema.node();
    if let Some(definition) = &node.definition {
        let fields = table().get(definition.as_str())?;
        return fields.iter().find(|(field, _)| *field == name).map(|(_, default)| default.clone());
    }
    schema.field(name)?.node().default.clone()
}
