//! Selectors, indexes and pages of the fake host.

use serde_json::Value;

use super::cluster::key_of;
use crate::ObjectKey;

/// A requirement of a label selector on one label.
enum Requirement {
    Exists(bool),
    /// Whether the label is, or is not, one of the values.
    In(Vec<String>, bool),
    GreaterThan(i64),
    LessThan(i64),
}

/// A label selector in kubectl's syntax.
pub(super) struct LabelSelector(Vec<(String, Requirement)>);

impl LabelSelector {
    /// Parses a selector. Errors with a message for people.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self(Vec::new()));
        }
        let problem =
            |term: &str| format!("label selector {text:?} doesn't parse: {term:?} is not a requirement");
        terms(text)
            .into_iter()
            .map(|term| requirement(term).ok_or_else(|| problem(term)))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub(super) fn matches(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.0.iter().all(|(key, requirement)| {
            let label = labels[key.as_str()].as_str();
            match requirement {
                Requirement::Exists(exists) => label.is_some() == *exists,
                Requirement::In(values, is_in) => {
                    label.is_some_and(|label| values.iter().any(|value| value == label)) == *is_in
                }
                Requirement::GreaterThan(limit) => number(label).is_some_and(|number| number > *limit),
                Requirement::LessThan(limit) => number(label).is_some_and(|number| number < *limit),
            }
        })
    }
}

fn number(label: Option<&str>) -> Option<i64> {
    label?.parse().ok()
}

/// Splits a selector at the commas outside of parentheses.
fn terms(text: &str) -> Vec<&str> {
    let (mut found, mut start, mut is_inside) = (Vec::new(), 0, false);
    for (position, char) in text.char_indices() {
        match char {
            '(' => is_inside = true,
            ')' => is_inside = false,
            ',' if !is_inside => {
                found.push(text[start..position].trim());
                start = position + 1;
            }
            _ => {}
        }
    }
    found.push(text[start..].trim());
    found
}

fn requirement(term: &str) -> Option<(String, Requirement)> {
    if let Some(key) = term.strip_prefix('!') {
        return is_key(key.trim()).then(|| (key.trim().to_owned(), Requirement::Exists(false)));
    }
    let end = term.find(|char: char| !is_key_char(char)).unwrap_or(term.len());
    let (key, rest) = term.split_at(end);
    if !is_key(key) {
        return None;
    }
    let operator = rest.trim_start();
    let requirement = if operator.is_empty() {
        Requirement::Exists(true)
    } else if let Some((values, is_in)) = set(rest) {
        Requirement::In(values, is_in)
    } else if let Some(value) = operator.strip_prefix("!=") {
        Requirement::In(vec![value_of(value)?], false)
    } else if let Some(value) = operator.strip_prefix("==").or_else(|| operator.strip_prefix('=')) {
        Requirement::In(vec![value_of(value)?], true)
    } else if let Some(value) = operator.strip_prefix('>') {
        Requirement::GreaterThan(value.trim().parse().ok()?)
    } else {
        Requirement::LessThan(operator.strip_prefix('<')?.trim().parse().ok()?)
    };
    Some((key.to_owned(), requirement))
}

/// Parses ` in (a, b)` and ` notin (a)`.
fn set(rest: &str) -> Option<(Vec<String>, bool)> {
    let operator = rest.trim_start();
    let (values, is_in) = match operator.strip_prefix("notin") {
        Some(values) => (values, false),
        None => (operator.strip_prefix("in")?, true),
    };
    let values = values.trim_start().strip_prefix('(')?.strip_suffix(')')?;
    let is_separate = rest.len() > operator.len();
    is_separate.then(|| (values.split(',').map(|value| value.trim().to_owned()).collect(), is_in))
}

fn value_of(text: &str) -> Option<String> {
    let value = text.trim();
    (value.is_empty() || (is_key(value) && !value.contains('/'))).then(|| value.to_owned())
}

fn is_key_char(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.' | '/')
}

fn is_key(text: &str) -> bool {
    let is_edge = |char: Option<char>| char.is_some_and(|char| char.is_ascii_alphanumeric());
    text.chars().all(is_key_char) && is_edge(text.chars().next()) && is_edge(text.chars().next_back())
}

