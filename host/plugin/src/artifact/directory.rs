//! The directory of the compile cache: compiled plugins that outlive the process, one file each. Only this user may write to it.

#![expect(
    clippy::disallowed_methods,
    reason = "files have times of the system clock, and names that no other process may choose"
)]

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::{ArtifactError, ArtifactKey, InUseGuard, KeepError, KeptCode};

const EXTENSION: &str = "cwasm";
/// Age after which a partial file is removed: the process that wrote it was killed.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);

/// A directory of compiled plugins. Several processes of the same user may share it.
pub(crate) struct ArtifactDirectory {
    path: PathBuf,
    /// The directory that was checked. Files are opened relative to it, so that it does not matter if the path leads elsewhere later.
    descriptor: OwnedFd,
    max_bytes: u64,
    /// Names of the entries whose code this process runs.
    in_use: Mutex<Vec<Weak<str>>>,
    /// The size of all entries that are kept although no version runs them, in bytes.
    kept_bytes: Arc<Mutex<u64>>,
    /// Number of files written so far, which makes the names of partial files unique in this process.
    written: AtomicU64,
    has_warned: AtomicBool,
}

/// An open file of compiled code.
pub(crate) struct Entry {
    pub(crate) file: File,
    /// Keeps the file from being removed to make room while its code is in use.
    pub(crate) _in_use: Option<InUseGuard>,
}

impl Entry {
    pub(super) fn anonymous(file: File) -> Self {
        Self { file, _in_use: None }
    }
}

impl ArtifactDirectory {
    /// Opens the directory, and creates it if it does not exist.
    ///
    /// # Errors
    /// If another user owns the directory or may write to it, or to a directory above it: its files are run as code. Also if the system does not
    /// run code from there.
    pub(crate) fn open(path: &Path, max_bytes: u64) -> Result<Self, String> {
        let text = |error: io::Error| error.to_string();
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(text)?;
        let path = path.canonicalize().map_err(text)?;
        // From the root down: below a directory that others cannot write to, nobody can replace what was checked.
        let parents: Vec<_> = path.ancestors().skip(1).collect();
        parents.into_iter().rev().try_for_each(check_parent)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory =
            File::from(rustix::fs::open(&path, flags, Mode::empty()).map_err(|error| text(error.into()))?);
        let metadata = directory.metadata().map_err(text)?;
        if metadata.uid() != geteuid().as_raw() {
            return Err("it belongs to another user".to_owned());
        }
        if metadata.mode() & 0o022 != 0 {
            return Err("others may write to it (chmod 700 it)".to_owned());
        }
        if is_noexec(&directory) {
            return Err("it is on a file system that is mounted with noexec (mount it without)".to_owned());
        }
        let (in_use, kept_bytes, written, has_warned) = Default::default();
        Ok(Self { path, descriptor: directory.into(), max_bytes, in_use, kept_bytes, written, has_warned })
    }

    /// Returns the path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the plugin's entry, if there is one. Checks its owner and mode, but not its contents.
    pub(crate) fn find(&self, key: &ArtifactKey) -> Result<Option<Entry>, ArtifactError> {
        let name = name(key);
        // Non-blocking, because opening a named pipe would wait for a writer.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&self.descriptor, &name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(io::Error::from(error).into()),
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.uid() != geteuid().as_raw() {
            return Err(ArtifactError::Access("it is not a file of this user".to_owned()));
        }
        if metadata.mode() & 0o222 != 0 {
            return Err(ArtifactError::Access(format!("its mode is {:o}, not 400", metadata.mode() & 0o777)));
        }
        // The modification time is the time of the last use, by which entries are evicted. An error is harmless.
        let _ = file.set_modified(SystemTime::now());
        Ok(Some(Entry { file, _in_use: Some(self.mark_in_use(&name)) }))
    }

