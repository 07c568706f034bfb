//! The table of values in the chart's README.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::CHART;
use super::values::Value;

const START: &str = "<!-- values: written by `cargo xtask chart` -->\n";
const END: &str = "<!-- end of values -->\n";

/// Writes the table into the README.
///
/// # Errors
/// Errors if the README cannot be read or written, or has no place for the table.
pub(super) fn write(root: &Path, values: &[Value]) -> Result<()> {
    let path = root.join(CHART).join("README.md");
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let updated = with_table(&text, values).context("the chart's README has no marks for the table")?;
    fs::write(&path, updated).with_context(|| format!("write {}", path.display()))
}

/// Returns a line if the table is not that of the values.
///
/// # Errors
/// Errors if the README cannot be read.
pub(super) fn problem(root: &Path, values: &[Value]) -> Result<Option<String>> {
    let text = fs::read_to_string(root.join(CHART).join("README.md")).context("read the chart's README")?;
    let is_current = with_table(&text, values).is_some_and(|updated| updated == text);
    Ok((!is_current)
        .then(|| format!("{CHART}/README.md: the table differs from values.yaml; run `cargo xtask chart`")))
}

/// Returns the text with the table between the marks.
fn with_table(text: &str, values: &[Value]) -> Option<String> {
    let (before, rest) = text.split_once(START)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{START}{}{END}{after}", table(values)))
}

fn table(values: &[Value]) -> String {
    let mut table = "| value | default | meaning |\n|---|---|---|\n".to_owned();
    for Value { path, description, default } in values {
        let Some(description) = description else { continue };
        let default = match default.as_deref() {
            None | Some("") => "see values.yaml".to_owned(),
            Some(default) => format!("`{default}`"),
        };
        table += &format!("| `{path}` | {default} | {} |\n", description.replace('|', "\\|"));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_replaces_the_one_between_the_marks() {
        let value = |path: &str, description: Option<&str>, default: &str| Value {
            path: path.into(),
            description: description.map(str::to_owned),
            default: Some(default.into()),
        };
        let values =
            [value("a", None, ""), value("a.b", Some("`x|y`."), "\"\""), value("c", Some("Several."), "")];
        let text = format!("# Chart\n\n{START}| old |\n{END}\nMore.\n");
        let expected = format!(
            "# Chart\n\n{START}| value | default | meaning |\n|---|---|---|\n| `a.b` | `\"\"` | `x\\|y`. |\n\
             | `c` | see values.yaml | Several. |\n{END}\nMore.\n"
        );
        assert_eq!(with_table(&text, &values).as_deref(), Some(&*expected));
        assert_eq!(
            with_table(&expected, &values).as_deref(),
            Some(&*expected),
            "a second run changes nothing"
        );
        assert_eq!(with_table("# Chart\n", &values), None);
    }
}
