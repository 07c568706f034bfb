//! Content on disk, by its digest. A file appears under its name only once it is whole and checked, and it is checked again when it is used.
//!
//! ```text
//! DIR/blobs/sha256-HEX        manifests and layers
//! DIR/evidence/sha256-HEX     the signatures of a manifest
//! DIR/records/NAME            what a plugin was last started from
//! DIR/plugins/NAME.wasm       the plugins that the host loads, with their sidecars
//! ```

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use crate::cache_folder;
use crate::digest::{Digest, Hasher};
use crate::error::{Problem, RegistryError};
use crate::manifest::Descriptor;
use crate::source::is_label;

/// The age from which a partial file belongs to no download: its process ended.
const ABANDONED: Duration = Duration::from_secs(3600);
/// How the name of a partial file begins. A scan of plugins leaves out such files.
const PARTIAL: &str = ".partial-";
/// The largest record, in bytes.
const MAX_RECORD: u64 = 1024;
/// The folders of a cache.
const FOLDERS: [&str; 4] = ["blobs", "evidence", "records", "plugins"];

/// A cache on disk.
pub struct Cache {
    folder: PathBuf,
    partial_files: AtomicU64,
    /// The downloads in progress: two plugins with the same content cause one.
    downloads: Mutex<HashMap<Digest, Weak<tokio::sync::Mutex<()>>>>,
}

/// A file that becomes visible once it is whole. Removed when dropped before that. It is written in chunks, as a download receives them.
pub(crate) struct PartialFile {
    path: PathBuf,
    is_kept: bool,
}

impl Cache {
    /// Opens a cache, and removes what ended processes left. Only the process's own user can read it.
    ///
    /// # Errors
    /// Errors if the folder cannot be created or written, or if another user could replace what is in it.
    pub fn open(folder: &Path, now: SystemTime) -> Result<Self, RegistryError> {
        let failed = |error: io::Error| {
            RegistryError::new(
                Problem::Cache,
                format!(
                    "the cache {} cannot be used: {error}; name a directory that this process may write",
                    folder.display()
                ),
            )
        };
        cache_folder::prepare(folder).map_err(failed)?;
        for part in FOLDERS {
            cache_folder::create_private(&folder.join(part)).map_err(failed)?;
            remove_abandoned(&folder.join(part), now).map_err(failed)?;
        }
        Ok(Self { folder: folder.to_owned(), partial_files: AtomicU64::new(0), downloads: Mutex::default() })
    }

    /// Checks that a file can be written.
    pub(crate) fn check_writable(&self) -> Result<(), RegistryError> {
        // Removed when it is dropped.
        self.partial_blob().map(drop)
    }

    /// The folder of the plugins that the host loads.
    #[must_use]
    pub fn plugins(&self) -> PathBuf {
        self.folder.join("plugins")
    }

    /// Returns the path of a blob, whether it exists or not.
    pub(crate) fn blob_path(&self, digest: Digest) -> PathBuf {
        self.folder.join("blobs").join(file_name(digest))
    }

    /// Returns the lock of a download. While it is held, no other download of the same content starts.
    pub(crate) fn download_lock(&self, digest: Digest) -> Arc<tokio::sync::Mutex<()>> {
        let mut downloads = self.downloads.lock();
        downloads.retain(|_, lock| lock.strong_count() > 0);
        if let Some(lock) = downloads.get(&digest).and_then(Weak::upgrade) {
            return lock;
        }
        let lock = Arc::new(tokio::sync::Mutex::new(()));
        downloads.insert(digest, Arc::downgrade(&lock));
        lock
    }

    /// Creates a file in the folder of blobs that is not visible yet.
    pub(crate) fn partial_blob(&self) -> Result<(PartialFile, File), RegistryError> {
        self.partial("blobs")
    }

