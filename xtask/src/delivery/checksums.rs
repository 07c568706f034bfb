//! `cargo xtask checksums`: writes the SHA-256 sums of a release's files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::sha256;

/// The file with the sums, which `sha256sum --check` reads.
const FILE: &str = "SHA256SUMS";

/// Writes `SHA256SUMS` with a line for each other file in the folder.
///
/// # Errors
/// Errors if the folder has no files or cannot be read or written.
pub(crate) fn run(folder: &Path) -> Result<()> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry.with_context(|| format!("read {}", folder.display()))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).context("a file name is not UTF-8")?;
        if path.is_file() && name != FILE {
            let bytes = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
            files.insert(name.to_owned(), sha256::hex(&bytes));
        }
    }
    ensure!(!files.is_empty(), "{} contains no files", folder.display());
    let path = folder.join(FILE);
    fs::write(&path, lines(&files)).with_context(|| format!("write {}", path.display()))?;
    println!("checksums: {} with {} files", path.display(), files.len());
    Ok(())
}

fn lines(files: &BTreeMap<String, String>) -> String {
    files.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_a_line_and_the_sums_are_not_summed() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(run(folder.path()).is_err());
        fs::write(folder.path().join("b"), "").expect("written");
        fs::write(folder.path().join("a"), "abc").expect("written");
        fs::create_dir(folder.path().join("c")).expect("created");
        for _ in 0..2 {
            run(folder.path()).expect("written");
            let text = fs::read_to_string(folder.path().join(FILE)).expect("text");
            assert_eq!(
                text,
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n\
                 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b\n"
            );
        }
    }
}
