//! What the server knows of the shape of objects: the structural schemas of built-in and custom resources.
//!
//! One [`Schema`] serves decoding (unknown fields, pruning), defaulting, validation, strategic merge and server-side
//! apply. Built-in schemas are read once per process; a CRD's schema is read when the CRD is stored.

mod builtin;
mod cel;
mod decode;
mod defaults;
pub mod field;
mod format;
mod names;
mod node;
mod pairing;
mod parse;
mod protobuf;
mod prune;
mod quantity;
mod rbac;
mod semantic;
mod structural;
mod topology;
mod validate;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use builtin::delete_options;
pub use builtin::{BuiltinKind, Definitions, KINDS, definitions};
pub(crate) use defaults::default_of;
pub use node::{Additional, Checks, ListType, Node, NodeId, PatchStrategy, Property, SchemaRef, Type};
pub use protobuf::{ProtobufError, decode_protobuf};
use serde_json::Value;

use crate::status::Cause;
use node::Arena;
use parse::Parser;

/// The schema of one version of one kind. Cheap to share, immutable.
#[derive(Debug)]
pub struct Schema {
    arena: Arc<Arena>,
    root: NodeId,
    built_in: Option<BuiltinKind>,
}

impl Schema {
    /// The schema of a built-in kind, none if there is no such kind. All built-in schemas are read on the first call
    /// and shared afterwards.
    pub fn builtin(group: &str, version: &str, kind: &str) -> Option<Arc<Self>> {
        builtin::schema(group, version, kind)
    }

    /// Reads a CRD's `openAPIV3Schema`.
    ///
    /// # Errors
    /// What breaks the rules of structural schemas, with paths below `openAPIV3Schema` (prefix them with the CRD's
    /// `spec.versions[N].schema.openAPIV3Schema`, or use [`Schema::from_crd_at`]).
    pub fn from_crd(schema: &Value) -> Result<Self, Vec<Cause>> {
        Self::from_crd_at(schema, "")
    }

    /// [`Schema::from_crd`] with the path that error messages start with.
    ///
    /// # Errors
    /// What breaks the rules of structural schemas.
    pub fn from_crd_at(schema: &Value, path: &str) -> Result<Self, Vec<Cause>> {
        let causes = structural::check(schema, path);
        if !causes.is_empty() {
            return Err(causes);
        }
        let mut parser = Parser::inline();
        let root = parser.node(schema);
        Ok(Self { arena: Arc::new(parser.finish()), root, built_in: None })
    }

    /// A schema that keeps every field and knows the type of none: for a kind whose CRD preserves unknown fields.
    pub fn preserving() -> Self {
        let mut parser = Parser::inline();
        let raw = serde_json::json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let root = parser.node(&raw);
        Self { arena: Arc::new(parser.finish()), root, built_in: None }
    }

    fn built_in(arena: Arc<Arena>, root: NodeId, kind: BuiltinKind) -> Self {
        Self { arena, root, built_in: Some(kind) }
    }

    /// The root, to walk an object with.
    pub fn root(&self) -> SchemaRef<'_> {
        SchemaRef::new(&self.arena, self.root)
    }

    /// Whether this is a built-in kind's schema.
    pub fn is_built_in(&self) -> bool {
        self.built_in.is_some()
    }
}

/// The schema of `metadata`, which every object shares whatever its own schema says of it.
pub(crate) fn object_meta() -> SchemaRef<'static> {
    static POD: std::sync::OnceLock<Arc<Schema>> = std::sync::OnceLock::new();
    let schema = POD.get_or_init(|| Schema::builtin("", "v1", "ConfigMap").expect("ConfigMap is built in"));
    schema.root().field("metadata").expect("every built-in kind has metadata")
}
