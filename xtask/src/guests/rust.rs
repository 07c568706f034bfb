//! Builds and tests the Rust guests: packages of the workspace in `examples/`, with a shared target directory.
//!
//! docs/decisions/0002-building-guests.md explains how the toolchain is found.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use pilothouse_toolchain::{InstallPolicy, TARGET, Toolchain, clean_command};

use super::Guest;

/// Builds packages of `workspace` (the examples, or a copy of one) with additional environment variables for the compiler, such as
/// `PILOTHOUSE_GUEST_VERSION`. All workspaces share `examples/target`.
///
/// # Errors
/// Errors if no toolchain can be found or installed (the text says what to do), or a package does not compile.
pub(crate) fn build(
    root: &Path,
    workspace: &Path,
    packages: &[String],
    variables: &[(&str, &str)],
) -> Result<Vec<Guest>> {
    build_with_profile(Profile::Release, root, workspace, packages, variables)
}

/// Finds or installs the toolchain for Rust guests, so that a missing one is reported before a long build.
///
/// # Errors
/// Errors if no toolchain can be found or installed; the text says what to do.
pub(crate) fn require_toolchain(root: &Path) -> Result<()> {
    toolchain(root).map(drop)
}

fn toolchain(root: &Path) -> Result<Toolchain> {
    Toolchain::find(root, InstallPolicy::DebianPackages, &mut |line| println!("guests: {line}"))
        .map_err(|error| anyhow!("cannot build the guests: {error}"))
}

/// A profile of `examples/Cargo.toml`, which explains their purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Profile {
    Release,
    Small,
}

impl Profile {
    fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Small => "small",
        }
    }
}

/// Builds packages like [`build`], with the given profile.
pub(super) fn build_with_profile(
    profile: Profile,
    root: &Path,
    workspace: &Path,
    packages: &[String],
    variables: &[(&str, &str)],
) -> Result<Vec<Guest>> {
    let toolchain = toolchain(root)?;
    println!("guests: building {} with {}", packages.join(", "), toolchain.describe());
    let target_directory = root.join("examples/target");
    let mut command = toolchain.cargo(workspace);
    command.args(["build", "--profile", profile.name(), "--target", TARGET]);
    // A copy of one example has a copy of the lock file with more packages than the example needs. Cargo removes these and keeps the
    // versions of the others, which `--locked` would not allow.
    if workspace == root.join("examples") {
        command.arg("--locked");
    }
    command.arg("--target-dir").arg(&target_directory);
    for name in packages {
        command.args(["--package", name]);
    }
    let status =
        command.envs(variables.iter().copied()).status().context("start cargo to build the guests")?;
    ensure!(status.success(), "cargo could not build {} (see above): {status}", packages.join(", "));
    let folder = target_directory.join(TARGET).join(profile.name());
    let guests = packages.iter().map(|name| find_built(&folder, name)).collect::<Result<Vec<_>>>()?;
    if workspace == root.join("examples") { Ok(guests) } else { move_to(workspace, &folder, guests) }
}

/// Builds examples of a package of the examples' workspace, each of which is a plugin. Their feature is `plugins`.
///
/// # Errors
/// Errors if no toolchain can be found or installed (the text says what to do), or an example does not compile.
pub(crate) fn build_examples(root: &Path, package: &str, names: &[String]) -> Result<Vec<Guest>> {
    let toolchain = toolchain(root)?;
    println!("guests: building {} with {}", names.join(", "), toolchain.describe());
    let target_directory = root.join("examples/target");
    let mut command = toolchain.cargo(&root.join("examples"));
    command.args(["build", "--locked", "--profile", Profile::Release.name(), "--target", TARGET]);
    command.arg("--target-dir").arg(&target_directory);
    command.args(["--package", package, "--features", "plugins"]);
    for name in names {
        command.args(["--example", name]);
    }
    let status = command.status().context("start cargo to build the guests")?;
    ensure!(status.success(), "cargo could not build {package} (see above): {status}");
    let folder = target_directory.join(TARGET).join(Profile::Release.name()).join("examples");
    names.iter().map(|name| find_built(&folder, name)).collect()
}

/// Moves the guests of a copied example out of the shared target directory. Cargo names a wasm file after its package only, so it would
/// otherwise take the file of the copy for that of the example, and not build the example again.
fn move_to(workspace: &Path, folder: &Path, guests: Vec<Guest>) -> Result<Vec<Guest>> {
    let moved = guests.into_iter().map(|guest| {
        let file = guest.wasm.file_name().context("a guest's path has no file name")?;
        let wasm = workspace.join(file);
        fs::copy(&guest.wasm, &wasm).with_context(|| format!("copy {}", guest.wasm.display()))?;
        for built in [guest.wasm.clone(), folder.join("deps").join(file)] {
            fs::remove_file(&built).with_context(|| format!("remove {}", built.display()))?;
        }
        Ok(Guest { name: guest.name, wasm })
    });
    moved.collect()
}

/// Runs the native tests of the Rust SDK and the examples.
///
/// # Errors
/// Errors if they do not compile or a test fails.
pub(super) fn test(root: &Path) -> Result<()> {
    let status = clean_command("cargo", &root.join("examples"))
        .args(["test", "--locked", "--workspace", "--target-dir"])
        .arg(root.join("examples/target"))
        .status()
        .context("start cargo to test the guests")?;
    ensure!(status.success(), "tests of the Rust SDK or of its examples failed (see above): {status}");
    Ok(())
}

fn find_built(folder: &Path, name: &str) -> Result<Guest> {
    let wasm: PathBuf = folder.join(format!("{}.wasm", name.replace('-', "_")));
    ensure!(
        wasm.is_file(),
        "cargo did not create {}: does the package {name} have crate-type = [\"cdylib\"]?",
        wasm.display()
    );
    Ok(Guest { name: name.to_owned(), wasm })
}
