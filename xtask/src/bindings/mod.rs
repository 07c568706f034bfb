//! `cargo xtask bindings`: generates the bindings of the C, Go and Rust SDKs. They are committed: C and Go cannot generate them at compile
//! time, and in Rust the generator would take a fifth of a plugin's first build.
//!
//! Users of these SDKs do not need wit-bindgen. `cargo xtask tidy` checks that the committed files match `wit/`.

mod c;
mod go;
mod rust;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use wit_bindgen_core::wit_parser::{Resolve, WorldId};
use wit_bindgen_core::{Files, WorldGenerator};

use crate::wit::contract_version;

/// The contents of generated files, by their path in the repository.
type GeneratedFiles = BTreeMap<PathBuf, Vec<u8>>;

/// Folders that contain only generated files.
const GENERATED_FOLDERS: [&str; 3] = [c::FOLDER, go::FOLDER, rust::FOLDER];

/// The one function of WASI that the SDKs for C and Rust use: the time of day.
const WASI: &str = "xtask/wasi-clocks";

const REMEDY: &str = "run `cargo xtask bindings` and commit the changes";

/// Writes the bindings and removes files that are no longer generated.
///
/// # Errors
/// Errors if `wit/` does not parse or a file cannot be written.
pub(crate) fn run(root: &Path) -> Result<()> {
    let generated = generate(root)?;
    for path in committed_files(root)?.into_iter().filter(|path| !generated.contains_key(path)) {
        fs::remove_file(root.join(&path)).with_context(|| format!("remove {}", path.display()))?;
        println!("bindings: removed {}", path.display());
    }
    let mut changed = 0;
    for (path, contents) in &generated {
        let file = root.join(path);
        if fs::read(&file).is_ok_and(|present| present == *contents) {
            continue;
        }
        let folder = file.parent().unwrap_or(root);
        fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        fs::write(&file, contents).with_context(|| format!("write {}", path.display()))?;
        println!("bindings: {}", path.display());
        changed += 1;
    }
    println!("bindings: {changed} of {} files changed", generated.len());
    Ok(())
}

/// Returns a line for each file that `cargo xtask bindings` would change.
///
/// # Errors
/// Errors if `wit/` does not parse or a committed file cannot be read.
pub(crate) fn stale_files(root: &Path) -> Result<Vec<String>> {
    let generated = generate(root)?;
    let mut found = Vec::new();
    for (path, contents) in &generated {
        let state = match fs::read(root.join(path)) {
            Ok(present) if present == *contents => continue,
            Ok(_) => "is out of date with wit/",
            Err(_) => "is missing",
        };
        found.push(format!("{} {state}: {REMEDY}", path.display()));
    }
    let obsolete = committed_files(root)?.into_iter().filter(|path| !generated.contains_key(path));
    found.extend(obsolete.map(|path| format!("{} is no longer generated: {REMEDY}", path.display())));
    Ok(found)
}

fn generate(root: &Path) -> Result<GeneratedFiles> {
    let version = contract_version(root)?;
    let mut generated = c::generate(root, &version)?;
    generated.extend(go::generate(root, &version)?);
    generated.extend(rust::generate(root, &version)?);
    Ok(generated)
}

fn committed_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> =
        GENERATED_FOLDERS.iter().map(PathBuf::from).filter(|folder| root.join(folder).is_dir()).collect();
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(root.join(&folder)).with_context(|| format!("read {}", folder.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("read {}", folder.display()))?;
            let path = folder.join(entry.file_name());
            if entry.path().is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    Ok(found)
}

/// Parses the contract, further packages, and `world`: the WIT text of a package with one world.
fn resolve(root: &Path, packages: &[&str], world: &str) -> Result<(Resolve, WorldId)> {
    let mut resolve = Resolve::default();
    for path in [&["wit"], packages].concat() {
        resolve.push_dir(root.join(path)).with_context(|| format!("parse {path}"))?;
    }
    let package = resolve.push_str("guest.wit", world).context("parse the guest's world")?;
    let world = resolve.select_world(&[package], None).context("find the guest's world")?;
    Ok((resolve, world))
}

fn files(
    generator: &mut dyn WorldGenerator,
    mut resolve: Resolve,
    world: WorldId,
) -> Result<Vec<(String, Vec<u8>)>> {
    let mut files = Files::default();
    generator.generate(&mut resolve, world, &mut files)?;
    Ok(files.iter().map(|(name, contents)| (name.to_owned(), contents.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> PathBuf {
        crate::root()
    }

    #[test]
    fn committed_bindings_match_the_contract() {
        assert_eq!(stale_files(&root()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn changed_missing_and_extra_files_are_found_and_fixed() {
        let copy = tempfile::tempdir().unwrap();
        for folder in ["wit", WASI] {
            fs::create_dir_all(copy.path().join(folder)).unwrap();
            for entry in
                fs::read_dir(root().join(folder)).unwrap().flatten().filter(|entry| entry.path().is_file())
            {
                fs::copy(entry.path(), copy.path().join(folder).join(entry.file_name())).unwrap();
            }
        }
        assert!(stale_files(copy.path()).unwrap().iter().all(|line| line.contains("is missing")));
        run(copy.path()).unwrap();
        assert_eq!(stale_files(copy.path()).unwrap(), Vec::<String>::new());

        let file = copy.path().join(c::FOLDER).join("bindings.h");
        let changed = fs::read_to_string(&file).unwrap().replacen("watch", "wotch", 1);
        fs::write(&file, changed).unwrap();
        fs::write(copy.path().join(go::FOLDER).join("old.go"), "package old\n").unwrap();
        let found = stale_files(copy.path()).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].contains("bindings.h is out of date with wit/: run `cargo xtask bindings`"),
            "{found:?}"
        );
        assert!(found[1].contains("old.go is no longer generated"), "{found:?}");
        run(copy.path()).unwrap();
        assert_eq!(stale_files(copy.path()).unwrap(), Vec::<String>::new());
    }
}
