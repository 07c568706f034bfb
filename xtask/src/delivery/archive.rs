//! Reproducible archives: the same entries give the same bytes, on every machine and at any time.

use std::io::Write;

use anyhow::{Context, Result, ensure};
use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

/// The highest level of zstd whose decompression needs no more than 8 MiB of memory.
const ZSTD_LEVEL: i32 = 19;

/// A file or folder of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Path from the root of the archive, without a slash at either end.
    pub(super) path: String,
    pub(super) mode: u32,
    /// ID of the user and of the group.
    pub(super) owner: u32,
    /// The bytes of a file; `None` for a folder.
    pub(super) content: Option<Vec<u8>>,
}

impl Entry {
    /// Returns a folder that belongs to root.
    pub(super) fn folder(path: &str, mode: u32) -> Self {
        Self { path: path.to_owned(), mode, owner: 0, content: None }
    }

    /// Returns a file that belongs to root.
    pub(super) fn file(path: impl Into<String>, mode: u32, content: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), mode, owner: 0, content: Some(content.into()) }
    }

    /// Returns the same entry with another owner.
    pub(super) fn owned_by(self, owner: u32) -> Self {
        Self { owner, ..self }
    }

    fn header(&self) -> Result<Header> {
        let mut header = Header::new_ustar();
        header.set_path(&self.path).with_context(|| format!("{} is no path for an archive", self.path))?;
        header.set_mode(self.mode);
        header.set_uid(self.owner.into());
        header.set_gid(self.owner.into());
        header.set_mtime(0);
        header.set_size(self.content.as_ref().map_or(0, Vec::len) as u64);
        header.set_entry_type(if self.content.is_some() { EntryType::Regular } else { EntryType::Directory });
        header.set_cksum();
        Ok(header)
    }
}

/// Returns a tar archive of the entries, sorted by path, with the epoch as their time.
///
/// # Errors
/// Errors if two entries have the same path, or a path is absolute, too long or leaves the archive.
pub(super) fn tar(mut entries: Vec<Entry>) -> Result<Vec<u8>> {
    // A folder's path is a prefix of what it contains, so the folder comes first.
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    if let Some(pair) = entries.windows(2).find(|pair| pair[0].path == pair[1].path) {
        anyhow::bail!("the archive would contain {} twice", pair[0].path);
    }
    let mut builder = Builder::new(Vec::new());
    for entry in &entries {
        let header = entry.header()?;
        builder
            .append(&header, entry.content.as_deref().unwrap_or_default())
            .with_context(|| format!("add {} to an archive", entry.path))?;
    }
    builder.into_inner().context("complete an archive")
}

/// Compresses with gzip, without name and time.
///
/// # Errors
/// Does not fail in practice: it writes to memory.
pub(super) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).context("compress with gzip")
}

/// Compresses with zstd on one thread; more threads would cut the input into other blocks.
///
/// # Errors
/// Errors if zstd cannot allocate memory.
pub(super) fn zstd(bytes: &[u8]) -> Result<Vec<u8>> {
    let compressed = zstd::stream::encode_all(bytes, ZSTD_LEVEL).context("compress with zstd")?;
    ensure!(!compressed.is_empty(), "zstd wrote nothing");
    Ok(compressed)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn entries() -> Vec<Entry> {
        vec![
            Entry::file("etc/passwd", 0o644, "root"),
            Entry::folder("cache", 0o700).owned_by(64_946),
            Entry::folder("etc", 0o755),
        ]
    }

    #[test]
    fn two_archives_of_the_same_tree_are_identical() {
        let mut reversed = entries();
        reversed.reverse();
        let first = tar(entries()).expect("an archive");
        assert_eq!(first, tar(reversed).expect("an archive"));
        assert_eq!(gzip(&first).expect("gzip"), gzip(&first).expect("gzip"));
        assert_eq!(zstd(&first).expect("zstd"), zstd(&first).expect("zstd"));
    }

    #[test]
    fn entries_are_sorted_and_have_fixed_times_and_owners() {
        let bytes = tar(entries()).expect("an archive");
        let mut archive = tar::Archive::new(bytes.as_slice());
        let mut found = Vec::new();
        for entry in archive.entries().expect("entries") {
            let mut entry = entry.expect("an entry");
            let mut text = String::new();
            entry.read_to_string(&mut text).expect("text");
            let header = entry.header();
            assert_eq!(header.mtime().expect("a time"), 0);
            assert_eq!(header.uid().expect("a user"), header.gid().expect("a group"));
            let path = entry.path().expect("a path").to_string_lossy().into_owned();
            let (mode, owner) = (header.mode().expect("a mode"), header.uid().expect("a user"));
            found.push(format!("{path} {mode:o} {owner} {text}"));
        }
        assert_eq!(found, ["cache 700 64946 ", "etc 755 0 ", "etc/passwd 644 0 root"]);
    }

    #[test]
    fn an_entry_that_is_there_twice_or_leaves_the_archive_is_refused() {
        let twice = vec![Entry::folder("etc", 0o755), Entry::folder("etc", 0o700)];
        assert!(tar(twice).expect_err("refused").to_string().contains("etc twice"));
        for path in ["/etc", "../etc"] {
            assert!(tar(vec![Entry::folder(path, 0o755)]).is_err(), "{path}");
        }
    }

    #[test]
    fn compressed_bytes_are_read_by_other_decoders() {
        let text = "pilothouse ".repeat(1_000);
        let mut unpacked = String::new();
        let gzip = gzip(text.as_bytes()).expect("gzip");
        flate2::read::GzDecoder::new(gzip.as_slice()).read_to_string(&mut unpacked).expect("text");
        assert_eq!(unpacked, text);
        let zstd = zstd(text.as_bytes()).expect("zstd");
        assert_eq!(zstd::stream::decode_all(zstd.as_slice()).expect("unpacked"), text.as_bytes());
    }
}
