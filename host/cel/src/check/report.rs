//! The text of type errors, in the form of cel-go.

use std::fmt::Write;

/// The most errors of a text.
const MAX_ERRORS: usize = 100;
/// The longest text in bytes. Further errors are counted only.
const MAX_LENGTH: usize = 16 << 10;

/// The type errors of an expression: offsets in bytes, and what is wrong there.
#[derive(Debug, Default)]
pub(crate) struct Report(Vec<(usize, String)>);

impl Report {
    pub(crate) fn add(&mut self, offset: usize, problem: String) {
        self.0.push((offset, problem));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the text of the errors, each with its line of `source`.
    pub(crate) fn text(mut self, source: &str) -> String {
        self.0.sort_by_key(|(offset, _)| *offset);
        let mut text = String::new();
        for (index, (offset, problem)) in self.0.iter().enumerate() {
            if index > 0 {
                text.push('\n');
            }
            if index >= MAX_ERRORS || text.len() > MAX_LENGTH {
                let _ = write!(text, "{} more errors were truncated", self.0.len() - index);
                break;
            }
            write_error(&mut text, source, *offset, problem);
        }
        text
    }
}

fn write_error(text: &mut String, source: &str, offset: usize, problem: &str) {
    let before = &source[..offset];
    let line = before.matches('\n').count();
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let column = source[start..offset].chars().count();
    let _ = write!(text, "ERROR: <input>:{}:{}: {problem}", line + 1, column + 1);
    let snippet = source[start..].lines().next().unwrap_or_default().replace('\t', " ");
    let _ = write!(text, "\n | {snippet}\n | ");
    let is_wide = |character: Option<char>| character.is_some_and(|character| character.len_utf8() > 1);
    let mut characters = snippet.chars();
    for _ in 0..column {
        let Some(character) = characters.next() else { break };
        text.push(if is_wide(Some(character)) { '．' } else { '.' });
    }
    text.push(if is_wide(characters.next()) { '＾' } else { '^' });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_their_line_in_the_order_of_the_text() {
        let source = "a ==\n\t\"é\" + b";
        let mut report = Report::default();
        report.add(12, "second".to_owned());
        report.add(2, "first".to_owned());
        let expected = "ERROR: <input>:1:3: first\n | a ==\n | ..^\nERROR: <input>:2:7: second\n |  \"é\" + b\n | ..．...^";
        assert_eq!(report.text(source), expected);
    }

    #[test]
    fn long_texts_are_cut() {
        let source = "x".repeat(8000);
        let mut report = Report::default();
        (0..50).for_each(|offset| report.add(offset, "wrong".to_owned()));
        let text = report.text(&source);
        assert!(text.len() < 3 * MAX_LENGTH && text.ends_with(" more errors were truncated"), "{text}");
    }
}
