//! The keys that a YAML text has more than once, with the messages of Go's `yaml.v2`.

use std::borrow::Cow;

use pilothouse_model::hash::HashSet;
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle};

use crate::go;

/// The most keys that are reported.
const MAX_REPORTED: usize = 1000;

/// The length in bytes after which a reported key is cut.
const MAX_KEY_LENGTH: usize = 1024;

/// A mapping or sequence whose end was not read yet.
enum Open {
    Sequence,
    Mapping {
        known: HashSet<String>,
        /// The key whose value is read next; `None` while a key is read.
        key: Option<Key>,
    },
}

/// A key, and the line on which its value starts.
struct Key {
    /// As Go prints it; `None` for a key that is no scalar, which is not compared.
    text: Option<String>,
    /// The line of the key itself until its value starts.
    line: usize,
}

/// Returns what is wrong with each key that a mapping has more than once: `line 5: key "name" already set in map`. The line is that of the value, as in
/// Go. What is wrong in a value comes before what is wrong with its key. Returns what was found before an error in the text.
pub(super) fn duplicates(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    for event in Parser::new_from_str(text) {
        let Ok((event, span)) = event else { break };
        match event {
            Event::MappingStart(..) | Event::SequenceStart(..) => {
                begin(&mut open, span.start.line());
                let is_mapping = matches!(event, Event::MappingStart(..));
                open.push(if is_mapping {
                    Open::Mapping { known: HashSet::default(), key: None }
                } else {
                    Open::Sequence
                });
            }
            Event::MappingEnd | Event::SequenceEnd => {
                open.pop();
                end(&mut open, None, span.start.line(), &mut found);
            }
            Event::Scalar(text, style, ..) => {
                let line = span.start.line();
                // A block scalar starts for Go at its indicator, which is beside the key, and for this parser after it.
                if !matches!(style, ScalarStyle::Literal | ScalarStyle::Folded) {
                    begin(&mut open, line);
                }
                end(&mut open, Some(shown(&text, style)), line, &mut found);
            }
            Event::Alias(..) => {
                begin(&mut open, span.start.line());
                end(&mut open, None, span.start.line(), &mut found);
            }
            _ => {}
        }
        if found.len() >= MAX_REPORTED {
            break;
        }
    }
    found
}

/// Begins a node, which may be the value of a key.
fn begin(open: &mut [Open], line: usize) {
    if let Some(Open::Mapping { key: Some(key), .. }) = open.last_mut() {
        key.line = line;
    }
}

/// Ends a node, which is a key on this line, the value of a key, or an item. `scalar` is how Go prints a scalar.
fn end(open: &mut [Open], scalar: Option<String>, line: usize, found: &mut Vec<String>) {
    let Some(Open::Mapping { known, key }) = open.last_mut() else { return };
    match key.take() {
        None => *key = Some(Key { text: scalar, line }),
        Some(Key { text: Some(text), line }) => {
            if known.contains(&text) {
                found.push(format!("line {line}: key {} already set in map", cut(&text)));
            } else {
                known.insert(text);
            }
        }
        Some(Key { text: None, .. }) => {}
    }
}

/// Returns a key as Go prints it: plain numbers and booleans are no texts.
fn shown(text: &str, style: ScalarStyle) -> String {
    let is_plain = matches!(style, ScalarStyle::Plain);
    if is_plain && (text.parse::<i64>().is_ok() || matches!(text, "true" | "false")) {
        return text.to_owned();
    }
    go::quoted(text)
}

fn cut(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_KEY_LENGTH {
        return text.into();
    }
    format!("{}...", &text[..text.floor_char_boundary(MAX_KEY_LENGTH)]).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_that_of_the_second_value() {
        let text = "a: 1\na: 2\nb:\n  c: {k: v,\n    k: w}\nb:\n  d: 1\n  d:\n  - x\n  d: |\n    text\n";
        let expected = [
            "line 2: key \"a\" already set in map",
            "line 5: key \"k\" already set in map",
            "line 9: key \"d\" already set in map",
            "line 10: key \"d\" already set in map",
            "line 7: key \"b\" already set in map",
        ];
        assert_eq!(duplicates(text), expected);
    }

    #[test]
    fn keys_are_compared_as_values() {
        assert_eq!(duplicates("1: a\n\"1\": b\n"), [""; 0]);
        assert_eq!(duplicates("1: a\n1: b\n"), ["line 2: key 1 already set in map"]);
        assert_eq!(duplicates("a: &x {b: 1}\n? [c]\n: 1\n? [c]\n: *x\n"), [""; 0]);
        assert_eq!(duplicates("a: 1\na: *unknown"), [""; 0], "what follows an error is not read");
    }

    #[test]
    fn number_and_length_of_what_is_reported_are_bounded() {
        assert_eq!(duplicates(&"a: 1\n".repeat(5000)).len(), MAX_REPORTED);
        let long = "x".repeat(5000);
        let found = duplicates(&format!("? {long}\n: 1\n? {long}\n: 2\n"));
        assert!(found[0].len() < MAX_KEY_LENGTH + 50);
    }
}