    /// Keeps the plugin's entry from being removed to make room. All entries that are kept may take half of the directory.
    pub(crate) fn keep(&self, key: &ArtifactKey) -> Result<KeptCode, KeepError> {
        let entry = self.find(key).map_err(|error| KeepError::Unusable(error.to_string()))?;
        let Entry { file, _in_use: in_use } = entry.ok_or(KeepError::NotCached)?;
        let size = file.metadata().map_err(|error| KeepError::Unusable(error.to_string()))?.len();
        let in_use = in_use.ok_or(KeepError::NotCached)?;
        KeptCode::charge(size, &self.kept_bytes, self.max_bytes / 2, in_use)
    }

    /// Copies a file to the entry of this key, then evicts others if the directory is too large. The entry appears whole or not at all.
    pub(super) fn store(&self, mut from: &File, key: &ArtifactKey) -> Result<Entry, io::Error> {
        let name = name(key);
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let partial = format!(".{}.{number}.{:016x}.partial", std::process::id(), rand::random::<u64>());
        let written = (|| {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut to = File::from(openat(&self.descriptor, &partial, flags, Mode::RUSR | Mode::WUSR)?);
            io::copy(&mut from, &mut to)?;
            to.set_permissions(Permissions::from_mode(0o400))?;
            Ok(renameat(&self.descriptor, &partial, &self.descriptor, &name)?)
        })();
        if let Err(error) = written {
            let _ = unlinkat(&self.descriptor, &partial, AtFlags::empty());
            return Err(error);
        }
        let in_use = self.mark_in_use(&name);
        self.evict()?;
        match self.find(key) {
            Ok(Some(entry)) => Ok(entry),
            Ok(None) => Err(io::ErrorKind::NotFound.into()),
            Err(error) => Err(io::Error::other(error.to_string())),
        }
        .inspect(|_| drop(in_use))
    }

    /// Removes an entry that cannot be used.
    pub(crate) fn remove(&self, key: &ArtifactKey) {
        // An error is harmless: storing the entry again replaces the file.
        let _ = unlinkat(&self.descriptor, name(key), AtFlags::empty());
    }

    /// Logs a problem of the directory, but only the first. Plugins run without it.
    pub(crate) fn warn_once(&self, problem: &dyn std::fmt::Display) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "cannot keep compiled plugins in {}: {problem}; they are compiled again at each start (free or mount space \
                 there, or choose another --cache-dir)",
                self.path.display()
            );
        }
    }

    fn mark_in_use(&self, name: &str) -> InUseGuard {
        let name: InUseGuard = name.into();
        let mut in_use = self.in_use.lock();
        in_use.retain(|name| name.strong_count() > 0);
        in_use.push(Arc::downgrade(&name));
        name
    }

    /// Removes the least recently used entries until the rest fits into `max_bytes`. Never removes entries that this process uses.
    fn evict(&self) -> io::Result<()> {
        let now = SystemTime::now();
        let mut entries = Vec::new();
        let mut total = 0;
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            // Another process may have removed it meanwhile.
            let Ok(metadata) = entry.metadata() else { continue };
            let last_used = metadata.modified().unwrap_or(now);
            let path = entry.path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some(EXTENSION) => {
                    total += metadata.len();
                    entries.push((last_used, metadata.len(), path));
                }
                Some("partial") if now.duration_since(last_used).is_ok_and(|age| age > ABANDONED_AFTER) => {
                    let _ = fs::remove_file(path);
                }
                _ => {}
            }
        }
        entries.sort_unstable();
        for (_, size, path) in entries {
            if total <= self.max_bytes {
                break;
            }
            if !self.is_in_use(&path) && fs::remove_file(&path).is_ok() {
                total -= size;
            }
        }
        Ok(())
    }

    fn is_in_use(&self, path: &Path) -> bool {
        let is_this = |name: InUseGuard| path.file_name().is_some_and(|file| file == &*name);
        self.in_use.lock().iter().filter_map(Weak::upgrade).any(is_this)
    }
}

