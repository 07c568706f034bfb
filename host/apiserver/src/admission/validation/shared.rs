//! What several validations share: the causes found so far, rules, selectors and expressions.

use std::collections::BTreeSet;

use pilothouse_cel::check::Type;
use serde_json::Value;

use crate::admission::environment::{Environment, ResultType};
use crate::schema::{
    MAX_PATTERNS_SIZE, field, path_segment_errors, qualified_name_errors, validate_label_selector,
};
use crate::status::{Cause, Causes};

/// The most match conditions of a webhook or a policy.
const MAX_CONDITIONS: usize = 64;

/// Expressions that cannot be compiled, before the others are not looked at: their patterns may have been compiled nevertheless.
const MAX_REFUSED_EXPRESSIONS: usize = 64;

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];

/// The causes found so far.
#[derive(Default)]
pub(super) struct Checker {
    causes: Causes,
    /// The size of the compiled patterns of all expressions.
    patterns_size: usize,
    /// How many expressions could not be compiled.
    refused_expressions: usize,
}

impl Checker {
    pub(super) fn into_causes(self) -> Vec<Cause> {
        self.causes.into()
    }

    /// Adds a cause that quotes a value of any size, which is not created if there are too many already.
    pub(super) fn add_with(&mut self, cause: impl FnOnce() -> Cause) {
        if self.causes.is_full() {
            self.causes.leave_out();
        } else {
            self.causes.push(cause());
        }
    }

    pub(super) fn add(&mut self, cause: Cause) {
        self.causes.push(cause);
    }

    /// Reports an empty or absent text. Returns whether there is a text.
    pub(super) fn required(&mut self, path: &str, value: &Value, detail: &str) -> bool {
        let is_present = value.as_str().is_some_and(|text| !text.trim().is_empty());
        if !is_present {
            self.add(field::required(path, detail));
        }
        is_present
    }

    /// Reports a text that is present but not one of `supported`.
    pub(super) fn one_of(&mut self, path: &str, value: &Value, supported: &[&str]) {
        if value.as_str().is_some_and(|text| !supported.contains(&text)) {
            self.add(field::not_supported(path, value, supported));
        }
    }

    /// Reports each error of a name.
    pub(super) fn name(&mut self, path: &str, name: &Value, errors: fn(&str) -> Vec<String>) {
        for error in errors(name.as_str().unwrap_or_default()) {
            self.add(field::invalid(path, name, &error));
        }
    }

    /// Reports the errors of a name together, after an introduction.
    pub(super) fn name_joined(
        &mut self,
        path: &str,
        name: &str,
        (introduction, errors): (&str, fn(&str) -> Vec<String>),
    ) {
        let errors = errors(name);
        if !errors.is_empty() {
            let detail = format!("{introduction}{}", errors.join(","));
            self.add(field::invalid(path, &name.into(), &detail));
        }
    }

    /// Reports a label selector that is malformed.
    pub(super) fn selector(&mut self, path: &str, selector: &Value) {
        let mut causes = Causes::default();
        validate_label_selector(selector, path, &mut causes);
        Vec::from(causes).into_iter().for_each(|cause| self.add(cause));
    }

    /// Reports an expression that cannot be compiled. Returns its type otherwise.
    pub(super) fn expression(
        &mut self,
        path: &str,
        expression: &Value,
        (environment, result): (&Environment, ResultType),
    ) -> Option<Type> {
        if self.patterns_size > MAX_PATTERNS_SIZE || self.refused_expressions >= MAX_REFUSED_EXPRESSIONS {
            // Enough was reported, and compiling the others could take as long.
            return None;
        }
        let text = expression.as_str().unwrap_or_default();
        match environment.compile(text, result) {
            Ok((compiled, ty)) => {
                self.patterns_size += compiled.patterns_size();
                if self.patterns_size > MAX_PATTERNS_SIZE {
                    let detail = format!(
                        "the patterns of all expressions are too large together: compiled, they take more than \
                         {MAX_PATTERNS_SIZE} bytes"
                    );
                    self.add(field::forbidden(path, &detail));
                }
                Some(ty)
            }
            Err(problem) => {
                self.refused_expressions += 1;
                self.add(field::invalid(path, expression, &problem));
                None
            }
        }
    }

