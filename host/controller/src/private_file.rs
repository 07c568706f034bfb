//! Writes files that only the host's user may read, so that no reader finds a part of one.
//!
//! Three places outside of this crate do this in their own way: the cache of a registry client receives its files in chunks, a support bundle may
//! be written to a device, and a crash marker must be locked before it has its name.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// What the content of a file must survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The end of the process.
    ProcessEnd,
    /// A loss of power.
    PowerLoss,
}

/// Writes a file, in place of any that is there. It is called `partial` until it is complete; the caller chooses that name, in the same
/// directory, such that no other writer has it.
///
/// # Errors
/// Returns an error if the file cannot be written, or if `partial` exists. The former file is still there then.
pub(crate) fn replace(path: &Path, partial: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(partial)?;
    let written = file
        .write_all(bytes)
        .and_then(|()| if durability == Durability::PowerLoss { file.sync_all() } else { Ok(()) })
        .and_then(|()| fs::rename(partial, path));
    written.inspect_err(|_| {
        // If this fails, too, the first error says more.
        let _ = fs::remove_file(partial);
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_only_its_owner_may_read_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, partial) = (folder.path().join("file"), folder.path().join("file.partial"));
        fs::write(&path, "older and longer").expect("written");
        for durability in [Durability::ProcessEnd, Durability::PowerLoss] {
            replace(&path, &partial, b"new", durability).expect("written");
            assert_eq!(fs::read(&path).expect("a file"), b"new");
            assert_eq!(path.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
            assert!(!partial.exists());
        }
    }

    #[test]
    fn a_file_that_cannot_be_replaced_leaves_no_partial_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, partial) = (folder.path().join("file"), folder.path().join("file.partial"));
        fs::create_dir(&path).expect("a folder in its place");
        replace(&path, &partial, b"new", Durability::ProcessEnd).expect_err("a folder is in its place");
        assert!(path.is_dir() && !partial.exists());
        fs::write(&partial, "of another writer").expect("written");
        replace(&path, &partial, b"new", Durability::ProcessEnd).expect_err("another writer has the name");
        assert!(partial.exists());
    }
}
