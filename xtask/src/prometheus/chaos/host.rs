//! The hosts of the chaos run, each in a container whose memory limit the run sets.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::running_host::{HostFiles, RunningHost};

/// A running `pilothouse run`. Dropping this ends it, with the namespace of its processes.
pub(super) struct Host {
    running: RunningHost,
    memory_limit: PathBuf,
}

impl Host {
    /// Starts a host in a container whose memory limit [`Self::limit_memory`] sets. Waits until it has printed its address.
    pub(super) fn start(files: &HostFiles<'_>) -> Result<Self> {
        let memory_limit = files.folder.join("memory.max");
        fs::create_dir_all(files.folder)
            .and_then(|()| fs::write(&memory_limit, "max\n"))
            .with_context(|| format!("write {}", memory_limit.display()))?;
        let mut command = Command::new("bwrap");
        command
            .args(["--die-with-parent", "--unshare-pid", "--dev-bind", "/", "/", "--proc", "/proc"])
            // The file from which a process in a container reads its limit.
            .args(["--tmpfs", "/sys/fs/cgroup", "--ro-bind"])
            .arg(&memory_limit)
            .args(["/sys/fs/cgroup/memory.max", "--"])
            .arg(files.binary);
        let running = RunningHost::start_by(command, files)
            .context("a host under bwrap (Debian, Ubuntu: apt install bubblewrap)")?;
        Ok(Self { running, memory_limit })
    }

    /// Returns the URL of the status port, without a trailing slash.
    pub(super) fn status(&self) -> &str {
        &self.running.status
    }

    /// Sets the memory limit that the host reads. The kernel does not enforce it.
    pub(super) fn limit_memory(&self, bytes: u64) -> Result<()> {
        let file = &self.memory_limit;
        fs::write(file, format!("{bytes}\n")).with_context(|| format!("write {}", file.display()))
    }
}