    /// Checks `matchConditions`.
    pub(super) fn conditions(&mut self, path: &str, conditions: &Value, environment: &Environment) {
        let conditions = items(conditions);
        if conditions.len() > MAX_CONDITIONS {
            self.add(field::too_many(path, conditions.len(), MAX_CONDITIONS as u64));
        }
        let mut names = BTreeSet::new();
        for (index, condition) in conditions.iter().enumerate() {
            let path = field::index(path, index);
            let expression = field::child(&path, "expression");
            if self.required(&expression, &condition["expression"], "") {
                let text = trimmed(&condition["expression"]);
                self.expression(&expression, &text, (environment, ResultType::Bool));
            }
            let name_path = field::child(&path, "name");
            if self.required(&name_path, &condition["name"], "") {
                let name = condition["name"].as_str().unwrap_or_default();
                self.name(&name_path, &condition["name"], qualified_name_errors);
                if !names.insert(name) {
                    self.add(field::duplicate(&name_path, &condition["name"]));
                }
            }
        }
    }

    /// Checks a list of rules that may name objects.
    pub(super) fn named_rules(&mut self, path: &str, rules: &Value) {
        for (index, rule) in items(rules).iter().enumerate() {
            let path = field::index(path, index);
            let names_path = field::child(&path, "resourceNames");
            let mut names = BTreeSet::new();
            for (index, name) in items(&rule["resourceNames"]).iter().enumerate() {
                let path = field::index(&names_path, index);
                self.name(&path, name, path_segment_errors);
                if !names.insert(name.as_str()) {
                    self.add(field::duplicate(&path, name));
                }
            }
            self.rule(&path, rule);
        }
    }

    /// Checks a list of rules.
    pub(super) fn rules(&mut self, path: &str, rules: &Value) {
        for (index, rule) in items(rules).iter().enumerate() {
            self.rule(&field::index(path, index), rule);
        }
    }

    fn rule(&mut self, path: &str, rule: &Value) {
        let operations = items(&rule["operations"]);
        self.list(path, "operations", &rule["operations"], "operations");
        for (index, operation) in operations.iter().enumerate() {
            let path = field::index(&field::child(path, "operations"), index);
            self.one_of(&path, operation, &OPERATIONS);
        }
        self.list(path, "apiGroups", &rule["apiGroups"], "API groups");
        self.list(path, "apiVersions", &rule["apiVersions"], "API versions");
        for (index, version) in items(&rule["apiVersions"]).iter().enumerate() {
            if version == "" {
                self.add(field::required(&field::index(&field::child(path, "apiVersions"), index), ""));
            }
        }
        self.resources(&field::child(path, "resources"), &rule["resources"]);
        self.one_of(&field::child(path, "scope"), &rule["scope"], &SCOPES);
    }

    /// Reports a list that is empty, or has `*` and something else.
    fn list(&mut self, parent: &str, name: &str, list: &Value, what: &str) {
        let path = field::child(parent, name);
        let entries = items(list);
        if entries.is_empty() {
            self.add(field::required(&path, ""));
        } else if entries.len() > 1 && entries.iter().any(|entry| entry == "*") {
            let detail = format!("if '*' is present, must not specify other {what}");
            self.add(field::invalid(&path, list, &detail));
        }
    }

    fn resources(&mut self, path: &str, resources: &Value) {
        let entries = items(resources);
        if entries.is_empty() {
            self.add(field::required(path, ""));
        }
        let (mut whole_resources, mut whole_subresources) = (BTreeSet::new(), BTreeSet::new());
        for (index, entry) in entries.iter().enumerate() {
            let path = field::index(path, index);
            let text = entry.as_str().unwrap_or_default();
            if text.is_empty() {
                self.add(field::required(&path, ""));
                continue;
            }
            let Some((resource, subresource)) = text.split_once('/') else { continue };
            if whole_subresources.contains(subresource) {
                let detail = format!("if '*/{subresource}' is present, must not specify {text}");
                self.add(field::invalid(&path, entry, &detail));
            }
            if whole_resources.contains(resource) {
                let detail = format!("if '{resource}/*' is present, must not specify {text}");
                self.add(field::invalid(&path, entry, &detail));
            }
            if subresource == "*" {
                whole_resources.insert(resource);
            }
            if resource == "*" {
                whole_subresources.insert(subresource);
            }
        }
        // As in Kubernetes, the last entry without a subresource decides.
        let mut plain = entries.iter().filter_map(Value::as_str);
        let last = plain.rfind(|text| !text.is_empty() && !text.contains('/'));
        if entries.len() > 1 && entries.iter().any(|entry| entry == "*/*") {
            let detail = "if '*/*' is present, must not specify other resources";
            self.add(field::invalid(path, resources, detail));
        }
        if entries.iter().any(|entry| entry == "*") && last.is_some_and(|text| text != "*") {
            let detail = "if '*' is present, must not specify other resources without subresources";
            self.add(field::invalid(path, resources, detail));
        }
    }
}

/// Returns a text without white space around it. Kubernetes compiles and shows some expressions so.
pub(super) fn trimmed(text: &Value) -> Value {
    text.as_str().unwrap_or_default().trim().into()
}

/// Returns the items of a list; none if it is absent.
pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
