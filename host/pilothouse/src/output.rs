//! Results on standard output.

use std::fmt::{self, Display, Formatter};
use std::io::{Write, stdout};

use pilothouse_controller::printable;

/// Writes one line, and says whether anybody still reads. A reader that has gone (`pilothouse logs | head`) is no
/// failure, and must not end a server that only wanted to say where it listens; `println!` would panic.
pub(crate) fn line(text: impl Display) -> bool {
    writeln!(stdout(), "{}", Shown(&text.to_string())).is_ok()
}

/// A text whose lines are as it has them, and that has no other control characters: a part of it may be a plugin's.
pub(crate) struct Shown<'a>(pub(crate) &'a str);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, line) in self.0.split('\n').enumerate() {
            let end = if at == 0 { "" } else { "\n" };
            write!(f, "{end}")?;
            for (at, part) in line.split('\t').enumerate() {
                let tab = if at == 0 { "" } else { "\t" };
                write!(f, "{tab}{}", printable(part))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_tabs_stay_and_the_rest_is_escaped() {
        assert_eq!(Shown("a\tb\nc\n").to_string(), "a\tb\nc\n");
        assert_eq!(Shown("a\u{1b}]0;x\u{7}\r\u{85}").to_string(), r"a\u{1b}]0;x\u{7}\r\u{85}");
    }
}
