//! Reads a plugin's files for a load.

use std::io::Read;
use std::path::{Path, PathBuf};

use pilothouse_plugin::blocking;
use sha2::{Digest, Sha256};

use super::LoadProblem;
use crate::directory::PluginFiles;
use crate::directory::plugin_file::{self, FileProblem};

/// What a load knows about a plugin's files. The .wasm is not kept: it is read again only if it must be
/// compiled, and most plugins have been compiled before.
pub(super) struct FileInfo {
    /// The .wasm.
    pub(super) path: PathBuf,
    pub(super) sum: [u8; 32],
    pub(super) size: usize,
    /// The same SHA-256, in hex.
    pub(super) digest: String,
    pub(super) sidecar_text: String,
}

/// Reads the file again. Errors if its SHA-256 is no longer `sum`.
pub(super) async fn wasm(path: &Path, sum: [u8; 32]) -> Result<Vec<u8>, LoadProblem> {
    let wasm = read_blocking(path, |path| plugin_file::read(path, MAX_WASM)).await?;
    if Sha256::digest(&wasm)[..] != sum {
        return Err(LoadProblem::Changing { path: path.to_owned() });
    }
    Ok(wasm)
}

/// The largest .wasm file that is read, in bytes. A stray disk image in the directory must not use up the
/// memory of all plugins; the engine has a lower limit for code.
pub(crate) const MAX_WASM: u64 = 256 << 20;

/// Hashes the .wasm that this sidecar belongs to.
pub(super) async fn read(files: &PluginFiles, sidecar_text: String) -> Result<FileInfo, LoadProblem> {
    let path = files.wasm.clone();
    if let Some(in_memory) = files.as_in_memory() {
        let (digest, size) = (in_memory.code.digest().to_owned(), in_memory.code.size());
        return Ok(FileInfo { path, sum: parse_hex(&digest), size, digest, sidecar_text });
    }
    let (sum, size) = sum_blocking(&path).await?;
    if !files.are_current() {
        return Err(LoadProblem::Changing { path });
    }
    Ok(FileInfo { path, sum, size, digest: hex(&sum), sidecar_text })
}

/// Returns the SHA-256 that [`hex`] wrote; zeros for another text.
fn parse_hex(text: &str) -> [u8; 32] {
    let mut sum = [0; 32];
    for (byte, digits) in sum.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digits = std::str::from_utf8(digits).unwrap_or_default();
        *byte = u8::from_str_radix(digits, 16).unwrap_or_default();
    }
    sum
}

pub(super) fn hex(sum: &[u8]) -> String {
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a file on a blocking thread.
pub(crate) async fn read_blocking<T: Send + 'static>(
    path: &Path,
    read: impl FnOnce(&Path) -> Result<T, FileProblem> + Send + 'static,
) -> Result<T, LoadProblem> {
    let path = path.to_owned();
    blocking::run(move || read(&path).map_err(|problem| LoadProblem::from_file(&path, problem)))
        .await
        .unwrap_or_else(|error| Err(LoadProblem::Internal(error.to_string())))
}

/// Runs [`sum`] on a blocking thread.
pub(super) async fn sum_blocking(path: &Path) -> Result<([u8; 32], usize), LoadProblem> {
    read_blocking(path, sum).await
}

/// Returns the SHA-256 and the size of a file, without holding the whole file in memory.
pub(super) fn sum(path: &Path) -> Result<([u8; 32], usize), FileProblem> {
    let mut file = plugin_file::open(path)?;
    let mut sum = Sha256::new();
    let mut buffer = vec![0; 32 << 10];
    let mut size = 0;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok((sum.finalize().into(), size)),
            Ok(read) => {
                sum.update(&buffer[..read]);
                size += read;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
        if size as u64 > MAX_WASM {
            return Err(FileProblem::TooLarge(MAX_WASM));
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;
    use crate::config::sidecar::MAX_SIDECAR;
    use crate::directory::scan;
    use crate::load::sidecar_file;

    /// The problem reported for the only plugin of a directory.
    async fn problem(folder: &Path) -> String {
        let found = scan(folder).expect("readable").plugins;
        let files = found.into_values().next().expect("a plugin is seen");
        let problem = match sidecar_file::read(&files).await {
            Ok(text) => read(&files, text).await.err().expect("it is refused"),
            Err(problem) => problem,
        };
        assert!(!problem.is_transient(), "{problem}");
        problem.to_string()
    }

    #[tokio::test]
    async fn a_plugin_with_an_irregular_file_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().expect("a folder");
        let (wasm, sidecar) = (folder.path().join("p.wasm"), folder.path().join("p.yaml"));
        std::fs::write(&wasm, "(module)").expect("written");
        mknodat(CWD, &sidecar, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        assert!(problem(folder.path()).await.contains("p.yaml is a named pipe; only a regular file is read"));
        std::fs::remove_file(&sidecar).expect("removed");
        symlink("/dev/zero", &sidecar).expect("linked");
        assert!(problem(folder.path()).await.contains("p.yaml is a device"));
        std::fs::remove_file(&sidecar).expect("removed");
        symlink("/etc/passwd", &sidecar).expect("linked");
        let text = problem(folder.path()).await;
        assert!(
            text.contains("p.yaml is a symbolic link to /etc/passwd, outside of the plugins directory"),
            "{text}"
        );
        std::fs::remove_file(&sidecar).expect("removed");
        symlink("gone.yaml", &sidecar).expect("linked");
        let found = scan(folder.path()).expect("readable").plugins;
        let files = found.into_values().next().expect("a plugin is seen");
        let dangling = sidecar_file::read(&files).await.expect_err("there is no file");
        let text = dangling.to_string();
        assert!(text.contains("p.yaml is a symbolic link to gone.yaml, which cannot be read"), "{text}");
        assert!(dangling.is_transient(), "the file may be created");
        std::fs::remove_file(&sidecar).expect("removed");
        std::fs::remove_file(&wasm).expect("removed");
        symlink("/dev/zero", &wasm).expect("linked");
        assert!(problem(folder.path()).await.contains("p.wasm is a device"));
        std::fs::remove_file(&wasm).expect("removed");
        std::fs::write(&wasm, "(module)").expect("written");
        std::fs::File::create(&sidecar).expect("a file").set_len(MAX_SIDECAR as u64 + 1).expect("a hole");
        assert!(problem(folder.path()).await.contains("p.yaml has more than 1048576 bytes"));
    }
}
