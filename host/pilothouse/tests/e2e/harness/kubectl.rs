//! Runs kubectl if it is installed.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// Whether kubectl is installed. If not, prints a message once.
pub(super) static INSTALLED: LazyLock<bool> = LazyLock::new(|| {
    let found = Command::new("kubectl")
        .args(["version", "--client"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !found {
        super::print_uncaptured(
            "SKIPPED: kubectl is not installed, so tests that use it are skipped. Install kubectl 1.30 or newer.",
        );
    }
    found
});

/// Runs kubectl. Returns its standard output, or its standard error if it fails.
pub(super) fn run(kubeconfig: &Path, arguments: &[&str], input: &str) -> Result<String, String> {
    let mut child = Command::new("kubectl")
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(arguments)
        // The default cache is keyed by address, and a later server may reuse an earlier server's port.
        .env("KUBECACHEDIR", kubeconfig.with_file_name("kubectl-cache"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kubectl starts");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("kubectl reads");
    let output = child.wait_with_output().expect("kubectl ends");
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}
