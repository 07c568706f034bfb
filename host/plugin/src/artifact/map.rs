//! The only place of this project that needs `unsafe`: see docs/decisions/0007-compiled-code-is-mapped.md.

use std::fs::File;
use std::os::fd::AsRawFd;

use wasmtime::component::Component;

/// Maps a file that [`check`](super::format::check) has found whole as code.
///
/// Wasmtime trusts what it is given: machine code, and tables that tell it where that code may trap. So what must hold is that the bytes
/// are those that the same version of wasmtime, configured alike, wrote for this machine, and that they stay so while they are mapped.
///
/// - *They are what wasmtime wrote.* A file gets here in two ways. One made just now was the standard output of a compiler process that
///   this process started from its own executable (or was written by this process) and that has ended; nobody else had it open. One of
///   the cache directory was made in that way by some process of the same user: `Directory::open` has taken only a regular file that
///   this user owns and that nobody has the right to write to, in a directory of mode 0700 that this user owns. In both cases `check` has
///   found the SHA-256 over the whole file as it is written in it, and in it the sum of this engine (version, configuration, the
///   machine's features). That keeps out damage, cut files and other versions. It is no signature: who can write files as this user can
///   also write into this process's memory, and is not kept out.
/// - *They are the bytes that were checked.* The path is that of the open file itself, not of its name in the directory, so that no
///   rename comes between.
/// - *They stay so.* No code of this project opens a finished file for writing; files are replaced by renames and removed by name, and
///   the mapping is private and keeps what it maps.
///
/// Wasmtime compares version, target and settings once more by itself.
#[expect(unsafe_code, reason = "wasmtime can't check machine code: what makes it safe is said above")]
pub(super) fn map(engine: &wasmtime::Engine, checked: &File) -> wasmtime::Result<Component> {
    let path = format!("{OPEN_FILES}/{}", checked.as_raw_fd());
    // SAFETY: as argued above, by who may call this.
    unsafe { Component::deserialize_file(engine, path) }
}

/// Where a process finds its open files by number.
const OPEN_FILES: &str = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
