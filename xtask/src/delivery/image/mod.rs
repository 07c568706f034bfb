//! `cargo xtask image`: writes a container image as an OCI image layout.

mod contents;
mod files;
mod index;
mod layout;
mod rootfs;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use super::archive;
use super::build::{self, Built, Compiler, Variant};
use super::metadata::{Metadata, PACKAGE};
use super::sbom::{self, Delivery};
use super::source::Source;
use files::LayoutFiles;
use layout::{Description, Layer};
pub(crate) use rootfs::{ImageConfiguration, assemble, unpack};

/// Options of `cargo xtask image`.
#[derive(Debug, Args)]
pub(crate) struct ImageArguments {
    /// Only what running plugins needs: no embedded API server, no templates, no builders.
    #[arg(long)]
    small: bool,
    /// Compression of the layers. Container runtimes of 2021 and earlier read only gzip.
    #[arg(long, value_enum, default_value = "zstd")]
    compression: Compression,
    /// Folder to write the layout into. FOLDER.tar is the same as a file. By default, image/full or image/small in the target directory.
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Build a second time in this target directory, and fail unless both images have the same digest.
    #[arg(long, value_name = "FOLDER")]
    reproduce_in: Option<PathBuf>,
    /// Fail unless this is the git tag of the version in Cargo.toml.
    #[arg(long)]
    tag: Option<String>,
}

/// Options of `cargo xtask image-index`.
#[derive(Debug, Args)]
pub(crate) struct IndexArguments {
    /// Folder to write the combined layout into. FOLDER.tar is the same as a file.
    #[arg(long, value_name = "FOLDER")]
    output: PathBuf,
    /// Folders with the layouts of one image for different platforms.
    #[arg(required = true)]
    layouts: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Compression {
    Zstd,
    Gzip,
}

impl Compression {
    fn layer(self, tar: &[u8], purpose: &'static str) -> Result<Layer> {
        let (media_type, compressed) = match self {
            Self::Zstd => ("application/vnd.oci.image.layer.v1.tar+zstd", archive::zstd(tar)?),
            Self::Gzip => ("application/vnd.oci.image.layer.v1.tar+gzip", archive::gzip(tar)?),
        };
        Ok(Layer::new(tar, media_type, compressed, purpose))
    }
}

/// The most that the compressed layers of an image with zstd may have, in bytes.
fn size_goal(variant: Variant) -> usize {
    match variant {
        Variant::Full => 20_000_000,
        Variant::Small => 12_000_000,
    }
}

/// Builds the program and writes the image for this machine's platform.
///
/// # Errors
/// Errors if the build fails, the image is larger than its goal, or a second build gives another image.
pub(crate) fn run(root: &Path, arguments: &ImageArguments) -> Result<()> {
    let metadata = Metadata::read(root)?;
    let source = Source::read(root, &metadata)?;
    if let Some(tag) = &arguments.tag {
        source.require_tag(tag)?;
    }
    let variant = if arguments.small { Variant::Small } else { Variant::Full };
    let compiler = Compiler::find(root)?;
    ensure!(
        compiler.is_for_linux(),
        "an image needs a program for Linux; build it on Linux or in a container"
    );
    let target_folder = metadata.target_folder()?;
    let assemble = |built: &Built| {
        let sbom = sbom::document(root, &metadata, &source, &compiler, variant, Delivery::Image)?;
        let base = archive::tar(contents::base())?;
        let program = archive::tar(contents::program(root, &built.program, sbom)?)?;
        let layers = [
            arguments.compression.layer(&base, "root certificates, users, folders")?,
            arguments.compression.layer(&program, "pilothouse")?,
        ];
        anyhow::Ok(layout::image(&layers, &description(&source, &compiler, variant)?))
    };
    let layout = assemble(&build::build(root, &target_folder, &compiler, variant)?)?;
    let output = match &arguments.output {
        Some(folder) => folder.clone(),
        None => target_folder.join("image").join(variant.name()),
    };
    write(&layout.files, &output)?;
    let megabytes = layout.compressed_size.div_ceil(1_000_000);
    println!("image: {} with layers of {megabytes} MB\nimage: sha256:{}", output.display(), layout.digest);
    if let Some(folder) = &arguments.reproduce_in {
        let folder = std::path::absolute(folder).context("the folder of --reproduce-in")?;
        let second = assemble(&build::build(root, &folder, &compiler, variant)?)?;
        ensure!(
            second.digest == layout.digest,
            "the second build gave sha256:{}: compare the programs in {} and {} (for example with diffoscope)",
            second.digest,
            target_folder.join("delivery").display(),
            folder.join("delivery").display()
        );
        println!("image: a second build gave the same digest");
    }
    let goal = size_goal(variant);
    ensure!(
        arguments.compression == Compression::Gzip || layout.compressed_size <= goal,
        "the layers have {} bytes; the goal is {goal}: find what has grown with `cargo bloat`, or change the goal in xtask/src/delivery/image",
        layout.compressed_size
    );
    Ok(())
}

/// Combines layouts of several platforms.
///
/// # Errors
/// Errors if a layout is invalid, or two are for the same platform.
pub(crate) fn run_index(arguments: &IndexArguments) -> Result<()> {
    let layouts = arguments.layouts.iter().map(|folder| files::read(folder)).collect::<Result<Vec<_>>>()?;
    let combined = index::combine(&layouts)?;
    write(&combined.files, &arguments.output)?;
    println!("image-index: {}\nimage-index: sha256:{}", arguments.output.display(), combined.digest);
    Ok(())
}

/// Writes a layout as a folder and as a tar file beside it.
fn write(layout: &LayoutFiles, folder: &Path) -> Result<()> {
    files::write(layout, folder)?;
    let mut file = folder.as_os_str().to_owned();
    file.push(".tar");
    let file = PathBuf::from(file);
    fs::write(&file, files::tar(layout)?).with_context(|| format!("write {}", file.display()))
}

fn description(source: &Source, compiler: &Compiler, variant: Variant) -> Result<Description> {
    let architecture = match compiler.target.split('-').next() {
        Some("x86_64") => "amd64",
        Some("aarch64") => "arm64",
        _ => anyhow::bail!("images are made for x86_64 and aarch64, not for {}", compiler.target),
    };
    let suffix = if variant == Variant::Small { "-small" } else { "" };
    Ok(Description {
        name: PACKAGE,
        reference: format!("{}{suffix}", source.version),
        architecture,
        version: source.version.clone(),
        revision: source.revision.clone(),
        created: source.created.clone(),
    })
}
