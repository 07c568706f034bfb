//! JSONPath as kubectl writes it (`{.spec.secrets[*].name}`), over objects.

use std::fmt;

use pilothouse_model::Object;
use serde_json::Value;

/// A parsed path.
#[derive(Clone, Debug)]
pub(crate) struct JsonPath {
    text: String,
    way: Way,
}

#[derive(Clone, Debug)]
enum Way {
    /// Member names only: found by scanning the object's text, without a tree.
    Pointer(String),
    /// All else goes through RFC 9535.
    Query(serde_json_path::JsonPath),
}

/// Why a text is no path.
#[derive(Debug, thiserror::Error)]
#[error("{text:?} is not a JSONPath: {problem}")]
pub(crate) struct JsonPathError {
    text: String,
    problem: String,
}

impl JsonPath {
    /// Parses `{.a.b[*].c}`, `.a.b` or `$.a.b`.
    ///
    /// # Errors
    /// Says where the text is malformed.
    pub(crate) fn parse(text: &str) -> Result<Self, JsonPathError> {
        let error = |problem: String| JsonPathError { text: text.to_owned(), problem };
        let inner = match (text.strip_prefix('{'), text.strip_suffix('}')) {
            (Some(_), Some(_)) => &text[1..text.len() - 1],
            (None, None) => text,
            _ => return Err(error("its braces are not closed".into())),
        };
        let inner = inner.strip_prefix('$').unwrap_or(inner);
        if !inner.starts_with(['.', '[']) {
            return Err(error("it does not begin with a dot".into()));
        }
        let way = match pointer(inner) {
            Some(pointer) => Way::Pointer(pointer),
            None => Way::Query(
                serde_json_path::JsonPath::parse(&format!("${inner}"))
                    .map_err(|parse| error(parse.to_string().replace('\n', " ")))?,
            ),
        };
        Ok(Self { text: text.to_owned(), way })
    }

    /// The scalars at the path, as text; objects, lists and nulls are left out.
    #[must_use]
    pub(crate) fn values(&self, object: &Object) -> Vec<String> {
        match &self.way {
            Way::Pointer(pointer) => match object.field(pointer) {
                None | Some("null") => Vec::new(),
                Some(raw) if raw.starts_with(['{', '[']) => Vec::new(),
                Some(_) => object.text(pointer).map(|text| vec![text.into_owned()]).unwrap_or_default(),
            },
            Way::Query(path) => {
                path.query(&object.to_value()).iter().filter_map(|value| scalar(value)).collect()
            }
        }
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    }
}

/// The RFC 6901 pointer of a path of plain member names.
fn pointer(path: &str) -> Option<String> {
    let names: Vec<_> = path.strip_prefix('.')?.split('.').collect();
    let plain = |name: &&str| {
        !name.is_empty()
            && !name.starts_with(|char: char| char.is_ascii_digit())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    names.iter().all(plain).then(|| format!("/{}", names.join("/")))
}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(path: &str) -> Vec<String> {
        let object = Object::from_json(
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","annotations":{"x.y/z":"1"}},
            "spec":{"volumes":[{"secret":{"secretName":"s1"}},{"secret":{"secretName":"s2"}},{}],"n":3,"on":true,"no":null}}"#,
        )
        .expect("an object");
        JsonPath::parse(path).expect(path).values(&object)
    }

    #[test]
    fn scalars_are_found_by_any_form_of_the_path() {
        for path in ["{.spec.n}", ".spec.n", "$.spec.n", "{$.spec.n}", "{.spec['n']}"] {
            assert_eq!(values(path), ["3"], "{path}");
        }
        assert_eq!(values("{.spec.volumes[*].secret.secretName}"), ["s1", "s2"]);
        assert_eq!(values("{.metadata.annotations['x.y/z']}"), ["1"]);
        assert_eq!(values("{.spec.on}"), ["true"]);
    }

    #[test]
    fn what_is_no_scalar_or_absent_gives_nothing() {
        for path in ["{.spec}", "{.spec.volumes}", "{.spec.no}", "{.spec.none.deeper}"] {
            assert!(values(path).is_empty(), "{path}");
        }
    }

    #[test]
    fn a_malformed_path_is_refused() {
        for path in ["", "spec", "{.spec", "{.spec[}", "..", "{}"] {
            let error = JsonPath::parse(path).expect_err(path).to_string();
            assert!(error.contains("is not a JSONPath"), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
