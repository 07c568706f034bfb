//! Generates the contract's documentation and checks the contract for breaking changes.

mod compatibility;
mod document;
mod signature;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use wit_bindgen_core::wit_parser::{PackageId, Resolve};

const DOCUMENT: &str = "docs/wit.md";
const RELEASED: &str = "wit/released";

/// `cargo xtask wit-doc`: writes `docs/wit.md` from the comments in `wit/`.
///
/// # Errors
/// Errors if `wit/` does not parse, an item has no comment, or the file cannot be written.
pub(crate) fn write_document(root: &Path) -> Result<()> {
    fs::write(root.join(DOCUMENT), rendered(root)?).with_context(|| format!("write {DOCUMENT}"))?;
    println!("wit-doc: {DOCUMENT}");
    Ok(())
}

/// Returns a line for each problem with the contract: an outdated document, or a change that breaks a released version.
///
/// # Errors
/// Errors if a package does not parse.
pub(crate) fn problems(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let document = fs::read_to_string(root.join(DOCUMENT)).unwrap_or_default();
    if document != rendered(root)? {
        found.push(format!("{DOCUMENT} is out of date with wit/: run `cargo xtask wit-doc` and commit it"));
    }
    let (present, package) = parse(&root.join("wit"))?;
    let version = package_version(&present, package)?;
    for folder in released(root)? {
        let (old, old_package) = parse(&folder)?;
        let old_version = package_version(&old, old_package)?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if old_version != name {
            found.push(format!("{RELEASED}/{name} contains version {old_version} of the package"));
        }
        // Another version is a separate package, which the host supports in addition to this one.
        if old_version == version {
            let changes = compatibility::breaking_changes((&old, old_package), (&present, package));
            found.extend(changes.into_iter().map(|change| {
                format!(
                    "wit/: {change}, but {version} is released ({RELEASED}/{name}): see the compatibility rules in the package's comment"
                )
            }));
        }
    }
    Ok(found)
}

fn rendered(root: &Path) -> Result<String> {
    let (resolve, package) = parse(&root.join("wit"))?;
    document::render(&resolve, package)
}

fn released(root: &Path) -> Result<Vec<PathBuf>> {
    let folder = root.join(RELEASED);
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("read {RELEASED}"))? {
        found.push(entry.with_context(|| format!("read {RELEASED}"))?.path());
    }
    found.retain(|path| path.is_dir());
    ensure!(!found.is_empty(), "{RELEASED} has no release");
    found.sort();
    Ok(found)
}

fn parse(folder: &Path) -> Result<(Resolve, PackageId)> {
    let mut resolve = Resolve::default();
    let (package, _) =
        resolve.push_dir(folder).map_err(|error| anyhow!("{}: {error:#}", folder.display()))?;
    Ok((resolve, package))
}

fn package_version(resolve: &Resolve, package: PackageId) -> Result<String> {
    let name = &resolve.packages[package].name;
    let version = name.version.as_ref().with_context(|| format!("the package {name} has no version"))?;
    Ok(version.to_string())
}
