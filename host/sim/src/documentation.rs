//! Keeps the tables of docs/simulation.md equal to the code.

use std::path::Path;

use crate::{oracle, rules};

/// The tables, with the comments between which they are.
fn tables() -> [(&'static str, String); 2] {
    [("rules", rules::markdown_table()), ("oracles", oracle::markdown_table())]
}

fn with_tables(mut text: String) -> String {
    for (name, table) in tables() {
        let (begin, end) = (format!("<!-- {name}: generated -->\n"), format!("<!-- end of {name} -->"));
        let start =
            text.find(&begin).unwrap_or_else(|| panic!("docs/simulation.md has no {begin:?}")) + begin.len();
        let length = text[start..].find(&end).unwrap_or_else(|| panic!("docs/simulation.md has no {end:?}"));
        text.replace_range(start..start + length, &format!("\n{table}\n"));
    }
    text
}

/// With `PILOTHOUSE_UPDATE_DOCS=1` the tables are written instead of compared.
#[test]
fn the_tables_of_the_documentation_are_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulation.md");
    let text = std::fs::read_to_string(&path).expect("docs/simulation.md");
    let expected = with_tables(text.clone());
    if std::env::var_os("PILOTHOUSE_UPDATE_DOCS").is_some() {
        std::fs::write(&path, expected).expect("docs/simulation.md is writable");
        return;
    }
    assert!(
        text == expected,
        "docs/simulation.md is not up to date: run PILOTHOUSE_UPDATE_DOCS=1 cargo test -p pilothouse-sim documentation"
    );
}
