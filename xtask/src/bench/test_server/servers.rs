//! The servers that are compared.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};

use super::super::process::{BackgroundProcess, PipedProcess, Usage, usage, wait_for_file};
use super::Programs;
use crate::conformance::KubeApiServer;
use crate::loopback;

/// The number of files that a server may open: each watcher has a connection.
const OPEN_FILES: usize = 8192;

/// Which server to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Embedded,
    Kubernetes,
}

/// A running server with empty storage. Dropping this ends the process.
pub(super) struct Server {
    process: Process,
    kubeconfig: PathBuf,
    /// Time from the start of the process until `/readyz` answered with 200.
    pub(super) start: Duration,
}

enum Process {
    Embedded(BackgroundProcess),
    Kubernetes(KubeApiServer),
}

impl Server {
    /// Starts a server and measures how long that takes.
    #[expect(clippy::disallowed_methods, reason = "another process works meanwhile, in real time")]
    pub(super) fn start(programs: &Programs, kind: Kind) -> Result<Self> {
        let folder = &programs.folder;
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| format!("remove {}", folder.display()))?;
        }
        fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        let address = loopback::free_address()?;
        // kube-apiserver writes this file; the embedded server needs no token for `/readyz`.
        let token = folder.join("token").display().to_string();
        let poll = ["ready", "--address", &address, "--token-file", &token].map(str::to_owned);
        let mut poller = PipedProcess::start(&programs.api_load, &poll)?;
        ensure!(poller.read_json()?["at"] == "polling", "the load generator does not poll");
        let started = SystemTime::now();
        let (process, kubeconfig) = match kind {
            Kind::Embedded => {
                let kubeconfig = folder.join("kubeconfig");
                let file = kubeconfig.display().to_string();
                let flags =
                    ["apiserver", "--listen", &address, "--kubeconfig-out", &file, "--controllers", "none"];
                let process = PipedProcess::start_in_background(&programs.host, &flags.map(str::to_owned))?;
                wait_for_file(&kubeconfig)?;
                (Process::Embedded(process), kubeconfig)
            }
            Kind::Kubernetes => {
                let server = KubeApiServer::start_in(folder.clone(), &programs.kube_apiserver, &address)?;
                let kubeconfig = server.kubeconfig();
                (Process::Kubernetes(server), kubeconfig)
            }
        };
        let ready =
            poller.read_json()?["unixNanos"].as_u64().context("the load generator reports no time")?;
        let ready = SystemTime::UNIX_EPOCH + Duration::from_nanos(ready);
        let start = ready.duration_since(started).context("the server was ready before it was started")?;
        let server = Self { process, kubeconfig, start };
        server.raise_limit()?;
        Ok(server)
    }

    pub(super) fn usage(&self) -> Result<Usage> {
        usage(self.id())
    }

    fn id(&self) -> u32 {
        match &self.process {
            Process::Embedded(process) => process.id(),
            Process::Kubernetes(server) => server.id(),
        }
    }

    /// Allows the server to open a file for each watcher.
    fn raise_limit(&self) -> Result<()> {
        let status = Command::new("prlimit")
            .args(["--pid", &self.id().to_string(), &format!("--nofile={OPEN_FILES}:")])
            .status()
            .context("the benchmark raises the limit of open files with prlimit; install util-linux if it is missing")?;
        ensure!(
            status.success(),
            "prlimit could not allow {OPEN_FILES} open files: raise the hard limit (ulimit -Hn)"
        );
        Ok(())
    }

    /// Runs a measurement of the load generator and returns what it prints.
    pub(super) fn load<T: serde::de::DeserializeOwned>(
        &self,
        programs: &Programs,
        measurement: &str,
        flags: &[(&str, usize)],
    ) -> Result<T> {
        let mut command = Command::new(&programs.api_load);
        command.args([measurement, "--kubeconfig"]).arg(&self.kubeconfig);
        for (flag, value) in flags {
            command.arg(format!("--{flag}={value}"));
        }
        let output = command.stderr(std::process::Stdio::inherit()).output();
        let output = output.with_context(|| format!("start {}", programs.api_load.display()))?;
        ensure!(
            output.status.success(),
            "the measurement {measurement} failed (see above): {}",
            output.status
        );
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("the measurement {measurement} printed something else than JSON"))
    }
}
