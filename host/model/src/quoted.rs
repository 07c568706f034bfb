//! Text from users in error messages.

use std::fmt::{self, Display, Write};

/// Displays a text between quotes that it does not contain, so that its own quotes need no backslash. Characters that are not printable are
/// escaped.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quote = ['"', '`', '\''].into_iter().find(|quote| !self.0.contains(*quote)).unwrap_or('"');
        f.write_char(quote)?;
        for character in self.0.chars() {
            let is_plain = matches!(character, '"' | '\'' | '\\') && character != quote;
            if is_plain {
                f.write_char(character)?;
            } else {
                write!(f, "{}", character.escape_debug())?;
            }
        }
        f.write_char(quote)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quotes_of_a_text_are_not_doubled() {
        for (text, quoted) in [
            ("plain", r#""plain""#),
            ("", r#""""#),
            (r#".a["b"]"#, r#"`.a["b"]`"#),
            (".a['b']", r#"".a['b']""#),
            (r"a\.b", r#""a\.b""#),
            ("\"`", "'\"`'"),
            ("\"`'", r#""\"`'""#),
            ("a\n\u{1b}", r#""a\n\u{1b}""#),
        ] {
            assert_eq!(Quoted(text).to_string(), quoted);
        }
    }
}
