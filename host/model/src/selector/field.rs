use std::borrow::Cow;
use std::fmt;

use super::SelectorError;
use crate::Object;

/// A field selector: requirements of equality that must all hold.
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
    /// Whether the field must equal the value, or must not.
    pub equal: bool,
    /// The value.
    pub value: String,
}

const REMEDY: &str =
    "write path=value or path!=value, joined by commas, with \\ before a comma, = or \\ in a value";

impl FieldSelector {
    /// The selector that takes everything.
    #[must_use]
    pub fn everything() -> Self {
        Self::default()
    }

    /// Parses the text of a `fieldSelector` parameter. Requirements are sorted, so that equal selectors have equal
    /// texts.
    ///
    /// # Errors
    /// Names the place of the first term that is malformed.
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

    /// Whether it takes everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The requirements, sorted.
    #[must_use]
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// Whether all requirements hold; `value` answers for a path, "" where the field is absent (as Kubernetes does).
    pub fn matches<'a>(&self, value: impl Fn(&str) -> Cow<'a, str>) -> bool {
        self.requirements
            .iter()
            .all(|requirement| (value(&requirement.path) == requirement.value.as_str()) == requirement.equal)
    }

    /// Whether the object's own fields meet the requirements, taking a dotted path as a JSON path. That is what the
    /// server does for `metadata.name` and `metadata.namespace`; what other paths mean, only the server knows.
    #[must_use]
    pub fn matches_object(&self, object: &Object) -> bool {
        self.matches(|path| match path {
            "metadata.name" => Cow::Borrowed(object.name()),
            "metadata.namespace" => Cow::Borrowed(object.namespace()),
            path => object.text(&format!("/{}", path.replace('.', "/"))).unwrap_or_default(),
        })
    }
}

/// Splits at commas that no backslash escapes; yields each term with its byte offset.
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

/// The first of `!=`, `==` and `=` in a term.
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
