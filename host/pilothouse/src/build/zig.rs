//! Downloads of Zig. Its Python package contains the compiler and the C libraries, and needs no installation.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Job;
use crate::CommandError;

/// The release for projects that do not choose one.
pub(super) const DEFAULT_VERSION: &str = "0.17.1";

/// Returns the folder of the executable `zig` in this version: that in PATH, or one from an earlier download. Downloads it if there is
/// none.
///
/// # Errors
/// Errors if the download fails or the build is interrupted.
pub(super) async fn folder_of_version(job: &Job, version: &str) -> Result<PathBuf, CommandError> {
    if let Ok(zig) = job.find_tool("zig", "") {
        let mut command = Command::new(&zig);
        command.arg("version");
        let output = job.run("look for zig", command).await;
        if output.is_ok_and(|output| output.stdout.trim() == version) {
            return Ok(parent(&zig));
        }
    }
    let remedy = format!("install Zig {version} from https://ziglang.org/download and add it to PATH");
    let python = job.find_tool("python3", &format!("sudo apt-get install python3 python3-pip, or {remedy}"));
    let Some(cache) = cache_folder() else {
        return Err(job.error(format_args!("neither HOME nor XDG_CACHE_HOME is set; {remedy}")));
    };
    let zig = executable_in(&cache, version);
    if zig.is_file() {
        return Ok(parent(&zig));
    }
    let reason = format!("the project needs Zig {version}");
    download(job, &python?, &cache, version, &reason, &remedy).await.map(|zig| parent(&zig))
}

fn parent(file: &Path) -> PathBuf {
    file.parent().map(Path::to_owned).unwrap_or_default()
}

/// Returns the user's cache folder, which all projects share because Zig is a download of 80 MB.
pub(super) fn cache_folder() -> Option<PathBuf> {
    cache_folder_of(env::var_os("XDG_CACHE_HOME").as_deref(), env::var_os("HOME").as_deref())
}

fn cache_folder_of(xdg: Option<&OsStr>, home: Option<&OsStr>) -> Option<PathBuf> {
    let xdg = xdg.map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = xdg.or_else(|| Some(PathBuf::from(home?).join(".cache")))?;
    Some(cache.join("pilothouse"))
}

/// Returns the path of the executable in a cache folder. It exists once the version has been downloaded.
pub(super) fn executable_in(cache: &Path, version: &str) -> PathBuf {
    cache.join(format!("ziglang-{version}")).join("ziglang").join("zig")
}

/// Downloads Zig from PyPI into the cache and moves it into place atomically. Returns the executable. `reason` says why it is needed, and
/// `remedy` what to do if the download fails.
///
/// # Errors
/// Errors if the download fails or the build is interrupted.
pub(super) async fn download(
    job: &Job,
    python: &Path,
    cache: &Path,
    version: &str,
    reason: &str,
    remedy: &str,
) -> Result<PathBuf, CommandError> {
    let cache_error =
        |error: std::io::Error| job.error(format_args!("{}: {error}; {remedy}", cache.display()));
    fs::create_dir_all(cache).map_err(cache_error)?;
    let partial = tempfile::Builder::new().prefix(".ziglang-").tempdir_in(cache).map_err(cache_error)?;
    job.print(&format!("{reason}; downloading zig {version} (80 MB) into {}", cache.display()));
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"]);
    pip.arg(partial.path()).arg(format!("ziglang=={version}"));
    if let Err(error) = job.run("download zig", pip).await {
        job.print(remedy);
        return Err(error);
    }
    let zig = executable_in(cache, version);
    let folder = zig.ancestors().nth(2).unwrap_or(cache);
    // The rename fails if a concurrent build has finished the same download first. Its copy is used then.
    if fs::rename(partial.path(), folder).is_ok() {
        let _ = partial.keep();
    }
    if zig.is_file() {
        return Ok(zig);
    }
    Err(job.error(format_args!("pip did not create {}; {remedy}", zig.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_folder_follows_the_xdg_specification() {
        let cache = |xdg: Option<&str>, home: Option<&str>| {
            cache_folder_of(xdg.map(str::as_ref), home.map(str::as_ref))
        };
        assert_eq!(cache(Some("/x"), Some("/home/me")), Some(PathBuf::from("/x/pilothouse")));
        assert_eq!(
            cache(Some("relative"), Some("/home/me")),
            Some(PathBuf::from("/home/me/.cache/pilothouse"))
        );
        assert_eq!(cache(None, None), None);
    }

    #[test]
    fn versions_are_cached_side_by_side() {
        let zig = executable_in(Path::new("/cache"), "0.17.1");
        assert_eq!(zig, Path::new("/cache/ziglang-0.17.1/ziglang/zig"));
        assert_eq!(parent(&zig), Path::new("/cache/ziglang-0.17.1/ziglang"));
    }
}
