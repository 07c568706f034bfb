//! `pilothouse envtest`: a folder for `KUBEBUILDER_ASSETS`, and the `etcd` in it.
//!
//! envtest starts `etcd` and `kube-apiserver` from that folder. Both are links to this program: [`crate::cli::parse`] recognizes the names.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use axum::Router;
use axum::routing::get;

use super::listen;
use crate::cli::embedded_server::{Envtest, Etcd};
use crate::{CommandError, CommandResult, output, shutdown};

/// The programs that envtest starts.
const PROGRAMS: [&str; 2] = ["kube-apiserver", "etcd"];

/// Creates the folder with the links, and prints its path.
pub(crate) fn run(flags: &Envtest) -> CommandResult {
    let program = std::env::current_exe()
        .map_err(|error| CommandError::Failure(format!("cannot find the path of this program: {error}")))?;
    let folder = &flags.folder;
    let kubectl = std::env::var_os("PATH").and_then(|path| find_kubectl(std::env::split_paths(&path)));
    let folder = write_links(folder, &program, kubectl.as_deref()).map_err(|(path, error)| {
        CommandError::Usage(format!("{}: {error}; choose another directory", path.display()))
    })?;
    output::print_line(format_args!("{}", folder.display()));
    Ok(())
}

/// Creates the links in `folder` and returns its absolute path. Replaces earlier links, but no files.
///
/// # Errors
/// Returns the path that could not be written, and why.
fn write_links(
    folder: &Path,
    program: &Path,
    kubectl: Option<&Path>,
) -> Result<PathBuf, (PathBuf, io::Error)> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error| (path, error)
    };
    fs::create_dir_all(folder).map_err(at(folder))?;
    let links = PROGRAMS.iter().map(|name| (*name, program)).chain(kubectl.map(|target| ("kubectl", target)));
    for (name, target) in links {
        let link = folder.join(name);
        match fs::symlink_metadata(&link) {
            Ok(found) if !found.is_symlink() => {
                let taken = io::Error::new(io::ErrorKind::AlreadyExists, "the file exists and is no link");
                return Err((link, taken));
            }
            Ok(_) => fs::remove_file(&link).map_err(at(&link))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err((link, error)),
        }
        symlink(target, &link).map_err(at(&link))?;
    }
    folder.canonicalize().map_err(at(folder))
}

/// Returns the first kubectl in these folders.
fn find_kubectl(mut folders: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    folders.find_map(|folder| {
        let file = folder.join("kubectl");
        if file.is_file() { file.canonicalize().ok() } else { None }
    })
}

/// Runs what envtest starts as `etcd`: it reports that it is healthy and stores nothing, because the API server has a storage of its own.
pub(crate) async fn run_etcd(flags: Etcd) -> CommandResult {
    let shutdown = shutdown::on_signal()?;
    let listener = listen::bind("--listen-client-urls", flags.listen_client_urls).await?;
    let health = Router::new().route("/health", get(|| async { r#"{"health":"true","reason":""}"# }));
    let served = axum::serve(listener, health).with_graceful_shutdown(shutdown.cancelled_owned());
    served.await.map_err(|error| CommandError::Failure(format!("cannot serve /health: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_replaced_and_files_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let assets = folder.path().join("a/b");
        for program in ["/old", "/new"] {
            write_links(&assets, Path::new(program), None).expect("links");
            for name in PROGRAMS {
                assert_eq!(fs::read_link(assets.join(name)).expect("a link"), Path::new(program));
            }
        }
        assert!(fs::symlink_metadata(assets.join("kubectl")).is_err());
        fs::remove_file(assets.join("etcd")).expect("removed");
        fs::write(assets.join("etcd"), "a program").expect("written");
        let (path, _) = write_links(&assets, Path::new("/new"), None).expect_err("an error");
        assert_eq!(path, assets.join("etcd"));
        assert_eq!(fs::read_to_string(path).expect("text"), "a program");
    }

    #[test]
    fn kubectl_of_the_path_is_linked() {
        let folder = tempfile::tempdir().expect("a folder");
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        fs::create_dir_all(&second).expect("created");
        fs::write(second.join("kubectl"), "").expect("written");
        let found = find_kubectl([first, second.clone()].into_iter()).expect("kubectl");
        let assets = folder.path().join("assets");
        write_links(&assets, Path::new("/program"), Some(&found)).expect("links");
        let link = fs::read_link(assets.join("kubectl")).expect("a link");
        assert_eq!(link, second.join("kubectl").canonicalize().expect("a path"));
    }
}
