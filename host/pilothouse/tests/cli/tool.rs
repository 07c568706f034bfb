//! The binary under test.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// The binary, to run in that folder.
pub(crate) fn pilothouse(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pilothouse"));
    // A developer's own settings must not decide a test.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PILOTHOUSE_"))
    {
        command.env_remove(name);
    }
    command.env_remove("KUBECONFIG").stdin(Stdio::null()).current_dir(folder);
    // Std, and what the guests depend on, are compiled there already.
    command.env("CARGO_TARGET_DIR", concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/target"));
    command
}

/// What a command that has ended said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("text");
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// Runs the binary to its end.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Said {
    pilothouse(folder).args(arguments).output().expect("it runs").into()
}

/// Runs it and wants success.
pub(crate) fn succeed(folder: &Path, arguments: &[&str]) -> Said {
    let said = run(folder, arguments);
    assert_eq!(said.code, Some(0), "{arguments:?}: {said:#?}");
    said
}

/// Runs it and wants that exit code, and each part in what it says is wrong.
#[track_caller]
pub(crate) fn refused(folder: &Path, arguments: &[&str], code: i32, parts: &[&str]) -> Said {
    let said = run(folder, arguments);
    assert_eq!(said.code, Some(code), "{arguments:?}: {said:#?}");
    for part in parts {
        assert!(said.stderr.contains(part), "{arguments:?}: {part:?} is not in\n{}", said.stderr);
    }
    said
}

/// The names in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

/// How long a test waits for one thing before it fails: a cold build of std is part of it.
const PATIENCE: Duration = Duration::from_secs(600);

/// Looks again and again until something is found.
pub(crate) async fn wait_for<T, F: Future<Output = Option<T>>>(
    what: &str,
    told: impl Fn() -> String,
    mut look: impl FnMut() -> F,
) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}\n{}", told());
        // Another process has no clock that a test could move.
        sleep(Duration::from_millis(50)).await;
    }
}
