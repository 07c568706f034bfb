//! Generates the contract's documentation, and checks the contract, its releases, and where its version is named.

mod compatibility;
mod document;
mod mentions;
mod signature;
mod version;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use wit_bindgen_core::wit_parser::{PackageId, Resolve};

use self::version::Version;

const DOCUMENT: &str = "docs/wit.md";
const RELEASED: &str = "wit/released";

/// A version of the contract.
struct Contract {
    /// Where it is, for messages.
    folder: String,
    resolve: Resolve,
    package: PackageId,
    version: Version,
}

/// `cargo xtask wit-doc`: writes `docs/wit.md` from the comments in `wit/`.
///
/// # Errors
/// Errors if `wit/` does not parse, an item has no comment, or the file cannot be written.
pub(crate) fn write_document(root: &Path) -> Result<()> {
    fs::write(root.join(DOCUMENT), rendered(&Contract::read(root, "wit")?)?)
        .with_context(|| format!("write {DOCUMENT}"))?;
    println!("wit-doc: {DOCUMENT}");
    Ok(())
}

/// Returns the version of the contract, which `wit/types.wit` declares.
///
/// # Errors
/// Errors if `wit/` does not parse.
pub(crate) fn contract_version(root: &Path) -> Result<String> {
    Ok(Contract::read(root, "wit")?.version.to_string())
}

/// Returns a line for each problem with the contract: an outdated document, a change that breaks a released version, a change of a
/// released version, or an outdated version in one of the files.
///
/// # Errors
/// Errors if a package does not parse.
pub(crate) fn problems(root: &Path, files: &[PathBuf]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let present = Contract::read(root, "wit")?;
    let document = fs::read_to_string(root.join(DOCUMENT)).unwrap_or_default();
    if document != rendered(&present)? {
        found.push(format!("{DOCUMENT} is out of date with wit/: run `cargo xtask wit-doc` and commit it"));
    }
    found.extend(mentions::outdated(root, files, present.version));
    found.extend(release_problems(&released(root)?, &present));
    Ok(found)
}

/// Returns a line for each problem with the releases, which are in the order of their versions, and with `present`, which follows them.
fn release_problems(releases: &[Contract], present: &Contract) -> Vec<String> {
    let mut found = Vec::new();
    for release in releases {
        if release.folder != format!("{RELEASED}/{}", release.version) {
            found.push(format!("{} has version {} of the package", release.folder, release.version));
        }
    }
    for (index, contract) in releases.iter().chain([present]).enumerate() {
        let mut earlier = releases[..index].iter().rev();
        let Some(old) = earlier.find(|old| old.version.is_compatible(contract.version)) else {
            continue;
        };
        let (folder, version) = (&contract.folder, old.version);
        if contract.version < version {
            found.push(format!("{folder}: has version {}, but {version} is released", contract.version));
            continue;
        }
        let changes = compatibility::breaking_changes(old.package(), contract.package());
        found.extend(changes.into_iter().map(|change| {
            format!(
                "{folder}: {change}, which breaks plugins of the released {version}; see {RELEASED}/README.md"
            )
        }));
        if contract.version == version {
            let additions = compatibility::additions(old.package(), contract.package());
            found.extend(additions.into_iter().map(|addition| {
                format!(
                    "{folder}: {addition} is not in the released {version}: raise the version in wit/types.wit; see {RELEASED}/README.md"
                )
            }));
        }
    }
    found
}

/// Returns the released contracts, in the order of their versions.
fn released(root: &Path) -> Result<Vec<Contract>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root.join(RELEASED)).with_context(|| format!("read {RELEASED}"))? {
        let entry = entry.with_context(|| format!("read {RELEASED}"))?;
        if entry.path().is_dir() {
            found.push(Contract::read(root, &format!("{RELEASED}/{}", entry.file_name().display()))?);
        }
    }
    ensure!(!found.is_empty(), "{RELEASED} has no release");
    found.sort_by_key(|contract| contract.version);
    Ok(found)
}

fn rendered(contract: &Contract) -> Result<String> {
    document::render(&contract.resolve, contract.package)
}

impl Contract {
    /// Reads the contract in a folder, given by its path in the repository.
    fn read(root: &Path, folder: &str) -> Result<Self> {
        let mut resolve = Resolve::default();
        let (package, _) =
            resolve.push_dir(root.join(folder)).map_err(|error| anyhow!("{folder}: {error:#}"))?;
        let version = Version::declared_by(&resolve, package)?;
        Ok(Self { folder: folder.to_owned(), resolve, package, version })
    }

    fn package(&self) -> compatibility::Package<'_> {
        (&self.resolve, self.package)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contract(folder: &str, version: &str, functions: &str) -> Contract {
        let text = format!(
            "package test:contract@{version};
             interface cache {{ {functions} }}
             world plugin {{ import cache; }}"
        );
        let mut resolve = Resolve::default();
        let package = resolve.push_str("test.wit", &text).expect("WIT");
        let version = Version::declared_by(&resolve, package).expect("a version");
        Contract { folder: folder.to_owned(), resolve, package, version }
    }

    fn release(version: &str, functions: &str) -> Contract {
        contract(&format!("{RELEASED}/{version}"), version, functions)
    }

    const GET: &str = "get: func() -> string;";
    const GET_AND_SIZE: &str = "get: func() -> string; size: func() -> u32;";

    #[test]
    fn every_release_of_this_repository_contains_the_one_before_it() {
        let root = crate::root();
        let releases = released(&root).expect("the releases");
        assert!(releases.len() > 1);
        let present = Contract::read(&root, "wit").expect("the contract");
        assert_eq!(release_problems(&releases, &present), Vec::<String>::new());
    }

    #[test]
    fn additions_with_a_higher_version_are_no_problem() {
        let releases = [release("0.1.0", GET), release("0.1.1", GET_AND_SIZE)];
        for version in ["0.1.1", "0.1.2", "0.2.0"] {
            let present = contract("wit", version, GET_AND_SIZE);
            assert_eq!(release_problems(&releases, &present), Vec::<String>::new());
        }
        let incompatible = contract("wit", "0.2.0", "");
        assert_eq!(release_problems(&releases, &incompatible), Vec::<String>::new());
    }

    #[test]
    fn changes_that_a_release_does_not_allow_are_reported() {
        let shrinking = [release("0.1.0", GET_AND_SIZE), release("0.1.1", GET)];
        let growing = [release("0.1.0", GET), release("0.1.1", GET_AND_SIZE)];
        let misplaced = [contract("wit/released/0.1.0", "0.1.1", GET)];
        for (releases, version, functions, expected) in [
            (&shrinking[..], "0.1.1", GET, "wit/released/0.1.1: cache.size was removed"),
            (
                &growing,
                "0.1.2",
                GET,
                "wit: cache.size was removed, which breaks plugins of the released 0.1.1",
            ),
            (&growing[..1], "0.1.0", GET_AND_SIZE, "wit: cache.size is not in the released 0.1.0: raise"),
            (&growing, "0.1.0", GET, "wit: has version 0.1.0, but 0.1.1 is released"),
            (&misplaced, "0.1.1", GET, "wit/released/0.1.0 has version 0.1.1"),
        ] {
            let found = release_problems(releases, &contract("wit", version, functions));
            assert_eq!(found.len(), 1, "{expected}: {found:?}");
            assert!(found[0].starts_with(expected), "{found:?}");
        }
    }
}
