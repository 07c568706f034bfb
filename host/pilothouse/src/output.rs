//! Results on standard output.

use std::fmt::Display;
use std::io::{Write, stdout};

/// Writes one line, and says whether anybody still reads. A reader that has gone (`pilothouse logs | head`) is no
/// failure, and must not end a server that only wanted to say where it listens; `println!` would panic.
pub(crate) fn line(text: impl Display) -> bool {
    writeln!(stdout(), "{text}").is_ok()
}
