//! The kubeconfig of a server, and how it is written to a file.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use k8s_openapi::ByteString;
use pilothouse_listen::CertificateError;
use serde_json::json;

use super::transport::Transport;

/// The kubeconfig could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the kubeconfig {path}: {source}; choose a path in a writable directory", path = path.display())]
pub struct KubeconfigError {
    path: PathBuf,
    #[source]
    source: std::io::Error,
}

/// Returns a kubeconfig for the server at `address`, with `token` as its credential if there is one.
pub(super) fn render(
    transport: &Transport,
    address: SocketAddr,
    token: Option<&str>,
) -> Result<String, CertificateError> {
    let name = "pilothouse";
    let ca_certificate = transport.ca_certificate()?;
    let server = match token {
        // kubectl sends a user's token only over HTTPS, but a password in the URL also over HTTP.
        Some(token) if ca_certificate.is_none() => transport.url_with_password(name, token, address),
        _ => transport.url(address),
    };
    let mut cluster = json!({"server": server});
    if let Some(pem) = ca_certificate {
        cluster["certificate-authority-data"] = json!(ByteString(pem.into_bytes()));
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

/// Writes a kubeconfig and replaces an existing file atomically.
pub(super) fn write(
    path: &Path,
    text: impl FnOnce() -> Result<String, CertificateError>,
) -> Result<(), KubeconfigError> {
    let failed = |source| KubeconfigError { path: path.to_owned(), source };
    let text = text().map_err(|error| failed(std::io::Error::other(error)))?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory).map_err(failed)?;
    // The temporary file is created exclusively, with an unpredictable name, readable only by its owner.
    let mut file = tempfile::Builder::new().prefix(".kubeconfig-").tempfile_in(directory).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.persist(path).map(drop).map_err(|error| failed(error.error))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn kubeconfig_is_private_to_its_owner_and_writing_does_not_follow_symlinks() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, victim) = (folder.path().join("kubeconfig"), folder.path().join("victim"));
        std::fs::write(&victim, "untouched").expect("written");
        // Another user of a shared directory may have created these symlinks.
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
