//! Finds places in the repository that name an outdated version of the contract.
//!
//! `wit/types.wit` declares the version. Sources that a tool reads as they are, such as the SDKs' worlds and the tests' guests, repeat it.

use std::fs;
use std::path::{Path, PathBuf};

use super::version::Version;

/// Files and folders that name old versions on purpose.
const EXEMPT: [&str; 2] = ["wit/released", "CHANGELOG.md"];

/// Returns a line for each place in the files that names an earlier version than `version`. Tests name later versions on purpose.
pub(super) fn outdated(root: &Path, files: &[PathBuf], version: Version) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| !EXEMPT.iter().any(|exempt| file.starts_with(exempt))) {
        // Binary files and links to folders have no text.
        let Ok(text) = fs::read_to_string(root.join(file)) else { continue };
        for (index, line) in text.lines().enumerate() {
            if let Some(old) = versions(line).find(|named| *named < version) {
                let (file, number) = (file.display(), index + 1);
                found.push(format!(
                    "{file}:{number}: names the contract's version {old}, which is {version} now"
                ));
            }
        }
    }
    found
}

/// Returns the versions in names of the package and of its interfaces.
fn versions(line: &str) -> impl Iterator<Item = Version> {
    let names = line.split("pilothouse:controller").skip(1);
    names.filter_map(|name| {
        let (interface, version) = name.split_once('@')?;
        // The name of an interface, or a place in a template.
        let is_part =
            |char: char| char.is_ascii_alphanumeric() || ['-', '/', '_', '$', '{', '}'].contains(&char);
        let end = version.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(version.len());
        let version = Version::parse(version[..end].trim_end_matches('.'));
        version.filter(|_| interface.chars().all(is_part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKAGE: &str = "pilothouse:controller";

    #[test]
    fn versions_are_found_in_names_of_the_package_and_its_interfaces() {
        for (line, expected) in [
            (format!("package {PACKAGE}@0.1.7;"), &["0.1.7"][..]),
            (format!("include {PACKAGE}/a-b@0.1.0; export {PACKAGE}/c@0.1.1#d;"), &["0.1.0", "0.1.1"]),
            (format!("`{PACKAGE}/{{interface}}@0.1.0`."), &["0.1.0"]),
            (format!("It is {PACKAGE}@0.1.0."), &["0.1.0"]),
            (format!("{PACKAGE}/cache@0.1|get, {PACKAGE}/cache@{{version}}"), &[]),
            (format!("{PACKAGE} and wasi:clocks/wall-clock@0.2.0"), &[]),
        ] {
            let found: Vec<_> = versions(&line).map(|version| version.to_string()).collect();
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn earlier_versions_are_reported_except_in_releases_and_the_changelog() {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(root.path().join("wit/released")).expect("a folder");
        let files = ["CHANGELOG.md", "a.md", "b.bin", "later.rs", "link", "wit/released/a.wit"];
        for file in files.iter().filter(|file| **file != "link") {
            fs::write(root.path().join(file), format!("Text.\n{PACKAGE}@0.1.0\n")).expect("written");
        }
        fs::write(root.path().join("b.bin"), b"\xff\xfe").expect("written");
        fs::write(root.path().join("later.rs"), format!("{PACKAGE}@0.2.0")).expect("written");
        let version = Version::parse("0.1.1").expect("a version");
        let found = outdated(root.path(), &files.map(PathBuf::from), version);
        assert_eq!(found, ["a.md:2: names the contract's version 0.1.0, which is 0.1.1 now"]);
    }
}