    fn partial(&self, part: &str) -> Result<(PartialFile, File), RegistryError> {
        let number = self.partial_files.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PARTIAL}{}-{number}", std::process::id());
        let path = self.folder.join(part).join(name);
        // A file of an earlier process with the same id is in nobody's use.
        let _ = fs::remove_file(&path);
        let file = create_private_file(&path).map_err(|error| cannot_write(&path, &error))?;
        Ok((PartialFile { path, is_kept: false }, file))
    }

    /// Makes a whole file visible.
    pub(crate) fn keep(&self, partial: PartialFile, digest: Digest) -> Result<(), RegistryError> {
        partial.keep(&self.blob_path(digest))
    }

    /// Whether the blob is there and is intact. A damaged one is removed.
    pub(crate) fn has_blob(&self, descriptor: &Descriptor) -> bool {
        let path = self.blob_path(descriptor.digest);
        match digest_of_file(&path, descriptor.size) {
            Ok(Some(digest)) if digest == descriptor.digest => true,
            Ok(_) => {
                let _ = fs::remove_file(&path);
                false
            }
            Err(_) => false,
        }
    }

    /// Stores a blob.
    ///
    /// # Errors
    /// Errors if it cannot be written.
    pub fn put(&self, content: &[u8]) -> Result<Digest, RegistryError> {
        let digest = Digest::of(content);
        self.write(&self.blob_path(digest), "blobs", content)?;
        Ok(digest)
    }

    /// Reads a blob of at most `limit` bytes; `None` if it is not there or is damaged.
    #[must_use]
    pub fn get(&self, digest: Digest, limit: u64) -> Option<Vec<u8>> {
        let content = read_limited(&self.blob_path(digest), limit)?;
        (Digest::of(&content) == digest).then_some(content)
    }

    /// Stores the signatures of a manifest.
    pub(crate) fn put_evidence(&self, manifest: Digest, content: &[u8]) -> Result<(), RegistryError> {
        self.write(&self.folder.join("evidence").join(file_name(manifest)), "evidence", content)
    }

    /// Reads the signatures of a manifest.
    pub(crate) fn evidence(&self, manifest: Digest, limit: u64) -> Option<Vec<u8>> {
        read_limited(&self.folder.join("evidence").join(file_name(manifest)), limit)
    }

    /// Remembers the manifest that a plugin was last started from, and its repository. `name` is a plugin's name, which is a valid file name.
    ///
    /// # Errors
    /// Errors if it cannot be written.
    pub fn put_record(&self, name: &str, repository: &str, manifest: Digest) -> Result<(), RegistryError> {
        let text = format!("{manifest} {repository}");
        self.write(&self.folder.join("records").join(name), "records", text.as_bytes())
    }

    /// Returns the manifest that a plugin was last started from, if that was from this repository.
    #[must_use]
    pub fn record(&self, name: &str, repository: &str) -> Option<Digest> {
        let (manifest, found) = self.read_record(name)?;
        (found == repository).then_some(manifest)
    }

    /// Returns the plugins of which there is a record, each with the manifest that it was last started from. Reads at most this many entries of
    /// the folder; what is no record is left out.
    pub(crate) fn records(&self, most: usize) -> Vec<(String, Digest)> {
        let entries = fs::read_dir(self.folder.join("records")).into_iter().flatten().flatten();
        let record = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            // Opening a pipe could block.
            if !is_label(&name) || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
                return None;
            }
            let (manifest, _) = self.read_record(&name)?;
            Some((name, manifest))
        };
        entries.take(most).filter_map(record).collect()
    }

    /// Returns the manifest and the repository of a record.
    fn read_record(&self, name: &str) -> Option<(Digest, String)> {
        let text = read_limited(&self.folder.join("records").join(name), MAX_RECORD)?;
        let (manifest, repository) = std::str::from_utf8(&text).ok()?.split_once(' ')?;
        Some((manifest.parse().ok()?, repository.to_owned()))
    }

    /// Forgets what a plugin was last started from.
    ///
    /// # Errors
    /// Errors if the record cannot be removed.
    pub(crate) fn remove_record(&self, name: &str) -> Result<(), RegistryError> {
        remove_file(&self.folder.join("records").join(name))
    }

    /// Puts a file into the folder of plugins, at once and as a whole.
    ///
    /// # Errors
    /// Errors if it cannot be written.
    pub fn put_plugin_file(&self, file_name: &str, content: &[u8]) -> Result<(), RegistryError> {
        self.write(&self.plugins().join(file_name), "plugins", content)
    }

    /// Whether a file in the folder of plugins has this content. An unchanged file is not written again, because that would reload it.
    #[must_use]
    pub fn plugin_file_is(&self, file_name: &str, content: &[u8]) -> bool {
        self.plugin_file_has(file_name, Digest::of(content), content.len() as u64)
    }

    /// Whether a file in the folder of plugins has the content of this digest and size.
    pub(crate) fn plugin_file_has(&self, file_name: &str, digest: Digest, size: u64) -> bool {
        let found = digest_of_file(&self.plugins().join(file_name), size);
        found.is_ok_and(|found| found == Some(digest))
    }

    /// Creates a file in the folder of plugins that the host does not see yet.
    pub(crate) fn partial_plugin(&self) -> Result<(PartialFile, File), RegistryError> {
        self.partial("plugins")
    }

    /// Makes a whole file visible in the folder of plugins.
    pub(crate) fn keep_plugin(&self, partial: PartialFile, file_name: &str) -> Result<(), RegistryError> {
        partial.keep(&self.plugins().join(file_name))
    }

    /// Puts a blob into the folder of plugins, without a copy where the file system permits it.
    ///
    /// # Errors
    /// Errors if it cannot be written.
    pub(crate) fn link_plugin(&self, file_name: &str, digest: Digest) -> Result<(), RegistryError> {
        let source = self.blob_path(digest);
        let (partial, file) = self.partial("plugins")?;
        drop(file);
        let linked = fs::remove_file(&partial.path).and_then(|()| fs::hard_link(&source, &partial.path));
        if linked.is_err() {
            fs::copy(&source, &partial.path).map_err(|error| cannot_write(&partial.path, &error))?;
        }
        partial.keep(&self.plugins().join(file_name))
    }

    /// Removes a file from the folder of plugins. An absent one is no error.
    ///
    /// # Errors
    /// Errors if it cannot be removed.
    pub fn remove_plugin_file(&self, file_name: &str) -> Result<(), RegistryError> {
        remove_file(&self.plugins().join(file_name))
    }

    /// Returns the names of the files in the folder of plugins.
    #[must_use]
    pub fn plugin_files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.plugins()).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| !name.starts_with('.')).collect()
    }

    /// Removes the oldest blobs and signatures, except for `used`, until the rest has at most `limit` bytes.
    ///
    /// # Errors
    /// Errors if the folder cannot be read.
    pub fn prune(&self, used: &BTreeSet<Digest>, limit: u64) -> Result<(), RegistryError> {
        let used: BTreeSet<String> = used.iter().map(|&digest| file_name(digest)).collect();
        let mut total: u64 = 0;
        let mut removable = Vec::new();
        for part in ["blobs", "evidence"] {
            let folder = self.folder.join(part);
            for entry in fs::read_dir(&folder).map_err(|error| cannot_write(&folder, &error))?.flatten() {
                let Ok(metadata) = entry.metadata() else { continue };
                total += metadata.len();
                let name = entry.file_name().to_string_lossy().into_owned();
                if !used.contains(&name) && !name.starts_with(PARTIAL) {
                    removable.push((metadata.modified().ok(), metadata.len(), entry.path()));
                }
            }
        }
        removable.sort();
        for (_, size, path) in removable {
            if total <= limit {
                break;
            }
            if fs::remove_file(&path).is_ok() {
                total -= size;
            }
        }
        Ok(())
    }

    fn write(&self, path: &Path, part: &str, content: &[u8]) -> Result<(), RegistryError> {
        let (partial, mut file) = self.partial(part)?;
        file.write_all(content).and_then(|()| file.sync_all()).map_err(|error| cannot_write(path, &error))?;
        partial.keep(path)
    }
}

