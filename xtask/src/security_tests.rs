//! The tests that docs/security.md names: each must be there, or the promise beside it is shown by nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The page with the tables.
const PAGE: &str = "docs/security.md";

/// A line for each test that the page names and no source file has.
///
/// # Errors
/// When the page or a source file cannot be read.
pub(crate) fn unshown(root: &Path, files: &[PathBuf]) -> Result<Vec<String>> {
    let read = |file: &Path| {
        std::fs::read_to_string(root.join(file)).with_context(|| format!("read {}", file.display()))
    };
    let page = read(Path::new(PAGE))?;
    let mut missing = named(&page);
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs")) {
        let text = read(file)?;
        missing.retain(|test| !text.contains(&format!("fn {test}(")));
    }
    Ok(missing.into_iter().map(|test| format!("{PAGE}: there is no test {test}")).collect())
}

/// The names in the tables: code in backquotes that is one long identifier.
fn named(page: &str) -> BTreeSet<&str> {
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
    fn tests_are_the_long_identifiers_of_the_tables() {
        let page = "Text with `a_name_of_a_test`.\n| a `.wasm` | `a_plugin_is_refused`, `limits.hostMemory`, `b06_retry_after_0_backs_off` |\n";
        assert_eq!(Vec::from_iter(named(page)), ["a_plugin_is_refused", "b06_retry_after_0_backs_off"]);
    }
}
