//! Parses JSON schemas (OpenAPI v3, of CRDs and of built-in types) into nodes.

use pilothouse_cel::pattern_work;
use pilothouse_model::hash::HashMap;
use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use super::cel::CelRules;
use super::node::{
    AdditionalProperties, Arena, Bound, ListType, Node, NodeId, PatchStrategy, Property, Type,
    ValueValidations,
};
use super::pattern_error;

/// Parses schemas into one arena.
pub(super) struct Parser<'a> {
    arena: Arena,
    definitions: Option<&'a Map<String, Value>>,
    named: HashMap<String, NodeId>,
    patterns: Patterns,
    /// Counts the patterns of the rules, which are compiled only while these are not too large together.
    rule_patterns: usize,
}

impl<'a> Parser<'a> {
    /// Creates a parser for the schema of a custom resource, which has no references.
    pub(super) fn inline() -> Self {
        Self {
            arena: Arena::default(),
            definitions: None,
            named: HashMap::default(),
            patterns: Patterns::default(),
            rule_patterns: 0,
        }
    }

    /// Creates a parser for schemas that refer to `definitions`.
    pub(super) fn with_definitions(definitions: &'a Map<String, Value>) -> Self {
        Self { definitions: Some(definitions), ..Self::inline() }
    }

    /// Returns the arena with all parsed nodes.
    pub(super) fn into_arena(mut self) -> Arena {
        self.arena.patterns_size = self.patterns.size + self.rule_patterns;
        self.arena
    }

    /// Parses the schema of a custom resource.
    pub(super) fn custom_root(&mut self, raw: &Value) -> NodeId {
        let id = self.node(raw);
        self.arena.nodes[id.0 as usize].custom_root = true;
        id
    }

    /// Parses `raw` and everything below it.
    pub(super) fn node(&mut self, raw: &Value) -> NodeId {
        if let Some(name) = raw.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next()) {
            return self.definition(name);
        }
        let node = self.read(raw);
        self.push(node)
    }

    /// Parses the definition `name` on the first call. Later calls return the same node, also from within the definition
    /// itself.
    pub(super) fn definition(&mut self, name: &str) -> NodeId {
        if let Some(id) = self.named.get(name) {
            return *id;
        }
        let id = self.push(Node::default());
        self.named.insert(name.to_owned(), id);
        let raw = self.definitions.and_then(|all| all.get(name)).unwrap_or(&Value::Null);
        let mut node = self.read(raw);
        node.definition = Some(name.to_owned());
        if node.ty == Type::Object
            && node.properties.is_empty()
            && node.additional == AdditionalProperties::Forbidden
        {
            // Raw JSON, such as RawExtension and FieldsV1, has the schema of an object without properties.
            node.preserve_unknown = true;
            // As in Kubernetes, a manager owns such JSON as a whole.
            node.map_atomic |= name.ends_with(".RawExtension");
        }
        if raw.get("oneOf").is_some() || name.ends_with(".v1.JSON") {
            // Unions such as JSONSchemaPropsOrBool have no common type, and JSON may be any value.
            node.ty = Type::Any;
            node.preserve_unknown = true;
        }
        self.arena.nodes[id.0 as usize] = node;
        id
    }

    fn push(&mut self, node: Node) -> NodeId {
        let id = NodeId(u32::try_from(self.arena.nodes.len()).expect("a schema has fewer than 2^32 nodes"));
        self.arena.nodes.push(node);
        id
    }

    fn read(&mut self, raw: &Value) -> Node {
        let flag = |name: &str| raw.get(name).and_then(Value::as_bool).unwrap_or(false);
        let mut node = Node {
            ty: type_of(raw),
            nullable: flag("nullable"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            required: strings(raw.get("required")),
            list_type: list_type(raw),
            map_atomic: raw.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic"),
            default: raw.get("default").filter(|default| !default.is_null()).cloned(),
            rules: CelRules::compile(raw.get("x-kubernetes-validations"), &mut self.rule_patterns)
                .map(Box::new),
            ..Node::default()
        };
        if let Some(properties) = raw.get("properties").and_then(Value::as_object) {
            for (name, child) in properties {
                let property = self.property(child);
                node.properties.insert(name.clone(), property);
            }
        }
        node.additional = match raw.get("additionalProperties") {
            None | Some(Value::Bool(false)) => AdditionalProperties::Forbidden,
            Some(Value::Object(schema)) if !schema.is_empty() => {
                AdditionalProperties::Schema(self.node(&Value::Object(schema.clone())))
            }
            Some(_) => AdditionalProperties::Any,
        };
        node.items = raw.get("items").map(|items| self.node(items));
        node.validations = self.validations(raw).map(Box::new);
        node
    }

    fn property(&mut self, raw: &Value) -> Property {
        let mut id = self.node(raw);
        if let (Some(map_type), Some(_)) = (raw.get("x-kubernetes-map-type"), raw.get("$ref")) {
            // The property overrides the definition's map type, so it gets a node of its own.
            let mut copy = self.arena.nodes[id.0 as usize].clone();
            copy.map_atomic = map_type == "atomic";
            id = self.push(copy);
        }
        Property { node: id, patch: patch_strategy(raw) }
    }

    fn validations(&mut self, raw: &Value) -> Option<ValueValidations> {
        let number = |name: &str| raw.get(name).and_then(Value::as_f64);
        let count = |name: &str| raw.get(name).and_then(Value::as_u64);
        let bound = |name: &str, exclusive: &str| {
            let exclusive = raw.get(exclusive).and_then(Value::as_bool).unwrap_or(false);
            number(name).map(|value| Bound { value, exclusive })
        };
        let keywords = [
            "format",
            "enum",
            "pattern",
            "minimum",
            "maximum",
            "multipleOf",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "uniqueItems",
            "minProperties",
            "maxProperties",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
        ];
        if !keywords.iter().any(|name| raw.get(name).is_some()) {
            return None;
        }
        Some(ValueValidations {
            format: raw.get("format").and_then(Value::as_str).map(str::to_owned),
            choices: raw.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
            choice_set: raw.get("enum").and_then(Value::as_array).into_iter().flatten().cloned().collect(),
            // Patterns that do not compile were rejected with the CRD.
            pattern: raw
                .get("pattern")
                .and_then(Value::as_str)
                .and_then(|pattern| self.patterns.compile(pattern).ok()),
            minimum: bound("minimum", "exclusiveMinimum"),
            maximum: bound("maximum", "exclusiveMaximum"),
            multiple_of: number("multipleOf"),
            length: (count("minLength"), count("maxLength")),
            items: (count("minItems"), count("maxItems")),
            properties: (count("minProperties"), count("maxProperties")),
            unique_items: raw.get("uniqueItems").and_then(Value::as_bool).unwrap_or(false),
            all_of: self.nodes(raw.get("allOf")),
            any_of: self.nodes(raw.get("anyOf")),
            one_of: self.nodes(raw.get("oneOf")),
            not: raw.get("not").map(|schema| self.node(schema)),
        })
    }

    fn nodes(&mut self, raw: Option<&Value>) -> Vec<NodeId> {
        raw.and_then(Value::as_array).into_iter().flatten().map(|schema| self.node(schema)).collect()
    }
}

