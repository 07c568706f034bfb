//! The schema tree: one [`Node`] per place in an object, kept in an arena because schemas may refer to themselves
//! (`JSONSchemaProps` does).

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use super::cel::Rules;

/// The place of a [`Node`] in its [`Arena`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeId(pub(super) u32);

/// All nodes of a schema, or of all built-in schemas together.
#[derive(Debug, Default)]
pub(super) struct Arena {
    pub(super) nodes: Vec<Node>,
}

/// The JSON type that a value must have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Type {
    /// No type is demanded: value validations only, or preserved unknown data.
    #[default]
    Any,
    /// A JSON object, either with properties or a map.
    Object,
    /// A JSON array.
    Array,
    /// A JSON string.
    String,
    /// A JSON number without a fraction.
    Integer,
    /// A JSON number.
    Number,
    /// `true` or `false`.
    Boolean,
}

impl Type {
    /// The name in JSON schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// How the items of a list are told apart (`x-kubernetes-list-type`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    /// The list is one value.
    #[default]
    Atomic,
    /// Items are their own keys.
    Set,
    /// Items are objects, identified by these of their fields.
    Map(Vec<String>),
}

/// Which names an object may have besides its properties (`additionalProperties`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Additional {
    /// None: other names are unknown fields.
    #[default]
    Unknown,
    /// Any name with any value.
    Any,
    /// Any name; the values follow a schema.
    Of(NodeId),
}

/// How strategic merge patch treats a field (`x-kubernetes-patch-strategy`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// `merge`: list items are merged instead of the list being replaced.
    pub merge: bool,
    /// `replace`: the object is replaced as a whole.
    pub replace: bool,
    /// `retainKeys`: keys that the patch does not name are removed.
    pub retain_keys: bool,
    /// The field by which items are matched; none for lists of scalars.
    pub merge_key: Option<String>,
}

/// A named child of an object.
#[derive(Clone, Debug)]
pub struct Property {
    /// The child's schema.
    pub node: NodeId,
    /// How strategic merge patch treats it; the default for custom resources.
    pub patch: PatchStrategy,
}

/// What a schema says of one place in an object.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// The name of the definition that this is, for built-in types (`io.k8s.api.core.v1.PodSpec`).
    pub definition: Option<String>,
    /// The JSON type.
    pub ty: Type,
    /// `null` is allowed.
    pub nullable: bool,
    /// An integer or a string is allowed (`x-kubernetes-int-or-string`).
    pub int_or_string: bool,
    /// Unknown fields are kept (`x-kubernetes-preserve-unknown-fields`).
    pub preserve_unknown: bool,
    /// The value is a whole object with `apiVersion`, `kind` and `metadata` (`x-kubernetes-embedded-resource`).
    pub embedded: bool,
    /// The named children.
    pub properties: BTreeMap<String, Property>,
    /// Children that must be there.
    pub required: Vec<String>,
    /// Children with other names.
    pub additional: Additional,
    /// The schema of each item of a list.
    pub items: Option<NodeId>,
    /// How items of a list are told apart.
    pub list_type: ListType,
    /// The object is one value (`x-kubernetes-map-type: atomic`).
    pub map_atomic: bool,
    /// The value that an absent field gets.
    pub default: Option<Value>,
    /// Limits on the value, if there are any.
    pub checks: Option<Box<Checks>>,
    /// CEL rules, if there are any.
    pub rules: Option<Box<Rules>>,
}

/// Limits on a value (the value validations of JSON schema).
#[derive(Clone, Debug, Default)]
pub struct Checks {
    pub(super) format: Option<String>,
    pub(super) choices: Vec<Value>,
    pub(super) pattern: Option<Regex>,
    pub(super) minimum: Option<Bound>,
    pub(super) maximum: Option<Bound>,
    pub(super) multiple_of: Option<f64>,
    pub(super) length: (Option<u64>, Option<u64>),
    pub(super) items: (Option<u64>, Option<u64>),
    pub(super) properties: (Option<u64>, Option<u64>),
    pub(super) unique_items: bool,
    pub(super) all_of: Vec<NodeId>,
    pub(super) any_of: Vec<NodeId>,
    pub(super) one_of: Vec<NodeId>,
    pub(super) not: Option<NodeId>,
}

/// A lower or upper limit of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bound {
    pub(super) value: f64,
    pub(super) exclusive: bool,
}

/// A node together with its arena: what code that walks objects passes around. Copying it is free.
#[derive(Clone, Copy, Debug)]
pub struct SchemaRef<'a> {
    arena: &'a Arena,
    node: &'a Node,
}

impl<'a> SchemaRef<'a> {
    pub(super) fn new(arena: &'a Arena, id: NodeId) -> Self {
        Self { arena, node: &arena.nodes[id.0 as usize] }
    }

    /// The node itself.
    pub fn node(self) -> &'a Node {
        self.node
    }

    /// Follows an id that was read from this node.
    pub fn at(self, id: NodeId) -> SchemaRef<'a> {
        Self::new(self.arena, id)
    }

    /// The schema of the child `name`: the property's, or that of the additional properties. None if unknown, or if
    /// nothing is said of it.
    pub fn field(self, name: &str) -> Option<SchemaRef<'a>> {
        if let Some(property) = self.node.properties.get(name) {
            return Some(self.at(property.node));
        }
        match self.node.additional {
            Additional::Of(id) => Some(self.at(id)),
            Additional::Any | Additional::Unknown => None,
        }
    }

    /// How strategic merge patch treats the child `name`.
    pub fn patch_strategy(self, name: &str) -> Option<&'a PatchStrategy> {
        self.node.properties.get(name).map(|property| &property.patch)
    }

    /// The schema of a list's items.
    pub fn items(self) -> Option<SchemaRef<'a>> {
        self.node.items.map(|id| self.at(id))
    }

    /// Whether the object is a map: any name, no named children.
    pub fn is_map(self) -> bool {
        self.node.properties.is_empty() && self.node.additional != Additional::Unknown
    }
}
