//! Checks code excerpts in documents.
//!
//! `<!-- from PATH -->` above a code block states that the file at PATH contains exactly that code.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Returns a line for each excerpt that is not in its source file.
///
/// # Errors
/// Errors if a document cannot be read.
pub(crate) fn stale_excerpts(root: &Path, files: &[PathBuf]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "md")) {
        let text = fs::read_to_string(root.join(file)).with_context(|| format!("read {}", file.display()))?;
        for (path, code) in excerpts(&text) {
            let source = fs::read_to_string(root.join(path)).unwrap_or_default();
            if !source.contains(code) {
                found.push(format!(
                    "{}: the code from {path} is not in that file; copy it again",
                    file.display()
                ));
            }
        }
    }
    Ok(found)
}

/// Returns the path and the code of each marked block.
fn excerpts(text: &str) -> Vec<(&str, &str)> {
    let marked = text.split("<!-- from ").skip(1);
    marked
        .filter_map(|rest| {
            let (path, rest) = rest.split_once(" -->\n\n```")?;
            let (_, rest) = rest.split_once('\n')?;
            let (code, _) = rest.split_once("\n```")?;
            Some((path, code))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marked_block_is_found_with_its_file() {
        let text =
            "Text.\n\n<!-- from a/b.rs -->\n\n```rust\nlet a = 1;\n\nlet b = 2;\n```\n\n```sh\nls\n```\n";
        assert_eq!(excerpts(text), [("a/b.rs", "let a = 1;\n\nlet b = 2;")]);
    }

    #[test]
    fn an_excerpt_that_differs_from_its_source_is_reported() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a.rs"), "fn a() {}\n").unwrap();
        let document = |code: &str| format!("<!-- from a.rs -->\n\n```rust\n{code}\n```\n");
        fs::write(root.path().join("good.md"), document("fn a() {}")).unwrap();
        fs::write(root.path().join("bad.md"), document("fn b() {}")).unwrap();
        let found = stale_excerpts(root.path(), &["good.md".into(), "bad.md".into(), "a.rs".into()]).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("bad.md: the code from a.rs"), "{found:?}");
    }
}
