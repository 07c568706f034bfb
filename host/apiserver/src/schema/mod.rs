//! The structural schemas of built-in and custom resources.
//!
//! A [`Schema`] is used for decoding (unknown fields, pruning), defaulting, validation, strategic merge patch and
//! server-side apply. Built-in schemas are parsed once per process, a CRD's schema whenever the CRD is written.

mod builtin;
mod cel;
mod correlation;
mod cron;
mod decode;
mod default_budget;
mod default_checks;
mod defaults;
mod embedded;
pub mod field;
mod format;
pub(crate) mod names;
mod node;
mod parse;
mod path;
mod pattern_error;
mod protobuf;
mod prune;
pub(crate) mod quantity;
mod rbac;
mod semantic;
mod structural;
mod topology;
mod validate;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use builtin::{BuiltinKind, Definitions, KINDS, definitions};
use builtin::{delete_options, json_schema_props, list_meta, status};
pub(crate) use cel::{MAX_RULES_LENGTH, rules_length};
pub(crate) use decode::is_untyped_scalar;
pub use defaults::DefaultsTooLarge;
pub(crate) use defaults::default_of;
pub(crate) use names::{
    label_errors, label_value_errors, path_segment_errors, qualified_name_errors, service_name_errors,
    subdomain_errors,
};
pub use node::{
    AdditionalProperties, ListType, Node, NodeId, PatchStrategy, Property, SchemaRef, Type, ValueValidations,
};
pub(crate) use parse::MAX_PATTERNS_SIZE;
pub(crate) use protobuf::wire as protobuf_wire;
pub use protobuf::{ProtobufError, decode_protobuf, encode_protobuf};
pub(crate) use protobuf::{encode_protobuf_event, encode_protobuf_list, has_protobuf};
pub(crate) use prune::preserves_unknown;
pub(crate) use semantic::{labels_and_annotations_causes, validate_label_selector};
use serde_json::Value;

use crate::status::Cause;
use node::Arena;
use parse::Parser;

/// The immutable schema of one version of a kind.
#[derive(Debug)]
pub struct Schema {
    arena: Arc<Arena>,
    root: NodeId,
    built_in: Option<BuiltinKind>,
}

impl Schema {
    /// Returns the schema of a built-in kind, or `None` if there is no such kind. The first call parses all built-in
    /// schemas; later calls share them.
    pub fn builtin(group: &str, version: &str, kind: &str) -> Option<Arc<Self>> {
        builtin::schema(group, version, kind)
    }

    /// Parses a CRD's `openAPIV3Schema`.
    ///
    /// # Errors
    /// Returns what [`Schema::from_crd_at`] returns, with paths relative to `openAPIV3Schema`.
    pub fn from_crd(schema: &Value) -> Result<Self, Vec<Cause>> {
        Self::from_crd_at(schema, "")
    }

    /// Parses a CRD's `openAPIV3Schema`, whose path in the CRD is `path`.
    ///
    /// # Errors
    /// Returns the violations of the rules of structural schemas, invalid defaults, and errors in CEL rules.
    pub fn from_crd_at(schema: &Value, path: &str) -> Result<Self, Vec<Cause>> {
        let schema = Self::structural(schema, path)?;
        // As in Kubernetes, rules are checked if all defaults are valid.
        let mut causes = schema.check_defaults(path);
        if causes.is_empty() {
            causes = cel::check_rules(schema.root(), schema.root, path);
        }
        if causes.is_empty() { Ok(schema) } else { Err(causes) }
    }

    /// Parses the `openAPIV3Schema` of a stored CRD. Its defaults and rules were checked when it was written.
    ///
    /// # Errors
    /// Returns the violations of the rules of structural schemas.
    pub(crate) fn from_stored_crd(schema: &Value) -> Result<Self, Vec<Cause>> {
        Self::structural(schema, "")
    }

    fn structural(schema: &Value, path: &str) -> Result<Self, Vec<Cause>> {
        let causes = structural::validate(schema, path);
        if !causes.is_empty() {
            return Err(causes);
        }
        let mut parser = Parser::inline();
        let root = parser.custom_root(schema);
        let mut arena = parser.into_arena();
        prune::prune_metadata_of_defaults(&mut arena);
        Ok(Self { arena: Arc::new(arena), root, built_in: None })
    }

    /// Returns a schema that preserves all fields and has no types.
    pub fn preserving() -> Self {
        let mut parser = Parser::inline();
        let raw = serde_json::json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let root = parser.custom_root(&raw);
        Self { arena: Arc::new(parser.into_arena()), root, built_in: None }
    }

    fn built_in(arena: Arc<Arena>, root: NodeId, kind: BuiltinKind) -> Self {
        Self { arena, root, built_in: Some(kind) }
    }

    /// Returns the root node, from which an object is traversed.
    pub fn root(&self) -> SchemaRef<'_> {
        SchemaRef::new(&self.arena, self.root)
    }

    /// Returns an upper bound of the bytes that the compiled patterns take.
    pub(crate) fn patterns_size(&self) -> usize {
        self.arena.patterns_size
    }

    /// Returns whether this is the schema of a built-in kind.
    pub fn is_built_in(&self) -> bool {
        self.built_in.is_some()
    }
}

/// Returns the schema of `ObjectMeta`, which applies to every object's `metadata` whatever a CRD says about it.
pub(crate) fn object_meta() -> SchemaRef<'static> {
    static CONFIG_MAP: std::sync::OnceLock<Arc<Schema>> = std::sync::OnceLock::new();
    let schema =
        CONFIG_MAP.get_or_init(|| Schema::builtin("", "v1", "ConfigMap").expect("ConfigMap is built in"));
    schema.root().field("metadata").expect("every built-in kind has metadata")
}