/// Checks that the host can use a directory for compiled plugins: it is the host's own, can be written to, and the system runs code from there.
/// Creates it if it does not exist.
///
/// # Errors
/// Returns why the host would not use it.
pub fn check_cache_directory(path: &Path) -> Result<(), String> {
    ArtifactDirectory::open(path, 0)?;
    let probe = path.join(format!(".write-test-{}", std::process::id()));
    File::create(&probe)
        .and_then(|_| fs::remove_file(&probe))
        .map_err(|error| format!("cannot write to it: {error}"))
}

/// Whether the system refuses to run code from the files in a directory.
#[cfg(target_os = "linux")]
fn is_noexec(directory: &File) -> bool {
    let found = rustix::fs::fstatvfs(directory);
    found.is_ok_and(|found| found.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC))
}

/// Returns `false`: only Linux tells.
#[cfg(not(target_os = "linux"))]
fn is_noexec(_: &File) -> bool {
    false
}

/// Errors if another user could replace a directory in this one. With the sticky bit, as in `/tmp`, only the owner of an entry can.
fn check_parent(path: &Path) -> Result<(), String> {
    let problem = |problem: &str| Err(format!("its parent directory {} {problem}", path.display()));
    let metadata = fs::symlink_metadata(path).map_err(|error| format!("{}: {error}", path.display()))?;
    if metadata.uid() != 0 && metadata.uid() != geteuid().as_raw() {
        return problem("belongs to another user");
    }
    if metadata.mode() & 0o022 != 0 && metadata.mode() & 0o1000 == 0 {
        return problem("may be written to by others (chmod go-w it, or chmod +t it)");
    }
    Ok(())
}

