//! The table in the catalogue's README, which is written from catalogue.yaml.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::FOLDER;
use super::table::{Case, Catalogue};

const FILE: &str = "README.md";
const BEGIN: &str =
    "<!-- This table is written by `cargo xtask catalogue --readme`, from catalogue.yaml. -->\n\n";
const END: &str = "\n<!-- End of the table. -->";
const HEADER: &str = "| number | bug | language | scenario | found by | guarantees | class | sources |\n|---|---|---|---|---|---|---|---|\n";

/// Writes the table into the README.
///
/// # Errors
/// Errors if the README cannot be read or written, or lacks the comments around the table.
pub(super) fn update(root: &Path, catalogue: &Catalogue) -> Result<()> {
    let path = root.join(FOLDER).join(FILE);
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    fs::write(&path, with_table(&text, catalogue)?).with_context(|| format!("write {}", path.display()))?;
    println!("catalogue: wrote the table of {FOLDER}/{FILE}");
    Ok(())
}

/// Returns a line if the table in the README is not up to date.
///
/// # Errors
/// Errors if the README cannot be read, or lacks the comments around the table.
pub(super) fn problem(root: &Path, catalogue: &Catalogue) -> Result<Option<String>> {
    let path = root.join(FOLDER).join(FILE);
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let is_current = with_table(&text, catalogue)? == text;
    Ok((!is_current)
        .then(|| format!("{FOLDER}/{FILE} is not up to date; run `cargo xtask catalogue --readme`")))
}

fn with_table(text: &str, catalogue: &Catalogue) -> Result<String> {
    let (before, rest) = text.split_once(BEGIN).context("the README lacks the comment before the table")?;
    let (_, after) = rest.split_once(END).context("the README lacks the comment after the table")?;
    Ok(format!("{before}{BEGIN}{}{END}{after}", table(catalogue)))
}

fn table(catalogue: &Catalogue) -> String {
    let mut table = HEADER.to_owned();
    for case in &catalogue.cases {
        let Case { number, title, source, scenario, guarantees, .. } = case;
        let language = case.language.title();
        let (oracles, classes) = (case.oracles.join("; "), case.classes.join(", "));
        let links: Vec<String> =
            case.sources.iter().map(|source| format!("[{}]({source})", short(source))).collect();
        let links = links.join(", ");
        // Writing to a String cannot fail.
        let _ = writeln!(
            table,
            "| {number} | [{title}]({source}) | {language} | [scenario]({scenario}) | {oracles} | {guarantees} | {classes} | {links} |"
        );
    }
    table
}

/// Returns `OWNER/NAME#NUMBER` for the address of an issue or a pull request.
fn short(address: &str) -> String {
    let path = address.strip_prefix("https://github.com/").unwrap_or(address);
    path.replace("/issues/", "#").replace("/pull/", "#")
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::catalogue;
    use super::*;

    #[test]
    fn the_table_replaces_what_is_between_the_comments() {
        let catalogue = catalogue("gaps: []\n");
        let text = format!("before\n{BEGIN}old\n{END}\nafter\n");
        let row = "| 1 | [Deletes too much](js/a.js) | JavaScript | [scenario](scenarios/01-a.yaml) | summary | on | T \
                   | [o/r#7](https://github.com/o/r/issues/7) |\n";
        let expected = format!("before\n{BEGIN}{HEADER}{row}{END}\nafter\n");
        assert_eq!(with_table(&text, &catalogue).expect("comments"), expected);
        assert_eq!(with_table(&expected, &catalogue).expect("comments"), expected);
        assert!(with_table("no comments", &catalogue).is_err());
    }

    #[test]
    fn sources_are_shown_as_github_shows_them() {
        assert_eq!(short("https://github.com/o/r/pull/7"), "o/r#7");
        assert_eq!(short("https://example.com/a"), "https://example.com/a");
    }
}
