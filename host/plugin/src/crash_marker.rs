//! Marks of plugin files that the process is handling in its own memory, beside the compile cache.
//!
//! A mark whose process is gone names a file that ended it, so that the next start refuses that file instead of dying of it again. The
//! process that handles a file holds the lock of its mark: a mark of a process that lives is nobody else's concern.

use std::fs::{File, OpenOptions, TryLockError, remove_file, symlink_metadata};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// A file is being handled; the mark goes when this is dropped.
#[derive(Debug)]
pub struct LoadMark {
    path: PathBuf,
    /// Locked.
    _file: File,
}

impl Drop for LoadMark {
    fn drop(&mut self) {
        if let Err(error) = remove_file(&self.path) {
            tracing::warn!("the mark {} cannot be removed: {error}; remove it", self.path.display());
        }
    }
}

/// A process ended while it handled the file; the path is that of the mark.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("loading this file ended the host's process; change the file, or remove {} to try again", .0.display())]
pub struct Marked(pub PathBuf);

/// Marks the file of this digest in the directory. Where no mark can be made, the file is handled without one.
///
/// # Errors
/// It has the mark of a process that ended.
pub(crate) fn mark(directory: &Path, digest: &str) -> Result<Option<LoadMark>, Marked> {
    let path = directory.join(format!("loading-{digest}"));
    let was_there = symlink_metadata(&path).is_ok();
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
            tracing::debug!("no mark {}: {error}", path.display());
            return Ok(None);
        }
    };
    match file.try_lock() {
        Ok(()) => {}
        // Another process is handling the same file.
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => return Ok(None),
    }
    // Whoever held it may have removed it meanwhile.
    let is_there = |metadata: std::fs::Metadata| file.metadata().is_ok_and(|own| own.ino() == metadata.ino());
    if !symlink_metadata(&path).is_ok_and(is_there) {
        return Ok(None);
    }
    if was_there { Err(Marked(path)) } else { Ok(Some(LoadMark { path, _file: file })) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_ended_its_process_is_refused_until_its_mark_is_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        // What a process leaves that ends: the mark, and no lock.
        let path = directory.path().join("loading-abc");
        std::fs::write(&path, "").expect("written");
        let refused = mark(directory.path(), "abc").expect_err("marked");
        assert_eq!(refused, Marked(path.clone()));
        assert!(
            refused.to_string().contains("ended the host's process; change the file, or remove "),
            "{refused}"
        );
        assert_eq!(mark(directory.path(), "abc").expect_err("still"), Marked(path.clone()));
        assert!(mark(directory.path(), "def").expect("another file").is_some());
        std::fs::remove_file(&path).expect("removed");
        assert!(mark(directory.path(), "abc").expect("tried again").is_some());
    }

    #[test]
    fn a_file_that_was_handled_leaves_no_mark() {
        let directory = tempfile::tempdir().expect("a directory");
        let held = mark(directory.path(), "abc").expect("no mark").expect("a mark");
        assert!(mark(directory.path(), "abc").expect("held by one that lives").is_none());
        drop(held);
        assert_eq!(std::fs::read_dir(directory.path()).expect("read").count(), 0);
    }

    #[test]
    fn where_no_mark_can_be_made_files_are_handled_without() {
        assert!(mark(Path::new("/nonexistent"), "abc").expect("handled").is_none());
        let directory = tempfile::tempdir().expect("a directory");
        std::os::unix::fs::symlink("/dev/null", directory.path().join("loading-abc")).expect("linked");
        assert!(mark(directory.path(), "abc").expect("handled").is_none());
    }
}