impl PartialFile {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn keep(mut self, path: &Path) -> Result<(), RegistryError> {
        fs::rename(&self.path, path).map_err(|error| cannot_write(path, &error))?;
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn file_name(digest: Digest) -> String {
    format!("sha256-{}", digest.hex())
}

fn remove_file(path: &Path) -> Result<(), RegistryError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(cannot_write(path, &error)),
        _ => Ok(()),
    }
}

pub(crate) fn cannot_write(path: &Path, error: &io::Error) -> RegistryError {
    RegistryError::new(
        Problem::Cache,
        format!(
            "{} cannot be written: {error}; check the permissions of the cache and the space on its disk",
            path.display()
        ),
    )
}

/// Returns the digest of a file of this size; `None` if it has another size.
fn digest_of_file(path: &Path, size: u64) -> io::Result<Option<Digest>> {
    let mut file = File::open(path)?;
    if file.metadata()?.len() != size {
        return Ok(None);
    }
    let mut hasher = Hasher::default();
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(Some(hasher.finish())),
            Ok(read) => hasher.update(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn read_limited(path: &Path, limit: u64) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path).ok()?.take(limit.saturating_add(1)).read_to_end(&mut content).ok()?;
    (content.len() as u64 <= limit).then_some(content)
}

fn remove_abandoned(folder: &Path, now: SystemTime) -> io::Result<()> {
    for entry in fs::read_dir(folder)?.flatten() {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|modified| now.duration_since(modified).ok());
        let is_partial = entry.file_name().to_string_lossy().starts_with(PARTIAL);
        if is_partial && age.is_some_and(|age| age >= ABANDONED) {
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

fn create_private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "files have times of the system clock")]
mod tests {
    use super::*;

