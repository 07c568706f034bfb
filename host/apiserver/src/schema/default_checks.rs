//! The checks of defaults when their CRD is written, after
//! `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting/validation.go`.

use serde_json::Value;

use super::node::{NodeId, SchemaRef};
use super::{Schema, cel, field};
use crate::status::Cause;

/// The bytes of all causes of a CRD together, after which no further default is checked.
const MAX_CAUSES_LENGTH: usize = 1 << 20;

impl Schema {
    /// Returns what is wrong with the defaults of the schema, whose path is `path`.
    pub(super) fn check_defaults(&self, path: &str) -> Vec<Cause> {
        let mut checker =
            DefaultChecker { schema: self, budget: cel::OBJECT_COST_LIMIT, causes: Vec::new(), length: 0 };
        checker.node(self.root, path);
        checker.causes.sort_by(|a, b| (&a.field, &a.message).cmp(&(&b.field, &b.message)));
        checker.causes
    }
}

struct DefaultChecker<'s> {
    schema: &'s Schema,
    /// What is left of the cost of all CEL rules.
    budget: u64,
    causes: Vec<Cause>,
    /// The bytes of the causes.
    length: usize,
}

impl DefaultChecker<'_> {
    fn node(&mut self, id: NodeId, path: &str) {
        let schema = self.schema.root().resolve(id);
        let node = schema.node();
        if let Some(default) = &node.default
            && self.length <= MAX_CAUSES_LENGTH
            && self.budget > 0
        {
            self.default(default, schema, &field::child(path, "default"));
        }
        // Defaults below `additionalProperties` have no effect.
        if let Some(items) = node.items {
            self.node(items, &field::child(path, "items"));
        }
        for (name, property) in &node.properties {
            let is_object_field = node.custom_root || node.embedded;
            if !(is_object_field && ["apiVersion", "kind", "metadata"].contains(&name.as_str())) {
                self.node(property.node, &field::key(&field::child(path, "properties"), name));
            }
        }
    }

    fn default(&mut self, default: &Value, schema: SchemaRef<'_>, at: &str) {
        let mut causes = Vec::new();
        if self.schema.has_unknown_fields(default, schema) {
            causes.push(field::invalid(at, default, "must not have unknown fields"));
        }
        let mut found = self.schema.validate_part(default, schema);
        if found.is_empty() {
            cel::evaluate_default(schema, default, &mut self.budget, &mut found);
        }
        causes.extend(found.into_iter().map(|cause| Cause {
            // The path of the default itself is that of no field.
            field: if cause.field == "<nil>" { at.to_owned() } else { format!("{at}.{}", cause.field) },
            ..cause
        }));
        self.length += causes.iter().map(|cause| cause.field.len() + cause.message.len()).sum::<usize>();
        self.causes.append(&mut causes);
    }
}
