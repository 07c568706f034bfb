//! A host that takes its plugins from a registry, with an embedded API server of its own.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::chart::Server;

/// A running `pilothouse run`. Dropping this ends the host and its API server.
pub(super) struct Host {
    child: Child,
    status: String,
    _server: Server,
}

impl Host {
    /// Starts an API server, and a host with this configuration and an empty plugins directory. Waits until the host has printed its address.
    pub(super) fn start(binary: &Path, folder: &Path, config: &Path) -> Result<Self> {
        let server = Server::start(binary, folder)?;
        let plugins = folder.join("plugins");
        fs::create_dir_all(&plugins).with_context(|| format!("create {}", plugins.display()))?;
        let log = folder.join("host.log");
        let mut child = Command::new(binary)
            .args(["run", "--listen", "127.0.0.1:0", "--kubeconfig"])
            .arg(server.kubeconfig())
            .arg("--config")
            .arg(config)
            .arg("--plugins")
            .arg(&plugins)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).with_context(|| format!("create {}", log.display()))?)
            .spawn()
            .with_context(|| format!("start {}", binary.display()))?;
        let stdout = child.stdout.take().context("the host has no standard output")?;
        let mut host = Self { child, status: String::new(), _server: server };
        for line in BufReader::new(stdout).lines() {
            let line = line.context("read the host's output")?;
            if let Some(address) = line.strip_prefix("status") {
                host.status = address.trim().trim_end_matches('/').to_owned();
                return Ok(host);
            }
        }
        bail!("the host exited before it printed its address; see {}", log.display())
    }

    /// Returns the URL of the status page, without a trailing slash.
    pub(super) fn status(&self) -> &str {
        &self.status
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
