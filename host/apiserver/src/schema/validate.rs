//! Validation of objects against their schema, with the messages of Kubernetes' OpenAPI validation.

use serde_json::{Map, Value};

use super::node::{Checks, ListType, Node, SchemaRef, Type};
use super::pairing::{identity, paired};
use super::{Schema, cel, field, format, object_meta, semantic};
use crate::status::Cause;

impl Schema {
    /// Everything that is wrong with `new`, a pruned and defaulted object. `old` is the stored object on updates: CEL
    /// transition rules need it, and what was wrong before and has not changed is let through, as Kubernetes does
    /// since 1.33 (KEP-4008, validation ratcheting).
    ///
    /// CEL rules run only where the object has the right shape; otherwise they would fail in obscure ways.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = semantic::metadata(new);
        let mut validator = Validator { causes: Vec::new(), built_in: self.is_built_in() };
        validator.root(new, old, self.root());
        causes.append(&mut validator.causes);
        if let Some(kind) = self.built_in {
            for cause in semantic::check(kind, new, old) {
                // The schema may have found the same.
                if !causes.contains(&cause) {
                    causes.push(cause);
                }
            }
            return causes;
        }
        let blocking =
            ["FieldValueTypeInvalid", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany"];
        if causes.iter().any(|cause| blocking.contains(&cause.reason.as_str())) {
            if self.arena.nodes.iter().any(|node| node.rules.is_some()) {
                let detail = "some validation rules were not checked because the object was invalid; correct the \
                              existing errors to complete validation";
                causes.push(field::invalid("", &Value::Null, detail));
            }
            return causes;
        }
        cel::evaluate(self.root(), new, old, "", &mut causes);
        causes
    }
}

struct Validator {
    causes: Vec<Cause>,
    built_in: bool,
}

impl Validator {
    fn root(&mut self, new: &Value, old: Option<&Value>, schema: SchemaRef<'_>) {
        let (Some(object), true) = (new.as_object(), self.built_in) else {
            self.node(new, old, schema, "");
            return;
        };
        // What controllers report is not checked on a real server: status is theirs.
        for (name, child) in object.iter().filter(|(name, _)| name.as_str() != "status") {
            if let Some(of_child) = schema.field(name) {
                self.node(child, old.and_then(|old| old.get(name)), of_child, name);
            }
        }
        self.required(object, schema.node(), "");
    }

    fn node(&mut self, new: &Value, old: Option<&Value>, schema: SchemaRef<'_>, path: &str) {
        if old == Some(new) {
            return;
        }
        let node = schema.node();
        if new.is_null() && (node.nullable || self.built_in) {
            return;
        }
        if !self.type_fits(new, node, path) {
            return;
        }
        if let Some(checks) = &node.checks {
            self.checks(new, old, checks, schema, path);
        }
        match new {
            Value::Object(object) => self.object(object, old, schema, path),
            Value::Array(items) => {
                if !self.built_in {
                    self.unique(items, &node.list_type, path);
                }
                let Some(of_items) = schema.items() else { return };
                for (index, item) in items.iter().enumerate() {
                    let old_item = paired(&node.list_type, item, old);
                    self.node(item, old_item, of_items, &field::index(path, index));
                }
            }
            _ => {}
        }
    }

    fn object(
        &mut self,
        object: &Map<String, Value>,
        old: Option<&Value>,
        schema: SchemaRef<'_>,
        path: &str,
    ) {
        let whole = schema.node().embedded || (path.is_empty() && !self.built_in);
        for (name, child) in object {
            let old_child = old.and_then(|old| old.get(name));
            let at = field::child(path, name);
            if whole && name == "metadata" {
                let mut meta = Validator { causes: Vec::new(), built_in: true };
                meta.node(child, old_child, object_meta(), &at);
                self.causes.append(&mut meta.causes);
            }
            if let Some(of_child) = schema.field(name) {
                self.node(child, old_child, of_child, &at);
            }
        }
        self.required(object, schema.node(), path);
    }

    fn required(&mut self, object: &Map<String, Value>, node: &Node, path: &str) {
        for name in &node.required {
            let missing = match object.get(name) {
                None => true,
                // An empty string is Go's zero value, which cannot be told from an absent one.
                Some(value) => self.built_in && value.is_null(),
            };
            if missing {
                self.causes.push(field::required(&field::child(path, name), ""));
            }
        }
    }

    fn type_fits(&mut self, value: &Value, node: &Node, path: &str) -> bool {
        if node.int_or_string {
            if is_integer(value) || value.is_string() {
                return true;
            }
            self.causes.push(field::wrong_type(path, "integer,string", type_name(value)));
            return false;
        }
        let fits = match node.ty {
            Type::Any => true,
            Type::Object => value.is_object(),
            Type::Array => value.is_array(),
            Type::String => value.is_string(),
            Type::Integer => is_integer(value),
            Type::Number => value.is_number(),
            Type::Boolean => value.is_boolean(),
        };
        if !fits {
            self.causes.push(field::wrong_type(path, node.ty.name(), type_name(value)));
        }
        fits
    }

    fn checks(
        &mut self,
        new: &Value,
        old: Option<&Value>,
        checks: &Checks,
        schema: SchemaRef<'_>,
        path: &str,
    ) {
        if !checks.choices.is_empty() && !checks.choices.contains(new) {
            let choices: Vec<_> = checks.choices.iter().map(plain).collect();
            self.causes.push(field::not_supported(path, new, &choices));
        }
        match new {
            Value::String(text) => self.string(text, checks, path),
            Value::Number(_) => self.number(new, checks, path),
            Value::Array(items) => self.count(items.len(), checks.items, "items", new, path),
            Value::Object(object) => self.count(object.len(), checks.properties, "properties", new, path),
            _ => {}
        }
        if let Value::Array(items) = new
            && checks.unique_items
            && (1..items.len()).any(|index| items[..index].contains(&items[index]))
        {
            self.say(path, new, "shouldn't contain duplicates");
        }
        self.branches(new, old, checks, schema, path);
    }

