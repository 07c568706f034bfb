use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::transport::Transport;
use crate::listen::{CertificateError, base64};

/// Why a kubeconfig could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the kubeconfig {path}: {source}; choose a path in a directory that can be written to", path = path.display())]
pub struct KubeconfigError {
    path: PathBuf,
    #[source]
    source: std::io::Error,
}

/// A kubeconfig for the server at `address`; with a token, for who has it.
pub(super) fn text(
    transport: &Transport,
    address: SocketAddr,
    token: Option<&str>,
) -> Result<String, CertificateError> {
    let name = "pilothouse";
    let trusted = transport.trusted()?;
    let server = match token {
        // kubectl sends a user's token over HTTPS only; a password in the URL it sends over HTTP, too.
        Some(token) if trusted.is_none() => transport.url_with(name, token, address),
        _ => transport.url(address),
    };
    let mut cluster = json!({"server": server});
    if let Some(pem) = trusted {
        cluster["certificate-authority-data"] = base64(pem.as_bytes()).into();
    }
    let user = token.map_or_else(|| json!({}), |token| json!({"token": token}));
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
        "current-context": name,
    });
    Ok(format!("{config:#}\n"))
}

/// Writes a kubeconfig, whole.
pub(super) fn write(
    path: &Path,
    text: impl FnOnce() -> Result<String, CertificateError>,
) -> Result<(), KubeconfigError> {
    let failed = |source| KubeconfigError { path: path.to_owned(), source };
    let text = text().map_err(|error| failed(std::io::Error::other(error)))?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory).map_err(failed)?;
    // Made exclusively, under a name that nobody can guess, and for this user alone.
    let mut file = tempfile::Builder::new().prefix(".kubeconfig-").tempfile_in(directory).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.persist(path).map(drop).map_err(|error| failed(error.error))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn a_kubeconfig_is_its_owners_alone_and_no_link_is_written_through() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, victim) = (folder.path().join("kubeconfig"), folder.path().join("victim"));
        std::fs::write(&victim, "untouched").expect("written");
        // What another user of a shared directory may have put there before.
        symlink(&victim, &path).expect("linked");
        symlink(&victim, folder.path().join(format!("kubeconfig.{}.tmp", std::process::id())))
            .expect("linked");
        write(&path, || Ok("secret".to_owned())).expect("written");
        assert_eq!(std::fs::read_to_string(&victim).expect("read"), "untouched");
        let found = std::fs::symlink_metadata(&path).expect("there");
        assert!(found.is_file() && found.mode() & 0o777 == 0o600, "{:o}", found.mode());
        assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 3, "nothing is left behind");
    }
}