/// Returns whether an object matches a field selector. Unlike a server, this accepts every field.
pub(super) fn matches_fields(selector: &str, object: &Value) -> bool {
    selector.split(',').all(|term| {
        let Some((path, value)) = term.split_once('=') else { return true };
        let (path, is_equal) = match path.strip_suffix('!') {
            Some(path) => (path, false),
            None => (path, true),
        };
        let pointer = format!("/{}", path.trim().replace('.', "/"));
        let found = object.pointer(&pointer).map(scalar).unwrap_or_default();
        (found == value.trim_start_matches('=').trim()) == is_equal
    })
}

/// Returns a string without quotes, other values as JSON, and "" for null.
fn scalar(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns a page of sorted objects after the cursor, and the cursor of the next page; empty after the last one.
pub(super) fn page(objects: Vec<Value>, limit: usize, cursor: &str) -> (Vec<Value>, String) {
    let last = match cursor.rsplit_once('/') {
        Some((namespace, name)) => ObjectKey::new(namespace, name),
        None => ObjectKey::new("", cursor),
    };
    let mut rest: Vec<_> =
        objects.into_iter().filter(|object| cursor.is_empty() || key_of(object) > last).collect();
    if rest.len() <= limit {
        return (rest, String::new());
    }
    rest.truncate(limit);
    let next = rest.last().map(|object| key_of(object).to_string()).unwrap_or_default();
    (rest, next)
}

/// Returns the values of an index that the host computes.
pub(super) fn index_values(index: &Value, object: &Value) -> Vec<String> {
    let metadata = &object["metadata"];
    let values: Vec<&Value> = if let Some(label) = index["label"].as_str() {
        vec![&metadata["labels"][label]]
    } else if let Some(annotation) = index["annotation"].as_str() {
        vec![&metadata["annotations"][annotation]]
    } else if index["owner"] == true {
        metadata["ownerReferences"].as_array().into_iter().flatten().map(|owner| &owner["uid"]).collect()
    } else {
        json_path(object, index["field"].as_str().unwrap_or_default())
    };
    let is_scalar = |value: &&Value| !(value.is_null() || value.is_object() || value.is_array());
    values.into_iter().filter(is_scalar).map(scalar).collect()
}

/// Returns the values at a JSONPath of members, positions and `[*]`, which are all that the host supports.
fn json_path<'a>(object: &'a Value, path: &str) -> Vec<&'a Value> {
    let inner = path.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(path);
    let mut rest = inner.strip_prefix('$').unwrap_or(inner);
    let mut found = vec![object];
    while !rest.is_empty() {
        let (step, remaining) = step(rest)
            .unwrap_or_else(|| panic!("{path:?} is not a JSONPath that the host evaluates, at {rest:?}"));
        found = found.into_iter().flat_map(|value| follow(value, &step)).collect();
        rest = remaining;
    }
    found
}

/// A step of a JSONPath.
enum Step {
    Member(String),
    Position(usize),
    All,
}

fn step(text: &str) -> Option<(Step, &str)> {
    let after_dot = text.strip_prefix('.').unwrap_or(text);
    if let Some(inner) = after_dot.strip_prefix('[') {
        if let Some(quote) = inner.chars().next().filter(|char| *char == '\'' || *char == '"') {
            let (name, rest) = inner[1..].split_once(quote)?;
            return Some((Step::Member(name.to_owned()), rest.strip_prefix(']')?));
        }
        let (inner, rest) = inner.split_once(']')?;
        let step = if inner == "*" { Step::All } else { Step::Position(inner.parse().ok()?) };
        return Some((step, rest));
    }
    let mut name = String::new();
    let mut chars = text.strip_prefix('.')?.chars();
    loop {
        let rest = chars.as_str();
        match chars.next() {
            Some('\\') => name.extend(chars.next()),
            Some(char) if !".[]{}'\" ".contains(char) => name.push(char),
            _ if name.is_empty() => return None,
            _ => return Some((if name == "*" { Step::All } else { Step::Member(name) }, rest)),
        }
    }
}

fn follow<'a>(value: &'a Value, step: &Step) -> Vec<&'a Value> {
    match (value, step) {
        (Value::Object(members), Step::All) => members.values().collect(),
        (Value::Array(items), Step::All) => items.iter().collect(),
        (Value::Object(members), Step::Member(name)) => members.get(name).into_iter().collect(),
        (Value::Array(items), Step::Position(position)) => items.get(*position).into_iter().collect(),
        _ => Vec::new(),
    }
}
