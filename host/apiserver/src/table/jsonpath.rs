//! The JSONPath of `additionalPrinterColumns`: kubectl's dialect, translated to RFC 9535.
//!
//! In kubectl's dialect the leading `$` is optional, names may contain characters such as `-`, and a backslash escapes
//! dots in names, also in those within brackets and quotes.

use serde_json::Value;
use serde_json_path::JsonPath;

/// A compiled path.
#[derive(Clone, Debug)]
pub(super) struct Path(JsonPath);

impl Path {
    /// Compiles `text`, such as `.status.conditions[?(@.type=="Ready")].status`.
    ///
    /// # Errors
    /// Returns what is wrong with the path.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        check_bounds(text)?;
        let standard = to_rfc9535(text)?;
        let path =
            JsonPath::parse(&standard).map_err(|error| format!("{text:?} is not a JSONPath: {error}"))?;
        Ok(Self(path))
    }

    /// Returns the first value that matches the path.
    pub(super) fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        self.0.query(object).first()
    }
}

/// The length limit of a path in bytes.
const MAX_LENGTH: usize = 1024;
/// The limit of nested brackets and parentheses.
const MAX_OPEN_BRACKETS: usize = 8;
/// The limit of filters and `..` in a path, each of which may visit everything that the previous one matched.
const MAX_SEARCHES: usize = 4;

/// Checks the bounds above and that no filter contains another. The parser and the query recurse as deeply as the path
/// nests, and a search within a search takes quadratic time.
fn check_bounds(text: &str) -> Result<(), String> {
    if text.len() > MAX_LENGTH {
        return Err(format!("the JSONPath is longer than {MAX_LENGTH} bytes"));
    }
    let (mut open, mut searches, mut filter, mut quote, mut previous) = (0_usize, 0_usize, None, None, ' ');
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match quote {
            Some(_) if c == '\\' => _ = chars.next(),
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None => match c {
                '\'' | '"' => quote = Some(c),
                '\\' => _ = chars.next(),
                '[' | '(' => open += 1,
                ']' | ')' => open = open.saturating_sub(1),
                '?' if filter.is_some_and(|outer| open > outer) => {
                    return Err(format!("{text:?} has a filter within a filter"));
                }
                '?' => {
                    filter = Some(open);
                    searches += 1;
                }
                '.' if previous == '.' => searches += 1,
                _ => {}
            },
        }
        if filter.is_some_and(|outer| open < outer) {
            filter = None;
        }
        if open > MAX_OPEN_BRACKETS {
            return Err(format!("{text:?} nests more than {MAX_OPEN_BRACKETS} brackets"));
        }
        if searches > MAX_SEARCHES {
            return Err(format!("{text:?} has more than {MAX_SEARCHES} filters and recursive descents (..)"));
        }
        previous = c;
    }
    Ok(())
}

/// Translates kubectl's dialect to RFC 9535.
fn to_rfc9535(text: &str) -> Result<String, String> {
    let inner = text.trim().trim_start_matches('{').trim_end_matches('}');
    let mut rest = inner.strip_prefix('$').unwrap_or(inner);
    if !rest.starts_with(['.', '[']) {
        return Err(format!("{text:?} is not a JSONPath: it must start with a dot"));
    }
    let mut path = String::from("$");
    while let Some(next) = rest.chars().next() {
        match next {
            '.' if rest.starts_with("..") => {
                path.push_str("..");
                let (name, after) = name(&rest[2..]);
                push_selector(&mut path, &name);
                rest = after;
            }
            '.' => {
                let (name, after) = name(&rest[1..]);
                if !name.is_empty() {
                    push_selector(&mut path, &name);
                }
                rest = after;
            }
            '[' => {
                let end = closing_bracket(rest)
                    .ok_or_else(|| format!("{text:?} is not a JSONPath: [ is not closed"))?;
                match quoted_names(&rest[1..end]) {
                    Some(names) => names.iter().for_each(|name| push_selector(&mut path, name)),
                    None => path.push_str(&rest[..=end]),
                }
                rest = &rest[end + 1..];
            }
            _ => return Err(format!("{text:?} is not a JSONPath: unexpected {rest:?}")),
        }
    }
    Ok(path)
}

