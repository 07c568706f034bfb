//! The servers that the suites run on.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::helm::STAGES;
use super::outcome::ServerKind;
use crate::chart::Server;
use crate::conformance::KubeApiServer;

/// A running server with empty storage. Dropping this ends its process.
pub(super) enum TestServer {
    /// `pilothouse apiserver`.
    Embedded(Server),
    /// A kube-apiserver.
    KubeApiServer(KubeApiServer),
}

impl TestServer {
    /// Starts a server, whose files are put into `folder`. A kube-apiserver has no controllers.
    pub(super) fn start(kind: ServerKind, program: &Path, controllers: &str, folder: &Path) -> Result<Self> {
        let folder = folder.canonicalize().with_context(|| format!("find {}", folder.display()))?;
        match kind {
            ServerKind::Embedded => {
                let stages = folder.join("stages.yaml");
                fs::write(&stages, STAGES).with_context(|| format!("write {}", stages.display()))?;
                let flags = ["--controllers", controllers, "--stages"].map(OsStr::new);
                let flags = [&flags[..], &[stages.as_os_str()]].concat();
                Server::start_with(program, &folder, &flags).map(Self::Embedded)
            }
            ServerKind::KubeApiServer => {
                KubeApiServer::start(&folder.join("kube-apiserver"), program).map(Self::KubeApiServer)
            }
        }
    }

    /// Returns the path of the kubeconfig.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        match self {
            Self::Embedded(server) => server.kubeconfig().to_owned(),
            Self::KubeApiServer(server) => server.kubeconfig(),
        }
    }

    /// Creates the CRDs in a folder and waits until they are served.
    pub(super) fn create_crds(&self, folder: &Path) -> Result<()> {
        for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
            let file = entry.with_context(|| format!("read {}", folder.display()))?.path();
            let file = file.to_str().context("the path of a CRD is not UTF-8")?;
            // A folder may also have a file for kustomize.
            if file.ends_with(".yaml") && !file.ends_with("kustomization.yaml") {
                self.kubectl(&["create", "--filename", file])?;
            }
        }
        let wait =
            ["wait", "--for=condition=Established", "--all", "--timeout=60s", "customresourcedefinitions"];
        self.kubectl(&wait)
    }

    fn kubectl(&self, arguments: &[&str]) -> Result<()> {
        let output = Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(arguments)
            .output()
            .context("start kubectl: install kubectl 1.30 or newer")?;
        ensure!(
            output.status.success(),
            "kubectl {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(())
    }
}
