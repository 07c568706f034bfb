//! [`LabelSelector`].

use std::collections::BTreeSet;
use std::fmt;

use super::SelectorError;
use crate::Object;
use crate::names::is_dns_subdomain;
use crate::quoted::Quoted;

/// A label selector: requirements that must all hold.
///
/// ```
/// use pilothouse_model::{LabelSelector, Object};
///
/// let selector = LabelSelector::parse("app in (web,shop),!canary").unwrap();
/// let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"app":"web"}}}"#;
/// assert!(selector.matches_object(&Object::from_json(pod).unwrap()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LabelSelector {
    requirements: Vec<LabelRequirement>,
}

/// A requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LabelRequirement {
    /// The label's key.
    pub key: String,
    /// How the label is compared with the values.
    pub operator: Operator,
    /// The values; empty for `Exists` and `DoesNotExist`.
    pub values: BTreeSet<String>,
}

/// How a label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    /// The label is present with one of the values.
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label is present and its value is an integer greater than the given one.
    GreaterThan,
    /// The label is present and its value is an integer less than the given one.
    LessThan,
}

const REMEDY: &str =
    "write key=value, key!=value, key in (a,b), key notin (a,b), key, !key, key>1 or key<1, joined by commas";

impl LabelSelector {
    /// Returns the selector that matches every object.
    #[must_use]
    pub fn everything() -> Self {
        Self::default()
    }

    /// Returns the selector with these requirements, sorted and without duplicates.
    #[must_use]
    pub fn new(mut requirements: Vec<LabelRequirement>) -> Self {
        requirements.sort();
        requirements.dedup();
        Self { requirements }
    }

    /// Parses a `labelSelector` parameter. The requirements are sorted, so that equal selectors are written as equal text.
    ///
    /// # Errors
    /// If the text is malformed. The error names the column and the remedy.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut parser = Parser { text, rest: text };
        let mut requirements = Vec::new();
        parser.skip_space();
        if parser.rest.is_empty() {
            return Ok(Self::default());
        }
        loop {
            requirements.push(parser.requirement()?);
            parser.skip_space();
            if parser.rest.is_empty() {
                return Ok(Self::new(requirements));
            }
            if !parser.take(",") {
                return Err(parser.error(format!("{} is not expected", parser.found())));
            }
        }
    }

    /// Reads a `LabelSelector` of a manifest: `{matchLabels, matchExpressions}`.
    ///
    /// # Errors
    /// If a member is malformed. The error names it.
    pub fn from_json(value: &serde_json::Value) -> Result<Self, SelectorError> {
        let error = |problem: String| SelectorError {
            selector: value.to_string(),
            problem,
            column: 1,
            remedy: "write {matchLabels: {key: value}, matchExpressions: [{key, operator, values}]}",
        };
        let mut requirements = Vec::new();
        if let Some(labels) = value.get("matchLabels").filter(|labels| !labels.is_null()) {
            let labels = labels.as_object().ok_or_else(|| error("matchLabels is not a map".into()))?;
            for (key, value) in labels {
                let value =
                    value.as_str().ok_or_else(|| error(format!("matchLabels.{key} is not a string")))?;
                requirements.push(LabelRequirement::equals(key, value));
            }
        }
        if let Some(expressions) = value.get("matchExpressions").filter(|expressions| !expressions.is_null())
        {
            let expressions =
                expressions.as_array().ok_or_else(|| error("matchExpressions is not a list".into()))?;
            for (position, expression) in expressions.iter().enumerate() {
                let requirement = LabelRequirement::from_expression(expression)
                    .map_err(|problem| error(format!("matchExpressions[{position}]: {problem}")))?;
                requirements.push(requirement);
            }
        }
        Ok(Self::new(requirements))
    }

    /// Returns whether the selector has no requirements and so matches every object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns the requirements, sorted.
    #[must_use]
    pub fn requirements(&self) -> &[LabelRequirement] {
        &self.requirements
    }

    /// Returns whether all requirements hold. `label` returns the value of a label.
    pub fn matches<S: AsRef<str>>(&self, label: impl Fn(&str) -> Option<S>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = label(&requirement.key);
            requirement.matches(value.as_ref().map(AsRef::as_ref))
        })
    }

    /// Returns whether the object's labels meet the requirements.
    #[must_use]
    pub fn matches_object(&self, object: &Object) -> bool {
        self.is_empty() || self.matches(|key| object.label(key))
    }
}

