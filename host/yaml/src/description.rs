//! Describes an error of the parser in one line, without the parser's own terms.

use std::fmt::Write;

use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Error, MessageFormatter, UserMessageFormatter};

/// The types of Rust in messages of the parser, and what the author of a text understands.
const TYPES: [(&str, &str); 14] = [
    ("invalid u8", "expected a whole number from 0 to 255"),
    ("invalid u16", "expected a whole number from 0 to 65535"),
    ("invalid u32", "expected a whole number from 0 to 4294967295"),
    ("invalid u64", "expected a whole number, 0 or more"),
    ("invalid usize", "expected a whole number, 0 or more"),
    ("invalid i8", "expected a whole number from -128 to 127"),
    ("invalid i16", "expected a whole number from -32768 to 32767"),
    ("invalid i32", "expected a whole number from -2147483648 to 2147483647"),
    ("invalid i64", "expected a whole number"),
    ("invalid isize", "expected a whole number"),
    ("invalid i128", "expected a whole number"),
    ("invalid floating point", "expected a number"),
    ("invalid boolean (true or false expected)", "expected true or false"),
    ("invalid boolean", "expected true or false"),
];

/// Returns what is wrong with a text, in one line: `line 2 column 5: ` and the problem. Control characters of the text are escaped.
#[must_use]
pub fn describe(error: &Error) -> String {
    let mut line = String::new();
    if let Some(place) = error.location() {
        let _ = write!(line, "line {} column {}: ", place.line(), place.column());
    }
    line.extend(problem(error).chars().flat_map(|character| {
        let escaped = character.is_control().then(|| character.escape_default());
        let plain = escaped.is_none().then_some(character);
        escaped.into_iter().flatten().chain(plain)
    }));
    line
}

fn problem(mut error: &Error) -> String {
    while let Error::AliasError { error: inner, .. } | Error::WithSnippet { error: inner, .. } = error {
        error = inner;
    }
    match error {
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            return format!("the key `{key}` occurs twice; remove one of them");
        }
        Error::DuplicateMappingKey { .. } => return "a key occurs twice; remove one of them".to_owned(),
        Error::MultipleDocuments { .. } | Error::Budget { breach: BudgetBreach::Documents { .. }, .. } => {
            return "it has more documents than are allowed; remove what follows another `---`".to_owned();
        }
        Error::Budget {
            breach:
                BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. } | BudgetBreach::ScalarBytes { .. },
            ..
        } => return "the text has too many values; split it".to_owned(),
        Error::Budget { .. }
        | Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => {
            return "the text is nested too deeply, or has too many aliases; simplify it".to_owned();
        }
        _ => {}
    }
    let text = UserMessageFormatter.format_message(error).into_owned();
    let known = TYPES.iter().find(|(type_, _)| text == *type_);
    known.map_or(text, |(_, plain)| (*plain).to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde::de::DeserializeOwned;

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
    }

    fn problem<T: DeserializeOwned + std::fmt::Debug>(text: &str) -> String {
        from_str::<T>(text).expect_err(text)
    }

    #[test]
    fn errors_have_a_place_and_no_terms_of_the_parser() {
        for (text, expected) in [
            ("workers: many", "line 1 column 10: expected a whole number from 0 to 65535"),
            ("workers: -1", "line 1 column 10: expected a whole number from 0 to 65535"),
            ("a: 1\n---\nb: 2", "line 1 column 1: unknown field `a`, expected one of workers, seconds"),
            ("seconds: soon", "line 1 column 10: expected a whole number from 0 to 4294967295"),
            ("ratio: much", "line 1 column 8: expected a number"),
            ("enabled: perhaps", "line 1 column 10: expected true or false"),
            ("workers: 1\nworkers: 2", "line 2 column 1: the key `workers` occurs twice; remove one of them"),
            ("names: {a: b, a: c}", "the key `a` occurs twice; remove one of them"),
            (
                "workers: 1\n---\nworkers: 2",
                "line 2 column 1: it has more documents than are allowed; remove",
            ),
            ("workres: 1", "line 1 column 1: unknown field `workres`"),
        ] {
            let found = problem::<Example>(text);
            assert!(found.contains(expected), "{text:?}: {found}");
        }
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
