//! Finds where two texts correspond again after a difference in structure: a member that was added, removed or renamed, an element that was
//! added or removed, or a value of another kind.
//!
//! Both texts are compared from the same state of a parser. After the difference, this module returns offsets at which they are in the same
//! state again, in the same object or array. What the new text has in between is validated by the grammar. What the known text has in
//! between is skipped. The names of members may repeat, so this is not for objects whose names are read.

use super::validate_against::Offsets;
use super::{scan, skip};

/// The most members in a row that are taken for added or removed ones.
const MAX_MEMBERS: usize = 3;
/// The deepest nesting of values that are validated by the grammar.
pub(crate) const MAX_ADDED_DEPTH: u32 = 32;

/// Texts whose difference begins at a token, after an equal byte.
pub(super) fn after_token(known: &[u8], text: &[u8], at: Offsets) -> Option<Offsets> {
    let before = known[..at.known].last()?;
    let (known_next, text_next) = (*known.get(at.known)?, *text.get(at.text)?);
    match (before, known_next, text_next) {
        // An empty object or array.
        (b'{', b'}', b'"') | (b'[', b']', _) => after_rest(known, text, at, Rest::Nonempty(known_next)),
        (b'{', b'"', b'}') | (b'[', _, b']') => skip_known_rest(known, at, text_next),
        (b'[' | b',' | b':', _, _) => replaced_value(known, text, at),
        (b'"' | b'}' | b']', _, _) => after_value(known, text, at),
        _ => None,
    }
}

/// Texts whose difference begins right after a value.
pub(super) fn after_value(known: &[u8], text: &[u8], at: Offsets) -> Option<Offsets> {
    match (*known.get(at.known)?, *text.get(at.text)?) {
        (end @ (b'}' | b']'), b',') => after_rest(known, text, at, Rest::Comma(end)),
        (b',', end @ (b'}' | b']')) => skip_known_rest(known, at, end),
        _ => None,
    }
}

/// Texts that have values of different kinds.
pub(super) fn replaced_value(known: &[u8], text: &[u8], at: Offsets) -> Option<Offsets> {
    let known_end = skip_value(known, at.known)?;
    let next = known[known_end..].iter().find(|byte| !scan::is_whitespace(**byte));
    if next == Some(&b':') {
        // It is the name of a member, which only a name may replace.
        return None;
    }
    Some(Offsets { known: known_end, text: added_value(text, at.text)? })
}

/// Texts that have different names at `at`, which end at `ends`.
pub(super) fn renamed_member(known: &[u8], text: &[u8], at: Offsets, ends: Offsets) -> Option<Offsets> {
    let (known_name, text_name) = (&known[at.known..=ends.known], text.get(at.text..=ends.text)?);
    text_name.ends_with(b":").then_some(())?;
    // The members of the known text that the new one may have dropped.
    let mut known_end = skip_value(known, ends.known + 1)?;
    let first_known_end = known_end;
    for _ in 0..MAX_MEMBERS {
        let Some(rest) = known[known_end..].strip_prefix(b",") else { break };
        if rest.starts_with(text_name) {
            return Some(Offsets { known: known_end + 1, text: at.text });
        }
        let name = scan::rest_of_string(rest.strip_prefix(b"\"")?)?;
        known_end = skip_value(known, known.len() - name.strip_prefix(b":")?.len())?;
    }
    // The members that the new text may have added.
    let mut text_end = added_value(text, ends.text + 1)?;
    let first_text_end = text_end;
    for _ in 0..MAX_MEMBERS {
        let Some(rest) = text[text_end..].strip_prefix(b",") else { break };
        if rest.starts_with(known_name) {
            return Some(Offsets { known: at.known, text: text_end + 1 });
        }
        let name = scan::rest_of_string(rest.strip_prefix(b"\"")?)?;
        text_end = added_value(text, text.len() - name.strip_prefix(b":")?.len())?;
    }
    Some(Offsets { known: first_known_end, text: first_text_end })
}

