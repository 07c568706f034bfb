//! Reads a plugin's files: only regular files, up to a size, and not through a symbolic link that leads out of the plugins directory.
//!
//! Without these rules, a link or a special file in the directory could make the host read a device without end, block on a pipe, or show a
//! line of a file that only the host may read. Links inside of the directory are followed, because a mounted ConfigMap consists of them.

use std::fs::{File, FileType};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Why a plugin's file was not read.
#[derive(Debug)]
pub(crate) enum FileProblem {
    Io(io::Error),
    /// The file is not a regular one, but what the text names.
    NotRegular(&'static str),
    /// The file is a link to this path outside of the plugins directory.
    Outside(PathBuf),
    /// The file has more bytes than this limit.
    TooLarge(u64),
}

impl From<io::Error> for FileProblem {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Opens a file of the plugins directory.
pub(crate) fn open(path: &Path) -> Result<File, FileProblem> {
    let name = path.file_name().map_or(path, Path::new);
    open_below(folder_of(path), name)
}

/// Opens a file at a path relative to a folder. No link on the way may lead out of the folder.
fn open_below(folder: &Path, relative: &Path) -> Result<File, FileProblem> {
    let path = folder.join(relative);
    refuse_irregular(&path)?;
    let opened = match platform::open_beneath(folder, relative) {
        Some(opened) => opened?,
        None => open_checked(folder, &path)?,
    };
    ensure_regular(opened)
}

/// Reads a file of the plugins directory. `limit` is its maximum size in bytes.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, FileProblem> {
    read_bounded(&open(path)?, limit)
}

/// Reads a file at a path relative to the plugins directory, such as one in a subdirectory. `limit` is its maximum size in bytes.
pub(crate) fn read_below(folder: &Path, relative: &Path, limit: u64) -> Result<Vec<u8>, FileProblem> {
    read_bounded(&open_below(named(folder), relative)?, limit)
}

/// Reads a file that a user named on the command line. Follows links to any path.
pub(crate) fn read_anywhere(path: &Path, limit: u64) -> Result<Vec<u8>, FileProblem> {
    refuse_irregular(path)?;
    read_bounded(&ensure_regular(platform::open(path)?)?, limit)
}

/// Reads a sidecar with `read`; `None` if there is none. A dangling link is an error, because its author meant a sidecar to exist.
pub(crate) fn read_sidecar(
    path: &Path,
    limit: u64,
    read: impl FnOnce(&Path, u64) -> Result<Vec<u8>, FileProblem>,
) -> Result<Option<String>, FileProblem> {
    match read(path, limit) {
        Ok(bytes) => {
            let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
            Ok(Some(String::from_utf8(bytes).map_err(invalid)?))
        }
        Err(FileProblem::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
            if std::fs::symlink_metadata(path).is_ok() {
                Err(error.into())
            } else {
                Ok(None)
            }
        }
        Err(problem) => Err(problem),
    }
}

/// Errors if the file is not a regular one. Does not open the file, because opening a device may have an effect.
fn refuse_irregular(path: &Path) -> Result<(), FileProblem> {
    let kind = std::fs::metadata(path)?.file_type();
    if kind.is_file() { Ok(()) } else { Err(irregular(kind)) }
}

fn ensure_regular(file: File) -> Result<File, FileProblem> {
    let kind = file.metadata()?.file_type();
    if kind.is_file() { Ok(file) } else { Err(irregular(kind)) }
}

fn irregular(kind: FileType) -> FileProblem {
    if kind.is_dir() {
        return io::Error::from(io::ErrorKind::IsADirectory).into();
    }
    FileProblem::NotRegular(platform::name_of(kind))
}

fn read_bounded(file: &File, limit: u64) -> Result<Vec<u8>, FileProblem> {
    let size = file.metadata()?.len();
    if size > limit {
        return Err(FileProblem::TooLarge(limit));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    // The file may have grown since, and special files report a size of 0.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(FileProblem::TooLarge(limit)) } else { Ok(bytes) }
}

/// Opens a file if the kernel cannot restrict links to the directory: resolves the path, checks it, and opens the result without following
/// a link.
fn open_checked(folder: &Path, path: &Path) -> Result<File, FileProblem> {
    let folder = folder.canonicalize()?;
    let target = path.canonicalize()?;
    if !target.starts_with(&folder) {
        return Err(FileProblem::Outside(target));
    }
    Ok(platform::open_without_links(&target)?)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().map_or(Path::new("."), named)
}

/// Returns the folder, or "." for an empty path.
fn named(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}

#[cfg(unix)]
mod platform {
    use std::os::unix::fs::FileTypeExt;

    use rustix::fs::{Mode, OFlags};

    use super::{File, FileProblem, FileType, Path, io};

    /// `NONBLOCK`, because opening a pipe or device must not block.
    const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

    pub(crate) fn open(path: &Path) -> io::Result<File> {
        Ok(rustix::fs::open(path, FLAGS, Mode::empty())?.into())
    }

    pub(crate) fn open_without_links(path: &Path) -> io::Result<File> {
        Ok(rustix::fs::open(path, FLAGS | OFlags::NOFOLLOW, Mode::empty())?.into())
    }

    /// Opens a file; the kernel refuses paths that lead out of the directory. `None` if the kernel cannot do that, or if an absolute link may
    /// lead back into the directory.
    #[cfg(target_os = "linux")]
    pub(crate) fn open_beneath(folder: &Path, relative: &Path) -> Option<Result<File, FileProblem>> {
        use rustix::fs::{ResolveFlags, openat2};
        use rustix::io::Errno;

        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = match rustix::fs::open(folder, flags, Mode::empty()) {
            Ok(folder) => folder,
            Err(error) => return Some(Err(io::Error::from(error).into())),
        };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        match openat2(&folder, relative, FLAGS, Mode::empty(), resolve) {
            Ok(file) => Some(Ok(file.into())),
            Err(Errno::XDEV | Errno::NOSYS | Errno::INVAL | Errno::PERM | Errno::AGAIN) => None,
            Err(error) => Some(Err(io::Error::from(error).into())),
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn open_beneath(_: &Path, _: &Path) -> Option<Result<File, FileProblem>> {
        None
    }

    pub(crate) fn name_of(kind: FileType) -> &'static str {
        match kind {
            kind if kind.is_fifo() => "a named pipe",
            kind if kind.is_socket() => "a socket",
            kind if kind.is_char_device() || kind.is_block_device() => "a device",
            _ => "no regular file",
        }
    }
}

#[cfg(not(unix))]
mod platform {
    use super::{File, FileProblem, FileType, Path, io};

    pub(crate) fn open(path: &Path) -> io::Result<File> {
        File::open(path)
    }

    pub(crate) fn open_without_links(path: &Path) -> io::Result<File> {
        File::open(path)
    }

    pub(crate) fn open_beneath(_: &Path, _: &Path) -> Option<Result<File, FileProblem>> {
        None
    }

    pub(crate) fn name_of(_: FileType) -> &'static str {
        "no regular file"
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use rustix::fs::{CWD, FileType as Kind, Mode, mknodat};

    use super::*;

    #[test]
    fn only_regular_files_are_read_and_no_open_blocks() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("good.yaml"), "workers: 2").expect("written");
        mknodat(CWD, at("pipe.yaml"), Kind::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        let _socket = UnixListener::bind(at("socket.yaml")).expect("a socket");
        fs::create_dir(at("folder.yaml")).expect("a folder");
        symlink("/dev/zero", at("device.yaml")).expect("linked");
        symlink("pipe.yaml", at("link-to-pipe.yaml")).expect("linked");
        assert_eq!(read(&at("good.yaml"), 100).expect("read"), b"workers: 2");
        for (name, what) in [
            ("pipe.yaml", "a named pipe"),
            ("link-to-pipe.yaml", "a named pipe"),
            ("socket.yaml", "a socket"),
            ("device.yaml", "a device"),
        ] {
            for problem in [read(&at(name), 100), read_anywhere(&at(name), 100)] {
                let problem = problem.expect_err(name);
                assert!(
                    matches!(problem, FileProblem::NotRegular(found) if found == what),
                    "{name}: {problem:?}"
                );
            }
        }
        let problem = read(&at("folder.yaml"), 100).expect_err("a folder");
        assert!(matches!(problem, FileProblem::Io(error) if error.kind() == io::ErrorKind::IsADirectory));
    }

    #[test]
    fn a_link_is_followed_inside_of_the_directory_but_not_out_of_it() {
        let outside = tempfile::tempdir().expect("a folder");
        fs::write(outside.path().join("secret"), "secret").expect("written");
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        // As Kubernetes mounts a ConfigMap.
        fs::create_dir(at("..2026_01")).expect("a folder");
        fs::write(at("..2026_01/p.yaml"), "one").expect("written");
        symlink("..2026_01", at("..data")).expect("linked");
        symlink("..data/p.yaml", at("p.yaml")).expect("linked");
        symlink(at("..2026_01/p.yaml"), at("absolute.yaml")).expect("linked");
        for name in ["p.yaml", "absolute.yaml"] {
            assert_eq!(read(&at(name), 100).expect(name), b"one");
            assert!(open_checked(folder.path(), &at(name)).is_ok(), "as without openat2");
        }
        symlink(outside.path().join("secret"), at("out.yaml")).expect("linked");
        symlink(outside.path(), at("folder")).expect("linked");
        symlink("folder/secret", at("through.yaml")).expect("linked");
        symlink("../".repeat(20) + "etc/passwd", at("up.yaml")).expect("linked");
        for name in ["out.yaml", "through.yaml", "up.yaml"] {
            for problem in [open(&at(name)), open_checked(folder.path(), &at(name))] {
                assert!(matches!(problem, Err(FileProblem::Outside(_))), "{name}: {problem:?}");
            }
        }
        // A file that a user names may be anywhere.
        assert_eq!(read_anywhere(&at("out.yaml"), 100).expect("read"), b"secret");
    }

    #[test]
    fn a_file_in_a_subdirectory_is_not_read_through_a_link_out_of_the_directory() {
        let outside = tempfile::tempdir().expect("a folder");
        fs::write(outside.path().join("p.wasm"), "secret").expect("written");
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("shadows")).expect("a folder");
        fs::write(at("shadows/p.wasm"), "one").expect("written");
        symlink("shadows", at("inside")).expect("linked");
        symlink(outside.path(), at("outside")).expect("linked");
        for name in ["shadows/p.wasm", "inside/p.wasm"] {
            assert_eq!(read_below(folder.path(), Path::new(name), 100).expect(name), b"one");
        }
        let name = Path::new("outside/p.wasm");
        let without_openat2 = open_checked(folder.path(), &folder.path().join(name)).map(drop);
        for problem in [read_below(folder.path(), name, 100).map(drop), without_openat2] {
            assert!(matches!(problem, Err(FileProblem::Outside(_))), "{problem:?}");
        }
    }

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("p.yaml");
        fs::write(&path, "12345").expect("written");
        assert_eq!(read(&path, 5).expect("read"), b"12345");
        assert!(matches!(read(&path, 4), Err(FileProblem::TooLarge(4))));
        // Devices report a size of 0.
        let endless = read_bounded(&File::open("/dev/zero").expect("a device"), 1000);
        assert!(matches!(endless, Err(FileProblem::TooLarge(1000))), "{endless:?}");
    }

    #[test]
    fn a_dangling_link_is_not_an_absent_sidecar() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("p.yaml");
        assert!(matches!(read_sidecar(&path, 10, read), Ok(None)));
        symlink("nowhere", &path).expect("linked");
        assert!(matches!(read_sidecar(&path, 10, read), Err(FileProblem::Io(_))));
        fs::write(folder.path().join("nowhere"), "a: ä").expect("written");
        assert_eq!(read_sidecar(&path, 10, read).expect("read").as_deref(), Some("a: ä"));
        fs::write(folder.path().join("nowhere"), b"\xff").expect("written");
        let error = read_sidecar(&path, 10, read).expect_err("no UTF-8");
        assert!(matches!(error, FileProblem::Io(error) if error.kind() == io::ErrorKind::InvalidData));
    }
}
