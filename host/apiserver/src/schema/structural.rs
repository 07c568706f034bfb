//! Validation of a CRD's schema: the rules of structural schemas.
//!
//! It follows `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/{validation,complete}.go` and the schema part of
//! `pkg/apis/apiextensions/validation`.

use serde_json::{Map, Value};

use super::field;
use super::parse::{PatternError, Patterns};
use crate::status::Cause;

/// Returns the violations of `schema`, whose path in the CRD is `path`; none if it is structural. They are sorted, so
/// that responses do not depend on the order of maps.
pub(super) fn validate(schema: &Value, path: &str) -> Vec<Cause> {
    let mut checker = Checker::default();
    match schema.as_object() {
        Some(object) => checker.structure(object, Level::Root, path),
        None => checker.causes.push(field::required(path, "schemas are required")),
    }
    let mut causes = checker.causes;
    causes.sort_by(|a, b| (&a.field, &a.message).cmp(&(&b.field, &b.message)));
    causes
}

/// The position of a schema, on which the rules for `type` depend.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

#[derive(Default)]
struct Checker {
    causes: Vec<Cause>,
    patterns: Patterns,
    /// Whether it was reported that the patterns are too large together.
    patterns_refused: bool,
}

type Object = Map<String, Value>;

impl Checker {
    fn structure(&mut self, schema: &Object, level: Level, path: &str) {
        let ty = text(schema, "type");
        self.type_name(schema, ty, path);
        self.type_presence(schema, ty, level, path);
        self.unsupported_keywords(schema, path);
        self.extensions(schema, ty, path);
        self.list_type(schema, ty, path);
        self.object_fields(schema, level, path);
        self.rules(schema, path);
        self.pattern(schema, path);
        self.junctors(schema, schema, path, path);
        self.children(schema, ty, level, path);
    }