fn name(key: &ArtifactKey) -> String {
    let engine = key.engine.to_string();
    format!("{}-{}.{EXTENSION}", key.plugin, &engine[..16])
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::super::Sha256Sum;
    use super::*;

    fn key(plugin: &str) -> ArtifactKey {
        ArtifactKey { engine: Sha256Sum::of(b"engine"), plugin: Sha256Sum::of(plugin.as_bytes()) }
    }

    fn file(size: usize) -> File {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&vec![1; size]).expect("written");
        file.rewind().expect("rewound");
        file
    }

    fn directory(max_bytes: u64) -> (tempfile::TempDir, ArtifactDirectory) {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = ArtifactDirectory::open(&folder.path().join("a/b"), max_bytes).expect("a directory");
        (folder, directory)
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("there").mode() & 0o777
    }

    #[test]
    fn a_stored_entry_is_found_and_only_its_owner_may_read_it() {
        let (_folder, directory) = directory(1000);
        assert!(directory.find(&key("a")).expect("no error").is_none());
        directory.store(&file(10), &key("a")).expect("stored");
        let entry = directory.find(&key("a")).expect("usable").expect("there");
        assert_eq!(entry.file.metadata().expect("there").len(), 10);
        assert_eq!(mode(&directory.path), 0o700);
        assert_eq!(mode(&directory.path.join(name(&key("a")))), 0o400);
        assert!(directory.find(&key("b")).expect("no error").is_none());
        let left: Vec<_> = fs::read_dir(&directory.path).expect("readable").collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn writable_files_and_symbolic_links_are_not_used() {
        let (folder, directory) = directory(1000);
        directory.store(&file(10), &key("a")).expect("stored");
        let path = directory.path.join(name(&key("a")));
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("changed");
        assert!(matches!(directory.find(&key("a")), Err(ArtifactError::Access(_))));
        fs::set_permissions(&path, Permissions::from_mode(0o400)).expect("changed");
        let elsewhere = folder.path().join("elsewhere");
        fs::rename(&path, &elsewhere).expect("moved");
        std::os::unix::fs::symlink(&elsewhere, &path).expect("a link");
        assert!(matches!(directory.find(&key("a")), Err(ArtifactError::Io(_))));
        directory.remove(&key("a"));
        assert!(elsewhere.exists() && !path.exists());
    }

    #[test]
    fn a_directory_writable_by_others_is_not_used() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o770)).expect("changed");
        let refused = ArtifactDirectory::open(folder.path(), 1000).err().expect("refused");
        assert!(refused.contains("chmod 700"), "{refused}");
        let file = folder.path().join("file");
        fs::write(&file, "").expect("written");
        assert!(ArtifactDirectory::open(&file, 1000).is_err());
    }

    #[test]
    fn a_directory_below_one_writable_by_others_is_not_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let shared = folder.path().join("shared");
        let below = shared.join("mine/compiled");
        fs::create_dir_all(&below).expect("made");
        for (mode, is_used) in [(0o777, false), (0o775, false), (0o1777, true), (0o755, true)] {
            fs::set_permissions(&shared, Permissions::from_mode(mode)).expect("changed");
            let opened = ArtifactDirectory::open(&below, 1000);
            assert_eq!(opened.is_ok(), is_used, "{mode:o}");
            if let Err(problem) = opened {
                assert!(problem.contains("shared may be written to by others"), "{problem}");
            }
        }
        // A symbolic link does not hide the parent.
        fs::set_permissions(&shared, Permissions::from_mode(0o777)).expect("changed");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&below, &link).expect("a link");
        assert!(ArtifactDirectory::open(&link, 1000).is_err());
    }

    #[test]
    fn files_are_opened_in_the_directory_that_was_checked() {
        let (folder, directory) = directory(1000);
        directory.store(&file(10), &key("a")).expect("stored");
        let other = folder.path().join("other");
        fs::rename(&directory.path, &other).expect("moved");
        fs::create_dir(&directory.path).expect("made");
        fs::write(directory.path.join(name(&key("a"))), "not ours").expect("written");
        let entry = directory.find(&key("a")).expect("usable").expect("there");
        assert_eq!(entry.file.metadata().expect("there").len(), 10);
    }

    #[test]
    fn a_named_pipe_in_place_of_an_entry_does_not_block() {
        let (_folder, directory) = directory(1000);
        let path = directory.path.join(name(&key("a")));
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, Mode::RUSR, 0)
            .expect("a pipe");
        assert!(matches!(directory.find(&key("a")), Err(ArtifactError::Access(_))));
    }

    #[test]
    fn a_kept_entry_is_not_evicted_and_at_most_half_of_the_directory_is_kept() {
        let (_folder, directory) = directory(35);
        drop(directory.store(&file(10), &key("kept")).expect("stored"));
        assert_eq!(directory.keep(&key("absent")).err(), Some(KeepError::NotCached));
        let kept = directory.keep(&key("kept")).expect("kept");
        assert_eq!(kept.size(), 10);
        for other in ["a", "b", "c"] {
            // Older than the others, so that it would be removed first.
            let entry = File::open(directory.path.join(name(&key("kept")))).expect("there");
            entry.set_modified(SystemTime::UNIX_EPOCH).expect("set");
            drop(directory.store(&file(10), &key(other)).expect("stored"));
            assert!(directory.find(&key("kept")).expect("usable").is_some());
        }
        assert_eq!(directory.keep(&key("c")).err(), Some(KeepError::Full { limit: 17 }));
        drop(kept);
        assert!(directory.keep(&key("c")).is_ok());
    }

    #[test]
    fn the_least_recently_used_entries_are_evicted_unless_in_use() {
        let (_folder, directory) = directory(35);
        let used_at = |name_of: &str, seconds: u64| {
            let file = File::open(directory.path.join(name(&key(name_of)))).expect("there");
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).expect("set");
        };
        let running = directory.store(&file(10), &key("running")).expect("stored");
        used_at("running", 1);
        drop(directory.store(&file(10), &key("old")).expect("stored"));
        used_at("old", 2);
        drop(directory.store(&file(10), &key("young")).expect("stored"));
        used_at("young", 3);
        drop(directory.store(&file(10), &key("new")).expect("stored"));
        let is_there = |name: &str| directory.find(&key(name)).expect("usable").is_some();
        assert_eq!(["running", "old", "young", "new"].map(is_there), [true, false, true, true]);
        drop(running);
    }
}
