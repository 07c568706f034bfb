//! Reads `values.yaml`: each value with its default and the comment that documents it.
//!
//! The file is written in a part of YAML that is read line by line: block mappings, indented by two spaces. A comment `# -- TEXT` documents the
//! key in the next line, with everything below it.

use anyhow::{Result, bail};

/// A key of `values.yaml`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Value {
    /// The path, such as `image.tag`.
    pub(super) path: String,
    /// The comment. `None` for a key that groups others.
    pub(super) description: Option<String>,
    /// The default as YAML in one line, or `None` if it takes several lines.
    pub(super) default: Option<String>,
}

/// Parses the file. Keys below a documented key are a part of its default, and not listed.
///
/// # Errors
/// Errors if a line is none of those that the module's documentation describes.
pub(super) fn parse(text: &str) -> Result<Vec<Value>> {
    let mut values: Vec<Value> = Vec::new();
    // The keys that contain the current line, without those of a default.
    let mut parents: Vec<&str> = Vec::new();
    let mut description = None;
    // The indentation of the documented key whose default may continue.
    let mut documented_at: Option<usize> = None;
    for (number, line) in text.lines().enumerate() {
        let content = line.trim_start();
        let indentation = line.len() - content.len();
        if content.is_empty() {
            continue;
        }
        if let (Some(start), Some(value)) = (documented_at, values.last_mut()) {
            if indentation > start {
                continue_default(value, content);
                continue;
            }
            documented_at = None;
        }
        if let Some(comment) = content.strip_prefix('#') {
            description = comment.strip_prefix(" -- ").map(str::to_owned).or(description);
            continue;
        }
        let Some((key, inline)) = content.split_once(':') else {
            bail!("line {}: expected `KEY:`, or a comment", number + 1);
        };
        if indentation % 2 != 0 || indentation / 2 > parents.len() {
            bail!("line {}: indent keys by two spaces, and document the key above this one", number + 1);
        }
        parents.truncate(indentation / 2);
        parents.push(key);
        let inline = inline.trim();
        if description.is_some() {
            documented_at = Some(indentation);
        }
        let default = (!inline.is_empty()).then(|| inline.to_owned());
        values.push(Value { path: parents.join("."), description: description.take(), default });
    }
    Ok(values)
}

/// Adds a line to the default of a documented key. One line `key: value` becomes a mapping in one line; of more lines, nothing is kept.
fn continue_default(value: &mut Value, line: &str) {
    let is_first = value.default.is_none() && !line.starts_with('-') && !line.ends_with(':');
    value.default = Some(if is_first { format!("{{{line}}}") } else { String::new() });
}

/// Returns a line for each value that no comment documents.
pub(super) fn undocumented(values: &[Value]) -> Vec<String> {
    let is_group =
        |value: &Value| values.iter().any(|other| other.path.starts_with(&format!("{}.", value.path)));
    let missing = values.iter().filter(|value| value.description.is_none() && !is_group(value));
    missing
        .map(|value| format!("{}/values.yaml: document {} with a comment `# -- …`", super::CHART, value.path))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Values.\n\nimage:\n  # -- Tag.\n  tag: \"\"\n  pull: Always\n# -- Config.\nconfig:\n  grants: explicit\n\
                        # -- Context.\ncontext:\n  user: 1\n  profile:\n    type: a\n# -- More.\nmore: []\n";

    #[test]
    fn values_have_their_paths_comments_and_defaults() {
        let value = |path: &str, description: Option<&str>, default: Option<&str>| Value {
            path: path.into(),
            description: description.map(str::to_owned),
            default: default.map(str::to_owned),
        };
        let expected = [
            value("image", None, None),
            value("image.tag", Some("Tag."), Some("\"\"")),
            value("image.pull", None, Some("Always")),
            value("config", Some("Config."), Some("{grants: explicit}")),
            value("context", Some("Context."), Some("")),
            value("more", Some("More."), Some("[]")),
        ];
        assert_eq!(parse(TEXT).expect("values"), expected);
    }

    #[test]
    fn a_value_without_a_comment_is_found() {
        let found = undocumented(&parse(TEXT).expect("values"));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("image.pull"), "{found:?}");
    }

    #[test]
    fn other_lines_are_refused() {
        for text in ["a\n", "a:\n      b: 1\n", "a:\n - 1\n"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