    fn children(&mut self, schema: &Object, ty: &str, level: Level, path: &str) {
        match schema.get("items") {
            None if ty == "array" => {
                self.causes.push(field::required(&field::child(path, "items"), "must be specified"));
            }
            Some(Value::Object(items)) => self.structure(items, Level::Item, &field::child(path, "items")),
            Some(Value::Array(_)) => {
                let detail = "items must be a schema object and not an array";
                self.causes.push(field::forbidden(&field::child(path, "items"), detail));
            }
            _ => {}
        }
        for (name, child) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let root_metadata = level == Level::Root && name == "metadata";
            if let (Some(child), false) = (child.as_object(), root_metadata) {
                self.structure(child, Level::Field, &property(path, name));
            }
        }
        let at = field::child(path, "additionalProperties");
        match schema.get("additionalProperties") {
            None => return,
            Some(Value::Object(values)) if !values.is_empty() => self.structure(values, Level::Field, &at),
            Some(_) => {}
        }
        if level == Level::Root {
            self.causes.push(field::forbidden(&at, "must not be used at the root"));
        }
        if schema
            .get("properties")
            .and_then(Value::as_object)
            .is_some_and(|properties| !properties.is_empty())
        {
            let detail = "additionalProperties and properties are mutual exclusive";
            self.causes.push(field::forbidden(&at, detail));
        }
    }

    fn type_name(&mut self, schema: &Object, ty: &str, path: &str) {
        let at = field::child(path, "type");
        let types = ["array", "boolean", "integer", "number", "object", "string"];
        if ty == "null" {
            let detail = "type cannot be set to null, use nullable as an alternative";
            self.causes.push(field::forbidden(&at, detail));
        } else if !ty.is_empty() && !types.contains(&ty) {
            self.causes.push(field::not_supported(&at, &Value::from(ty), &types));
        } else if schema.get("type").is_some_and(|ty| !ty.is_string()) {
            self.causes.push(field::wrong_type(&at, "string", "array"));
        }
    }

    fn type_presence(&mut self, schema: &Object, ty: &str, level: Level, path: &str) {
        let at = field::child(path, "type");
        if flag(schema, "x-kubernetes-embedded-resource") && ty != "object" {
            let detail = "must be object if x-kubernetes-embedded-resource is true";
            let cause = if ty.is_empty() {
                field::required(&at, detail)
            } else {
                field::invalid(&at, &Value::from(ty), detail)
            };
            self.causes.push(cause);
        } else if ty.is_empty()
            // As in Kubernetes, nothing else is said about a reference.
            && !schema.contains_key("$ref")
            && !flag(schema, "x-kubernetes-int-or-string")
            && !flag(schema, "x-kubernetes-preserve-unknown-fields")
        {
            let position = match level {
                Level::Root => "at the root",
                Level::Item => "for specified array items",
                Level::Field => "for specified object fields",
            };
            self.causes.push(field::required(&at, &format!("must not be empty {position}")));
        }
        if level == Level::Root && !ty.is_empty() && ty != "object" {
            self.causes.push(field::invalid(&at, &Value::from(ty), "must be object at the root"));
        }
    }

    fn unsupported_keywords(&mut self, schema: &Object, path: &str) {
        for name in ["definitions", "dependencies", "id", "patternProperties", "$ref", "additionalItems"] {
            if schema.contains_key(name) {
                let detail = format!("{name} is not supported");
                self.causes.push(field::forbidden(&field::child(path, name), &detail));
            }
        }
        if flag(schema, "uniqueItems") {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.causes.push(field::forbidden(&field::child(path, "uniqueItems"), detail));
        }
        if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
            let at = field::child(path, "x-kubernetes-preserve-unknown-fields");
            self.causes.push(field::invalid(&at, &Value::Bool(false), "must be true or undefined"));
        }
    }

    fn extensions(&mut self, schema: &Object, ty: &str, path: &str) {
        let int_or_string = flag(schema, "x-kubernetes-int-or-string");
        let preserves = flag(schema, "x-kubernetes-preserve-unknown-fields");
        let embedded = flag(schema, "x-kubernetes-embedded-resource");
        for (is_set, name) in [
            (preserves, "x-kubernetes-preserve-unknown-fields"),
            (embedded, "x-kubernetes-embedded-resource"),
        ] {
            if int_or_string && is_set {
                let detail = "must be false if x-kubernetes-int-or-string is true";
                self.causes.push(field::invalid(&field::child(path, name), &Value::Bool(true), detail));
            }
        }
        let has_properties =
            schema.get("properties").and_then(Value::as_object).is_some_and(|names| !names.is_empty());
        if embedded && !preserves && !has_properties {
            let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                          x-kubernetes-preserve-unknown-fields";
            self.causes.push(field::required(&field::child(path, "properties"), detail));
        }
        let map_type = text(schema, "x-kubernetes-map-type");
        if !map_type.is_empty() {
            if ty != "object" {
                let detail = "must be object if x-kubernetes-map-type is specified";
                self.causes.push(field::invalid(&field::child(path, "type"), &Value::from(ty), detail));
            }
            if !["atomic", "granular"].contains(&map_type) {
                let at = field::child(path, "x-kubernetes-map-type");
                self.causes.push(field::not_supported(&at, &Value::from(map_type), &["atomic", "granular"]));
            }
        }
    }

    fn list_type(&mut self, schema: &Object, ty: &str, path: &str) {
        let list_type = text(schema, "x-kubernetes-list-type");
        let keys: Vec<_> = array(schema, "x-kubernetes-list-map-keys").filter_map(Value::as_str).collect();
        let at = field::child(path, "x-kubernetes-list-type");
        if list_type != "map" && !keys.is_empty() {
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            let cause = if list_type.is_empty() {
                field::required(&at, detail)
            } else {
                field::invalid(&at, &Value::from(list_type), detail)
            };
            self.causes.push(cause);
        }
        if list_type.is_empty() {
            return;
        }
        if ty != "array" {
            let detail = "must be array if x-kubernetes-list-type is specified";
            let at = field::child(path, "type");
            let cause = if ty.is_empty() {
                field::required(&at, detail)
            } else {
                field::invalid(&at, &Value::from(ty), detail)
            };
            self.causes.push(cause);
        }
        match list_type {
            "atomic" | "set" => {}
            "map" => self.list_map(schema, &keys, path),
            other => {
                self.causes.push(field::not_supported(&at, &Value::from(other), &["atomic", "set", "map"]));
            }
        }
    }

    fn list_map(&mut self, schema: &Object, keys: &[&str], path: &str) {
        let at = field::child(path, "x-kubernetes-list-map-keys");
        if keys.is_empty() {
            self.causes.push(field::required(&at, "must not be empty if x-kubernetes-list-type is map"));
        }
        let items_at = field::child(path, "items");
        let Some(items) = schema.get("items").and_then(Value::as_object) else {
            let detail = "must have a schema if x-kubernetes-list-type is map";
            self.causes.push(field::required(&items_at, detail));
            return;
        };
        if text(items, "type") != "object" {
            let detail = "must be object if parent array's x-kubernetes-list-type is map";
            self.causes.push(field::invalid(
                &field::child(&items_at, "type"),
                &items["type"].clone(),
                detail,
            ));
        }
        if flag(items, "nullable") {
            let detail = "cannot be nullable when x-kubernetes-list-type is map";
            self.causes.push(field::forbidden(&field::child(&items_at, "nullable"), detail));
        }
        let required: Vec<_> = array(items, "required").filter_map(Value::as_str).collect();
        for (index, key) in keys.iter().enumerate() {
            if keys[..index].contains(key) {
                let all = Value::from(keys.to_vec());
                self.causes.push(field::invalid(&at, &all, "must not contain duplicate entries"));
            }
            let Some(child) =
                items.get("properties").and_then(|all| all.get(*key)).and_then(Value::as_object)
            else {
                let detail = "entries must all be names of item properties";
                self.causes.push(field::invalid(&at, &Value::from(keys.to_vec()), detail));
                continue;
            };
            let child_at = property(&items_at, key);
            if ["array", "object"].contains(&text(child, "type")) {
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                self.causes.push(field::invalid(&field::child(&child_at, "type"), &child["type"], detail));
            }
            if !required.contains(key) && !child.contains_key("default") {
                let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a \
                              required property";
                self.causes.push(field::required(&field::child(&child_at, "default"), detail));
            }
        }
    }

    /// Checks `apiVersion`, `kind` and `metadata` at the root and in embedded resources.
    fn object_fields(&mut self, schema: &Object, level: Level, path: &str) {
        if level != Level::Root && !flag(schema, "x-kubernetes-embedded-resource") {
            return;
        }
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
        for (name, ty) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
            let Some(child) = properties.get(name).and_then(Value::as_object) else { continue };
            let at = property(path, name);
            if text(child, "type") != ty {
                let actual = child.get("type").cloned().unwrap_or_else(|| Value::from(""));
                self.causes.push(field::invalid(
                    &field::child(&at, "type"),
                    &actual,
                    &format!("must be {ty}"),
                ));
            }
            let restricts_names_only = child.iter().all(|(keyword, inner)| match keyword.as_str() {
                "type" | "description" => true,
                "properties" => inner
                    .as_object()
                    .is_some_and(|inner| inner.keys().all(|name| name == "name" || name == "generateName")),
                _ => false,
            });
            if name == "metadata" && level == Level::Root && !restricts_names_only {
                let detail = "must not specify anything other than name and generateName, but metadata is implicitly \
                              specified";
                self.causes.push(field::forbidden(&at, detail));
            }
        }
    }

    /// Checks the texts of CEL rules. The rules themselves are checked once the schema is structural.
    fn rules(&mut self, schema: &Object, path: &str) {
        for (index, rule) in array(schema, "x-kubernetes-validations").enumerate() {
            let Some(rule) = rule.as_object() else { continue };
            let at = field::index(&field::child(path, "x-kubernetes-validations"), index);
            let (text, message) = (text(rule, "rule").trim(), text(rule, "message"));
            let message_at = field::child(&at, "message");
            let has_line_breaks = |text: &str| text.contains(['\n', '\r']);
            if text.is_empty() {
                self.causes.push(field::required(&field::child(&at, "rule"), "rule is not specified"));
            } else if !message.is_empty() && message.trim().is_empty() {
                self.causes.push(field::invalid(
                    &message_at,
                    &rule["message"],
                    "must be non-empty if specified",
                ));
            } else if has_line_breaks(message.trim()) {
                self.causes.push(field::invalid(
                    &message_at,
                    &rule["message"],
                    "must not contain line breaks",
                ));
            } else if has_line_breaks(text) && message.is_empty() {
                let detail = "message must be specified if rule contains line breaks";
                self.causes.push(field::required(&message_at, detail));
            }
            for (name, is_required) in [("messageExpression", true), ("fieldPath", false)] {
                if let Some(Value::String(text)) = rule.get(name)
                    && !text.is_empty()
                    && text.trim().is_empty()
                {
                    let at = field::child(&at, name);
                    self.causes.push(if is_required {
                        field::required(&at, &format!("{name} must be non-empty if specified"))
                    } else {
                        field::invalid(&at, &rule[name], "must be non-empty if specified")
                    });
                }
            }
            let reasons =
                ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
            if let Some(Value::String(reason)) = rule.get("reason")
                && !reasons.contains(&reason.as_str())
            {
                self.causes.push(field::not_supported(
                    &field::child(&at, "reason"),
                    &rule["reason"],
                    &reasons,
                ));
            }
        }
    }

    /// Checks that `pattern` compiles.
    fn pattern(&mut self, schema: &Object, path: &str) {
        if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
            && let Err(error) = self.patterns.compile(pattern)
        {
            let is_too_large = matches!(error, PatternError::TooLarge);
            if is_too_large && std::mem::replace(&mut self.patterns_refused, true) {
                return;
            }
            let at = field::child(path, "pattern");
            self.causes.push(field::invalid(&at, &Value::from(pattern), &error.to_string()));
        }
    }

    /// Checks the logical junctors (`anyOf`, `allOf`, `oneOf` and `not`) of `schema`, which validate the values that
    /// `structure` describes.
    fn junctors(&mut self, schema: &Object, structure: &Object, path: &str, structure_path: &str) {
        for junctor in ["anyOf", "allOf", "oneOf"] {
            for (index, branch) in array(schema, junctor).enumerate() {
                let at = field::index(&field::child(path, junctor), index);
                if let Some(branch) = branch.as_object() {
                    self.branch(branch, structure, &at, structure_path);
                }
            }
        }
        if let Some(branch) = schema.get("not").and_then(Value::as_object) {
            self.branch(branch, structure, &field::child(path, "not"), structure_path);
        }
    }

    /// Checks a branch of a junctor. It may have value validations only, of fields that `structure` describes.
    fn branch(&mut self, branch: &Object, structure: &Object, path: &str, structure_path: &str) {
        let int_or_string = flag(structure, "x-kubernetes-int-or-string");
        for (name, detail) in [
            ("type", "must be empty to be structural"),
            ("additionalProperties", "must be undefined to be structural"),
            ("default", "must be undefined to be structural"),
            ("title", "must be empty to be structural"),
            ("description", "must be empty to be structural"),
            ("nullable", "must be false to be structural"),
            ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
            ("x-kubernetes-embedded-resource", "must be false to be structural"),
            ("x-kubernetes-int-or-string", "must be false to be structural"),
            ("x-kubernetes-list-map-keys", "must be empty to be structural"),
            ("x-kubernetes-list-type", "must be undefined to be structural"),
            ("x-kubernetes-map-type", "must be undefined to be structural"),
            ("x-kubernetes-validations", "must be empty to be structural"),
        ] {
            let allowed =
                name == "type" && int_or_string && ["integer", "string"].contains(&text(branch, "type"));
            if branch.contains_key(name) && !allowed {
                self.causes.push(field::forbidden(&field::child(path, name), detail));
            }
        }
        self.pattern(branch, path);
        self.junctors(branch, structure, path, structure_path);
        if let Some(items) = branch.get("items").and_then(Value::as_object) {
            let at = field::child(path, "items");
            let structure_at = field::child(structure_path, "items");
            self.nested_branch(items, structure.get("items"), &at, &structure_at);
        }
        for (name, child) in branch.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let Some(child) = child.as_object() else { continue };
            let at = property(path, name);
            if name == "metadata" {
                self.causes.push(field::forbidden(&at, "must not be specified in a nested context"));
            }
            let child_structure = structure.get("properties").and_then(|properties| properties.get(name));
            self.nested_branch(child, child_structure, &at, &property(structure_path, name));
        }
    }

    /// Checks a schema within a branch. It must have a counterpart in the structure.
    fn nested_branch(
        &mut self,
        branch: &Object,
        structure: Option<&Value>,
        path: &str,
        structure_path: &str,
    ) {
        match structure.and_then(Value::as_object) {
            Some(structure) => self.branch(branch, structure, path, structure_path),
            None => {
                self.causes
                    .push(field::required(structure_path, &format!("because it is defined in {path}")));
            }
        }
    }
}

fn property(path: &str, name: &str) -> String {
    field::key(&field::child(path, "properties"), name)
}

fn text<'a>(schema: &'a Object, name: &str) -> &'a str {
    schema.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn flag(schema: &Object, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn array<'a>(schema: &'a Object, name: &str) -> impl Iterator<Item = &'a Value> {
    schema.get(name).and_then(Value::as_array).into_iter().flatten()
}
