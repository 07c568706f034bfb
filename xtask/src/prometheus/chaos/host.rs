//! The hosts of the chaos run, as processes.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

/// What the host needs, as files and folders.
pub(super) struct HostFiles<'a> {
    pub(super) binary: &'a Path,
    /// For its log and caches.
    pub(super) folder: &'a Path,
    pub(super) kubeconfig: &'a Path,
    pub(super) plugins: &'a Path,
    pub(super) config: &'a Path,
}

/// A running `pilothouse run`. Dropping this ends it.
pub(super) struct Host {
    child: Child,
    /// URL of the status port, without a trailing slash.
    pub(super) status: String,
    memory_limit: PathBuf,
}

impl Host {
    /// Starts a host in a container whose memory limit [`Self::limit_memory`] sets. Waits until it has printed its address.
    pub(super) fn start(files: &HostFiles<'_>) -> Result<Self> {
        let memory_limit = files.folder.join("memory.max");
        fs::create_dir_all(files.folder)
            .and_then(|()| fs::write(&memory_limit, "max\n"))
            .with_context(|| format!("write {}", memory_limit.display()))?;
        let log = files.folder.join("host.log");
        let mut child = Command::new("bwrap")
            .args(["--die-with-parent", "--unshare-pid", "--dev-bind", "/", "/", "--proc", "/proc"])
            // The file from which a process in a container reads its limit.
            .args(["--tmpfs", "/sys/fs/cgroup", "--ro-bind"])
            .arg(&memory_limit)
            .args(["/sys/fs/cgroup/memory.max", "--"])
            .arg(files.binary)
            .args(["run", "--listen", "127.0.0.1:0", "--kubeconfig"])
            .arg(files.kubeconfig)
            .arg("--config")
            .arg(files.config)
            .arg("--plugins")
            .arg(files.plugins)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).with_context(|| format!("create {}", log.display()))?)
            .spawn()
            .context("start bwrap: install bubblewrap (Debian, Ubuntu: apt install bubblewrap)")?;
        let stdout = child.stdout.take().context("the host has no standard output")?;
        let mut host = Self { child, status: String::new(), memory_limit };
        for line in BufReader::new(stdout).lines() {
            let line = line.context("read the host's output")?;
            if let Some(address) = line.strip_prefix("status") {
                host.status = address.trim().trim_end_matches('/').to_owned();
                return Ok(host);
            }
        }
        bail!("the host exited before it printed its address; see {}", log.display())
    }

    /// Sets the memory limit that the host reads. The kernel does not enforce it.
    pub(super) fn limit_memory(&self, bytes: u64) -> Result<()> {
        let file = &self.memory_limit;
        fs::write(file, format!("{bytes}\n")).with_context(|| format!("write {}", file.display()))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may have ended already. The host ends with the namespace of its processes.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
