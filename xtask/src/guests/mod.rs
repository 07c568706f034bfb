//! Builds the example plugins, and runs the tests of SDKs and examples that need no host.

mod copy;
mod project;
mod rust;
mod sdks;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

pub(crate) use copy::{copy_example, copy_folder};
use project::{Kind, Project};
pub(crate) use rust::{
    build as build_rust, build_examples as build_rust_examples, require_toolchain as require_rust_toolchain,
};
pub(crate) use sdks::test;

/// The folder in which the tests expect every guest as `NAME.wasm`.
const OUTPUT_FOLDER: &str = "examples/target/guests";

/// A plugin that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Guest {
    /// The folder's name, or `acceptance-LANGUAGE`.
    pub(crate) name: String,
    /// Path of the .wasm file. The next build of the same guest overwrites it.
    pub(crate) wasm: PathBuf,
}

/// Builds the named guests, or all for an empty list. `host` returns the path of the `pilothouse` binary, which builds the guests that
/// are not written in Rust. It is called only if there are any.
///
/// # Errors
/// Errors if a toolchain is missing (the text says how to install it), a guest does not exist, or a guest does not compile.
pub(crate) fn build(
    root: &Path,
    names: &[&str],
    host: impl FnOnce() -> Result<PathBuf>,
) -> Result<Vec<Guest>> {
    let projects = project::select(root, names)?;
    let folder = root.join(OUTPUT_FOLDER);
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let (rust, others): (Vec<_>, Vec<_>) =
        projects.into_iter().partition(|project| project.kind == Kind::Rust);
    let mut guests = Vec::new();
    if !rust.is_empty() {
        let packages: Vec<_> = rust.into_iter().map(|project| project.name).collect();
        for guest in rust::build(root, &root.join("examples"), &packages, &[])? {
            guests.push(copy_to_output(&folder, guest)?);
        }
    }
    if !others.is_empty() {
        let binary = host()?;
        for project in others {
            guests.push(build_with_host(&folder, &project, &binary)?);
        }
    }
    for guest in &guests {
        let size = fs::metadata(&guest.wasm).with_context(|| format!("read {}", guest.wasm.display()))?.len();
        println!("guests: {} is {} KiB: {}", guest.name, size.div_ceil(1024), guest.wasm.display());
    }
    Ok(guests)
}

/// Returns the names of all guests.
///
/// # Errors
/// Errors if the folder of the examples cannot be read.
pub(crate) fn names(root: &Path) -> Result<Vec<String>> {
    Ok(project::select(root, &[])?.into_iter().map(|project| project.name).collect())
}

/// Builds Rust guests with the profile `small`, which users ship, into a separate folder `small`.
///
/// # Errors
/// See [`build`].
pub(crate) fn build_small(root: &Path, names: &[&str]) -> Result<Vec<Guest>> {
    let folder = root.join(OUTPUT_FOLDER).join("small");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let packages: Vec<_> = names.iter().map(ToString::to_string).collect();
    let guests =
        rust::build_with_profile(rust::Profile::Small, root, &root.join("examples"), &packages, &[])?;
    guests.into_iter().map(|guest| copy_to_output(&folder, guest)).collect()
}

fn copy_to_output(folder: &Path, guest: Guest) -> Result<Guest> {
    let wasm = folder.join(format!("{}.wasm", guest.name));
    fs::copy(&guest.wasm, &wasm)
        .with_context(|| format!("copy {} to {}", guest.wasm.display(), wasm.display()))?;
    Ok(Guest { wasm, ..guest })
}

fn build_with_host(folder: &Path, project: &Project, host: &Path) -> Result<Guest> {
    let wasm = folder.join(format!("{}.wasm", project.name));
    let guest = Guest { name: project.name.clone(), wasm };
    if project.kind == Kind::Wat {
        assemble(&project.folder, &guest.wasm)?;
        return Ok(guest);
    }
    let status = Command::new(host)
        .arg("build")
        .arg(&project.folder)
        .arg("-o")
        .arg(&guest.wasm)
        .status()
        .with_context(|| format!("start {}", host.display()))?;
    ensure!(status.success(), "`pilothouse build {}` failed (see above): {status}", project.folder.display());
    Ok(guest)
}

#[cfg(not(feature = "full"))]
fn assemble(_: &Path, _: &Path) -> Result<()> {
    anyhow::bail!("this form of xtask has no assembler")
}

#[cfg(feature = "full")]
fn assemble(folder: &Path, wasm: &Path) -> Result<()> {
    let files = fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    let mut texts = files.flatten().map(|file| file.path());
    let text = texts.find(|file| file.extension().is_some_and(|extension| extension == "wat"));
    let text = text.with_context(|| format!("{} has no .wat file", folder.display()))?;
    let bytes = wat::parse_file(&text).with_context(|| format!("assemble {}", text.display()))?;
    fs::write(wasm, bytes).with_context(|| format!("write {}", wasm.display()))
}
