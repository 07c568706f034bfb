//! An API server in a process of its own, which outlives hosts.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use super::binary;

/// A `pilothouse apiserver` process; ended when dropped.
pub(crate) struct ApiServer {
    child: Child,
    /// `host:port`.
    pub(crate) address: String,
}

impl ApiServer {
    /// Starts one that writes the kubeconfig of its administrator.
    pub(crate) fn start(address: &str, kubeconfig: &Path, more: &[&str]) -> Self {
        let mut child = binary()
            .args(["apiserver", "--test-faults", "--listen", address, "--kubeconfig-out"])
            .arg(kubeconfig)
            .args(more)
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
