//! Runs the binary under test.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Returns a command that runs the binary in the given folder, with a clean environment.
pub(crate) fn pilothouse(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pilothouse"));
    // A developer's own settings must not influence the tests.
    let is_setting = |name: &std::ffi::OsStr| {
        let name = name.to_string_lossy();
        name.starts_with("PILOTHOUSE_") || name.starts_with("OTEL_")
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_setting(name)) {
        command.env_remove(name);
    }
    command.env_remove("KUBECONFIG").stdin(Stdio::null()).current_dir(folder);
    // Std and the guests' dependencies are already compiled there.
    command.env("CARGO_TARGET_DIR", concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/target"));
    command
}

/// Writes a kubeconfig for a server at this address to the folder, with this token.
pub(crate) fn write_kubeconfig(folder: &Path, server: &str, token: &str) {
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\nusers: [{{name: u, user: {{token: {token}}}}}]\n"
    );
    std::fs::write(folder.join("kubeconfig"), text).expect("written");
}

/// The exit code and output of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("text");
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// Runs the binary until it exits.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> CommandOutput {
    pilothouse(folder).args(arguments).output().expect("it runs").into()
}

/// Runs the binary and asserts that it exits with 0.
#[track_caller]
pub(crate) fn assert_succeeds(folder: &Path, arguments: &[&str]) -> CommandOutput {
    let output = run(folder, arguments);
    assert_eq!(output.code, Some(0), "{arguments:?}: {output:#?}");
    output
}

/// Runs the binary and asserts that it exits with `code` and that standard error contains each of `parts`.
#[track_caller]
pub(crate) fn assert_fails(folder: &Path, arguments: &[&str], code: i32, parts: &[&str]) -> CommandOutput {
    let output = run(folder, arguments);
    assert_eq!(output.code, Some(code), "{arguments:?}: {output:#?}");
    for part in parts {
        assert!(output.stderr.contains(part), "{arguments:?}: {part:?} is not in\n{}", output.stderr);
    }
    output
}

/// Returns the names in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

/// How long a test waits for one condition before it fails. Includes a cold build of std.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Polls until `poll` returns a value. On a timeout, panics with the name of the condition and the text of `context`.
pub(crate) async fn wait_for<T, F: Future<Output = Option<T>>>(
    condition: &str,
    context: impl Fn() -> String,
    mut poll: impl FnMut() -> F,
) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(value) = poll().await {
            return value;
        }
        assert!(Instant::now() < deadline, "timed out waiting for {condition}\n{}", context());
        // Real time: another process is not affected by tokio's paused clock.
        sleep(Duration::from_millis(50)).await;
    }
}
