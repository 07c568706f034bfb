//! Building the example plugins, and testing what of them and of the SDKs needs no host.

mod copy;
mod project;
mod rust;
mod sdks;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

pub(crate) use copy::copy_example;
use project::{Kind, Project};
pub(crate) use rust::build as build_rust;
pub(crate) use sdks::test;

/// Where the tests look for plugins: `NAME.wasm` of every guest.
const BUILT: &str = "examples/target/guests";

/// A plugin that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Guest {
    /// Its name: the folder's, or `acceptance-LANGUAGE`.
    pub(crate) name: String,
    /// Its file. The next build of the same guest overwrites it.
    pub(crate) wasm: PathBuf,
}

/// Builds guests (all of them for an empty list). `host` says where the host's binary is, which builds what is not in Rust; it is
/// asked only when there is such a guest.
///
/// # Errors
/// When a toolchain is missing (the text says what to type), a guest does not exist, or it does not compile.
pub(crate) fn build(
    root: &Path,
    names: &[&str],
    host: impl FnOnce() -> Result<PathBuf>,
) -> Result<Vec<Guest>> {
    let projects = project::named(root, names)?;
    let folder = root.join(BUILT);
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let (rust, others): (Vec<_>, Vec<_>) =
        projects.into_iter().partition(|project| project.kind == Kind::Rust);
    let mut guests = Vec::new();
    if !rust.is_empty() {
        let packages: Vec<_> = rust.into_iter().map(|project| project.name).collect();
        for guest in rust::build(root, &root.join("examples"), &packages, &[])? {
            guests.push(placed(&folder, guest)?);
        }
    }
    if !others.is_empty() {
        let binary = host()?;
        for project in others {
            guests.push(built(&folder, &project, &binary)?);
        }
    }
    for guest in &guests {
        let size = fs::metadata(&guest.wasm).with_context(|| format!("read {}", guest.wasm.display()))?.len();
        println!("guests: {} is {} KiB: {}", guest.name, size.div_ceil(1024), guest.wasm.display());
    }
    Ok(guests)
}

/// Builds guests in Rust as they are shipped, by the profile `small`, into a folder beside those that [`build`] makes.
///
/// # Errors
/// As [`build`].
pub(crate) fn build_small(root: &Path, names: &[&str]) -> Result<Vec<Guest>> {
    let folder = root.join(BUILT).join("small");
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let packages: Vec<_> = names.iter().map(ToString::to_string).collect();
    let guests = rust::build_by(rust::Profile::Small, root, &root.join("examples"), &packages, &[])?;
    guests.into_iter().map(|guest| placed(&folder, guest)).collect()
}

fn placed(folder: &Path, guest: Guest) -> Result<Guest> {
    let wasm = folder.join(format!("{}.wasm", guest.name));
    fs::copy(&guest.wasm, &wasm)
        .with_context(|| format!("copy {} to {}", guest.wasm.display(), wasm.display()))?;
    Ok(Guest { wasm, ..guest })
}

fn built(folder: &Path, project: &Project, host: &Path) -> Result<Guest> {
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

fn assemble(folder: &Path, wasm: &Path) -> Result<()> {
    let files = fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    let mut texts = files.flatten().map(|file| file.path());
    let text = texts.find(|file| file.extension().is_some_and(|extension| extension == "wat"));
    let text = text.with_context(|| format!("{} has no .wat file", folder.display()))?;
    let bytes = wat::parse_file(&text).with_context(|| format!("assemble {}", text.display()))?;
    fs::write(wasm, bytes).with_context(|| format!("write {}", wasm.display()))
}
