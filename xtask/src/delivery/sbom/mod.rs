//! The software bill of materials: the packages that a program is linked from, as CycloneDX JSON.

mod checksums;
mod cyclonedx;
mod tree;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::build::{Compiler, Variant};
use super::metadata::{Metadata, PACKAGE};
use super::source::Source;
use crate::cargo;
use checksums::Checksums;
use cyclonedx::{Component, Document};
use tree::{PackageId, Tree};

/// The package with the root certificates, which the image contains.
const CERTIFICATES: &str = "webpki-root-certs";

/// Where the program is delivered, which decides what comes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    Archive,
    /// With root certificates.
    Image,
}

/// Returns the document for a program with exactly the variant's features on the compiler's platform.
///
/// # Errors
/// Errors if cargo fails, or a package is in its tree but not in its metadata.
pub(super) fn document(
    root: &Path,
    metadata: &Metadata,
    source: &Source,
    compiler: &Compiler,
    variant: Variant,
    delivery: Delivery,
) -> Result<String> {
    let tree = Tree::parse(&cargo_tree(root, compiler, variant)?)?;
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).context("read Cargo.lock")?;
    let checksums = Checksums::parse(&lock);
    let describe = |id: &PackageId| component(id, metadata, &checksums);
    let mut components = tree.dependencies().map(describe).collect::<Result<Vec<_>>>()?;
    components.push(Component::generic("rust-std", &compiler.version, "MIT OR Apache-2.0"));
    if let Some(version) = static_libc_version().filter(|_| compiler.is_for_linux()) {
        components.push(Component::generic("glibc", &version, "LGPL-2.1-or-later"));
    }
    if delivery == Delivery::Image {
        let version = metadata.package(CERTIFICATES, None)?.version().to_owned();
        let id = PackageId { name: CERTIFICATES.to_owned(), version };
        if !components.iter().any(|component| component.name == CERTIFICATES) {
            components.push(component(&id, metadata, &checksums)?);
        }
    }
    let program = component(tree.root(), metadata, &checksums)?;
    let properties = [
        ("pilothouse:target", compiler.target.as_str()),
        ("pilothouse:features", &variant.feature_arguments().join(" ")),
        ("pilothouse:revision", source.revision.as_deref().unwrap_or("unknown")),
    ];
    let document =
        Document { created: &source.created, program, components, tree: &tree, properties: &properties };
    Ok(document.to_json())
}

fn component(id: &PackageId, metadata: &Metadata, checksums: &Checksums) -> Result<Component> {
    let package = metadata.package(&id.name, Some(&id.version))?;
    Ok(Component {
        purl: format!("pkg:cargo/{}@{}", id.name, id.version),
        name: id.name.clone(),
        version: id.version.clone(),
        licence: package.licence(),
        repository: package.repository().map(str::to_owned),
        sha256: checksums.of(id),
    })
}

/// Returns the packages that are linked into the program, without build scripts and procedural macros.
fn cargo_tree(root: &Path, compiler: &Compiler, variant: Variant) -> Result<String> {
    let output = cargo::cargo()
        .current_dir(root)
        .args(["tree", "--locked", "--package", PACKAGE, "--target", &compiler.target])
        .args(variant.feature_arguments())
        .args(["--edges", "normal,no-proc-macro", "--prefix", "depth", "--format", " {p}"])
        .output()
        .context("run cargo tree")?;
    ensure!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).context("the output of cargo tree is not UTF-8")
}

/// Returns the version of the C library that static programs contain, or `None` if it is not the GNU one.
fn static_libc_version() -> Option<String> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.trim().strip_prefix("glibc ").map(str::to_owned)
}