fn type_of(raw: &Value) -> Type {
    match raw.get("type").and_then(Value::as_str) {
        Some("object") => Type::Object,
        Some("array") => Type::Array,
        Some("string") => Type::String,
        Some("integer") => Type::Integer,
        Some("number") => Type::Number,
        Some("boolean") => Type::Boolean,
        _ => Type::Any,
    }
}

fn list_type(raw: &Value) -> ListType {
    match raw.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => ListType::Set,
        Some("map") => ListType::Map(strings(raw.get("x-kubernetes-list-map-keys"))),
        _ => ListType::Atomic,
    }
}

fn patch_strategy(raw: &Value) -> PatchStrategy {
    let text = |name: &str| raw.get(name).and_then(Value::as_str);
    let strategies = text("x-kubernetes-patch-strategy").unwrap_or_default();
    let has = |name: &str| strategies.split(',').any(|strategy| strategy == name);
    PatchStrategy {
        merge: has("merge"),
        replace: has("replace"),
        retain_keys: has("retainKeys"),
        merge_key: text("x-kubernetes-patch-merge-key").map(str::to_owned),
    }
}

fn strings(raw: Option<&Value>) -> Vec<String> {
    raw.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The compiled patterns of a schema. Equal patterns are compiled once.
#[derive(Default)]
pub(super) struct Patterns {
    compiled: HashMap<String, Regex>,
    /// An upper bound of the bytes that they take. The work to compile them counts, too, and so does that of the refused ones.
    size: usize,
}

/// The bytes that the compiled patterns of one CRD may take, those of its CEL rules included. The work to compile them counts, too, as for
/// [`pilothouse_cel::MAX_PATTERNS_SIZE`].
pub(crate) const MAX_PATTERNS_SIZE: usize = 16 << 20;

/// The longest `pattern` in bytes. Those in use have some hundred.
const MAX_PATTERN_LENGTH: usize = 16 << 10;

/// Why a `pattern` was refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum PatternError {
    #[error("must be a valid regular expression, but isn't: {0}")]
    Syntax(String),
    #[error("the patterns of the CRD are too large together: they take more than {MAX_PATTERNS_SIZE} bytes")]
    TooLarge,
    #[error("must have at most {MAX_PATTERN_LENGTH} bytes")]
    TooLong,
}

impl Patterns {
    /// The maximum compiled sizes in bytes. The smallest one that suffices is counted.
    const SIZES: [usize; 3] = [16 << 10, 128 << 10, 1 << 20];

    /// Compiles the `pattern` of a schema.
    pub(super) fn compile(&mut self, pattern: &str) -> Result<Regex, PatternError> {
        if let Some(regex) = self.compiled.get(pattern) {
            return Ok(regex.clone());
        }
        if pattern.len() > MAX_PATTERN_LENGTH {
            return Err(PatternError::TooLong);
        }
        // Counted before the pattern is compiled: this work comes before any limit of its compiled size.
        let work_size = usize::try_from(pattern_work(pattern) / 2).unwrap_or(usize::MAX);
        let [smallest, .., largest] = Self::SIZES;
        if self.size.saturating_add(work_size.max(smallest)) > MAX_PATTERNS_SIZE {
            return Err(PatternError::TooLarge);
        }
        let (size, regex) = Self::smallest(pattern).map_err(|error| match error {
            regex::Error::Syntax(text) => {
                self.size += work_size;
                PatternError::Syntax(pattern_error::go_message(pattern, &text))
            }
            other => {
                self.size += work_size.max(largest);
                PatternError::Syntax(other.to_string())
            }
        })?;
        let size = size.max(work_size);
        if self.size + size > MAX_PATTERNS_SIZE {
            return Err(PatternError::TooLarge);
        }
        self.size += size;
        self.compiled.insert(pattern.to_owned(), regex.clone());
        Ok(regex)
    }

    fn smallest(pattern: &str) -> Result<(usize, Regex), regex::Error> {
        let compile =
            |size: usize| RegexBuilder::new(pattern).size_limit(size).build().map(|regex| (size, regex));
        let [small, medium, large] = Self::SIZES;
        compile(small).or_else(|_| compile(medium)).or_else(|_| compile(large))
    }
}
