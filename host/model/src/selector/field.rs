//! [`FieldSelector`].

use std::borrow::Cow;
use std::fmt;

use super::SelectorError;
use crate::Object;

/// A field selector: `path=value` and `path!=value` requirements that must all hold.
///
/// ```
/// use pilothouse_model::{FieldSelector, Object};
///
/// let selector = FieldSelector::parse("metadata.name!=b,metadata.namespace=shop").unwrap();
/// let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"shop"}}"#;
/// assert!(selector.matches_object(&Object::from_json(pod).unwrap()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

/// One `path=value` or `path!=value`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldRequirement {
    /// The dotted path, such as `metadata.name`.
    pub path: String,
    /// Whether the field must be equal to the value (`=`) or different from it (`!=`).
    pub equal: bool,
    /// The value.
    pub value: String,
}

const REMEDY: &str =
    "write path=value or path!=value, joined by commas, with \\ before a comma, = or \\ in a value";

impl FieldSelector {
    /// Returns the selector that matches every object.
    #[must_use]
    pub fn everything() -> Self {
        Self::default()
    }

    /// Parses a `fieldSelector` parameter. The requirements are sorted, so that equal selectors are written as equal text.
    ///
    /// # Errors
    /// If a term is malformed. The error names the column of the first one.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let error = |problem: String, offset: usize| SelectorError {
            selector: text.to_owned(),
            problem,
            column: text[..offset].chars().count() + 1,
            remedy: REMEDY,
        };
        let mut requirements = Vec::new();
        for (offset, term) in split_terms(text) {
            if term.is_empty() {
                continue;
            }
            let Some((path, operator, raw)) = split_operator(term) else {
                return Err(error(format!("the term {term:?} has no operator"), offset));
            };
            if path.is_empty() {
                return Err(error(format!("the term {term:?} has no path"), offset));
            }
            let value = unescape(raw).map_err(|problem| error(problem, offset))?;
            requirements.push(FieldRequirement { path: path.to_owned(), equal: operator != "!=", value });
        }
        requirements.sort();
        requirements.dedup();
        Ok(Self { requirements })
    }

    /// Returns whether the selector has no requirements and so matches every object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns the requirements, sorted.
    #[must_use]
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// Returns whether all requirements hold. `value` returns the value at a path, "" if the field is absent (as in Kubernetes).
    pub fn matches<'a>(&self, value: impl Fn(&str) -> Cow<'a, str>) -> bool {
        self.requirements
            .iter()
            .all(|requirement| (value(&requirement.path) == requirement.value.as_str()) == requirement.equal)
    }

    /// Returns whether the object's fields meet the requirements. A path is taken as the location of a field in the object. This is what
    /// the API server does for `metadata.name` and `metadata.namespace`; the meaning of other paths depends on the resource, and only the
    /// server knows it.
    #[must_use]
    pub fn matches_object(&self, object: &Object) -> bool {
        self.matches(|path| match path {
            "metadata.name" => Cow::Borrowed(object.name()),
            "metadata.namespace" => Cow::Borrowed(object.namespace()),
            path => object.text(&format!("/{}", path.replace('.', "/"))).unwrap_or_default(),
        })
    }
}

/// Splits at commas that no backslash escapes, and returns the terms with their byte offsets.
fn split_terms(text: &str) -> Vec<(usize, &str)> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, char) in text.char_indices() {
        match char {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push((start, &text[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push((start, &text[start..]));
    terms
}

/// Splits a term at its first `!=`, `==` or `=`.
fn split_operator(term: &str) -> Option<(&str, &'static str, &str)> {
    for (at, _) in term.char_indices() {
        for operator in ["!=", "==", "="] {
            if let Some(value) = term[at..].strip_prefix(operator) {
                return Some((&term[..at], operator, value));
            }
        }
    }
    None
}

fn unescape(raw: &str) -> Result<String, String> {
    let mut value = String::with_capacity(raw.len());
    let mut chars = raw.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => value.push(escaped),
                Some(other) => {
                    return Err(format!("the value {raw:?} escapes {other:?}, which needs no escape"));
                }
                None => return Err(format!("the value {raw:?} ends in a lone backslash")),
            },
            ',' | '=' => return Err(format!("the value {raw:?} has an unescaped {char:?}")),
            char => value.push(char),
        }
    }
    Ok(value)
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, requirement) in self.requirements.iter().enumerate() {
            if position > 0 {
                f.write_str(",")?;
            }
            write!(f, "{}{}", requirement.path, if requirement.equal { "=" } else { "!=" })?;
            for char in requirement.value.chars() {
                if matches!(char, '\\' | ',' | '=') {
                    f.write_str("\\")?;
                }
                write!(f, "{char}")?;
            }
        }
        Ok(())
    }
}