fn push_selector(path: &mut String, name: &str) {
    if name == "*" {
        path.push_str("[*]");
    } else {
        path.push_str(&format!("['{}']", name.replace('\\', "\\\\").replace('\'', "\\'")));
    }
}

/// Splits `text` after the name that it starts with. The name is returned without its escapes.
fn name(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, escaped)| escaped)),
            '.' | '[' => return (name, &text[at..]),
            _ => name.push(c),
        }
    }
    (name, "")
}

/// Returns the names in the quotes of `['…']`, or `None` if `text` is not one quoted text. As in client-go, dots without a backslash separate names
/// within the quotes, too.
fn quoted_names(text: &str) -> Option<Vec<String>> {
    let mut rest = text.strip_prefix('\'')?.strip_suffix('\'')?;
    if rest.contains(['\'', '[', ']']) {
        return None;
    }
    let mut names = Vec::new();
    loop {
        let (first, after) = name(rest);
        names.push(first);
        match after.strip_prefix('.') {
            Some(next) => rest = next,
            None => return Some(names),
        }
    }
}

/// Returns the index of the bracket that closes the one at the start of `text`.
fn closing_bracket(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0, None);
    for (at, c) in text.char_indices() {
        match (c, quote) {
            (_, Some(open)) if c == open => quote = None,
            (_, Some(_)) => {}
            ('\'' | '"', None) => quote = Some(c),
            ('[', None) => depth += 1,
            (']', None) => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_in_kubectls_dialect_match_values() {
        let object = json!({
            "metadata": {"labels": {"app.kubernetes.io/name": "web"}},
            "spec": {"my-size": 3, "list": [{"a": 1}, {"a": 2}]},
            "status": {"conditions": [{"type": "Synced", "status": "False"}, {"type": "Ready", "status": "True"}]}
        });
        for (path, expected) in [
            (r#".status.conditions[?(@.type=="Ready")].status"#, Some(json!("True"))),
            (".status.conditions[?(@.type=='Synced')].status", Some(json!("False"))),
            (r".metadata.labels.app\.kubernetes\.io/name", Some(json!("web"))),
            (r".metadata.labels['app\.kubernetes\.io/name']", Some(json!("web"))),
            (".metadata.labels['app.kubernetes.io/name']", None),
            (".spec['my-size']", Some(json!(3))),
            ("['spec.my-size']", Some(json!(3))),
            (".spec.my-size", Some(json!(3))),
            (".spec.list[1].a", Some(json!(2))),
            (".spec.list[-1].a", Some(json!(2))),
            (".spec.list[*].a", Some(json!(1))),
            ("{.spec.list[0]}", Some(json!({"a": 1}))),
            (".spec.nothing.at.all", None),
        ] {
            let compiled = Path::parse(path).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(compiled.first(&object), expected.as_ref(), "{path}");
        }
    }

    #[test]
    fn invalid_paths_are_rejected() {
        for path in ["spec.a", "", ".spec[?(@.x", ".a[1"] {
            assert!(Path::parse(path).is_err(), "{path}");
        }
    }

    #[test]
    fn paths_beyond_the_bounds_are_rejected_before_parsing() {
        for (path, problem) in [
            (format!(".a{}", "b".repeat(1024)), "longer than 1024 bytes"),
            (format!("$[?{}", "(".repeat(1000)), "more than 8 brackets"),
            ("$..[?$..[?$..x]]".to_owned(), "filter within a filter"),
            ("..a..b..c..d..e".to_owned(), "more than 4 filters"),
        ] {
            let error = Path::parse(&path).expect_err("rejected");
            assert!(error.contains(problem), "{path:.20}: {error}");
        }
        assert!(Path::parse(".a[?(@.b=='((((((((((((')].c").is_ok());
    }
}
