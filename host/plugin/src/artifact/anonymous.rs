//! Files without a name: where a compiler process leaves its result, and where code stays when no directory can keep it.

use std::fs::File;
use std::io;

/// An empty file that ends with its last user. On Linux it needs no directory, so that a host on a read-only disk can compile, too.
#[cfg(target_os = "linux")]
pub(crate) fn create() -> io::Result<File> {
    use rustix::fs::{MemfdFlags, memfd_create};

    Ok(memfd_create("pilothouse-artifact", MemfdFlags::CLOEXEC)?.into())
}

/// An empty file that ends with its last user.
#[cfg(not(target_os = "linux"))]
pub(crate) fn create() -> io::Result<File> {
    tempfile::tempfile()
}
