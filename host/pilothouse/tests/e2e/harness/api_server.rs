//! Runs an API server in a separate process, so that it can outlive hosts.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use super::binary;

/// A `pilothouse apiserver` process. Dropping this kills the process.
pub(crate) struct ApiServer {
    child: Child,
    /// `host:port`.
    pub(crate) address: String,
}

impl ApiServer {
    /// Starts a server that writes an administrator's kubeconfig to `kubeconfig`.
    pub(crate) fn start(address: &str, kubeconfig: &Path, flags: &[&str]) -> Self {
        let mut child = binary()
            .args(["apiserver", "--enable-faults", "--listen", address, "--kubeconfig-out"])
            .arg(kubeconfig)
            .args(flags)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("text");
        let url = line.split_whitespace().last().expect("a URL").to_owned();
        Self { child, address: url.split_once("://").expect("a URL").1.to_owned() }
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
