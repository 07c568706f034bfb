//! Mapping of verified files as code: the only `unsafe` of this project. See docs/decisions/0007-compiled-code-is-mapped.md.

use std::fs::File;
use std::os::fd::AsRawFd;

use wasmtime::component::Component;

/// Maps a file as code. The caller must have [verified](super::format::verify) it.
///
/// Wasmtime trusts the machine code in the file, and the tables that say where that code may trap. The bytes must therefore be those that
/// the same version of wasmtime, with the same configuration, wrote for this machine, and they must not change while they are mapped.
///
/// - *The bytes are what wasmtime wrote.* A file comes from one of two places. A new file was the standard output of a compiler process
///   that this process started from its own executable and that has ended (or this process wrote it); nobody else had it open. A file of
///   the cache directory was written in the same way by a process of the same user: `ArtifactDirectory::find` accepts only a regular file
///   that this user owns and that nobody may write to, in a directory of mode 0700 that this user owns. In both cases `verify` found that
///   the SHA-256 of the file matches the one stored in it, and that the file is for this engine (version, configuration, the machine's
///   features). This excludes damaged and truncated files and other versions. It is not a signature: it does not protect against those who
///   can write files as this user, but they can also write to this process's memory.
/// - *The bytes are those that were verified.* The path names the open file itself, not its name in the directory, so a rename in between
///   has no effect.
/// - *The bytes do not change.* No code of this project opens a finished file for writing: files are replaced by renames and removed by
///   name. The mapping is private and keeps the file that it maps.
///
/// Wasmtime also compares its version, target and settings itself.
#[expect(
    unsafe_code,
    reason = "wasmtime cannot check machine code; the comment above argues why this is safe"
)]
pub(super) fn map(engine: &wasmtime::Engine, verified: &File) -> wasmtime::Result<Component> {
    let path = format!("{OPEN_FILES}/{}", verified.as_raw_fd());
    // SAFETY: see the comment above; callers have verified the file.
    unsafe { Component::deserialize_file(engine, path) }
}

/// The directory in which a process finds its open files by number.
const OPEN_FILES: &str = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
