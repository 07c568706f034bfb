//! Building the example plugins: finds or makes a toolchain for wasm, then runs cargo in `examples/`.
//!
//! The ways and their order are in docs/decisions/0002-building-guests.md.

mod copy;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};

pub(crate) use copy::copy_example;
use pilothouse_toolchain::{Permission, TARGET, Toolchain, clean_command};

/// A plugin that was built: a core module that carries its component type. The host makes the component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Guest {
    /// The package's name, and by convention the plugin's.
    pub(crate) name: String,
    /// Where cargo left it. The next build of the same package overwrites it.
    pub(crate) wasm: PathBuf,
}

/// Builds example packages (all of them for an empty list).
///
/// # Errors
/// When no toolchain can be found or made (the text says what to type), a package does not exist, or does not compile.
pub(crate) fn build(root: &Path, packages: &[&str]) -> Result<Vec<Guest>> {
    build_in(root, &root.join("examples"), packages, &[])
}

/// As [`build`], in the workspace at `workspace` (the examples, or a [`copy_example`] of one), with further environment
/// variables for the compiler, such as `PILOTHOUSE_GUEST_VERSION`. Every workspace shares `examples/target`.
///
/// # Errors
/// As [`build`].
pub(crate) fn build_in(
    root: &Path,
    workspace: &Path,
    packages: &[&str],
    variables: &[(&str, &str)],
) -> Result<Vec<Guest>> {
    let names = package_names(workspace, packages)?;
    let toolchain = Toolchain::find(root, Permission::Packages, &mut |line| println!("guests: {line}"))
        .map_err(|error| anyhow!("guests cannot be built: {error}"))?;
    println!("guests: building {} with {}", names.join(", "), toolchain.describe());
    let target_directory = root.join("examples/target");
    let mut command = toolchain.cargo(workspace);
    command.args(["build", "--release", "--locked", "--target", TARGET]);
    command.arg("--target-dir").arg(&target_directory);
    for name in &names {
        command.args(["--package", name]);
    }
    let status =
        command.envs(variables.iter().copied()).status().context("start cargo to build the guests")?;
    ensure!(status.success(), "cargo could not build {} (see above): {status}", names.join(", "));
    names.into_iter().map(|name| built(&target_directory, name)).collect()
}

/// Runs the tests of the SDK and the examples natively: what of them needs no host.
///
/// # Errors
/// When they do not compile or a test fails.
pub(crate) fn test(root: &Path) -> Result<()> {
    println!("guests: testing the SDK and the examples natively");
    let status = clean_command("cargo", &root.join("examples"))
        .args(["test", "--locked", "--workspace", "--target-dir"])
        .arg(root.join("examples/target"))
        .status()
        .context("start cargo to test the guests")?;
    ensure!(status.success(), "tests of the SDK or the examples failed (see above): {status}");
    Ok(())
}

fn built(target_directory: &Path, name: String) -> Result<Guest> {
    let file = format!("{}.wasm", name.replace('-', "_"));
    let wasm = target_directory.join(TARGET).join("release").join(file);
    let size = wasm.metadata().with_context(|| {
        format!("{} was not made: does {name}/Cargo.toml have crate-type = [\"cdylib\"]?", wasm.display())
    })?;
    println!("guests: {name} is {} KiB: {}", size.len().div_ceil(1024), wasm.display());
    Ok(Guest { name, wasm })
}

/// The packages asked for, checked; all of the workspace for none. A package is a folder with a manifest.
fn package_names(workspace: &Path, packages: &[&str]) -> Result<Vec<String>> {
    let mut known = Vec::new();
    let entries = workspace.read_dir().with_context(|| format!("read {}", workspace.display()))?;
    for entry in entries.flatten() {
        if entry.path().join("Cargo.toml").is_file() && entry.path().join("src").is_dir() {
            known.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    known.sort();
    if packages.is_empty() {
        return Ok(known);
    }
    if let Some(unknown) = packages.iter().find(|name| !known.iter().any(|known| known == *name)) {
        bail!("there is no example {unknown:?} in {}; there are: {}", workspace.display(), known.join(", "));
    }
    Ok(packages.iter().map(|name| (*name).to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples")
    }

    #[test]
    fn all_examples_are_built_when_none_is_named() {
        let names = package_names(&examples(), &[]).unwrap();
        assert!(names.contains(&"sample-controller".to_owned()), "{names:?}");
        assert!(!names.contains(&"target".to_owned()), "{names:?}");
    }

    #[test]
    fn an_unknown_example_is_refused_with_those_there_are() {
        let error = package_names(&examples(), &["sample"]).unwrap_err().to_string();
        assert!(error.contains("no example \"sample\"") && error.contains("sample-controller"), "{error}");
    }
}
