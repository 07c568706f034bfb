//! Compiled plugins that outlive the host's process, one file each, in a directory of this user alone.

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

use super::{InUse, Key, Unfit};

const EXTENSION: &str = "cwasm";
/// What a process that was killed in the middle of writing leaves behind is removed when it is older than this.
const ABANDONED: Duration = Duration::from_secs(3600);

/// A directory of compiled plugins. Several processes of the same user may share it.
pub(crate) struct Directory {
    path: PathBuf,
    /// The directory that was looked at: files are opened in it, whatever its path leads to later.
    folder: OwnedFd,
    max_bytes: u64,
    /// Names of the entries whose code this process runs.
    in_use: Mutex<Vec<Weak<str>>>,
    /// Tells files apart that this process writes at the same time.
    written: AtomicU64,
    has_complained: AtomicBool,
}

/// A file of compiled code that is open.
pub(crate) struct Entry {
    pub(crate) file: File,
    /// To be kept while the code runs: it keeps the file from being removed to make room.
    pub(crate) _in_use: Option<InUse>,
}

impl Entry {
    pub(super) fn unnamed(file: File) -> Self {
        Self { file, _in_use: None }
    }
}

impl Directory {
    /// Makes the directory unless it is there. One that others may write to, or that is another user's, is not used, and none below such a
    /// one: what is in it is run as code.
    pub(crate) fn open(path: &Path, max_bytes: u64) -> Result<Self, String> {
        let text = |error: io::Error| error.to_string();
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(text)?;
        let path = path.canonicalize().map_err(text)?;
        // From the root on: below a directory that others cannot write to, nothing is exchanged after it was looked at.
        let parents: Vec<_> = path.ancestors().skip(1).collect();
        parents.into_iter().rev().try_for_each(check_parent)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder =
            File::from(rustix::fs::open(&path, flags, Mode::empty()).map_err(|error| text(error.into()))?);
        let found = folder.metadata().map_err(text)?;
        if found.uid() != geteuid().as_raw() {
            return Err("it belongs to another user".to_owned());
        }
        if found.mode() & 0o022 != 0 {
            return Err("others may write to it (chmod 700 it)".to_owned());
        }
        let (in_use, written, has_complained) = Default::default();
        Ok(Self { path, folder: folder.into(), max_bytes, in_use, written, has_complained })
    }

    /// The plugin's entry, if there is one that may be used. What is in it is not looked at.
    pub(crate) fn find(&self, key: &Key) -> Result<Option<Entry>, Unfit> {
        let name = name(key);
        // A pipe in its place must not keep the one who opens it waiting.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&self.folder, &name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(io::Error::from(error).into()),
        };
        let found = file.metadata()?;
        if !found.is_file() || found.uid() != geteuid().as_raw() {
            return Err(Unfit::Access("it is not a file of this user".to_owned()));
        }
        if found.mode() & 0o222 != 0 {
            return Err(Unfit::Access(format!("its mode is {:o}, not 400", found.mode() & 0o777)));
        }
        // The time of the last use, by which room is made; it is only a hint.
        let _ = file.set_modified(SystemTime::now());
        Ok(Some(Entry { file, _in_use: Some(self.using(&name)) }))
    }

    /// Copies a file to where [`find`](Self::find) finds it, then makes room. The file is there whole or not at all.
    pub(super) fn store(&self, mut from: &File, key: &Key) -> Result<Entry, io::Error> {
        let name = name(key);
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let partial = format!(".{}.{number}.{:016x}.partial", std::process::id(), rand::random::<u64>());
        let written = (|| {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut to = File::from(openat(&self.folder, &partial, flags, Mode::RUSR | Mode::WUSR)?);
            io::copy(&mut from, &mut to)?;
            to.set_permissions(Permissions::from_mode(0o400))?;
            Ok(renameat(&self.folder, &partial, &self.folder, &name)?)
        })();
        if let Err(error) = written {
            let _ = unlinkat(&self.folder, &partial, AtFlags::empty());
            return Err(error);
        }
        let in_use = self.using(&name);
        self.make_room()?;
        match self.find(key) {
            Ok(Some(entry)) => Ok(entry),
            Ok(None) => Err(io::ErrorKind::NotFound.into()),
            Err(unfit) => Err(io::Error::other(unfit.to_string())),
        }
        .inspect(|_| drop(in_use))
    }

    /// Takes an entry away that can't be used, so that the next one takes its place.
    pub(crate) fn remove(&self, key: &Key) {
        // If it stays, the rename of the next one replaces it.
        let _ = unlinkat(&self.folder, name(key), AtFlags::empty());
    }

    /// Says once what is wrong with the directory. Plugins run without it.
    pub(crate) fn complain(&self, problem: &dyn std::fmt::Display) {
        if !self.has_complained.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "compiled plugins can't be kept in {}: {problem}; each is compiled anew at every start (free or mount space \
                 there, or give another --cache-dir)",
                self.path.display()
            );
        }
    }

    fn using(&self, name: &str) -> InUse {
        let name: InUse = name.into();
        let mut in_use = self.in_use.lock();
        in_use.retain(|name| name.strong_count() > 0);
        in_use.push(Arc::downgrade(&name));
        name
    }

    /// Removes the entries that were not used for the longest time until the others fit, those in use by this process last of all: never.
    fn make_room(&self) -> io::Result<()> {
        let now = SystemTime::now();
        let mut entries = Vec::new();
        let mut total = 0;
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            // It may have been removed by another process meanwhile.
            let Ok(metadata) = entry.metadata() else { continue };
            let used = metadata.modified().unwrap_or(now);
            let path = entry.path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some(EXTENSION) => {
                    total += metadata.len();
                    entries.push((used, metadata.len(), path));
                }
                Some("partial") if now.duration_since(used).is_ok_and(|age| age > ABANDONED) => {
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
        let is_this = |name: InUse| path.file_name().is_some_and(|file| file == &*name);
        self.in_use.lock().iter().filter_map(Weak::upgrade).any(is_this)
    }
}

