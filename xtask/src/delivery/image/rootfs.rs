//! The files of an image as a folder, which is the root of a container.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{contents, files, layout};
use crate::delivery::archive::Entry;
use crate::delivery::elf;

/// What a container runtime reads of an image, beside its files.
pub(crate) struct ImageConfiguration {
    /// Variables as `NAME=VALUE`.
    pub(crate) environment: Vec<String>,
    /// Whether the program needs the shared libraries of this machine, which no image has.
    pub(crate) needs_libraries: bool,
}

/// Unpacks the image of a layout into an empty folder.
///
/// # Errors
/// Errors if the layout is damaged, has more than one image, or a file cannot be written.
pub(crate) fn unpack(layout: &Path, folder: &Path) -> Result<ImageConfiguration> {
    let files = files::read(layout)?;
    let [image] = &files.manifests()?[..] else {
        bail!("{} has not exactly one image: name the layout of one platform", layout.display());
    };
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().context("a descriptor has no digest")?;
        anyhow::Ok(format!("blobs/{}", digest.replace(':', "/")))
    };
    let manifest = files.json(&blob(image)?)?;
    for layer in manifest["layers"].as_array().context("the image has no layers")? {
        let (compressed, media_type) = (files.get(&blob(layer)?)?, layer["mediaType"].as_str());
        match media_type.and_then(|text| text.rsplit_once('+')).map(|(_, compression)| compression) {
            Some("zstd") => extract(zstd::stream::Decoder::new(compressed).context("read zstd")?, folder)?,
            Some("gzip") => extract(flate2::read::GzDecoder::new(compressed), folder)?,
            _ => bail!("a layer has the media type {media_type:?}; expected gzip or zstd"),
        }
    }
    let configuration = files.json(&blob(&manifest["config"])?)?;
    let variables = configuration["config"]["Env"].as_array().into_iter().flatten();
    Ok(ImageConfiguration {
        environment: variables.filter_map(Value::as_str).map(str::to_owned).collect(),
        needs_libraries: false,
    })
}

/// Writes the files that an image of this program has into an empty folder.
///
/// # Errors
/// Errors if the program cannot be read, or a file cannot be written.
pub(crate) fn assemble(root: &Path, program: &Path, folder: &Path) -> Result<ImageConfiguration> {
    let bytes = fs::read(program).with_context(|| format!("read {}", program.display()))?;
    let needs_libraries = !elf::is_static(&bytes)?;
    drop(bytes);
    let entries = contents::base().into_iter().chain(contents::program(root, program, "{}".to_owned())?);
    for entry in entries {
        write(&entry, folder)?;
    }
    let environment = layout::ENVIRONMENT.map(str::to_owned).to_vec();
    Ok(ImageConfiguration { environment, needs_libraries })
}

fn extract(archive: impl std::io::Read, folder: &Path) -> Result<()> {
    let mut archive = tar::Archive::new(archive);
    // The owners are those of the container, which this process may not be able to give away.
    archive.set_preserve_ownerships(false);
    archive.set_preserve_permissions(true);
    archive.unpack(folder).with_context(|| format!("unpack a layer into {}", folder.display()))
}

fn write(entry: &Entry, folder: &Path) -> Result<()> {
    let path = folder.join(&entry.path);
    let written = match &entry.content {
        Some(content) => fs::write(&path, content),
        None => fs::create_dir_all(&path),
    };
    let permissions = fs::Permissions::from_mode(entry.mode);
    written
        .and_then(|()| fs::set_permissions(&path, permissions))
        .with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::archive;

    #[test]
    fn both_ways_give_the_same_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("LICENSE"), "a licence").expect("written");
        let program = path("program");
        let elf = [&b"\x7fELF\x02\x01"[..], &[0; 58]].concat();
        fs::write(&program, elf).expect("written");
        let entries = || contents::program(folder.path(), &program, "{}".to_owned()).expect("entries");
        let layers = [contents::base(), entries()].map(|entries| archive::tar(entries).expect("an archive"));
        let layers = layers.map(|tar| {
            let compressed = archive::gzip(&tar).expect("compressed");
            layout::Layer::new(&tar, "application/vnd.oci.image.layer.v1.tar+gzip", compressed, "a layer")
        });
        let image = layout::image(&layers, &layout::tests::description("amd64"));
        files::write(&image.files, &path("layout")).expect("written");

        for name in ["unpacked", "assembled"] {
            fs::create_dir(path(name)).expect("created");
        }
        let unpacked = unpack(&path("layout"), &path("unpacked")).expect("unpacked");
        let assembled = assemble(folder.path(), &program, &path("assembled")).expect("assembled");
        assert_eq!(unpacked.environment, assembled.environment);
        for name in ["etc/passwd", "usr/local/bin/pilothouse", "usr/share/doc/pilothouse/LICENSE"] {
            let read = |root: &str| {
                let file = path(root).join(name);
                let mode = fs::metadata(&file).expect("a file").permissions().mode();
                (mode & 0o7777, fs::read(file).expect("a file"))
            };
            assert_eq!(read("unpacked"), read("assembled"), "{name}");
        }
        let mode = |root: &str| fs::metadata(path(root).join("tmp")).expect("a folder").permissions().mode();
        assert_eq!((mode("unpacked") & 0o7777, mode("assembled") & 0o7777), (0o1777, 0o1777));
    }
}
