//! Makes text from plugins safe to write: escapes it, and limits its escaped length.

use std::fmt::{self, Display, Write};

use super::ignorable::is_default_ignorable;

/// Displays a plugin's text with control characters and invisible ones escaped, because those could forge or hide text on a terminal,
/// and two names that differ only in them would look the same. Everything else is unchanged.
pub fn printable(text: &str) -> impl Display {
    Printable(text)
}

/// Displays a plugin's text between quotes, with the same characters escaped, and quotes and backslashes.
pub fn printable_quoted(text: &str) -> impl Display {
    PrintableQuoted(text)
}

struct PrintableQuoted<'a>(&'a str);

impl Display for PrintableQuoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The escapes of strings leave some invisible letters.
        write!(Escaping(f), "{:?}", self.0)
    }
}

struct Printable<'a>(&'a str);

impl Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Escaping(f).write_str(self.0)
    }
}

/// A writer that escapes what is written through it.
struct Escaping<W>(W);

impl<W: Write> Write for Escaping<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|character| match character {
            character if is_hidden(character) => write!(self.0, "{}", character.escape_default()),
            character => self.0.write_char(character),
        })
    }
}

/// Whether a character controls a terminal or is invisible: C0 and C1 controls, line and paragraph separators, interlinear annotations, and what is
/// shown as nothing, such as bidirectional formatting and tag characters.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{fff9}'..='\u{fffb}')
        || is_default_ignorable(character)
}

/// Returns the length of the longest prefix that takes at most `room` bytes in the log. Counts the worst
/// case: a log in JSON, where the backslash of each escape is escaped as well.
pub(super) fn fitting_prefix(text: &str, mut room: usize) -> usize {
    for (at, character) in text.char_indices() {
        let width = match character {
            '"' | '\\' => 2,
            character if is_hidden(character) => character.escape_default().len() + 1,
            character => character.len_utf8(),
        };
        if width > room {
            return at;
        }
        room -= width;
    }
    text.len()
}

/// The size of an already escaped text in a line of JSON.
pub(super) fn size_in_json(text: &str) -> usize {
    text.len() + text.bytes().filter(|byte| matches!(byte, b'"' | b'\\')).count()
}

/// Formats only the first `room` bytes of a text, whose full length may be unlimited.
pub(crate) fn format_prefix(text: fmt::Arguments<'_>, room: usize) -> String {
    let mut writer = PrefixWriter { text: String::new(), room };
    // An error means that there is no room for the rest.
    let _ = writer.write_fmt(text);
    writer.text
}

struct PrefixWriter {
    text: String,
    room: usize,
}

impl Write for PrefixWriter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = text.floor_char_boundary(self.room - self.text.len());
        self.text.push_str(&text[..end]);
        if end < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_controls_and_invisible_characters_are_escaped() {
        let shown = printable("\"it's\" ä \u{1b}[2J\n\u{202e}x\u{9b}\u{2028}").to_string();
        assert_eq!(shown, r#""it's" ä \u{1b}[2J\n\u{202e}x\u{9b}\u{2028}"#);
    }

    #[test]
    fn names_that_differ_in_invisible_characters_do_not_look_the_same() {
        for hidden in [
            '\u{ad}',
            '\u{34f}',
            '\u{115f}',
            '\u{1160}',
            '\u{17b4}',
            '\u{180b}',
            '\u{180e}',
            '\u{200b}',
            '\u{200c}',
            '\u{200d}',
            '\u{2064}',
            '\u{3164}',
            '\u{fe00}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{ffa0}',
            '\u{1d173}',
            '\u{e0001}',
            '\u{e0100}',
        ] {
            let text = format!("we{hidden}b");
            let escaped = format!("we{}b", hidden.escape_default());
            assert_eq!(printable(&text).to_string(), escaped);
            assert_eq!(printable_quoted(&text).to_string(), format!("\"{escaped}\""));
        }
        assert_eq!(printable_quoted("a\"\\\n").to_string(), r#""a\"\\\n""#);
    }

    #[test]
    fn a_text_is_truncated_by_its_escaped_size() {
        for text in ["plain text", "\0\0\0\0\0\0", "\"\\\"\\\"", "\u{1b}[31m", "äöü\u{202e}"] {
            for room in 0..40 {
                let prefix = &text[..fitting_prefix(text, room)];
                let json = serde_json::to_string(&printable(prefix).to_string()).expect("JSON");
                assert!(json.len() - 2 <= room, "{prefix:?} in {room}");
                assert_eq!(json.len() - 2, size_in_json(&printable(prefix).to_string()), "{prefix:?}");
            }
            assert_eq!(fitting_prefix(text, 1000), text.len());
        }
    }

    #[test]
    fn formatting_stops_at_the_limit() {
        assert_eq!(format_prefix(format_args!("{}-{}", "ab", "cä"), 5), "ab-c");
        assert_eq!(format_prefix(format_args!("{}-{}", "ab", "c"), 5), "ab-c");
    }
}
