//! Files without a name, for the output of a compiler process, and for code that cannot be stored in a directory.

use std::fs::File;
use std::io;

/// Creates an empty file that exists until its last descriptor is closed. On Linux it needs no directory, so that a host with a read-only
/// file system can compile, too.
#[cfg(target_os = "linux")]
pub(crate) fn create() -> io::Result<File> {
    use rustix::fs::{MemfdFlags, memfd_create};

    Ok(memfd_create("pilothouse-artifact", MemfdFlags::CLOEXEC)?.into())
}

/// Creates an empty file that exists until its last descriptor is closed.
#[cfg(not(target_os = "linux"))]
pub(crate) fn create() -> io::Result<File> {
    tempfile::tempfile()
}
