//! Runs the `pilothouse dev` process of the demo.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context, Result, bail, ensure};

/// A running `pilothouse dev`. Dropping this kills the process.
pub(crate) struct Dev {
    child: Mutex<Child>,
    log: PathBuf,
    /// URL of the API server.
    pub(crate) api: String,
    /// URL of the status page, without a trailing slash.
    pub(crate) status: String,
    /// Path of the kubeconfig.
    pub(crate) kubeconfig: PathBuf,
}

impl Dev {
    /// Starts the host on free ports and waits until it has printed its addresses.
    pub(crate) fn start(binary: &Path, folder: &Path) -> Result<Self> {
        Self::start_with(binary, folder, &[])
    }

    /// As [`Self::start`], with more flags.
    pub(crate) fn start_with(binary: &Path, folder: &Path, flags: &[&str]) -> Result<Self> {
        let log = folder.join("host.log");
        let kubeconfig = folder.join("kubeconfig");
        let mut child = Command::new(binary)
            .args(["dev", "--listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0"])
            .arg("--plugins")
            .arg(folder.join("plugins"))
            .arg("--kubeconfig-out")
            .arg(&kubeconfig)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).with_context(|| format!("create {}", log.display()))?)
            .spawn()
            .with_context(|| format!("start {}", binary.display()))?;
        let stdout = child.stdout.take().context("the host has no standard output")?;
        let (mut api, mut status) = (None, None);
        for line in BufReader::new(stdout).lines() {
            let line = line.context("read the host's output")?;
            match line.split_once(' ').map(|(name, value)| (name, value.trim())) {
                Some(("API", value)) => api = value.split_whitespace().last().map(str::to_owned),
                Some(("status", value)) => status = Some(value.trim_end_matches('/').to_owned()),
                _ => {}
            }
            if api.is_some() && status.is_some() {
                break;
            }
        }
        let (Some(api), Some(status)) = (api, status) else {
            let text = fs::read_to_string(&log).unwrap_or_default();
            bail!("the host exited before it printed its addresses:\n{text}");
        };
        Ok(Self { child: Mutex::new(child), log, api, status, kubeconfig })
    }

    pub(crate) fn log_path(&self) -> &Path {
        &self.log
    }

    pub(crate) fn print_log_tail(&self) {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        for line in &lines[lines.len().saturating_sub(30)..] {
            println!("    {line}");
        }
    }

    /// Waits until the host exits, for example after Ctrl-C.
    pub(crate) fn wait(&self) -> Result<()> {
        let status = self.child().wait().context("wait for the host")?;
        ensure!(status.success(), "the host exited with {status}");
        Ok(())
    }

    /// Sends SIGTERM and waits for the host to exit.
    ///
    /// # Errors
    /// Errors if the host had exited before, or exits with a failure.
    pub(crate) fn stop(&self) -> Result<()> {
        let mut child = self.child();
        if child.try_wait()?.is_some() {
            bail!("the host exited before it was stopped; see {}", self.log.display());
        }
        let sent = Command::new("kill").arg(child.id().to_string()).status().context("send SIGTERM")?;
        ensure!(sent.success(), "cannot send SIGTERM: {sent}");
        let status = child.wait().context("wait for the host to exit")?;
        ensure!(status.success(), "the host exited with {status} after SIGTERM");
        Ok(())
    }

    fn child(&self) -> std::sync::MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // Fails if `stop` or `wait` has already reaped the process.
        let _ = self.child().kill();
        let _ = self.child().wait();
    }
}
