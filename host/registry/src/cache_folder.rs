//! The folder of the cache. Only the host's user can read what is in it, and nobody else can replace it: the host loads the plugins that are
//! there, with the permissions in their sidecars.

use std::fs;
use std::io;
use std::path::Path;

/// Creates the folder, if necessary, and makes sure that no other user of the machine can replace what is in it.
///
/// # Errors
/// Errors if it cannot be created, or if the folder or one above it belongs to another user than root and this one. In a shared folder such as
/// `/tmp`, somebody else may have created it first.
#[cfg(unix)]
pub(crate) fn prepare(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};

    const WRITABLE_BY_OTHERS: u32 = 0o022;

    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // Without links, whose owners would not be seen.
    let folder = folder.canonicalize()?;
    let own = rustix::process::geteuid().as_raw();
    let parents: Vec<_> = folder.ancestors().collect();
    // From the root down: below a folder of this user or of root, nobody can replace what was checked.
    for path in parents.into_iter().rev() {
        check_owner(path, fs::symlink_metadata(path)?.uid(), own)?;
    }
    let metadata = fs::metadata(&folder)?;
    if metadata.uid() == own && metadata.mode() & WRITABLE_BY_OTHERS != 0 {
        fs::set_permissions(&folder, fs::Permissions::from_mode(metadata.mode() & !WRITABLE_BY_OTHERS))?;
    }
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn prepare(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

#[cfg(unix)]
fn check_owner(path: &Path, owner: u32, own: u32) -> io::Result<()> {
    if owner == 0 || owner == own {
        return Ok(());
    }
    let problem = format!("{} belongs to another user, who could replace the plugins in it", path.display());
    Err(io::Error::other(problem))
}

/// Creates a folder in that of the cache.
#[cfg(unix)]
pub(crate) fn create_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};

    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    // It may have been created by something else, with other permissions.
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))
}

#[cfg(not(unix))]
pub(crate) fn create_private(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn a_folder_of_another_user_is_not_used() {
        let path = Path::new("/tmp/pulled");
        assert!(check_owner(path, 0, 1000).is_ok() && check_owner(path, 1000, 1000).is_ok());
        let error = check_owner(path, 1001, 1000).expect_err("another user").to_string();
        assert!(error.starts_with("/tmp/pulled belongs to another user"), "{error}");

        let folder = tempfile::tempdir().expect("a folder");
        let shared = folder.path().join("shared");
        fs::create_dir(&shared).expect("made");
        prepare(&shared.join("oci")).expect("the user's own");
        // Only root can give a folder away.
        if std::os::unix::fs::chown(&shared, Some(12345), None).is_ok() {
            let error = prepare(&shared.join("oci")).expect_err("another user's").to_string();
            assert!(error.contains("shared belongs to another user"), "{error}");
            let link = folder.path().join("link");
            std::os::unix::fs::symlink(&shared, &link).expect("a link");
            prepare(&link.join("oci")).expect_err("a link does not hide the owner");
        }
    }

    #[test]
    fn a_folder_that_others_may_write_to_becomes_private() {
        let folder = tempfile::tempdir().expect("a folder");
        let shared = folder.path().join("oci");
        fs::create_dir(&shared).expect("made");
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).expect("changed");
        prepare(&shared).expect("the user's own");
        assert_eq!(fs::metadata(&shared).expect("there").mode() & 0o777, 0o755);
    }
}
