//! Steps that run kubectl.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::canonical::Canonical;
use crate::case::{Step, Variables};
use crate::template;

/// Runs the command of a step in the case's namespace. Returns its exit code and what it printed.
pub(crate) async fn run(
    step: &Step,
    variables: &Variables,
    kubeconfig: &Path,
    canonical: &mut Canonical,
) -> Value {
    let line = template::text(step.kubectl.as_deref().unwrap_or_default(), variables);
    let namespace = variables["ns"].as_str().unwrap_or_default();
    let cache = kubeconfig.with_file_name(format!("cache-{namespace}"));
    let mut child = Command::new("kubectl")
        .args(["--namespace", namespace])
        .arg("--cache-dir")
        .arg(cache)
        .args(line.split_whitespace())
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("kubectl starts");
    let input = match (&step.body, &step.text) {
        (Some(body), _) => template::value(body, variables).to_string(),
        (None, Some(text)) => template::text(text, variables),
        (None, None) => String::new(),
    };
    let mut stdin = child.stdin.take().expect("a pipe");
    // kubectl may exit without reading its input.
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    let output = child.wait_with_output().await.expect("kubectl ends");
    let mut lines = |bytes: &[u8]| -> Value {
        let text = String::from_utf8_lossy(bytes).replace(&*kubeconfig.to_string_lossy(), "KUBECONFIG");
        canonical.output(&text).lines().collect()
    };
    let (stdout, stderr) = (lines(&output.stdout), lines(&output.stderr));
    json!({"exit": output.status.code(), "stdout": stdout, "stderr": stderr})
}

/// Returns kubectl's version, or `None` if it is not installed.
pub(crate) async fn version() -> Option<String> {
    let output =
        Command::new("kubectl").args(["version", "--client", "--output=json"]).output().await.ok()?;
    let version: Value = serde_json::from_slice(&output.stdout).ok()?;
    version["clientVersion"]["gitVersion"].as_str().map(ToOwned::to_owned)
}
