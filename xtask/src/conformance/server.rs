//! A kube-apiserver on loopback.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use pem::Pem;
use serde_json::json;

use crate::demo::Api;
use crate::loopback;

/// Objects that exist once the server is ready.
const INITIAL_OBJECTS: [&str; 3] = [
    "/api/v1/namespaces/default",
    "/api/v1/namespaces/kube-node-lease",
    "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
];

/// A running kube-apiserver without other components. Dropping this ends the process.
pub(crate) struct KubeApiServer {
    child: Child,
    folder: PathBuf,
}

impl KubeApiServer {
    /// Starts the server on a free port with empty storage and waits until it is ready. `folder` is replaced by its files.
    pub(crate) fn start(folder: &Path, program: &Path) -> Result<Self> {
        println!("starting {}", program.display());
        Self::start_in(folder.to_owned(), program, &loopback::free_address()?)
    }

    /// Starts the server on an address on loopback, with empty storage in `folder`, and waits until it is ready.
    pub(crate) fn start_in(folder: PathBuf, program: &Path, address: &str) -> Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        let port = address.rsplit(':').next().unwrap_or_default();
        let log = folder.join("kube-apiserver.log");
        let child = Command::new(program)
            .arg(&folder)
            .arg(port)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).with_context(|| format!("create {}", log.display()))?)
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let server = Self { child, folder };
        let token = server.wait_for_file("token")?;
        server.wait_for_file("apiserver.crt")?;
        server.write_kubeconfig(&format!("https://{address}"), &token)?;
        let api = Api::of_kubeconfig(&server.kubeconfig())?;
        for path in INITIAL_OBJECTS {
            // Errors mean that it does not serve yet.
            api.wait(path, |api| Ok(api.get(path).unwrap_or(None)))
                .with_context(|| format!("see {}", log.display()))?;
        }
        Ok(server)
    }

    /// Returns the process ID. The process contains etcd.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the path of the kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// Waits for a file of the server's and returns its text.
    fn wait_for_file(&self, name: &str) -> Result<String> {
        let file = self.folder.join(name);
        let is_complete = |text: &String| !text.is_empty();
        Api::new("http://127.0.0.1")
            .wait(name, |_| Ok(fs::read_to_string(&file).ok().filter(is_complete)))
            .with_context(|| format!("see {}", self.folder.join("kube-apiserver.log").display()))
    }

    fn write_kubeconfig(&self, url: &str, token: &str) -> Result<()> {
        let certificates = fs::read(self.folder.join("apiserver.crt")).context("read the certificates")?;
        // The server's own certificate comes first, then that of its authority.
        let authority = pem::parse_many(certificates).context("parse the certificates")?.pop();
        let authority = authority.context("the server wrote no certificate")?;
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": url, "certificate-authority-data": base64_of(&authority)}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        });
        let file = self.kubeconfig();
        fs::write(&file, config.to_string()).with_context(|| format!("write {}", file.display()))
    }
}

/// Returns the PEM text of a certificate as base64. The body of a PEM text is base64, so no other encoder is needed.
fn base64_of(certificate: &Pem) -> String {
    let wrapped = pem::encode(&Pem::new("X", pem::encode(certificate)));
    wrapped.lines().filter(|line| !line.starts_with("-----")).collect()
}

impl Drop for KubeApiServer {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
