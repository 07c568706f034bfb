//! Writes results to standard output.

use std::fmt::{self, Display, Formatter};
use std::io::{Write, stdout};

use pilothouse_controller::printable;

/// Writes one line to standard output. Returns `false` once the reader has closed the pipe.
///
/// Unlike `println!`, this does not panic on a closed pipe (`pilothouse logs | head`): a server that only prints its
/// address must keep running.
pub(crate) fn print_line(text: impl Display) -> bool {
    writeln!(stdout(), "{}", TerminalSafe(&text.to_string())).is_ok()
}

/// Returns a line for each row, with the cells of each column below each other. All rows must have the same number of cells.
pub(crate) fn align(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join("   ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// Displays text with all control characters escaped except newlines and tabs. Parts of the text may come from a plugin and
/// must not control the terminal.
pub(crate) struct TerminalSafe<'a>(pub(crate) &'a str);

impl Display for TerminalSafe<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, line) in self.0.split('\n').enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            write!(f, "{newline}")?;
            for (index, part) in line.split('\t').enumerate() {
                let tab = if index == 0 { "" } else { "\t" };
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
    fn the_cells_of_a_column_begin_below_each_other() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let rows = [row(["NAME", "STATE"]), row(["a", "ä long one"]), row(["longer", ""])];
        assert_eq!(align(&rows), ["NAME     STATE", "a        ä long one", "longer"]);
        assert_eq!(align(&[]), Vec::<String>::new());
    }

    #[test]
    fn control_characters_except_newline_and_tab_are_escaped() {
        assert_eq!(TerminalSafe("a\tb\nc\n").to_string(), "a\tb\nc\n");
        assert_eq!(TerminalSafe("a\u{1b}]0;x\u{7}\r\u{85}").to_string(), r"a\u{1b}]0;x\u{7}\r\u{85}");
    }
}
