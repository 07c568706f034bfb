//! The files of an OCI image layout: in memory, in a folder, and in a tar file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::layout::INDEX;
use crate::delivery::archive::{self, Entry};
use crate::delivery::sha256;

/// The folder of everything that is named by its sum.
const BLOBS: &str = "blobs/sha256";
const INDEX_FILE: &str = "index.json";
/// The file that makes a folder a layout.
const VERSION_FILE: &str = "oci-layout";

/// The files by their paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LayoutFiles(BTreeMap<String, Vec<u8>>);

impl Default for LayoutFiles {
    fn default() -> Self {
        let version = json!({"imageLayoutVersion": "1.0.0"}).to_string().into_bytes();
        Self(BTreeMap::from([(VERSION_FILE.to_owned(), version)]))
    }
}

impl LayoutFiles {
    /// Adds a blob and returns its descriptor.
    pub(super) fn add_blob(&mut self, media_type: &str, bytes: Vec<u8>) -> Value {
        let sum = sha256::hex(&bytes);
        let descriptor =
            json!({"mediaType": media_type, "digest": format!("sha256:{sum}"), "size": bytes.len()});
        self.insert(&format!("{BLOBS}/{sum}"), bytes);
        descriptor
    }

    /// Sets what the layout contains.
    pub(super) fn set_index(&mut self, manifests: &[Value]) {
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests});
        self.insert(INDEX_FILE, index.to_string().into_bytes());
    }

    pub(super) fn insert(&mut self, path: &str, bytes: Vec<u8>) {
        self.0.insert(path.to_owned(), bytes);
    }

    /// Returns the content of a file.
    ///
    /// # Errors
    /// Errors if there is no such file.
    pub(super) fn get(&self, path: &str) -> Result<&[u8]> {
        self.0.get(path).map(Vec::as_slice).with_context(|| format!("the layout has no file {path}"))
    }

    /// Returns a file that is JSON.
    ///
    /// # Errors
    /// Errors if there is no such file, or it is not JSON.
    pub(super) fn json(&self, path: &str) -> Result<Value> {
        serde_json::from_slice(self.get(path)?).with_context(|| format!("{path} of the layout is not JSON"))
    }

    /// Returns the list of what the layout contains.
    ///
    /// # Errors
    /// Errors if the index is missing or invalid.
    pub(super) fn manifests(&self) -> Result<Vec<Value>> {
        let index = self.json(INDEX_FILE)?;
        index["manifests"]
            .as_array()
            .cloned()
            .with_context(|| format!("{INDEX_FILE} has no list of manifests"))
    }

    /// Returns the paths and contents of all blobs.
    pub(super) fn blobs(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let files = self.0.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice()));
        files.filter(|(path, _)| path.starts_with(BLOBS))
    }
}

/// Reads a layout and checks the sum of each blob.
///
/// # Errors
/// Errors if the folder is no layout, or a blob is not what its name says.
pub(super) fn read(folder: &Path) -> Result<LayoutFiles> {
    let mut files = BTreeMap::new();
    for name in [VERSION_FILE, INDEX_FILE] {
        let bytes = fs::read(folder.join(name))
            .with_context(|| format!("{} is no image layout: read {name}", folder.display()))?;
        files.insert(name.to_owned(), bytes);
    }
    let blobs = folder.join(BLOBS);
    for entry in fs::read_dir(&blobs).with_context(|| format!("read {}", blobs.display()))? {
        let path = entry.with_context(|| format!("read {}", blobs.display()))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).context("a blob's name is not UTF-8")?;
        let bytes = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        ensure!(sha256::hex(&bytes) == name, "{} is damaged: its sum is not its name", path.display());
        files.insert(format!("{BLOBS}/{name}"), bytes);
    }
    Ok(LayoutFiles(files))
}

/// Writes a layout into a folder, in place of the layout that is there.
///
/// # Errors
/// Errors if the folder contains something else, or cannot be written.
pub(super) fn write(layout: &LayoutFiles, folder: &Path) -> Result<()> {
    let is_empty = fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none());
    ensure!(
        is_empty || folder.join(VERSION_FILE).is_file(),
        "{} contains something other than an image layout: name another folder",
        folder.display()
    );
    if !is_empty {
        fs::remove_dir_all(folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    let blobs = folder.join(BLOBS);
    fs::create_dir_all(&blobs).with_context(|| format!("create {}", blobs.display()))?;
    for (path, bytes) in &layout.0 {
        let path: PathBuf = folder.join(path);
        fs::write(&path, bytes).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// Returns a layout as a tar file.
///
/// # Errors
/// Does not fail: all paths are short.
pub(super) fn tar(layout: &LayoutFiles) -> Result<Vec<u8>> {
    let folders = ["blobs", BLOBS].map(|path| Entry::folder(path, 0o755));
    let files = layout.0.iter().map(|(path, bytes)| Entry::file(path.as_str(), 0o644, bytes.as_slice()));
    archive::tar(folders.into_iter().chain(files).collect())
}

#[cfg(test)]
mod tests {
    use super::super::layout::tests::example;
    use super::*;

    #[test]
    fn a_layout_that_was_written_is_read_again_and_can_be_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("image");
        for architecture in ["amd64", "arm64"] {
            let layout = example(architecture).files;
            write(&layout, &path).expect("written");
            let read = read(&path).expect("a layout");
            assert_eq!(read.manifests().expect("a list"), layout.manifests().expect("a list"));
            assert_eq!(read.blobs().collect::<Vec<_>>(), layout.blobs().collect::<Vec<_>>());
        }
    }

    #[test]
    fn two_tar_files_of_the_same_layout_are_identical() {
        let tars = [(); 2].map(|()| tar(&example("amd64").files).expect("an archive"));
        assert_eq!(tars[0], tars[1]);
    }

    #[test]
    fn a_damaged_blob_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let layout = example("amd64");
        write(&layout.files, folder.path()).expect("written");
        fs::write(folder.path().join(BLOBS).join(&layout.digest), "{}").expect("written");
        let error = read(folder.path()).expect_err("refused").to_string();
        assert!(error.contains(&layout.digest) && error.contains("damaged"), "{error}");
    }

    #[test]
    fn a_folder_with_other_files_is_not_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("notes"), "").expect("written");
        assert!(write(&example("amd64").files, folder.path()).is_err());
        assert!(folder.path().join("notes").exists());
        assert!(read(folder.path()).is_err());
    }
}
