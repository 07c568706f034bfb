//! `cargo xtask api`: compares the public API of the published crates with the snapshots in `host/*/public-api.txt`.
//!
//! rustdoc writes the API as JSON, and the program in `xtask/public-api` prints it, a line for each item. A snapshot that changes shows
//! in review what a release changes for the users of the crate.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::cargo;

/// The published crates: their folders in `host`.
const PUBLISHED: [&str; 2] = ["model", "informer"];

/// Compares the snapshots with the public API, or writes them.
pub(crate) fn run(root: &Path, update: bool) -> Result<()> {
    println!("api: documenting the published crates (compiles for a minute the first time)");
    let target = target_directory(root)?;
    write_json(root)?;
    let mut found = Vec::new();
    for name in PUBLISHED {
        let api = read_json(root, &target, name)?;
        let snapshot = root.join("host").join(name).join("public-api.txt");
        if update {
            fs::write(&snapshot, api).with_context(|| format!("write {}", snapshot.display()))?;
            continue;
        }
        // Without a snapshot, every item differs.
        let known = fs::read_to_string(&snapshot).unwrap_or_default();
        found.extend(differences(&known, &api).into_iter().map(|line| format!("{name} {line}")));
    }
    ensure!(
        found.is_empty(),
        "the public API differs from host/*/public-api.txt:\n  {}\nIf that is intended, run `cargo xtask api --update` and raise the crates' version as semver requires",
        found.join("\n  ")
    );
    println!("api: {}", if update { "snapshots written" } else { "no differences from the snapshots" });
    Ok(())
}

/// Packages the published crates without compiling them, which finds most of what `cargo publish` refuses.
pub(crate) fn package(root: &Path) -> Result<()> {
    let status = cargo::cargo()
        .current_dir(root)
        .args(["package", "--locked", "--offline", "--allow-dirty", "--no-verify", "--quiet"])
        .args(packages())
        .status()
        .context("start cargo to package the published crates")?;
    ensure!(status.success(), "the published crates cannot be packaged (see above): {status}");
    Ok(())
}

/// Returns the arguments that select the published crates.
fn packages() -> impl Iterator<Item = String> {
    PUBLISHED.into_iter().map(|name| format!("--package=pilothouse-{name}"))
}

/// Makes rustdoc write the public API as JSON.
fn write_json(root: &Path) -> Result<()> {
    let status = cargo::cargo()
        .current_dir(root)
        .args(["doc", "--locked", "--no-deps", "--lib", "--all-features"])
        .args(packages())
        .env("RUSTDOC", root.join("xtask/public-api/rustdoc.sh"))
        .env("RUSTDOCFLAGS", "-Zunstable-options --output-format=json")
        .status()
        .context("start cargo to document the published crates")?;
    ensure!(status.success(), "the published crates cannot be documented (see above): {status}");
    Ok(())
}

/// Returns the public API of a crate, a line for each item.
fn read_json(root: &Path, target: &Path, name: &str) -> Result<String> {
    let output = cargo::cargo()
        .current_dir(root)
        .args([
            "run",
            "--locked",
            "--quiet",
            "--manifest-path",
            "xtask/public-api/Cargo.toml",
            "--target-dir",
        ])
        .arg(target.join("public-api"))
        .arg("--")
        .arg(target.join("doc").join(format!("pilothouse_{name}.json")))
        .stderr(Stdio::inherit())
        .output()
        .context("start cargo to run xtask/public-api")?;
    ensure!(output.status.success(), "cannot print the public API of pilothouse-{name} (see above)");
    String::from_utf8(output.stdout).context("the public API is not UTF-8")
}

/// Returns the folder that cargo builds into.
fn target_directory(root: &Path) -> Result<PathBuf> {
    let output = cargo::cargo()
        .current_dir(root)
        .args(["metadata", "--locked", "--no-deps", "--format-version", "1"])
        .stderr(Stdio::inherit())
        .output()
        .context("start cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata failed (see above): {}", output.status);
    let metadata: Value = serde_json::from_slice(&output.stdout).context("read cargo's metadata")?;
    metadata["target_directory"]
        .as_str()
        .map(PathBuf::from)
        .context("cargo did not report its target directory")
}

/// Returns a line for each item that only one of the texts has.
fn differences(snapshot: &str, current: &str) -> Vec<String> {
    let (snapshot, current): (BTreeSet<_>, BTreeSet<_>) =
        (snapshot.lines().collect(), current.lines().collect());
    let removed = snapshot.difference(&current).map(|item| format!("- {item}"));
    let added = current.difference(&snapshot).map(|item| format!("+ {item}"));
    removed.chain(added).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_and_added_items_are_found_whatever_their_order() {
        assert_eq!(differences("a\nb\nc\n", "d\nc\na\n"), ["- b", "+ d"]);
        assert_eq!(differences("a\nb\n", "b\na\n"), Vec::<String>::new());
    }

    #[test]
    fn every_published_crate_is_in_the_list() {
        let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host");
        let mut published: Vec<_> = fs::read_dir(&host)
            .expect("the crates")
            .filter_map(|entry| {
                let folder = entry.expect("an entry").path();
                let manifest = fs::read_to_string(folder.join("Cargo.toml")).ok()?;
                let name = folder.file_name()?.to_str()?.to_owned();
                manifest.lines().any(|line| line == "publish = true").then_some(name)
            })
            .collect();
        published.sort_unstable();
        let mut listed = PUBLISHED;
        listed.sort_unstable();
        assert_eq!(published, listed);
    }
}
