//! `pilothouse run` as a process, for tests with programs of others.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

/// What a host needs, as files and folders.
pub(crate) struct HostFiles<'a> {
    pub(crate) binary: &'a Path,
    /// For its log. It is created.
    pub(crate) folder: &'a Path,
    pub(crate) kubeconfig: &'a Path,
    /// It is created.
    pub(crate) plugins: &'a Path,
    pub(crate) config: &'a Path,
}

/// A running `pilothouse run`. Dropping this ends the process.
pub(crate) struct RunningHost {
    child: Child,
    /// URL of the status port, without a trailing slash.
    pub(crate) status: String,
}

impl RunningHost {
    /// Starts a host and waits until it has printed its address.
    ///
    /// # Errors
    /// Errors if the host does not start, or exits before that. Its log has the reason.
    pub(crate) fn start(files: &HostFiles<'_>) -> Result<Self> {
        Self::start_by(Command::new(files.binary), files)
    }

    /// As [`Self::start`], with a command that runs the program with the arguments that are added.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub(crate) fn start_by(mut command: Command, files: &HostFiles<'_>) -> Result<Self> {
        for folder in [files.folder, files.plugins] {
            fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        }
        let log = files.folder.join("host.log");
        let mut child = command
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
            .with_context(|| format!("start {}", command.get_program().display()))?;
        let stdout = child.stdout.take().context("the host has no standard output")?;
        let mut host = Self { child, status: String::new() };
        for line in BufReader::new(stdout).lines() {
            let line = line.context("read the host's output")?;
            if let Some(address) = line.strip_prefix("status") {
                host.status = address.trim().trim_end_matches('/').to_owned();
                return Ok(host);
            }
        }
        bail!("the host exited before it printed its address; see {}", log.display())
    }
}

impl Drop for RunningHost {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_exits_early_is_an_error_that_names_its_log() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let (log_folder, plugins, kubeconfig) = (path("host"), path("plugins"), path("kubeconfig"));
        let files = HostFiles {
            binary: Path::new("true"),
            folder: &log_folder,
            kubeconfig: &kubeconfig,
            plugins: &plugins,
            config: &kubeconfig,
        };
        let error = RunningHost::start(&files).err().expect("it has exited").to_string();
        assert!(error.contains(&log_folder.join("host.log").display().to_string()), "{error}");
    }
}
