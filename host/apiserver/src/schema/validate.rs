//! Validation of objects against their schema, with the messages of kube-apiserver's OpenAPI validation.

use pilothouse_model::hash::{HashMap, HashSet};
use serde_json::{Map, Value};

use super::correlation::{self, OldItems, key_fields};
use super::node::{ListType, Node, SchemaRef, Type, ValueValidations};
use super::{Schema, cel, embedded, field, format, object_meta, semantic};
use crate::status::{Cause, Causes};

impl Schema {
    /// Returns what is wrong with `new`, a pruned and defaulted object. `old` is the stored object on updates. It is
    /// needed for CEL transition rules and for validation ratcheting (KEP-4008, GA in 1.33): unchanged values may stay
    /// invalid.
    ///
    /// CEL rules are evaluated only if the object has the types that they rely on.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<Cause> {
        self.validate_with(new, old, Vec::new(), &mut Vec::new())
    }

    /// Returns what is wrong as [`Schema::validate`] does. `scale` is what is wrong with the fields behind the subresource `scale` of a custom
    /// resource. `tolerated` gets the failed CEL rules of values that do not change.
    pub(crate) fn validate_with(
        &self,
        new: &Value,
        old: Option<&Value>,
        scale: Vec<Cause>,
        tolerated: &mut Vec<Cause>,
    ) -> Vec<Cause> {
        let mut causes = semantic::validate_metadata(new, old, self.is_built_in());
        let mut validator = Validator::new(self.is_built_in());
        validator.root(new, old, self.root());
        if let Some(kind) = self.built_in {
            let mut found = semantic::validate(kind, new, old);
            validator.causes.retain(|cause| !is_covered(cause, &found));
            causes.append(&mut found);
            causes.append(&mut validator.causes);
            return causes.into();
        }
        causes.append(&mut validator.causes);
        causes.extend(scale);
        embedded::validate(new, self.root(), "", &mut causes);
        if !validator.list_causes.is_empty() && !old.is_some_and(|old| self.has_invalid_lists(old)) {
            causes.append(&mut validator.list_causes);
        }
        if self.arena.nodes.iter().all(|node| node.rules.is_none()) {
            return causes.into();
        }
        let cel_blockers = [
            "FieldValueTypeInvalid",
            "FieldValueRequired",
            "FieldValueTooLong",
            "FieldValueTooMany",
            "FieldValueNotSupported",
        ];
        if causes.iter().any(|cause| cel_blockers.contains(&cause.reason.as_str())) {
            let detail = "some validation rules were not checked because the object was invalid; correct the \
                          existing errors to complete validation";
            causes.push(field::invalid("", &Value::Null, detail));
            return causes.into();
        }
        let mut causes = causes.into();
        cel::evaluate(self.root(), new, old, &mut causes, tolerated);
        causes
    }
}

impl Schema {
    /// Whether a list of type `set` or `map` has equal items. As in Kubernetes, no list is checked if the stored object has such a list.
    fn has_invalid_lists(&self, object: &Value) -> bool {
        let mut validator = Validator::new(false);
        validator.root(object, None, self.root());
        !validator.list_causes.is_empty()
    }

    /// Returns what is wrong with a value of a part of a custom resource, without its CEL rules. Paths are relative to the value.
    pub(super) fn validate_part(&self, value: &Value, schema: SchemaRef<'_>) -> Vec<Cause> {
        let mut validator = Validator::new(false);
        validator.node(value, None, schema, "");
        let mut causes = validator.causes;
        embedded::validate(value, schema, "", &mut causes);
        causes.append(&mut validator.list_causes);
        causes.into()
    }
}

/// Whether the validation of a built-in kind has found something about the same field as that of its schema, or about a part of it.
fn is_covered(cause: &Cause, found: &[Cause]) -> bool {
    found.iter().any(|other| match other.field.strip_prefix(&cause.field) {
        Some(rest) => rest.is_empty() || rest.starts_with(['.', '[']),
        None => false,
    })
}

struct Validator {
    causes: Causes,
    /// What is wrong with the items of lists of type `set` and `map`.
    list_causes: Causes,
    built_in: bool,
    /// How many checks were made, by which the failed branch of `anyOf` and `oneOf` is selected whose errors are reported
    /// (`MatchCount` in `k8s.io/kube-openapi/pkg/validation/validate`).
    checks: usize,
}

