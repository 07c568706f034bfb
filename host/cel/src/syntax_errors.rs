//! The text of syntax errors, in the form of cel-go.

use crate::bounds;
use crate::bounds::tokens::{Tokens, UNKNOWN_CHARACTER};
use crate::check::report::Report;
use crate::expression::parse;

/// The most characters of a text that start no token.
const MAX_UNKNOWN: usize = 16;

/// Returns the syntax errors of a text with their positions, as cel-go reports them. `None` if the text has none, exceeds a bound, or is so
/// malformed that the parser fails.
pub fn syntax_errors(text: &str) -> Option<String> {
    if text.len() > bounds::MAX_LENGTH {
        return None;
    }
    let mut report = Report::default();
    // As cel-go's lexer does, skip each unknown character. The rest of the text is checked and parsed with a space in its place.
    let mut known = text.to_owned();
    let mut unknown = 0;
    while let Some(offset) = unknown_character(&known) {
        unknown += 1;
        let character = known[offset..].chars().next().filter(|_| unknown <= MAX_UNKNOWN)?;
        // Half of an operator such as `==` is noticed at the character after it, which is skipped, too.
        let count = if matches!(character, '=' | '&' | '|') { 2 } else { 1 };
        let skipped: String = known[offset..].chars().take(count).collect();
        report.add(offset, format!("Syntax error: token recognition error at: '{skipped}'"));
        known.replace_range(offset..offset + skipped.len(), &" ".repeat(skipped.len()));
    }
    bounds::check(&known).ok()?;
    if let Err(errors) = parse(&known)? {
        for error in errors.errors {
            report.add(offset(text, error.pos)?, error.msg);
        }
    }
    (!report.is_empty()).then(|| report.text(text))
}

/// Returns the offset of the first character that starts no token.
fn unknown_character(text: &str) -> Option<usize> {
    Tokens::of(text)
        .find_map(Result::err)
        .filter(|(_, problem)| *problem == UNKNOWN_CHARACTER)
        .map(|(at, _)| at)
}

/// Returns the offset in bytes of a line and column, both from 1.
fn offset(text: &str, (line, column): (isize, isize)) -> Option<usize> {
    let (line, column) =
        (usize::try_from(line).ok()?.checked_sub(1)?, usize::try_from(column).ok()?.checked_sub(1)?);
    let start = text.split_inclusive('\n').take(line).map(str::len).sum::<usize>();
    let rest = text.get(start..)?;
    Some(start + rest.char_indices().nth(column).map_or(rest.len(), |(offset, _)| offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_those_of_cel_go() {
        let expected = "ERROR: <input>:1:8: Syntax error: token recognition error at: '='\n | self ===\n | .......^\n\
                        ERROR: <input>:1:9: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', \
                        '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n \
                        | self ===\n | ........^";
        assert_eq!(syntax_errors("self ===").as_deref(), Some(expected));
        assert_eq!(syntax_errors("self == 1"), None);
        assert_eq!(syntax_errors(&"#".repeat(100)), None);
        assert_eq!(syntax_errors(&"(".repeat(100)), None);
        let second_line = syntax_errors("self.a == 'é' &&\n  self = 1").expect("errors");
        assert!(
            second_line.contains("<input>:2:8: Syntax error: token recognition error at: '= '"),
            "{second_line}"
        );
        assert!(second_line.contains("<input>:2:10: Syntax error: extraneous input '1'"), "{second_line}");
        let character = syntax_errors("é.a").expect("errors");
        assert!(character.starts_with("ERROR: <input>:1:1: Syntax error: token recognition error at: 'é'"));
    }
}
