//! The `pilothouse dev` process that the demo talks to.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context, Result, bail, ensure};

/// A running `pilothouse dev`; ended when dropped.
pub(crate) struct Dev {
    child: Mutex<Child>,
    log: PathBuf,
    /// The API server's URL.
    pub(crate) api: String,
    /// The status page's URL, without a slash at the end.
    pub(crate) status: String,
    /// The kubeconfig.
    pub(crate) kubeconfig: PathBuf,
}

impl Dev {
    /// Starts the host on free ports and waits until it says where it listens.
    pub(crate) fn start(binary: &Path, folder: &Path) -> Result<Self> {
        let log = folder.join("host.log");
        let kubeconfig = folder.join("kubeconfig");
        let mut child = Command::new(binary)
            .args(["dev", "--listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0"])
            .arg("--plugins")
            .arg(folder.join("plugins"))
            .arg("--kubeconfig-out")
            .arg(&kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).with_context(|| format!("make {}", log.display()))?)
            .spawn()
            .with_context(|| format!("start {}", binary.display()))?;
        let stdout = child.stdout.take().context("the host has no standard output")?;
        let (mut api, mut status) = (None, None);
        for line in BufReader::new(stdout).lines() {
            let line = line.context("read what the host says")?;
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
            bail!("the host ended before it said where it listens:\n{text}");
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

    /// Waits until somebody ends it.
    pub(crate) fn wait(&self) -> Result<()> {
        let status = self.child().wait().context("wait for the host")?;
        ensure!(status.success(), "the host ended with {status}");
        Ok(())
    }

    /// Asks it to end (SIGTERM), and takes no other end than the one asked for.
    pub(crate) fn stop(&self) -> Result<()> {
        let mut child = self.child();
        if child.try_wait()?.is_some() {
            bail!("the host had ended before it was asked to; see {}", self.log.display());
        }
        let sent = Command::new("kill").arg(child.id().to_string()).status().context("send SIGTERM")?;
        ensure!(sent.success(), "SIGTERM could not be sent: {sent}");
        let status = child.wait().context("wait for the host to end")?;
        ensure!(status.success(), "the host ended with {status} after SIGTERM");
        Ok(())
    }

    fn child(&self) -> std::sync::MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // After `stop` or `wait` there is nothing left to end.
        let _ = self.child().kill();
        let _ = self.child().wait();
    }
}