/// How the rest of an object or array begins, and its closing bracket.
#[derive(Clone, Copy)]
enum Rest {
    /// With a comma.
    Comma(u8),
    /// With the first member or element.
    Nonempty(u8),
}

/// Reads the rest of the object or array in the new text. The known one ends with the next byte.
fn after_rest(known: &[u8], text: &[u8], at: Offsets, rest: Rest) -> Option<Offsets> {
    let (start, end) = match rest {
        Rest::Comma(end) => (at.text + 1, end),
        Rest::Nonempty(end) => (at.text, end),
    };
    let rest = text.get(start..)?;
    let rest = match end {
        b'}' => scan::members_and_end(rest, MAX_ADDED_DEPTH)?,
        _ => scan::elements_and_end(rest, MAX_ADDED_DEPTH)?,
    };
    debug_assert_eq!(known.get(at.known), Some(&end));
    Some(Offsets { known: at.known + 1, text: text.len() - rest.len() })
}

/// Skips the rest of the object or array in the known text. The new one ends with the next byte, `end`.
fn skip_known_rest(known: &[u8], at: Offsets, end: u8) -> Option<Offsets> {
    let known_end = known.len() - skip::rest_of_container(&known[at.known..])?.len();
    (known[known_end - 1] == end).then_some(Offsets { known: known_end, text: at.text + 1 })
}

/// Returns the end of a value of the known text.
fn skip_value(known: &[u8], start: usize) -> Option<usize> {
    Some(known.len() - skip::value(at_value(known, start)?)?.len())
}

/// Returns the end of a value that the grammar accepts.
fn added_value(text: &[u8], start: usize) -> Option<usize> {
    Some(text.len() - scan::value_within(at_value(text, start)?, MAX_ADDED_DEPTH)?.len())
}

/// Returns the text from `start` on. Gives up at white space, which servers do not write and which canonical text lacks before a value.
fn at_value(text: &[u8], start: usize) -> Option<&[u8]> {
    text.get(start..).filter(|value| value.first().is_some_and(|byte| !scan::is_whitespace(*byte)))
}

#[cfg(test)]
mod tests {
    use crate::object::json::validate_against::{Allowed, validate_against};

    fn accepted(known: &str, text: &str) -> Option<usize> {
        let is_value = |text: &str| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
        assert!(is_value(known), "{known}");
        let len = validate_against(known, text, Allowed::All)?;
        assert!(is_value(&text[..len]), "{known} and {text}");
        Some(len)
    }

    /// Values with names, elements and scalars that occur more than once, so that there are many ways to resume a comparison.
    const VALUES: [&str; 16] = [
        "{}",
        "[]",
        r#"{"a":1}"#,
        r#"{"a":1,"b":"x"}"#,
        r#"{"b":"x"}"#,
        r#"{"a":1,"b":"x","c":{"a":[]}}"#,
        r#"{"c":{"a":[1,"a"],"b":null},"d":[{"a":1},{"b":2}]}"#,
        r#"{"d":[{"a":1},{"e":true,"b":2},{}],"a":12}"#,
        r#"{"k:{\"ip\":\"1\"}":{".":{},"f:a":{}},"b":{}}"#,
        r#"{"k:{\"ip\":\"12\"}":{".":{},"f:b":{},"f:a":{}},"b":{}}"#,
        r#"["a",1,true,{"a":1}]"#,
        r#"["a",{"a":1,"b":[]},false]"#,
        r#"[[],{},"",",",":","}"]"#,
        r#"{"a":"","b":",","c":":"}"#,
        r#"{"x":{"y":{"z":{}}},"a":1}"#,
        r#"{"x":{"y":{"z":{"a":1},"b":"x"}}}"#,
    ];

    #[test]
    fn what_is_accepted_is_a_whole_value() {
        let mut count = 0;
        for known in VALUES {
            for text in VALUES {
                let more = format!("{text},1");
                if let Some(len) = accepted(known, &more) {
                    assert_eq!(len, text.len(), "{known} and {text}");
                    count += 1;
                }
            }
        }
        assert!(count > 160, "{count} of 256 pairs are compared to the end");
    }

