//! The contract as a document, and the rules for growing it.

mod compatible;
mod document;
mod signature;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use wit_bindgen_core::wit_parser::{PackageId, Resolve};

const DOCUMENT: &str = "docs/wit.md";
const RELEASED: &str = "wit/released";

/// `cargo xtask wit-doc`: writes `docs/wit.md` from the comments of `wit/`.
///
/// # Errors
/// When `wit/` does not parse, something in it has no comment, or the file cannot be written.
pub(crate) fn write_document(root: &Path) -> Result<()> {
    fs::write(root.join(DOCUMENT), rendered(root)?).with_context(|| format!("write {DOCUMENT}"))?;
    println!("wit-doc: {DOCUMENT}");
    Ok(())
}

/// What is wrong with the contract, a line each: a stale document, a change that breaks what was released.
///
/// # Errors
/// When a package does not parse.
pub(crate) fn problems(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let document = fs::read_to_string(root.join(DOCUMENT)).unwrap_or_default();
    if document != rendered(root)? {
        found.push(format!("{DOCUMENT} is not what wit/ says: run `cargo xtask wit-doc` and commit it"));
    }
    let (present, package) = parse(&root.join("wit"))?;
    let version = package_version(&present, package)?;
    for folder in released(root)? {
        let (old, old_package) = parse(&folder)?;
        let old_version = package_version(&old, old_package)?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if old_version != name {
            found.push(format!("{RELEASED}/{name} holds the package in version {old_version}"));
        }
        // Another version is another package: the host serves it beside this one.
        if old_version == version {
            let broken = compatible::broken((&old, old_package), (&present, package));
            found.extend(broken.into_iter().map(|what| {
                format!("wit/: {what}, but {version} is released ({RELEASED}/{name}): see the package's rules for growing")
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
