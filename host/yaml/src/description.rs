//! Describes an error of the parser in one line, without the parser's own terms.

use std::fmt::Write;

use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Error, MessageFormatter, UserMessageFormatter};

use crate::suggestion;

/// The longest description of a problem, in characters. It may quote the text.
const MAX_PROBLEM: usize = 400;
/// The longest part of the text that it quotes, in characters.
const MAX_QUOTED: usize = 100;
/// What is wrong with a text whose nesting or aliases exceed a bound.
const TOO_DEEP: &str = "the text is nested too deeply, or has too many aliases; simplify it";

/// Types of Rust, and what the author of a text understands.
const TYPES: [(&str, &str); 15] = [
    ("boolean", "true or false"),
    ("u8", "a whole number from 0 to 255"),
    ("u16", "a whole number from 0 to 65535"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("u64", "a whole number, 0 or more"),
    ("usize", "a whole number, 0 or more"),
    ("i8", "a whole number from -128 to 127"),
    ("i16", "a whole number from -32768 to 32767"),
    ("i32", "a whole number from -2147483648 to 2147483647"),
    ("i64", "a whole number"),
    ("isize", "a whole number"),
    ("i128", "a whole number"),
    ("floating point", "a number"),
    ("f64", "a number"),
    ("a sequence", "a list"),
];

/// Returns what is wrong with a text, in one line: `line 2 column 5: ` and the problem. Control characters of the text are escaped.
#[must_use]
pub fn describe(error: &Error) -> String {
    with_place(error, None)
}

/// Returns what is wrong with this text, in one line: as [`describe`], with the key before a value of a wrong type.
pub(crate) fn describe_in(text: &str, error: &Error) -> String {
    let key = error.location().filter(|_| is_about_value(error)).and_then(|place| {
        let line = text.lines().nth(usize::try_from(place.line()).ok()?.checked_sub(1)?)?;
        key_before(line, usize::try_from(place.column()).ok()?.checked_sub(1)?)
    });
    with_place(error, key)
}

/// Whether the error is about the value of a member, and its message names no member.
fn is_about_value(error: &Error) -> bool {
    matches!(
        innermost(error),
        Error::SerdeUnknownVariant { .. }
            | Error::SerdeInvalidType { .. }
            | Error::SerdeInvalidValue { .. }
            | Error::InvalidScalar { .. }
            | Error::InvalidBooleanStrict { .. }
            | Error::Unexpected { .. }
            | Error::ExpectedStringKeyForExternallyTaggedEnum { .. }
            | Error::ExternallyTaggedEnumExpectedScalarOrMapping { .. }
            | Error::UnexpectedValueForUnitEnumVariant { .. }
    )
}

/// Returns the key in front of the value that begins at this character of a line.
fn key_before(line: &str, position: usize) -> Option<&str> {
    let end = line.char_indices().nth(position).map_or(line.len(), |(end, _)| end);
    let before = line[..end].trim_end().strip_suffix(':')?;
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_./".contains(character);
    let (outside, key) = before.split_at(before.trim_end_matches(is_plain).len());
    // Otherwise it is the end of a longer key.
    let begins = outside.trim_end().is_empty() || outside.trim_end().ends_with(['{', ',', '[', '-', '?']);
    (begins && !key.is_empty() && key.len() <= MAX_QUOTED).then_some(key)
}

fn with_place(error: &Error, key: Option<&str>) -> String {
    let mut line = String::new();
    if let Some(place) = error.location() {
        let _ = write!(line, "line {} column {}: ", place.line(), place.column());
    }
    if let Some(key) = key {
        let _ = write!(line, "{key}: ");
    }
    line.push_str(&printable(&problem(error)));
    line
}

/// Returns the beginning of a description, with its control characters escaped.
fn printable(problem: &str) -> String {
    let mut characters = problem.chars();
    let beginning = characters.by_ref().take(MAX_PROBLEM).flat_map(|character| {
        let escaped = character.is_control().then(|| character.escape_default());
        let plain = escaped.is_none().then_some(character);
        escaped.into_iter().flatten().chain(plain)
    });
    let mut line: String = beginning.collect();
    if characters.next().is_some() {
        line.push('…');
    }
    line
}

/// Returns a message of serde, such as `invalid value: integer `70000`, expected u16`, in one line, with words in place of a type of Rust, and with
/// the name that was probably meant by an unknown one.
#[must_use]
pub fn describe_message(message: &str) -> String {
    printable(&in_words(message))
}

fn in_words(message: &str) -> String {
    let Some((before, after)) = message.rsplit_once(", expected ") else { return message.to_owned() };
    // A message about JSON ends with the place: `u16 at line 1 column 5`.
    let (expected, place) = after.find(" at line ").map_or((after, ""), |at| after.split_at(at));
    if let Some(name) = before.strip_prefix("unknown field `").and_then(|name| name.strip_suffix('`')) {
        let known = expected.split('`').skip(1).step_by(2);
        let meant =
            suggestion(name, known).map_or_else(String::new, |close| format!("; did you mean {close}?"));
        return format!("{before}, expected {expected}{place}{meant}");
    }
    let plain = plain_type(expected).unwrap_or_else(|| {
        if expected.starts_with("struct ") { "members with values".to_owned() } else { expected.to_owned() }
    });
    format!("{before}, expected {plain}{place}")
}

fn plain_type(name: &str) -> Option<String> {
    TYPES.iter().find(|(type_, _)| name == *type_).map(|(_, plain)| (*plain).to_owned())
}

/// Returns the error without what the parser adds about its place.
fn innermost(mut error: &Error) -> &Error {
    while let Error::AliasError { error: inner, .. } | Error::WithSnippet { error: inner, .. } = error {
        error = inner;
    }
    error
}

fn problem(error: &Error) -> String {
    let error = innermost(error);
    match error {
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("the key `{}` occurs twice; remove one of them", short(key))
        }
        Error::DuplicateMappingKey { .. } => "a key occurs twice; remove one of them".to_owned(),
        Error::MultipleDocuments { .. } | Error::Budget { breach: BudgetBreach::Documents { .. }, .. } => {
            "it has more documents than are allowed; remove what follows another `---`".to_owned()
        }
        Error::Budget {
            breach:
                BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. } | BudgetBreach::ScalarBytes { .. },
            ..
        } => "the text has too many values; split it".to_owned(),
        Error::Budget { .. }
        | Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => TOO_DEEP.to_owned(),
        Error::SerdeUnknownField { field, expected, .. } => {
            format!("unknown field `{}`, {}", short(field), one_of(field, expected))
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            format!("unknown value `{}`, {}", short(variant), one_of(variant, expected))
        }
        Error::SerdeInvalidType { unexpected, expected, .. }
        | Error::SerdeInvalidValue { unexpected, expected, .. } => {
            in_words(&format!("invalid value: {}, expected {expected}", short(unexpected)))
        }
        Error::InvalidScalar { ty, .. } => {
            format!("expected {}", plain_type(ty).unwrap_or_else(|| (*ty).to_owned()))
        }
        Error::InvalidBooleanStrict { .. } => "expected true or false".to_owned(),
        Error::Unexpected { expected: "mapping start" | "map", .. } => {
            "expected members, such as `name: value`".to_owned()
        }
        Error::Unexpected { expected: "sequence start" | "seq", .. } => "expected a list".to_owned(),
        Error::Unexpected { expected: "string scalar" | "string" | "scalar", .. } => {
            "expected a text".to_owned()
        }
        Error::ExpectedStringKeyForExternallyTaggedEnum { .. }
        | Error::ExternallyTaggedEnumExpectedScalarOrMapping { .. }
        | Error::UnexpectedValueForUnitEnumVariant { .. } => {
            "expected one text, and neither a list nor members".to_owned()
        }
        _ => match UserMessageFormatter.format_message(error) {
            text if text.contains("recursion limit exceeded") => TOO_DEEP.to_owned(),
            text => text.into_owned(),
        },
    }
}

