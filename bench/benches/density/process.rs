//! The processes that are measured, and their memory as reported by the kernel.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::time::Instant;

/// How long plugins may take to run. A small machine needs long to compile a thousand plugins.
const TIMEOUT: Duration = Duration::from_secs(3600);

/// Builds a package in release mode, and returns the folder with its binaries.
pub(crate) fn build(folder: &Path, arguments: &[&str]) -> Result<PathBuf, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let target = folder.join("target");
    cargo.args(["build", "--release", "--target-dir"]).arg(&target).args(arguments).current_dir(folder);
    match cargo.status() {
        Ok(status) if status.success() => Ok(target.join("release")),
        Ok(status) => Err(format!("cargo build in {} ended with {status}", folder.display())),
        Err(error) => Err(format!("cargo can't be started: {error}")),
    }
}

/// The memory of a process in KiB.
pub(crate) struct Memory {
    /// Resident memory, including mapped files.
    pub(crate) resident: u64,
    /// Anonymous memory, which the kernel cannot reclaim.
    pub(crate) private: u64,
}

/// A child process that is killed on drop.
pub(crate) struct Running {
    child: Child,
    started: Instant,
    /// `host:port` of the status surface.
    status: String,
}

/// The API server of all hosts and peers.
pub(crate) struct Server {
    _process: Running,
    kubeconfig: PathBuf,
}

impl Server {
    pub(crate) fn start(binary: &Path, folder: &Path) -> Result<Self, String> {
        let kubeconfig = folder.join("kubeconfig");
        let mut command = Command::new(binary);
        command
            .args(["apiserver", "--insecure-http", "--listen", "127.0.0.1:0", "--kubeconfig-out"])
            .arg(&kubeconfig);
        Ok(Self { _process: Running::start(&mut command, "API server")?, kubeconfig })
    }
}

impl Running {
    /// Starts a host with a directory of plugins.
    pub(crate) fn host(binary: &Path, plugins: &Path, cache: &Path, server: &Server) -> Result<Self, String> {
        let mut command = Command::new(binary);
        command.args(["run", "--listen", "127.0.0.1:0", "--log-level", "error", "--kubeconfig"]);
        command.arg(&server.kubeconfig).arg("--plugins").arg(plugins).arg("--cache-dir").arg(cache);
        Self::start(&mut command, "status")
    }

    /// Starts a kube-rs controller.
    pub(crate) fn peer(binary: &Path, server: &Server) -> Result<Self, String> {
        let child = Command::new(binary).env("KUBECONFIG", &server.kubeconfig).spawn();
        let child = child.map_err(|error| format!("{}: {error}", binary.display()))?;
        Ok(Self { child, started: Instant::now(), status: String::new() })
    }

    /// Starts a process and waits until it prints a line that starts with `prefix`, followed by its URL.
    fn start(command: &mut Command, prefix: &str) -> Result<Self, String> {
        let started = Instant::now();
        let mut child =
            command.stdout(Stdio::piped()).spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let stdout = child.stdout.take().ok_or("no standard output")?;
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if let Some(url) = line.strip_prefix(prefix) {
                let status = url.trim().trim_start_matches("http://").trim_end_matches('/').to_owned();
                return Ok(Self { child, started, status });
            }
        }
        Err(format!("{command:?} ended before it printed its URL"))
    }

    /// Waits until exactly `plugins` plugins are loaded and all of them run, and returns the time since the start of the process.
    pub(crate) async fn wait_for(&mut self, plugins: usize) -> Result<Duration, String> {
        loop {
            let answer = self.get("/api/plugins").unwrap_or_default();
            let states = answer.matches("\"state\":").count();
            let running = answer.matches("\"state\":\"running\"").count();
            if (running, states) == (plugins, plugins) && !answer.is_empty() {
                return Ok(self.started.elapsed());
            }
            if self.started.elapsed() > TIMEOUT || self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return Err(format!("{running} of {plugins} plugins run: {answer:.2000}"));
            }
            // Answering for a thousand plugins takes CPU time from their compilation.
            tokio::time::sleep(Duration::from_millis(20 + plugins as u64 / 5)).await;
        }
    }

    /// Returns the memory of the process.
    pub(crate) fn memory(&self) -> Result<Memory, String> {
        let path = format!("/proc/{}/smaps_rollup", self.child.id());
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let kib = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|line| line.trim().split(' ').next()?.parse().ok())
                .ok_or(format!("{path} has no {name}"))
        };
        Ok(Memory { resident: kib("Rss")?, private: kib("Anonymous")? })
    }

    pub(crate) fn get(&self, path: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(&self.status)?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.status)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