impl LabelRequirement {
    /// Returns the requirement `key=value`.
    #[must_use]
    pub fn equals(key: &str, value: &str) -> Self {
        Self { key: key.to_owned(), operator: Operator::In, values: BTreeSet::from([value.to_owned()]) }
    }

    /// Returns whether a label with this value meets the requirement; `None` is an absent label.
    #[must_use]
    pub fn matches(&self, value: Option<&str>) -> bool {
        match (self.operator, value) {
            (Operator::In, value) => value.is_some_and(|value| self.values.contains(value)),
            (Operator::NotIn, value) => value.is_none_or(|value| !self.values.contains(value)),
            (Operator::Exists, value) => value.is_some(),
            (Operator::DoesNotExist, value) => value.is_none(),
            (Operator::GreaterThan, value) => {
                self.integers(value).is_some_and(|(value, bound)| value > bound)
            }
            (Operator::LessThan, value) => self.integers(value).is_some_and(|(value, bound)| value < bound),
        }
    }

    /// Returns the label's value and the requirement's value as integers.
    fn integers(&self, value: Option<&str>) -> Option<(i64, i64)> {
        Some((value?.parse().ok()?, self.values.first()?.parse().ok()?))
    }

    fn from_expression(expression: &serde_json::Value) -> Result<Self, String> {
        let key = expression.get("key").and_then(|key| key.as_str()).filter(|key| !key.is_empty());
        let key = key.ok_or("key is missing")?.to_owned();
        let operator = match expression.get("operator").and_then(|operator| operator.as_str()) {
            Some("In") => Operator::In,
            Some("NotIn") => Operator::NotIn,
            Some("Exists") => Operator::Exists,
            Some("DoesNotExist") => Operator::DoesNotExist,
            other => {
                let other = other.unwrap_or_default();
                return Err(format!("operator {other:?} is none of In, NotIn, Exists, DoesNotExist"));
            }
        };
        let values: BTreeSet<String> = match expression.get("values") {
            None | Some(serde_json::Value::Null) => BTreeSet::new(),
            Some(values) => serde_json::from_value(values.clone())
                .map_err(|_| "values is not a list of strings".to_owned())?,
        };
        match (operator, values.is_empty()) {
            (Operator::In | Operator::NotIn, true) => Err("In and NotIn need values".into()),
            (Operator::Exists | Operator::DoesNotExist, false) => {
                Err("Exists and DoesNotExist take no values".into())
            }
            _ => Ok(Self { key, operator, values }),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn requirement(&mut self) -> Result<LabelRequirement, SelectorError> {
        self.skip_space();
        let negated = self.take("!");
        self.skip_space();
        let key = self.key()?;
        self.skip_space();
        let none = BTreeSet::new();
        if negated || self.rest.is_empty() || self.rest.starts_with(',') {
            let operator = if negated { Operator::DoesNotExist } else { Operator::Exists };
            return Ok(LabelRequirement { key, operator, values: none });
        }
        let (operator, values) = if self.take("!=") {
            (Operator::NotIn, BTreeSet::from([self.value()?]))
        } else if self.take("==") || self.take("=") {
            (Operator::In, BTreeSet::from([self.value()?]))
        } else if self.take(">") {
            (Operator::GreaterThan, BTreeSet::from([self.integer()?]))
        } else if self.take("<") {
            (Operator::LessThan, BTreeSet::from([self.integer()?]))
        } else if self.take_word("in") {
            (Operator::In, self.set()?)
        } else if self.take_word("notin") {
            (Operator::NotIn, self.set()?)
        } else {
            return Err(self.error(format!("{} is no operator", self.found())));
        };
        Ok(LabelRequirement { key, operator, values })
    }

    fn key(&mut self) -> Result<String, SelectorError> {
        let before = self.rest;
        let key = self.word();
        if key.is_empty() {
            return Err(self.error(format!("a label key is missing before {}", self.found())));
        }
        if let Err(problem) = check_key(key) {
            self.rest = before;
            return Err(self.error(problem));
        }
        Ok(key.to_owned())
    }

    fn value(&mut self) -> Result<String, SelectorError> {
        self.skip_space();
        let before = self.rest;
        let value = self.word();
        if let Err(problem) = check_value(value) {
            self.rest = before;
            return Err(self.error(problem));
        }
        Ok(value.to_owned())
    }

    fn integer(&mut self) -> Result<String, SelectorError> {
        self.skip_space();
        let before = self.rest;
        let value = self.word();
        if value.parse::<i64>().is_err() {
            self.rest = before;
            return Err(self.error(format!("{value:?} is not an integer")));
        }
        Ok(value.to_owned())
    }

    fn set(&mut self) -> Result<BTreeSet<String>, SelectorError> {
        self.skip_space();
        if !self.take("(") {
            return Err(self.error(format!("a list in parentheses is missing before {}", self.found())));
        }
        let mut values = BTreeSet::new();
        loop {
            values.insert(self.value()?);
            self.skip_space();
            if self.take(")") {
                return Ok(values);
            }
            if !self.take(",") {
                return Err(self.error(format!("the list is not closed before {}", self.found())));
            }
        }
    }

    /// Takes the text up to white space or a character of an operator.
    fn word(&mut self) -> &'a str {
        let end = self
            .rest
            .find(|char: char| {
                char.is_whitespace() || matches!(char, ',' | '=' | '!' | '(' | ')' | '<' | '>')
            })
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn take(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn take_word(&mut self, word: &str) -> bool {
        let before = self.rest;
        if self.word() == word {
            return true;
        }
        self.rest = before;
        false
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn found(&self) -> String {
        match self.rest.chars().next() {
            Some(char) => format!("{char:?}"),
            None => "the end".to_owned(),
        }
    }

    fn error(&self, problem: String) -> SelectorError {
        let offset = self.text.len() - self.rest.len();
        SelectorError {
            selector: self.text.to_owned(),
            problem,
            column: self.text[..offset].chars().count() + 1,
            remedy: REMEDY,
        }
    }
}

/// Checks a qualified name: an optional DNS prefix of up to 253 characters, and a name of up to 63.
fn check_key(key: &str) -> Result<(), String> {
    let (prefix, name) = key.rsplit_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    if prefix.is_some_and(|prefix| !is_dns_subdomain(prefix)) {
        return Err(format!("the prefix of the label key {} is not a DNS name", Quoted(key)));
    }
    if name.is_empty() || !is_label_text(name) {
        return Err(format!(
            "{} is not a label key: its name must be 1 to 63 letters, digits, '-', '_' or '.', and begin and end \
             with a letter or digit",
            Quoted(key)
        ));
    }
    Ok(())
}

fn check_value(value: &str) -> Result<(), String> {
    if value.is_empty() || is_label_text(value) {
        return Ok(());
    }
    Err(format!(
        "{} is not a label value: it must be at most 63 letters, digits, '-', '_' or '.', and begin and end \
         with a letter or digit",
        Quoted(value)
    ))
}

fn is_label_text(text: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.len() <= 63
        && edge(text.bytes().next())
        && edge(text.bytes().last())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, requirement) in self.requirements.iter().enumerate() {
            if position > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let values = || self.values.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        match (self.operator, self.values.len()) {
            (Operator::In, 1) => write!(f, "{key}={}", values()),
            (Operator::NotIn, 1) => write!(f, "{key}!={}", values()),
            (Operator::In, _) => write!(f, "{key} in ({})", values()),
            (Operator::NotIn, _) => write!(f, "{key} notin ({})", values()),
            (Operator::Exists, _) => f.write_str(key),
            (Operator::DoesNotExist, _) => write!(f, "!{key}"),
            (Operator::GreaterThan, _) => write!(f, "{key}>{}", values()),
            (Operator::LessThan, _) => write!(f, "{key}<{}", values()),
        }
    }
}
