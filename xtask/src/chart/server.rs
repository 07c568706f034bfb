//! The embedded API server, as a process, with kubectl.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};

use super::helm::{Helm, result_of};

/// The namespaces that the value sets name.
const NAMESPACES: [&str; 4] = ["pilothouse", "monitoring", "shop", "bots"];

/// Kinds of the Prometheus operator that the chart creates.
const MONITORING_KINDS: [&str; 3] = ["podmonitors", "servicemonitors", "prometheusrules"];

/// A running `pilothouse apiserver`. Dropping this ends the process.
pub(crate) struct Server {
    child: Child,
    kubeconfig: PathBuf,
}

impl Server {
    /// Starts the server on a free port and waits until it has written its kubeconfig.
    pub(crate) fn start(pilothouse: &Path, folder: &Path) -> Result<Self> {
        Self::start_with(pilothouse, folder, &[])
    }

    /// As [`Self::start`], with more flags.
    pub(crate) fn start_with(pilothouse: &Path, folder: &Path, flags: &[&OsStr]) -> Result<Self> {
        let (kubeconfig, log) = (folder.join("kubeconfig"), folder.join("apiserver.log"));
        let mut child = Command::new(pilothouse)
            .args(["apiserver", "--listen", "127.0.0.1:0", "--kubeconfig-out"])
            .arg(&kubeconfig)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).with_context(|| format!("create {}", log.display()))?)
            .spawn()
            .with_context(|| format!("start {}", pilothouse.display()))?;
        let stdout = child.stdout.take().context("the API server has no standard output")?;
        let server = Self { child, kubeconfig };
        for line in BufReader::new(stdout).lines() {
            if line.context("read the output of the API server")?.starts_with("kubeconfig") {
                return Ok(server);
            }
        }
        bail!("the API server exited before it was ready; see {}", log.display())
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Creates the namespaces and the CRDs that the chart's objects need. `operator` is the folder of the Prometheus operator's sources.
    pub(super) fn prepare(&self, operator: &Path) -> Result<()> {
        for namespace in NAMESPACES {
            self.kubectl(&["create", "namespace", namespace])?.map_err(|error| anyhow!(error))?;
        }
        let folder = operator.join("example").join("prometheus-operator-crd");
        for kind in MONITORING_KINDS {
            let file = folder.join(format!("monitoring.coreos.com_{kind}.yaml"));
            self.kubectl(&["create", "--filename", &file.to_string_lossy()])?
                .map_err(|error| anyhow!(error))?;
        }
        let wait =
            ["wait", "--for=condition=Established", "--all", "--timeout=60s", "customresourcedefinitions"];
        self.kubectl(&wait)?.map_err(|error| anyhow!(error))?;
        Ok(())
    }

    /// Runs kubectl. Returns its output, or its error.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<Result<String, String>> {
        let output = Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(arguments)
            .output()
            .context("start kubectl: install kubectl 1.30 or newer")?;
        result_of(output)
    }

    /// Installs, upgrades and uninstalls the chart. Returns a line if helm cannot.
    pub(super) fn install(&self, helm: &Helm) -> Result<Vec<String>> {
        println!("chart: helm install, upgrade, uninstall");
        let steps: [(&str, &[&str]); 3] =
            [("install", &[]), ("upgrade", &["--set", "replicaCount=0"]), ("uninstall", &["--wait"])];
        for (command, arguments) in steps {
            if let Err(error) = helm.release(&self.kubeconfig, command, arguments)? {
                return Ok(vec![format!("helm {command}: {error}")]);
            }
        }
        let left =
            self.kubectl(&["get", "deployments,services,roles", "--all-namespaces", "--output=name"])?;
        let left = left.map_err(|error| anyhow!(error))?;
        // Every cluster has this Service.
        let left = left.lines().filter(|name| *name != "service/kubernetes");
        Ok(left.map(|name| format!("helm uninstall: {name} is left")).collect())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails if the process has exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