    fn string(&mut self, text: &str, checks: &Checks, path: &str) {
        let value = Value::from(text);
        let length = text.chars().count() as u64;
        if let (_, Some(max)) = checks.length
            && length > max
        {
            self.causes.push(field::too_long(path, max));
        }
        if let (Some(min), _) = checks.length
            && length < min
        {
            self.say(path, &value, &format!("should be at least {min} chars long"));
        }
        if let Some(pattern) = &checks.pattern
            && !pattern.is_match(text)
        {
            self.say(path, &value, &format!("should match '{pattern}'"));
        }
        if let Some(wanted) = &checks.format
            && !format::matches(wanted, text)
        {
            self.causes.push(field::wrong_type(path, wanted, text));
        }
    }

    fn number(&mut self, value: &Value, checks: &Checks, path: &str) {
        let Some(number) = value.as_f64() else { return };
        if let Some(bound) = checks.maximum
            && (number > bound.value || (bound.exclusive && number >= bound.value))
        {
            let words = if bound.exclusive { "less than" } else { "less than or equal to" };
            self.say(path, value, &format!("should be {words} {}", bound.value));
        }
        if let Some(bound) = checks.minimum
            && (number < bound.value || (bound.exclusive && number <= bound.value))
        {
            let words = if bound.exclusive { "greater than" } else { "greater than or equal to" };
            self.say(path, value, &format!("should be {words} {}", bound.value));
        }
        if let Some(factor) = checks.multiple_of
            && factor > 0.0
            && (number / factor).fract() != 0.0
        {
            self.say(path, value, &format!("should be a multiple of {factor}"));
        }
        let wide = value.as_i64().is_none_or(|integer| i32::try_from(integer).is_err());
        if checks.format.as_deref() == Some("int32") && wide {
            let detail = format!("Checked value must be of type integer with format int32 in {path}");
            self.causes.push(field::invalid(path, value, &detail));
        }
    }

    fn count(
        &mut self,
        have: usize,
        (min, max): (Option<u64>, Option<u64>),
        what: &str,
        value: &Value,
        path: &str,
    ) {
        if let Some(max) = max
            && have as u64 > max
        {
            self.causes.push(field::too_many(path, have, max));
        }
        if let Some(min) = min
            && (have as u64) < min
        {
            self.say(path, value, &format!("should have at least {min} {what}"));
        }
    }

    fn branches(
        &mut self,
        new: &Value,
        old: Option<&Value>,
        checks: &Checks,
        schema: SchemaRef<'_>,
        path: &str,
    ) {
        let errors_of = |id: &super::NodeId| {
            let mut one = Validator { causes: Vec::new(), built_in: self.built_in };
            one.node(new, old, schema.at(*id), path);
            one.causes
        };
        let mut found = Vec::new();
        let failed: Vec<_> =
            checks.all_of.iter().map(errors_of).filter(|causes| !causes.is_empty()).collect();
        if !failed.is_empty() {
            found.push("must validate all the schemas (allOf)".to_owned());
        }
        if !checks.any_of.is_empty() && !checks.any_of.iter().any(|id| errors_of(id).is_empty()) {
            found.push("must validate at least one schema (anyOf)".to_owned());
        }
        if !checks.one_of.is_empty() {
            let valid = checks.one_of.iter().filter(|id| errors_of(id).is_empty()).count();
            let detail = if valid == 0 {
                "Found none valid".to_owned()
            } else {
                format!("Found {valid} valid alternatives")
            };
            if valid != 1 {
                found.push(format!("must validate one and only one schema (oneOf). {detail}"));
            }
        }
        if checks.not.as_ref().is_some_and(|id| errors_of(id).is_empty()) {
            found.push("must not validate the schema (not)".to_owned());
        }
        self.causes.extend(failed.into_iter().flatten());
        for detail in found {
            // Kubernetes gives these no path, only the text.
            self.causes.push(field::invalid("", &Value::from(""), &format!("\"{path}\" {detail}")));
        }
    }

    fn unique(&mut self, items: &[Value], list_type: &ListType, path: &str) {
        let identities: Vec<Value> = match list_type {
            ListType::Atomic => return,
            ListType::Set => items.to_vec(),
            ListType::Map(keys) => {
                if let Some(index) = items.iter().position(|item| !item.is_object() && !item.is_null()) {
                    let detail = "must be an object for an array of list-type map";
                    self.causes.push(field::invalid(&field::index(path, index), &items[index], detail));
                    return;
                }
                items.iter().map(|item| identity(item, keys)).collect()
            }
        };
        for index in 1..identities.len() {
            // Of several equal items only the second is reported.
            if identities[..index].iter().filter(|earlier| **earlier == identities[index]).count() == 1 {
                self.causes.push(field::duplicate(&field::index(path, index), &identities[index]));
            }
        }
    }

    fn say(&mut self, path: &str, value: &Value, words: &str) {
        self.causes.push(field::invalid(path, value, &format!("{path} in body {words}")));
    }
}

fn is_integer(value: &Value) -> bool {
    value.as_i64().is_some()
        || value.as_u64().is_some()
        || value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What OpenAPI validation calls a value's type.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) if is_integer(value) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
