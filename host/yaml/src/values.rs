//! Reads values that were parsed already, and names the member that is wrong.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

use crate::description::describe_message;
use crate::field_path::{FieldPath, PathStep};

/// What is wrong with a value, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueError {
    /// The member that is wrong.
    pub path: FieldPath,
    /// What is wrong with it, in one line.
    pub problem: String,
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.to_string();
        // Some problems begin with the path.
        let has_path = self.problem.strip_prefix(&path).is_some_and(|rest| rest.starts_with([':', '.', '[']));
        if path.is_empty() || has_path {
            f.write_str(&self.problem)
        } else {
            write!(f, "{path}: {}", self.problem)
        }
    }
}

impl std::error::Error for ValueError {}

/// Reads a value.
///
/// # Errors
/// Returns the first member that is wrong.
pub fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, ValueError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let mut path = FieldPath::default();
        for segment in error.path() {
            match segment {
                Segment::Seq { index } => path.push(PathStep::Element(*index)),
                Segment::Map { key } | Segment::Enum { variant: key } => {
                    path.push(PathStep::Member(key.clone()));
                }
                Segment::Unknown => break,
            }
        }
        ValueError { path, problem: describe_message(&error.into_inner().to_string()) }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "camelCase")]
    #[expect(dead_code, reason = "only the errors are of interest")]
    struct Example {
        workers: Option<u16>,
        rules: Option<Vec<Rule>>,
        texts: Option<BTreeMap<String, String>>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "camelCase")]
    #[expect(dead_code, reason = "only the errors are of interest")]
    struct Rule {
        api_groups: Vec<String>,
    }

    #[test]
    fn an_error_names_the_member() {
        for (value, path, text) in [
            (
                json!({"workers": "many"}),
                "workers",
                "workers: invalid type: string \"many\", expected a whole number",
            ),
            (
                json!({"rules": [{"apiGroups": []}, {"apiGroup": []}]}),
                "rules[1].apiGroup",
                "rules[1].apiGroup: unknown field `apiGroup`, expected `apiGroups`; did you mean apiGroups?",
            ),
            (json!({"rules": [{}]}), "rules[0]", "rules[0]: missing field `apiGroups`"),
            (
                json!({"texts": {"a.b": 1}}),
                "texts.a.b",
                "texts.a.b: invalid type: integer `1`, expected a string",
            ),
            (json!("text"), "", "invalid type: string \"text\", expected members with values"),
        ] {
            let error = from_value::<Example>(value).expect_err(path);
            assert_eq!(error.path.to_string(), path);
            assert!(error.to_string().starts_with(text), "{error}");
        }
    }

    #[test]
    fn a_path_is_not_repeated() {
        let error = ValueError { path: FieldPath::of_members("a.b"), problem: "a.b: it is wrong".to_owned() };
        assert_eq!(error.to_string(), "a.b: it is wrong");
        let error = ValueError { problem: "a.b.c: it is wrong".to_owned(), ..error };
        assert_eq!(error.to_string(), "a.b.c: it is wrong");
        let error = ValueError { path: FieldPath::of_members("a"), problem: "a list is wrong".to_owned() };
        assert_eq!(error.to_string(), "a: a list is wrong");
    }
}