    #[test]
    fn damaged_text_is_never_accepted() {
        let pieces =
            ["", ",", ":", "\"", "{", "}", "[", "]", "1", "\\", " ", "\"a\":", ",{}", "\u{1}", "01", "é"];
        for known in VALUES {
            for text in VALUES {
                for at in 0..text.len() {
                    for piece in pieces {
                        // `accepted` checks what is accepted.
                        accepted(known, &format!("{}{piece}{}", &text[..at], &text[at + 1..]));
                        accepted(known, &format!("{}{piece}{}", &text[..at], &text[at..]));
                    }
                    assert_ne!(accepted(known, &text[..at]), Some(text.len()));
                }
            }
        }
    }

    #[test]
    fn white_space_in_either_text_is_never_misread() {
        let spaced = |text: &str, at: usize| format!("{} {}", &text[..at], &text[at..]);
        for known in VALUES {
            for at in 0..known.len() {
                let known = spaced(known, at);
                if serde_json::from_str::<serde::de::IgnoredAny>(&known).is_err() {
                    continue;
                }
                for text in VALUES {
                    accepted(&known, text);
                    for at in 0..text.len() {
                        accepted(&known, &spaced(text, at));
                        accepted(&known, &format!("{}{}", &text[..at], &text[at + 1..]));
                    }
                }
            }
        }
    }

    #[test]
    fn changes_of_members_and_elements_are_compared() {
        for (known, text) in [
            (r#"{"a":{"b":1},"c":2}"#, r#"{"a":{"b":1,"d":3},"c":2}"#),
            (r#"{"a":{"b":1},"c":2}"#, r#"{"a":{},"c":2}"#),
            (r#"{"a":{},"c":2}"#, r#"{"a":{"b":{"c":[1]}},"c":2}"#),
            (r#"{"a":1,"d":4}"#, r#"{"a":1,"b":2,"c":3,"d":4}"#),
            (r#"{"a":1,"b":2,"c":3,"d":4}"#, r#"{"a":1,"d":4}"#),
            (r#"{"a":[1,2],"d":4}"#, r#"{"a":[1,2,3,{}],"d":4}"#),
            (r#"{"a":[1,2,{"b":[]}],"d":4}"#, r#"{"a":[1],"d":4}"#),
            (r#"{"a":null,"d":4}"#, r#"{"a":{"b":1},"d":4}"#),
            (r#"{"a":{"b":1},"d":4}"#, r#"{"a":false,"d":4}"#),
            (r#"{"a":{"running":{"at":1}},"d":4}"#, r#"{"a":{"waiting":{"for":"x"}},"d":4}"#),
            (r#"[{"a":1}]"#, r#"[[],{"a":1}]"#),
            ("[]", "[1]"),
            ("{}", "[1]"),
            ("1", r#"{"a":1}"#),
        ] {
            assert_eq!(accepted(known, text), Some(text.len()), "{known} and {text}");
        }
    }

    #[test]
    fn deep_or_many_differences_are_left_to_the_parser() {
        let deep = format!("{}{}", "[".repeat(40), "]".repeat(40));
        let many = |count: usize| format!("[{}]", vec!["1"; count].join(","));
        let other = |count: usize| format!("[{}]", vec!["2"; count].join(","));
        assert!(accepted(&many(250), &other(250)).is_some());
        for (what, known, text) in [
            ("a value that nests deeply", r#"{"a":1}"#, &*format!(r#"{{"a":{deep}}}"#)),
            ("many differences", &many(300), &other(300)),
            ("white space before a value", r#"{"a": 1}"#, r#"{"b":1}"#),
            ("a quote that may open or close a string", r#"{"a":",","b":1}"#, r#"{"a":",","b":2}"#),
        ] {
            let is_compared = accepted(known, text).is_some();
            assert_eq!(is_compared, what.starts_with("a quote"), "{what}");
        }
        assert_eq!(accepted(r#"[",",1]"#, r#"[",",{}]"#), None, "a quote that may open or close a string");
    }
}
