use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::json;

/// Why a kubeconfig could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the kubeconfig {path}: {source}; choose a path in a directory that can be written to", path = path.display())]
pub struct KubeconfigError {
    path: PathBuf,
    #[source]
    source: std::io::Error,
}

/// A kubeconfig for the server at `address`. It is JSON, which every reader of YAML takes.
#[must_use]
pub fn kubeconfig(address: SocketAddr) -> String {
    let name = "pilothouse";
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": name, "user": {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
        "current-context": name,
    });
    format!("{config:#}\n")
}

/// Writes [`kubeconfig`] to `path`, creating its directory. A reader sees the old file or the whole new one.
///
/// # Errors
/// When the directory or the file cannot be written.
pub fn write_kubeconfig(path: &Path, address: SocketAddr) -> Result<(), KubeconfigError> {
    let failed = |source| KubeconfigError { path: path.to_owned(), source };
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory).map_err(failed)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = directory.join(name);
    std::fs::write(&temporary, kubeconfig(address)).map_err(failed)?;
    std::fs::rename(&temporary, path).map_err(failed)
}