impl Validator {
    fn new(built_in: bool) -> Self {
        Self { causes: Causes::default(), list_causes: Causes::default(), built_in, checks: 0 }
    }

    fn root(&mut self, new: &Value, old: Option<&Value>, schema: SchemaRef<'_>) {
        let (Some(object), true) = (new.as_object(), self.built_in) else {
            self.node(new, old, schema, "");
            return;
        };
        // kube-apiserver does not check the schema of a built-in kind's status, which only controllers write.
        for (name, child) in object.iter().filter(|(name, _)| name.as_str() != "status") {
            if let Some(child_schema) = schema.field(name) {
                self.node(child, old.and_then(|old| old.get(name)), child_schema, name);
            }
        }
        self.required(object, schema.node(), "");
    }

    fn node(&mut self, new: &Value, old: Option<&Value>, schema: SchemaRef<'_>, path: &str) {
        let is_unchanged = |old: &Value| {
            if self.built_in { old == new } else { correlation::is_unchanged(new, old, schema) }
        };
        if old.is_some_and(is_unchanged) {
            return;
        }
        let node = schema.node();
        if new.is_null() && (node.nullable || self.built_in) {
            return;
        }
        self.checks += 1;
        if !self.check_type(new, node, path) {
            return;
        }
        self.checks += 1;
        if let Some(validations) = &node.validations {
            self.validations(new, old, validations, schema, path);
        }
        match new {
            Value::Object(object) => self.object(object, old, schema, path),
            Value::Array(items) => {
                if !self.built_in {
                    self.unique_items(items, &node.list_type, path);
                }
                let Some(item_schema) = schema.items() else { return };
                let old_items = OldItems::new(&node.list_type, old);
                for (index, item) in items.iter().enumerate() {
                    let old_item = old_items.find(item).map(|(_, old)| old);
                    self.node(item, old_item, item_schema, &field::index(path, index));
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
        let is_custom_object = schema.node().embedded || schema.node().custom_root;
        for (name, child) in object {
            let old_child = old.and_then(|old| old.get(name));
            let at = field::child(path, name);
            if is_custom_object && name == "metadata" {
                let mut meta = Validator::new(true);
                meta.node(child, old_child, object_meta(), &at);
                self.causes.append(&mut meta.causes);
            }
            if let Some(child_schema) = schema.field(name) {
                self.node(child, old_child, child_schema, &at);
            }
        }
        self.required(object, schema.node(), path);
    }

    fn required(&mut self, object: &Map<String, Value>, node: &Node, path: &str) {
        for name in &node.required {
            let missing = match object.get(name) {
                None => true,
                // For Go's types, null is absent. Empty strings are accepted here; `semantic` rejects them where needed.
                Some(value) => self.built_in && value.is_null(),
            };
            if missing {
                self.causes.push(field::required(&field::child(path, name), ""));
            }
        }
    }

    /// Checks the JSON type of `value`. Returns whether it is right.
    fn check_type(&mut self, value: &Value, node: &Node, path: &str) -> bool {
        if node.int_or_string {
            if is_integer(value) || value.is_string() {
                return true;
            }
            self.causes.push(field::wrong_type(path, "integer,string", type_name(value)));
            return false;
        }
        let has_type = match node.ty {
            Type::Any => true,
            Type::Object => value.is_object(),
            Type::Array => value.is_array(),
            Type::String => value.is_string(),
            Type::Integer => is_integer(value),
            Type::Number => value.is_number(),
            Type::Boolean => value.is_boolean(),
        };
        if !has_type {
            self.causes.push(field::wrong_type(path, node.ty.name(), type_name(value)));
            if node.ty == Type::Integer && value.is_number() {
                let format = node.validations.as_ref().and_then(|validations| validations.format.as_deref());
                self.causes.push(out_of_range(format, path));
            }
        }
        has_type
    }

    fn validations(
        &mut self,
        new: &Value,
        old: Option<&Value>,
        validations: &ValueValidations,
        schema: SchemaRef<'_>,
        path: &str,
    ) {
        if !validations.choices.is_empty() && !validations.choice_set.contains(new) {
            self.not_supported(new, &validations.choices, path);
        }
        match new {
            Value::String(text) => self.string(text, validations, path),
            Value::Number(_) => self.number(new, validations, path),
            Value::Array(items) => self.count(items.len(), validations.items, "items", new, path),
            Value::Object(object) => {
                self.count(object.len(), validations.properties, "properties", new, path);
            }
            _ => {}
        }
        if let Value::Array(items) = new
            && validations.unique_items
            && items.iter().collect::<HashSet<_>>().len() < items.len()
        {
            self.reject(path, new, "shouldn't contain duplicates");
        }
        self.junctors(new, old, validations, schema, path);
    }

    /// Reports a value that is none of `choices`.
    fn not_supported(&mut self, value: &Value, choices: &[Value], path: &str) {
        if self.causes.is_full() {
            // All choices are a part of each cause, and would be copied for nothing.
            self.causes.leave_out();
            return;
        }
        let choices: Vec<_> = choices.iter().map(choice_text).collect();
        self.causes.push(field::not_supported(path, value, &choices));
    }

    /// Checks a text. As in Kubernetes, only the first of length and pattern that is wrong is reported.
    fn string(&mut self, text: &str, validations: &ValueValidations, path: &str) {
        let value = Value::from(text);
        let length = text.chars().count() as u64;
        let (min, max) = validations.length;
        if let Some(max) = max.filter(|max| length > *max) {
            self.causes.push(field::too_long(path, max));
        } else if let Some(min) = min.filter(|min| length < *min) {
            self.reject(path, &value, &format!("should be at least {min} chars long"));
        } else if let Some(pattern) = validations.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            self.reject(path, &value, &format!("should match '{pattern}'"));
        }
        if let Some(format) = &validations.format
            && !format::matches(format, text)
        {
            self.causes.push(field::wrong_type(path, format, text));
        }
    }

    fn number(&mut self, value: &Value, validations: &ValueValidations, path: &str) {
        let Some(number) = value.as_f64() else { return };
        let exceeds_int32 = value.as_i64().is_none_or(|integer| i32::try_from(integer).is_err());
        if validations.format.as_deref() == Some("int32") && exceeds_int32 {
            self.causes.push(out_of_range(validations.format.as_deref(), path));
        }
        if let Some(problem) = validations.multiple_of.and_then(|factor| multiple_problem(value, factor)) {
            match problem {
                Multiple::NotPositive(factor) => {
                    let detail = format!("factor MultipleOf declared for {path} must be positive: {factor}");
                    self.causes.push(field::invalid(path, value, &detail));
                }
                Multiple::Rest(factor) => {
                    self.reject(path, value, &format!("should be a multiple of {factor}"));
                }
            }
        }
        if let Some(bound) = validations.minimum
            && (number < bound.value || (bound.exclusive && number <= bound.value))
        {
            let comparison = if bound.exclusive { "greater than" } else { "greater than or equal to" };
            self.reject(path, value, &format!("should be {comparison} {}", bound.value));
        }
        if let Some(bound) = validations.maximum
            && (number > bound.value || (bound.exclusive && number >= bound.value))
        {
            let comparison = if bound.exclusive { "less than" } else { "less than or equal to" };
            self.reject(path, value, &format!("should be {comparison} {}", bound.value));
        }
    }

    fn count(
        &mut self,
        count: usize,
        (min, max): (Option<u64>, Option<u64>),
        unit: &str,
        value: &Value,
        path: &str,
    ) {
        if let Some(max) = max
            && count as u64 > max
        {
            self.causes.push(field::too_many(path, count, max));
        }
        if let Some(min) = min
            && (count as u64) < min
        {
            self.reject(path, value, &format!("should have at least {min} {unit}"));
        }
    }

    /// Checks `allOf`, `anyOf`, `oneOf` and `not`.
    fn junctors(
        &mut self,
        new: &Value,
        old: Option<&Value>,
        validations: &ValueValidations,
        schema: SchemaRef<'_>,
        path: &str,
    ) {
        let built_in = self.built_in;
        let run = |id: &super::NodeId| {
            let mut branch = Validator::new(built_in);
            branch.node(new, old, schema.resolve(*id), path);
            branch
        };
        // As in Kubernetes, these errors have the path only in their message.
        let composite = |detail: &str| field::invalid("", &Value::from(""), &format!("\"{path}\" {detail}"));
        let mut failure = ClosestFailure::default();
        if !validations.any_of.is_empty()
            && !validations.any_of.iter().any(|id| failure.is_valid_or_failed(run(id)))
        {
            self.causes.push(composite("must validate at least one schema (anyOf)"));
            self.causes.append(&mut failure.causes);
        }
        if !validations.one_of.is_empty() {
            let mut failure = ClosestFailure::default();
            let valid = validations.one_of.iter().filter(|id| failure.is_valid_or_failed(run(id))).count();
            if valid == 0 {
                self.causes
                    .push(composite("must validate one and only one schema (oneOf). Found none valid"));
                self.causes.append(&mut failure.causes);
            } else if valid > 1 {
                let detail = format!(
                    "must validate one and only one schema (oneOf). Found {valid} valid alternatives"
                );
                self.causes.push(composite(&detail));
            }
        }
        let mut failures = 0;
        for id in &validations.all_of {
            let mut causes = run(id).causes;
            failures += usize::from(!causes.is_empty());
            self.causes.append(&mut causes);
        }
        if failures > 0 {
            let none = if failures == validations.all_of.len() { ". None validated" } else { "" };
            self.causes.push(composite(&format!("must validate all the schemas (allOf){none}")));
        }
        if validations.not.as_ref().is_some_and(|id| run(id).causes.is_empty()) {
            self.causes.push(composite("must not validate the schema (not)"));
        }
    }

    /// Checks that the items of a list of type `set` or `map` are unique.
    fn unique_items(&mut self, items: &[Value], list_type: &ListType, path: &str) {
        let identities: Vec<Value> = match list_type {
            ListType::Atomic => return,
            ListType::Set => items.to_vec(),
            ListType::Map(keys) => {
                if let Some(index) = items.iter().position(|item| !item.is_object() && !item.is_null()) {
                    let detail = "must be an object for an array of list-type map";
                    self.list_causes.push(field::invalid(&field::index(path, index), &items[index], detail));
                    return;
                }
                items.iter().map(|item| key_fields(item, keys)).collect()
            }
        };
        let mut counts: HashMap<&Value, usize> =
            HashMap::with_capacity_and_hasher(identities.len(), Default::default());
        for (index, identity) in identities.iter().enumerate() {
            let count = counts.entry(identity).or_default();
            *count += 1;
            // As in Kubernetes, only the second of several equal items is reported.
            if *count == 2 {
                self.list_causes.push(field::duplicate(&field::index(path, index), identity));
            }
        }
    }

    fn reject(&mut self, path: &str, value: &Value, detail: &str) {
        self.causes.push(field::invalid(path, value, &format!("{path} in body {detail}")));
    }
}

/// What is wrong in the failed branch in which most checks were made, in the first one if several are equal.
#[derive(Default)]
struct ClosestFailure {
    causes: Causes,
    checks: usize,
}

impl ClosestFailure {
    /// Returns whether the branch is valid, and otherwise takes account of its failure.
    fn is_valid_or_failed(&mut self, branch: Validator) -> bool {
        let is_valid = branch.causes.is_empty();
        if !is_valid && (self.causes.is_empty() || branch.checks > self.checks) {
            *self = Self { causes: branch.causes, checks: branch.checks };
        }
        is_valid
    }
}

/// Returns the error about a number that the type of an integer cannot represent. As in Kubernetes, only the message has the path.
fn out_of_range(format: Option<&str>, path: &str) -> Cause {
    let format = format.map_or("(default format)".to_owned(), |format| format!("with format {format}"));
    let detail = format!("Checked value must be of type integer {format} in {path}");
    field::invalid("", &Value::from(""), &detail)
}

/// Why a number is not accepted by `multipleOf`, with the factor.
enum Multiple {
    NotPositive(i64),
    Rest(String),
}

/// Checks `multipleOf`. As in Kubernetes, an integer is compared with the integral part of the factor.
fn multiple_problem(value: &Value, factor: f64) -> Option<Multiple> {
    match value.as_i64() {
        #[expect(clippy::cast_possible_truncation, reason = "Go truncates the factor, too")]
        Some(number) => match factor as i64 {
            factor if factor < 1 => Some(Multiple::NotPositive(factor)),
            factor => (number % factor != 0).then(|| Multiple::Rest(factor.to_string())),
        },
        None => {
            let number = value.as_f64()?;
            (factor > 0.0 && (number / factor).fract() != 0.0).then(|| Multiple::Rest(factor.to_string()))
        }
    }
}

fn is_integer(value: &Value) -> bool {
    value.as_i64().is_some()
        || value.as_u64().is_some()
        || value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

/// Returns an allowed value of `enum` as text.
fn choice_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the name of a value's type in OpenAPI validation.
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
