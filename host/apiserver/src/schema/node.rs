//! The nodes of a schema. They are stored in an arena, since schemas may be recursive (`JSONSchemaProps` is).

use std::collections::BTreeMap;

use pilothouse_model::hash::HashSet;
use regex::Regex;
use serde_json::Value;

use super::cel::CelRules;

/// The index of a [`Node`] in its [`Arena`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeId(pub(super) u32);

/// All nodes of a schema, or of all built-in schemas together.
#[derive(Debug, Default)]
pub(super) struct Arena {
    pub(super) nodes: Vec<Node>,
    /// An upper bound of the bytes that the compiled patterns take, those of CEL rules included.
    pub(super) patterns_size: usize,
}

/// The JSON type of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Type {
    /// Any type: the schema only has value validations, or preserves unknown data.
    #[default]
    Any,
    /// A JSON object: a struct with properties, or a map.
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
    /// Returns the name in JSON schema; empty for [`Type::Any`].
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

/// The identity of a list's items (`x-kubernetes-list-type`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    /// Items have no identity; the list is one value.
    #[default]
    Atomic,
    /// Items are identified by their value.
    Set,
    /// Items are objects, identified by the fields of these names (`x-kubernetes-list-map-keys`).
    Map(Vec<String>),
}

/// The members that an object may have besides its properties (`additionalProperties`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdditionalProperties {
    /// None: other members are unknown fields.
    #[default]
    Forbidden,
    /// Members of any name with any value.
    Any,
    /// Members of any name whose values have a schema.
    Schema(NodeId),
}

/// The strategy of strategic merge patch for a field (`x-kubernetes-patch-strategy`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// `merge`: the list is merged instead of replaced.
    pub merge: bool,
    /// `replace`: the object is replaced as a whole.
    pub replace: bool,
    /// `retainKeys`: keys that the patch does not list are removed.
    pub retain_keys: bool,
    /// The field by which items are matched; `None` for lists of scalars.
    pub merge_key: Option<String>,
}

/// A property of an object.
#[derive(Clone, Debug)]
pub struct Property {
    /// The schema of the property.
    pub node: NodeId,
    /// The strategy of strategic merge patch; the default for custom resources.
    pub patch: PatchStrategy,
}

/// The schema of a value at one path of an object.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// The name of the OpenAPI definition, for built-in types (`io.k8s.api.core.v1.PodSpec`).
    pub definition: Option<String>,
    /// The JSON type.
    pub ty: Type,
    /// Whether `null` is allowed.
    pub nullable: bool,
    /// Whether the value may be an integer or a string (`x-kubernetes-int-or-string`).
    pub int_or_string: bool,
    /// Whether unknown fields are preserved (`x-kubernetes-preserve-unknown-fields`).
    pub preserve_unknown: bool,
    /// Whether the value is a complete object with `apiVersion`, `kind` and `metadata`
    /// (`x-kubernetes-embedded-resource`).
    pub embedded: bool,
    /// Whether this is the root of a custom resource.
    pub custom_root: bool,
    /// The properties of an object.
    pub properties: BTreeMap<String, Property>,
    /// The names of the required properties.
    pub required: Vec<String>,
    /// The other members of an object.
    pub additional: AdditionalProperties,
    /// The schema of a list's items.
    pub items: Option<NodeId>,
    /// The identity of a list's items.
    pub list_type: ListType,
    /// Whether the object is one value (`x-kubernetes-map-type: atomic`).
    pub map_atomic: bool,
    /// The default of an absent field.
    pub default: Option<Value>,
    /// The value validations, if there are any.
    pub validations: Option<Box<ValueValidations>>,
    /// The CEL rules, if there are any.
    pub rules: Option<Box<CelRules>>,
}

/// The value validations of JSON schema: constraints on a value besides its type.
#[derive(Clone, Debug, Default)]
pub struct ValueValidations {
    pub(super) format: Option<String>,
    /// The allowed values (`enum`); empty if all are.
    pub(super) choices: Vec<Value>,
    /// The same values, to look them up.
    pub(super) choice_set: HashSet<Value>,
    pub(super) pattern: Option<Regex>,
    pub(super) minimum: Option<Bound>,
    pub(super) maximum: Option<Bound>,
    pub(super) multiple_of: Option<f64>,
    /// The minimum and maximum number of characters of a string.
    pub(super) length: (Option<u64>, Option<u64>),
    /// The minimum and maximum number of items of a list.
    pub(super) items: (Option<u64>, Option<u64>),
    /// The minimum and maximum number of members of an object.
    pub(super) properties: (Option<u64>, Option<u64>),
    pub(super) unique_items: bool,
    pub(super) all_of: Vec<NodeId>,
    pub(super) any_of: Vec<NodeId>,
    pub(super) one_of: Vec<NodeId>,
    pub(super) not: Option<NodeId>,
}

/// The minimum or maximum of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bound {
    pub(super) value: f64,
    pub(super) exclusive: bool,
}

/// A reference to a node together with its arena, for traversing an object.
#[derive(Clone, Copy, Debug)]
pub struct SchemaRef<'a> {
    arena: &'a Arena,
    node: &'a Node,
}

impl<'a> SchemaRef<'a> {
    pub(super) fn new(arena: &'a Arena, id: NodeId) -> Self {
        Self { arena, node: &arena.nodes[id.0 as usize] }
    }

    /// Returns the node.
    pub fn node(self) -> &'a Node {
        self.node
    }

    /// Returns the node with an id that this node refers to.
    pub fn resolve(self, id: NodeId) -> SchemaRef<'a> {
        Self::new(self.arena, id)
    }

    /// Returns the schema of the member `name`: that of the property, or else that of the additional properties. `None`
    /// if the field is unknown or has no schema.
    pub fn field(self, name: &str) -> Option<SchemaRef<'a>> {
        if let Some(property) = self.node.properties.get(name) {
            return Some(self.resolve(property.node));
        }
        match self.node.additional {
            AdditionalProperties::Schema(id) => Some(self.resolve(id)),
            AdditionalProperties::Any | AdditionalProperties::Forbidden => None,
        }
    }

    /// Returns the strategy of strategic merge patch for the property `name`.
    pub fn patch_strategy(self, name: &str) -> Option<&'a PatchStrategy> {
        self.node.properties.get(name).map(|property| &property.patch)
    }

    /// Returns the schema of a list's items.
    pub fn items(self) -> Option<SchemaRef<'a>> {
        self.node.items.map(|id| self.resolve(id))
    }

    /// Returns whether the object is a map: it has no properties and allows additional ones.
    pub fn is_map(self) -> bool {
        self.node.properties.is_empty() && self.node.additional != AdditionalProperties::Forbidden
    }
}
