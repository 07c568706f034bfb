//! A copy of the working tree into which faults are inserted, so that the checkout itself never has one.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::tidy;

/// Copies all files that git tracks to the folder `copy`, which is replaced if it exists.
///
/// # Errors
/// Errors if git or the file system fails.
pub(crate) fn copy_to(root: &Path, copy: &Path) -> Result<()> {
    if copy.exists() {
        fs::remove_dir_all(copy).with_context(|| format!("remove {}", copy.display()))?;
    }
    for name in tidy::tracked(root)? {
        let target = copy.join(&name);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
        }
        fs::copy(root.join(&name), &target).with_context(|| format!("copy {}", name.display()))?;
    }
    Ok(())
}

/// Returns the source with `from` replaced by `to`.
///
/// # Errors
/// Errors unless the source contains `from` exactly once.
pub(crate) fn replace_once(source: &str, from: &str, to: &str) -> Result<String> {
    match source.matches(from).count() {
        1 => Ok(source.replacen(from, to, 1)),
        found => bail!("the source contains the text to replace {found} times instead of once"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_replaced_only_if_it_occurs_once() {
        assert_eq!(replace_once("a = b;", "b", "c").expect("once"), "a = c;");
        let error = |source: &str| replace_once(source, "b", "c").expect_err(source).to_string();
        assert!(error("a").contains("0 times") && error("bb").contains("2 times"));
    }
}
