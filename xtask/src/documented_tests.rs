//! Checks that every test named in docs/security.md and docs/behaviours.md exists. Without its test, a statement there is not verified.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The pages whose tables name tests.
const PAGES: [&str; 2] = ["docs/security.md", "docs/behaviours.md"];

/// Returns a line for each test that a page names and no source file defines.
///
/// # Errors
/// Errors if a page or a source file cannot be read.
pub(crate) fn missing_tests(root: &Path, files: &[PathBuf]) -> Result<Vec<String>> {
    let read = |file: &Path| {
        std::fs::read_to_string(root.join(file)).with_context(|| format!("read {}", file.display()))
    };
    let pages = PAGES.map(|page| Ok((page, read(Path::new(page))?)));
    let pages = pages.into_iter().collect::<Result<Vec<_>>>()?;
    let mut missing: Vec<(&str, &str)> = pages
        .iter()
        .flat_map(|(page, text)| test_names(text).into_iter().map(|test| (*page, test)))
        .collect();
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs")) {
        let text = read(file)?;
        missing.retain(|(_, test)| !text.contains(&format!("fn {test}(")));
    }
    Ok(missing.into_iter().map(|(page, test)| format!("{page}: the test {test} does not exist")).collect())
}

/// Returns the test names in the tables: code in backquotes that is one identifier with at least three underscores.
fn test_names(page: &str) -> BTreeSet<&str> {
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let code = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    code.filter(|text| {
        text.matches('_').count() >= 3
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_names_are_the_long_identifiers_in_tables() {
        let page = "Text with `a_name_of_a_test`.\n| a `.wasm` | `a_plugin_is_refused`, `limits.hostMemory`, `retry_after_0_backs_off` |\n";
        assert_eq!(Vec::from_iter(test_names(page)), ["a_plugin_is_refused", "retry_after_0_backs_off"]);
    }
}