    fn cache() -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = Cache::open(&folder.path().join("oci"), SystemTime::now()).expect("a cache");
        (folder, cache)
    }

    #[test]
    fn a_damaged_blob_is_not_returned() {
        let (_folder, cache) = cache();
        let digest = cache.put(b"content").expect("stored");
        let descriptor = Descriptor::of("x", b"content");
        assert_eq!(cache.get(digest, 100).as_deref(), Some(&b"content"[..]));
        assert!(cache.has_blob(&descriptor));
        assert_eq!(cache.get(digest, 3), None, "larger than the limit");
        fs::write(cache.blob_path(digest), b"CONTENT").expect("written");
        assert_eq!(cache.get(digest, 100), None);
        assert!(!cache.has_blob(&descriptor));
        assert!(!cache.blob_path(digest).exists(), "the damaged file was removed");
    }

    #[test]
    fn a_partial_file_is_never_visible_and_an_abandoned_one_is_removed() {
        let (folder, cache) = cache();
        let (partial, mut file) = cache.partial_blob().expect("a file");
        file.write_all(b"half").expect("written");
        let path = partial.path().to_owned();
        drop(partial);
        assert!(!path.exists());
        fs::write(&path, b"half").expect("left by a killed process");
        let reopen = |now| Cache::open(&folder.path().join("oci"), now).expect("a cache");
        reopen(SystemTime::now());
        assert!(path.exists(), "another process may be writing it");
        reopen(SystemTime::now() + ABANDONED * 2);
        assert!(!path.exists());
    }

    #[test]
    fn the_least_recent_unused_blobs_are_removed() {
        let (_folder, cache) = cache();
        let digests: Vec<_> =
            [b"aaaa", b"bbbb", b"cccc"].iter().map(|content| cache.put(*content).expect("stored")).collect();
        for (age, &digest) in [30, 20, 10].into_iter().zip(&digests) {
            let file = File::options().write(true).open(cache.blob_path(digest)).expect("a file");
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).expect("set");
        }
        let used = BTreeSet::from([digests[0]]);
        cache.prune(&used, 8).expect("pruned");
        let left =
            |cache: &Cache| digests.iter().map(|&digest| cache.get(digest, 10).is_some()).collect::<Vec<_>>();
        assert_eq!(left(&cache), [true, false, true]);
        cache.prune(&used, 0).expect("pruned");
        assert_eq!(left(&cache), [true, false, false], "what is used stays");
    }

    #[test]
    fn a_plugin_file_is_replaced_as_a_whole() {
        let (_folder, cache) = cache();
        let digest = cache.put(b"one").expect("stored");
        cache.link_plugin("p.wasm", digest).expect("linked");
        cache.put_plugin_file("p.yaml", b"workers: 1").expect("written");
        let digest = cache.put(b"two").expect("stored");
        cache.link_plugin("p.wasm", digest).expect("linked");
        assert_eq!(fs::read(cache.plugins().join("p.wasm")).expect("read"), b"two");
        let mut files = cache.plugin_files();
        files.sort();
        assert_eq!(files, ["p.wasm", "p.yaml"]);
        cache.remove_plugin_file("p.wasm").expect("removed");
        cache.remove_plugin_file("p.wasm").expect("absent");
        assert_eq!(cache.plugin_files(), ["p.yaml"]);
    }

    #[test]
    fn a_record_is_of_one_repository_and_is_a_digest() {
        let (_folder, cache) = cache();
        assert_eq!(cache.record("p", "r/p"), None);
        cache.put_record("p", "r/p", Digest::of(b"m")).expect("stored");
        assert_eq!(cache.record("p", "r/p"), Some(Digest::of(b"m")));
        assert_eq!(cache.record("p", "r/other"), None, "the operator named another repository since");
        fs::write(cache.folder.join("records/p"), "nonsense r/p").expect("written");
        assert_eq!(cache.record("p", "r/p"), None);
    }

    #[test]
    fn all_records_are_found_and_nothing_else() {
        let (_folder, cache) = cache();
        let manifest = Digest::of(b"m");
        let file = |name: &str| cache.folder.join("records").join(name);
        for (name, text) in [
            ("No_Name", format!("{manifest} r/p")),
            ("long", format!("{manifest} {}", "r".repeat(2000))),
            ("empty", String::new()),
            (".partial-1-1", format!("{manifest} r/p")),
        ] {
            fs::write(file(name), text).expect("written");
        }
        fs::create_dir(file("folder")).expect("created");
        assert_eq!(cache.records(100), []);
        cache.put_record("p", "r/p", manifest).expect("stored");
        assert_eq!(cache.records(100), [("p".to_owned(), manifest)]);
        assert_eq!(cache.records(0), []);
    }

    #[test]
    #[cfg(unix)]
    fn others_cannot_read_the_cache() {
        use std::os::unix::fs::PermissionsExt;

        let (_folder, cache) = cache();
        let digest = cache.put(b"content").expect("stored");
        let mode = |path: &Path| fs::metadata(path).expect("metadata").permissions().mode() & 0o777;
        assert_eq!(mode(&cache.blob_path(digest)), 0o600);
        assert_eq!(mode(&cache.plugins()), 0o700);
    }

    #[test]
    fn one_content_has_one_lock() {
        let (_folder, cache) = cache();
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        let lock = cache.download_lock(a);
        assert!(Arc::ptr_eq(&lock, &cache.download_lock(a)));
        assert!(!Arc::ptr_eq(&lock, &cache.download_lock(b)));
    }
}
