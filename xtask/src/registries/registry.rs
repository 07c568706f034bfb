//! The registries, as processes on loopback.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::demo::Api;
use crate::{loopback, tools};

/// The sources of the registry with the referrers API.
const WITH_REFERRERS: &str = "xtask/referrers-registry";

/// A running registry without TLS. Dropping this ends the process.
pub(super) struct Registry {
    name: &'static str,
    address: String,
    child: Child,
}

impl Registry {
    /// Starts distribution, which stores its content in `folder`.
    pub(super) fn distribution(folder: &Path) -> Result<Self> {
        let program = tools::DISTRIBUTION.install()?;
        let address = loopback::free_address()?;
        let config = json!({
            "version": "0.1",
            "log": {"level": "error"},
            "storage": {"filesystem": {"rootdirectory": folder.join("content")}},
            "http": {"addr": address},
        });
        let (file, log) = (folder.join("distribution.yaml"), folder.join("distribution.log"));
        // JSON is YAML.
        fs::write(&file, config.to_string()).with_context(|| format!("write {}", file.display()))?;
        let child = Command::new(&program)
            .arg("serve")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).with_context(|| format!("create {}", log.display()))?)
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let registry = Self { name: "distribution", address, child };
        let api = Api::new(&format!("http://{}", registry.address));
        // Errors mean that it does not listen yet.
        api.wait("the registry", |api| Ok(api.get("/v2/").unwrap_or(None)))
            .with_context(|| format!("see {}", log.display()))?;
        Ok(registry)
    }

    /// Builds and starts the registry with the referrers API, which stores its content in memory.
    pub(super) fn with_referrers(root: &Path) -> Result<Self> {
        let program = root.join("target/referrers-registry");
        let status = tools::go()
            .current_dir(root.join(WITH_REFERRERS))
            .args(["build", "-o"])
            .arg(&program)
            .status()
            .context("start go: install Go (https://go.dev/dl)")?;
        ensure!(status.success(), "go could not build {WITH_REFERRERS} (see above): {status}");
        let mut child = Command::new(&program)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let stdout = child.stdout.take().context("the registry has no standard output")?;
        let mut registry = Self { name: "go-containerregistry", address: String::new(), child };
        BufReader::new(stdout).read_line(&mut registry.address).context("read the registry's address")?;
        registry.address.truncate(registry.address.trim_end().len());
        ensure!(!registry.address.is_empty(), "the registry exited before it listened");
        Ok(registry)
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the address as `HOST:PORT`.
    pub(super) fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