/// Whether somebody else could put another directory in the place of one below this. In one with the sticky bit, as `/tmp`, only a
/// directory's owner can.
fn check_parent(path: &Path) -> Result<(), String> {
    let problem = |what: &str| Err(format!("{}, which leads to it, {what}", path.display()));
    let found = fs::symlink_metadata(path).map_err(|error| format!("{}: {error}", path.display()))?;
    if found.uid() != 0 && found.uid() != geteuid().as_raw() {
        return problem("belongs to another user");
    }
    if found.mode() & 0o022 != 0 && found.mode() & 0o1000 == 0 {
        return problem("may be written to by others (chmod go-w it, or chmod +t it)");
    }
    Ok(())
}

fn name(key: &Key) -> String {
    let engine = key.engine.to_string();
    format!("{}-{}.{EXTENSION}", key.plugin, &engine[..16])
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::super::Sum;
    use super::*;

    fn key(plugin: &str) -> Key {
        Key { engine: Sum::of(b"engine"), plugin: Sum::of(plugin.as_bytes()) }
    }

    fn file(size: usize) -> File {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&vec![1; size]).expect("written");
        file.rewind().expect("rewound");
        file
    }

    fn directory(max_bytes: u64) -> (tempfile::TempDir, Directory) {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = Directory::open(&folder.path().join("a/b"), max_bytes).expect("a directory");
        (folder, directory)
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("there").mode() & 0o777
    }

    #[test]
    fn an_entry_is_found_again_and_nobody_else_may_touch_it() {
        let (_folder, directory) = directory(1000);
        assert!(directory.find(&key("a")).expect("no fault").is_none());
        directory.store(&file(10), &key("a")).expect("stored");
        let entry = directory.find(&key("a")).expect("fit").expect("there");
        assert_eq!(entry.file.metadata().expect("there").len(), 10);
        assert_eq!(mode(&directory.path), 0o700);
        assert_eq!(mode(&directory.path.join(name(&key("a")))), 0o400);
        assert!(directory.find(&key("b")).expect("no fault").is_none());
        let left: Vec<_> = fs::read_dir(&directory.path).expect("readable").collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn a_file_that_could_have_been_written_to_and_a_link_are_not_used() {
        let (folder, directory) = directory(1000);
        directory.store(&file(10), &key("a")).expect("stored");
        let path = directory.path.join(name(&key("a")));
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("changed");
        assert!(matches!(directory.find(&key("a")), Err(Unfit::Access(_))));
        fs::set_permissions(&path, Permissions::from_mode(0o400)).expect("changed");
        let elsewhere = folder.path().join("elsewhere");
        fs::rename(&path, &elsewhere).expect("moved");
        std::os::unix::fs::symlink(&elsewhere, &path).expect("a link");
        assert!(matches!(directory.find(&key("a")), Err(Unfit::Io(_))));
        directory.remove(&key("a"));
        assert!(elsewhere.exists() && !path.exists());
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_not_used() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o770)).expect("changed");
        let refused = Directory::open(folder.path(), 1000).err().expect("refused");
        assert!(refused.contains("chmod 700"), "{refused}");
        let file = folder.path().join("file");
        fs::write(&file, "").expect("written");
        assert!(Directory::open(&file, 1000).is_err());
    }

    #[test]
    fn a_directory_below_one_that_others_may_write_to_is_not_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let shared = folder.path().join("shared");
        let below = shared.join("mine/compiled");
        fs::create_dir_all(&below).expect("made");
        for (mode, is_used) in [(0o777, false), (0o775, false), (0o1777, true), (0o755, true)] {
            fs::set_permissions(&shared, Permissions::from_mode(mode)).expect("changed");
            let opened = Directory::open(&below, 1000);
            assert_eq!(opened.is_ok(), is_used, "{mode:o}");
            if let Err(problem) = opened {
                assert!(
                    problem.contains("shared, which leads to it, may be written to by others"),
                    "{problem}"
                );
            }
        }
        // Nor by a link that hides it.
        fs::set_permissions(&shared, Permissions::from_mode(0o777)).expect("changed");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&below, &link).expect("a link");
        assert!(Directory::open(&link, 1000).is_err());
    }

    #[test]
    fn files_are_those_of_the_directory_that_was_opened() {
        let (folder, directory) = directory(1000);
        directory.store(&file(10), &key("a")).expect("stored");
        let other = folder.path().join("other");
        fs::rename(&directory.path, &other).expect("moved");
        fs::create_dir(&directory.path).expect("made");
        fs::write(directory.path.join(name(&key("a"))), "not ours").expect("written");
        let entry = directory.find(&key("a")).expect("fit").expect("there");
        assert_eq!(entry.file.metadata().expect("there").len(), 10);
    }

    #[test]
    fn a_pipe_in_the_place_of_an_entry_is_not_waited_for() {
        let (_folder, directory) = directory(1000);
        let path = directory.path.join(name(&key("a")));
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, Mode::RUSR, 0)
            .expect("a pipe");
        assert!(matches!(directory.find(&key("a")), Err(Unfit::Access(_))));
    }

    #[test]
    fn the_oldest_entries_that_nobody_uses_make_room() {
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
        let is_there = |name: &str| directory.find(&key(name)).expect("fit").is_some();
        assert_eq!(["running", "old", "young", "new"].map(is_there), [true, false, true, true]);
        drop(running);
    }
}
