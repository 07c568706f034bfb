//! Markers that name a plugin file which crashed the process, so that the next start refuses the file and does not crash again.
//!
//! While a process handles a plugin file in its own memory, it holds a lock on a marker file beside the compile cache. When it is done, it
//! removes the marker. A marker without a lock is from a process that died meanwhile. A locked marker belongs to a living process and is
//! ignored.

use std::fs::{File, OpenOptions, TryLockError, remove_file, symlink_metadata};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

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
    let existed = symlink_metadata(&path).is_ok();
    let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let opened = OpenOptions::new()
        .write(true)
        .create(true)
        .mode(0o600)
        .custom_flags(flags)
        .truncate(false)
        .open(&path);
    let file = match opened {
        Ok(file) => file,
        Err(error) => {
            tracing::debug!("cannot create the marker {}: {error}", path.display());
            return Ok(None);
        }
    };
    match file.try_lock() {
        Ok(()) => {}
        // Another process is handling the same file.
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => return Ok(None),
    }
    // Another process may have held the marker and removed it before the lock succeeded.
    let is_same_file = |found: std::fs::Metadata| file.metadata().is_ok_and(|own| own.ino() == found.ino());
    if !symlink_metadata(&path).is_ok_and(is_same_file) {
        return Ok(None);
    }
    if existed { Err(PreviousCrash(path)) } else { Ok(Some(CrashMarker { path, _file: file })) }
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

    #[test]
    fn a_file_is_handled_without_a_marker_if_none_can_be_created() {
        assert!(create(Path::new("/nonexistent"), "abc").expect("handled").is_none());
        let directory = tempfile::tempdir().expect("a directory");
        std::os::unix::fs::symlink("/dev/null", directory.path().join("loading-abc")).expect("linked");
        assert!(create(directory.path(), "abc").expect("handled").is_none());
    }
}
