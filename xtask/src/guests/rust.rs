//! The guests in Rust: packages of the workspace in `examples/`, in one target directory.
//!
//! The ways and their order are in docs/decisions/0002-building-guests.md.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use pilothouse_toolchain::{Permission, TARGET, Toolchain, clean_command};

use super::Guest;

/// Builds packages of the workspace at `workspace` (the examples, or a copy of one), with further environment variables for
/// the compiler, such as `PILOTHOUSE_GUEST_VERSION`. Every workspace shares `examples/target`.
///
/// # Errors
/// When no toolchain can be found or made (the text says what to type), or a package does not compile.
pub(crate) fn build(
    root: &Path,
    workspace: &Path,
    packages: &[String],
    variables: &[(&str, &str)],
) -> Result<Vec<Guest>> {
    build_by(Profile::Release, root, workspace, packages, variables)
}

/// A profile of `examples/Cargo.toml`, which says what they are for.
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

/// As [`build`], by any profile.
pub(super) fn build_by(
    profile: Profile,
    root: &Path,
    workspace: &Path,
    packages: &[String],
    variables: &[(&str, &str)],
) -> Result<Vec<Guest>> {
    let toolchain = Toolchain::find(root, Permission::Packages, &mut |line| println!("guests: {line}"))
        .map_err(|error| anyhow!("guests cannot be built: {error}"))?;
    println!("guests: building {} with {}", packages.join(", "), toolchain.describe());
    let target_directory = root.join("examples/target");
    let mut command = toolchain.cargo(workspace);
    command.args(["build", "--profile", profile.name(), "--target", TARGET]);
    // A copy of one example has a copy of the lock file, with more in it than the one needs: cargo takes that out, and
    // keeps the versions.
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
    packages.iter().map(|name| built(&target_directory.join(TARGET).join(profile.name()), name)).collect()
}

/// Runs the tests of the SDK and the examples natively: what of them needs no host.
///
/// # Errors
/// When they do not compile or a test fails.
pub(super) fn test(root: &Path) -> Result<()> {
    let status = clean_command("cargo", &root.join("examples"))
        .args(["test", "--locked", "--workspace", "--target-dir"])
        .arg(root.join("examples/target"))
        .status()
        .context("start cargo to test the guests")?;
    ensure!(status.success(), "tests of the Rust SDK or of its examples failed (see above): {status}");
    Ok(())
}

fn built(folder: &Path, name: &str) -> Result<Guest> {
    let wasm: PathBuf = folder.join(format!("{}.wasm", name.replace('-', "_")));
    ensure!(
        wasm.is_file(),
        "{} was not made: does the package {name} have crate-type = [\"cdylib\"]?",
        wasm.display()
    );
    Ok(Guest { name: name.to_owned(), wasm })
}