/// Returns the known names, and the one that was probably meant.
fn one_of(name: &str, known: &[&str]) -> String {
    let list = known.join(", ");
    let list = if known.len() == 1 { list } else { format!("one of {list}") };
    match suggestion(name, known.iter().copied()) {
        Some(close) => format!("expected {list}; did you mean {close}?"),
        None => format!("expected {list}"),
    }
}

/// Returns the beginning of a part of the text.
fn short(text: &str) -> String {
    let mut characters = text.chars();
    let mut beginning: String = characters.by_ref().take(MAX_QUOTED).collect();
    if characters.next().is_some() {
        beginning.push('…');
    }
    beginning
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde::de::DeserializeOwned;

    use super::describe_message;
    use crate::from_str;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the errors are of interest")]
    struct Example {
        workers: Option<u16>,
        seconds: Option<u32>,
        enabled: Option<bool>,
        ratio: Option<f64>,
        names: Option<BTreeMap<String, String>>,
        level: Option<Level>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Level {
        Debug,
        Info,
    }

    fn problem<T: DeserializeOwned + std::fmt::Debug>(text: &str) -> String {
        from_str::<T>(text).expect_err(text)
    }

    #[test]
    fn errors_have_a_place_and_no_terms_of_the_parser() {
        for (text, expected) in [
            ("workers: many", "line 1 column 10: workers: expected a whole number from 0 to 65535"),
            ("workers: -1", "line 1 column 10: workers: expected a whole number from 0 to 65535"),
            ("a: 1\n---\nb: 2", "line 1 column 1: unknown field `a`, expected one of workers, seconds"),
            ("seconds: soon", "line 1 column 10: seconds: expected a whole number from 0 to 4294967295"),
            ("ratio: much", "line 1 column 8: ratio: expected a number"),
            ("enabled: perhaps", "line 1 column 10: enabled: expected true or false"),
            ("workers: 1\nworkers: 2", "line 2 column 1: the key `workers` occurs twice; remove one of them"),
            ("names: {a: b, a: c}", "the key `a` occurs twice; remove one of them"),
            (
                "workers: 1\n---\nworkers: 2",
                "line 2 column 1: it has more documents than are allowed; remove",
            ),
            (
                "workres: 1",
                "line 1 column 1: unknown field `workres`, expected one of workers, seconds, enabled",
            ),
            ("workres: 1", "; did you mean workers?"),
            ("names: {a: b}\n\"level\": inof", "line 2 column 10: unknown value `inof`"),
            (
                "level: inof",
                "line 1 column 8: level: unknown value `inof`, expected one of debug, info; did you mean info?",
            ),
            ("names: {app.kubernetes.io/name: [a]}", "app.kubernetes.io/name: expected a text"),
            ("names: {my workers: [a]}", "column 21: expected a text"),
            ("level: [info]", "expected one text, and neither a list nor members"),
            ("- workers: 1", "expected members, such as `name: value`"),
            ("names: [a]", "expected members, such as `name: value`"),
        ] {
            let found = problem::<Example>(text);
            assert!(found.contains(expected), "{text:?}: {found}");
        }
    }

    #[test]
    fn messages_of_serde_get_words_in_place_of_types() {
        for (message, expected) in [
            (
                "invalid value: integer `70000`, expected u16 at line 1 column 5",
                "invalid value: integer `70000`, expected a whole number from 0 to 65535 at line 1 column 5",
            ),
            (
                "invalid type: string \"a, expected b\", expected a sequence",
                "invalid type: string \"a, expected b\", expected a list",
            ),
            ("invalid type: null, expected struct Rule", "invalid type: null, expected members with values"),
            (
                "unknown field `cuont`, expected one of `verb`, `count` at line 1 column 8",
                "unknown field `cuont`, expected one of `verb`, `count` at line 1 column 8; did you mean count?",
            ),
            ("something else", "something else"),
        ] {
            assert_eq!(describe_message(message), expected);
        }
    }

    #[test]
    fn a_long_text_is_cut_off() {
        let long = "x".repeat(10_000);
        for text in [
            format!("{long}: 1"),
            format!("workers: {long}"),
            format!("level: {long}"),
            format!("{{a: 1, {long}"),
        ] {
            let found = problem::<Example>(&text);
            assert!(found.chars().count() < 500, "{found}");
        }
        let nested = problem::<serde_json::Value>(&"[".repeat(5000));
        assert!(nested.contains("nested too deeply"), "{nested}");
    }

    #[test]
    fn an_error_is_one_line_without_control_characters() {
        for text in
            ["\"a\\u001b\": 1", "a: [\n1", "a: b: c", "- x\n y: z", "\t- a\n\t- b: [", "*nothing", "&a [*a]"]
        {
            let found = problem::<Example>(text);
            assert!(!found.chars().any(char::is_control), "{text:?}: {found:?}");
            for term in ["Policy", "budget", "breach", "hint", "serde", "Location"] {
                assert!(!found.contains(term), "{text:?}: {found}");
            }
        }
    }
}
