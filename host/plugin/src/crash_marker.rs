//! Markers that name a plugin file which crashed the process, so that the next start refuses the file and does not crash again.
//!
//! While a process handles a plugin file in its own memory, it holds a lock on a marker file beside the compile cache. When it is done, it
//! removes the marker. A marker without a lock is from a process that died meanwhile. A locked marker belongs to a living process and is
//! ignored.

#![expect(clippy::disallowed_methods, reason = "files get names that no other process may choose")]

use std::fs::{File, OpenOptions, hard_link, remove_file, symlink_metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// How often to look again at a marker that another process removes meanwhile.
const MAX_ATTEMPTS: usize = 8;

/// A marker for a plugin file that this process is handling. Dropping this removes the marker.
#[derive(Debug)]
pub struct CrashMarker {
    path: PathBuf,
    /// Locked.
    _file: File,
}

impl Drop for CrashMarker {
    fn drop(&mut self) {
        if let Err(error) = remove_file(&self.path) {
            tracing::warn!(
                "cannot remove the marker {}: {error}; remove it, or the plugin is refused at the next start",
                self.path.display()
            );
        }
    }
}

/// Error: an earlier process ended while it handled this file. The path is that of the marker.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("loading this file ended the host's process; change the file, or remove {} to try again", .0.display())]
pub struct PreviousCrash(pub PathBuf);

/// Creates the marker for the file of this digest in the directory. Returns `None` if no marker can be created, or if another process holds
/// it.
///
/// # Errors
/// If there is a marker of a process that ended.
pub(crate) fn create(directory: &Path, digest: &str) -> Result<Option<CrashMarker>, PreviousCrash> {
    let path = directory.join(format!("loading-{digest}"));
    match try_create(directory, &path) {
        Ok(Attempt::Abandoned) => Err(PreviousCrash(path)),
        Ok(Attempt::Held) => Ok(None),
        Ok(Attempt::Created(file)) => Ok(Some(CrashMarker { path, _file: file })),
        Err(error) => {
            tracing::debug!("cannot create the marker {}: {error}", path.display());
            Ok(None)
        }
    }
}

/// The result of an attempt to create a marker.
enum Attempt {
    /// There was no marker. The file is the new one, which is locked.
    Created(File),
    /// A living process holds a marker.
    Held,
    /// A process that ended left a marker.
    Abandoned,
}

fn try_create(directory: &Path, path: &Path) -> io::Result<Attempt> {
    for _ in 0..MAX_ATTEMPTS {
        if let Some(file) = link_locked(directory, path)? {
            return Ok(Attempt::Created(file));
        }
        if let Some(attempt) = inspect(path)? {
            return Ok(attempt);
        }
    }
    Ok(Attempt::Held)
}

/// Creates a locked file at the path. Returns `None` if there is one. The file has its lock before it has its name, so that no other process
/// can see a marker whose process lives and that is not locked. It is linked, not renamed, so that it replaces no marker of another process.
fn link_locked(directory: &Path, path: &Path) -> io::Result<Option<File>> {
    // The compile cache removes files with this extension if their process did not.
    let partial = directory.join(format!(".{}.{:016x}.partial", std::process::id(), rand::random::<u64>()));
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial)?;
    let linked = file.try_lock().map_err(io::Error::from).and_then(|()| hard_link(&partial, path));
    let _ = remove_file(&partial);
    match linked {
        Ok(()) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns whose marker is at the path. Returns `None` if it has been removed meanwhile.
fn inspect(path: &Path) -> io::Result<Option<Attempt>> {
    // Non-blocking, because opening a named pipe would wait for a writer.
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // A shared lock, so that processes that inspect the marker at the same time do not take each other for its holder.
    if file.try_lock_shared().is_err() {
        return Ok(Some(Attempt::Held));
    }
    // A process that removes its marker unlocks it afterwards.
    let inode = file.metadata()?.ino();
    Ok(symlink_metadata(path).is_ok_and(|found| found.ino() == inode).then_some(Attempt::Abandoned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_crashed_its_process_is_refused_until_its_marker_is_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        // A process that died leaves its marker without a lock.
        let path = directory.path().join("loading-abc");
        std::fs::write(&path, "").expect("written");
        let refused = create(directory.path(), "abc").expect_err("marked");
        assert_eq!(refused, PreviousCrash(path.clone()));
        assert!(
            refused.to_string().contains("ended the host's process; change the file, or remove "),
            "{refused}"
        );
        assert_eq!(create(directory.path(), "abc").expect_err("still"), PreviousCrash(path.clone()));
        assert!(create(directory.path(), "def").expect("another file").is_some());
        std::fs::remove_file(&path).expect("removed");
        assert!(create(directory.path(), "abc").expect("tried again").is_some());
    }

    #[test]
    fn dropping_a_marker_removes_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let held = create(directory.path(), "abc").expect("no crash").expect("a marker");
        assert!(create(directory.path(), "abc").expect("held by a living process").is_none());
        drop(held);
        assert_eq!(std::fs::read_dir(directory.path()).expect("read").count(), 0);
    }

    /// Many processes may share a cache, and load the same plugin at the same time.
    #[test]
    fn markers_that_come_and_go_are_not_taken_for_those_of_a_crash() {
        let directory = tempfile::tempdir().expect("a directory");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        drop(create(directory.path(), "abc").expect("no process died"));
                    }
                });
            }
        });
        assert_eq!(std::fs::read_dir(directory.path()).expect("read").count(), 0);
    }

    #[test]
    fn a_file_is_handled_without_a_marker_if_none_can_be_created() {
        assert!(create(Path::new("/nonexistent"), "abc").expect("handled").is_none());
        let directory = tempfile::tempdir().expect("a directory");
        std::os::unix::fs::symlink("/dev/null", directory.path().join("loading-abc")).expect("linked");
        assert!(create(directory.path(), "abc").expect("handled").is_none());
    }
}
