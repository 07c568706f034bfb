//! Finds the differences between two values in canonical form.

use std::collections::BTreeSet;

use serde_json::Value;

use super::canonical::{EPOCH_SECONDS, MAX_DEPTH};

/// The number of differences of one object that are listed.
const MAX_DIFFERENCES: usize = 20;

/// Returns the pointer of the first difference between two canonical values, and what is there on either side. `versions` are the resource
/// versions of either run, which do not count.
pub(crate) fn first_difference(
    left: &Value,
    right: &Value,
    versions: [&BTreeSet<String>; 2],
) -> Option<(String, String, String)> {
    let mut comparison = Comparison { left: versions[0], right: versions[1], found: Vec::new() };
    comparison.compare(left, right, &mut String::new(), 0);
    comparison.found.into_iter().next()
}

/// A comparison of two canonical values.
pub(super) struct Comparison<'a> {
    pub(super) left: &'a BTreeSet<String>,
    pub(super) right: &'a BTreeSet<String>,
    /// Pointers, and both values.
    pub(super) found: Vec<(String, String, String)>,
}

impl Comparison<'_> {
    pub(super) fn compare(&mut self, left: &Value, right: &Value, pointer: &mut String, depth: usize) {
        if self.found.len() >= MAX_DIFFERENCES || depth > MAX_DEPTH || self.is_equal_leaf(left, right) {
            return;
        }
        let length = pointer.len();
        match (left, right) {
            (Value::Object(left), Value::Object(right)) => {
                let names: BTreeSet<_> = left.keys().chain(right.keys()).collect();
                for name in names {
                    let (left, right) = (left.get(name), right.get(name));
                    if left == right {
                        continue;
                    }
                    pointer.push('/');
                    pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
                    match (left, right) {
                        (Some(left), Some(right)) => self.compare(left, right, pointer, depth + 1),
                        (left, right) => self.add(pointer, left, right),
                    }
                    pointer.truncate(length);
                }
            }
            (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
                for (index, (left, right)) in left.iter().zip(right).enumerate() {
                    pointer.push_str(&format!("/{index}"));
                    self.compare(left, right, pointer, depth + 1);
                    pointer.truncate(length);
                }
            }
            _ => self.add(pointer, Some(left), Some(right)),
        }
    }

    fn add(&mut self, pointer: &str, left: Option<&Value>, right: Option<&Value>) {
        let text = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), short_text);
        let pointer = if pointer.is_empty() { "/" } else { pointer };
        self.found.push((pointer.to_owned(), text(left), text(right)));
    }

    /// Whether two values are equal, or stand for a version or a time in both runs.
    fn is_equal_leaf(&self, left: &Value, right: &Value) -> bool {
        match (left, right) {
            (Value::String(a), Value::String(b)) => {
                a == b || (self.left.contains(a.as_str()) && self.right.contains(b.as_str()))
            }
            (Value::Number(a), Value::Number(b)) => {
                let is_time = |number: &serde_json::Number| {
                    number.as_u64().is_some_and(|number| {
                        EPOCH_SECONDS.contains(&number) || EPOCH_SECONDS.contains(&(number / 1000))
                    })
                };
                a == b || (is_time(a) && is_time(b))
            }
            (left, right) => left == right,
        }
    }
}

/// Returns the value as JSON, shortened to some 80 characters.
pub(crate) fn short_text(value: &Value) -> String {
    const MAX: usize = 80;
    let text = value.to_string();
    if text.chars().count() <= MAX {
        return text;
    }
    text.chars().take(MAX).chain(['…']).collect()
}
