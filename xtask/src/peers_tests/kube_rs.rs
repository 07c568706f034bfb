//! Runs the tests of kube-rs' crates that need a cluster. The crates are published with their tests, which are ignored by default.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use super::libtest;
use super::outcome::{Outcome, Outcomes};
use crate::guests::copy_folder;
use crate::{cargo, host, tools};

/// The crates.
const CRATES: [tools::Crate; 3] = [
    tools::Crate { name: "kube", version: VERSION },
    tools::Crate { name: "kube-client", version: VERSION },
    tools::Crate { name: "kube-runtime", version: VERSION },
];

/// The version of all crates.
const VERSION: &str = "5.0.0";

/// A workspace with copies of the crates, which depend on each other. Cargo does not compile the tests of a dependency.
const WORKSPACE: &str = "\
[workspace]
resolver = \"3\"
members = [\"kube\", \"kube-client\", \"kube-runtime\"]

[patch.crates-io]
kube = { path = \"kube\" }
kube-client = { path = \"kube-client\" }
kube-runtime = { path = \"kube-runtime\" }
";

/// The dependency on `kube` of the tests of the other crates. Their published manifests lack it, because `kube` depends on them.
const DEPENDENCY_ON_KUBE: &str = "
[dev-dependencies.kube]
path = \"../kube\"
features = [\"client\", \"derive\", \"ws\"]
";

/// The versions of the dependencies.
const LOCK_FILE: &str = include_str!("../../kube-rs.lock");

/// The features that the tests need.
const FEATURES: &str = "kube/client,kube/derive,kube/runtime,kube/rustls-tls,\
    kube-client/client,kube-client/jsonpatch,kube-client/ring,kube-client/rustls-tls,kube-client/ws";

/// How long a test may run. The tests themselves wait for at most 30 seconds.
const TIMEOUT: Duration = Duration::from_secs(90);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum size in bytes of what a test prints on each stream.
const MAX_OUTPUT: u64 = 1 << 20;

/// Runs the tests against the server of a kubeconfig, one after another.
///
/// # Errors
/// Errors if the crates cannot be downloaded or compiled, or a test cannot be started.
pub(super) fn run(kubeconfig: &Path) -> Result<Outcomes> {
    let workspace = prepare_workspace()?;
    let messages = host::run_cargo_json(
        cargo::cargo()
            .current_dir(&workspace)
            .args(["test", "--locked", "--workspace", "--lib", "--no-run", "--features", FEATURES])
            // The folder is outside of the repository, so that all clones share what is compiled.
            .arg("--target-dir")
            .arg(workspace.join("target"))
            .env("CARGO_PROFILE_DEV_DEBUG", "0"),
    )?;
    let mut outcomes = Outcomes::default();
    for package in &CRATES {
        let program = test_program(&messages, &package.name.replace('-', "_"))?;
        let folder = workspace.join(package.name);
        let list = command(&program, &folder, kubeconfig).args(["--list", "--ignored"]).output();
        let list = list.with_context(|| format!("start {}", program.display()))?;
        ensure!(list.status.success(), "{} cannot list its tests: {}", program.display(), list.status);
        for test in libtest::names(&String::from_utf8_lossy(&list.stdout)) {
            let mut command = command(&program, &folder, kubeconfig);
            command.args(["--ignored", "--exact", test, "--nocapture"]);
            let outcome = run_test(&mut command).with_context(|| format!("run {}: {test}", package.name))?;
            outcomes.insert(&format!("{}: {test}", package.name), outcome);
        }
    }
    Ok(outcomes)
}

/// Copies the crates into a workspace, if that was not done before, and returns its folder.
fn prepare_workspace() -> Result<PathBuf> {
    let workspace = tools::cache()?.join(format!("kube-rs-{VERSION}"));
    for package in &CRATES {
        let copy = workspace.join(package.name);
        if !copy.exists() {
            // Renamed at the end, so that an interrupted copy is not used.
            let unfinished = workspace.join("unfinished");
            if unfinished.exists() {
                fs::remove_dir_all(&unfinished)
                    .with_context(|| format!("remove {}", unfinished.display()))?;
            }
            copy_folder(&package.download()?, &unfinished)?;
            if package.name != "kube" {
                add_dependency_on_kube(&unfinished.join("Cargo.toml"))?;
            }
            fs::rename(&unfinished, &copy)
                .with_context(|| format!("rename {} to {}", unfinished.display(), copy.display()))?;
        }
    }
    for (name, text) in [("Cargo.toml", WORKSPACE), ("Cargo.lock", LOCK_FILE)] {
        let file = workspace.join(name);
        fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
    }
    Ok(workspace)
}

fn add_dependency_on_kube(manifest: &Path) -> Result<()> {
    let text = fs::read_to_string(manifest).with_context(|| format!("read {}", manifest.display()))?;
    fs::write(manifest, text + DEPENDENCY_ON_KUBE).with_context(|| format!("write {}", manifest.display()))
}

/// Returns the path of the program with the unit tests of a library from cargo's JSON messages.
fn test_program(messages: &str, library: &str) -> Result<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == library && message["profile"]["test"] == true)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .with_context(|| format!("cargo did not report the path of the tests of {library}"))
}

fn command(program: &Path, folder: &Path, kubeconfig: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).env("KUBECONFIG", kubeconfig).stdin(Stdio::null());
    command
}

/// Runs one test. Each has a process of its own, so that a test that hangs or aborts does not end the others.
fn run_test(command: &mut Command) -> Result<Outcome> {
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("start the test")?;
    let stdout = child.stdout.take().context("the test has no standard output")?;
    let stderr = child.stderr.take().context("the test has no standard error")?;
    thread::scope(|scope| {
        let (stdout, stderr) = (scope.spawn(|| read(stdout)), scope.spawn(|| read(stderr)));
        let status = wait(&mut child)?;
        let text = |thread: thread::ScopedJoinHandle<'_, Result<String>>| {
            thread.join().unwrap_or_else(|_| Err(anyhow!("the thread that reads the output panicked")))
        };
        let output = text(stdout)? + &text(stderr)?;
        Ok(libtest::outcome(status.map(|status| status.success()), &output))
    })
}

/// Reads a stream to its end and returns the first [`MAX_OUTPUT`] bytes.
fn read(mut stream: impl Read) -> Result<String> {
    let mut bytes = Vec::new();
    (&mut stream).take(MAX_OUTPUT).read_to_end(&mut bytes).context("read the output of a test")?;
    // The test would wait if nobody read the rest.
    std::io::copy(&mut stream, &mut std::io::sink()).context("read the output of a test")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Waits until a process ends. Ends it and returns `None` if it does not end in time.
fn wait(child: &mut Child) -> Result<Option<ExitStatus>> {
    #[expect(clippy::disallowed_methods, reason = "a test of others runs in real time")]
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("wait for the test")? {
            return Ok(Some(status));
        }
        if started.elapsed() > TIMEOUT {
            // Fails if the process has exited.
            let _ = child.kill();
            child.wait().context("wait for the test")?;
            return Ok(None);
        }
        #[expect(clippy::disallowed_methods, reason = "a test of others runs in real time")]
        thread::sleep(POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_of_a_library_are_found_among_cargos_messages() {
        let messages = "{\"target\":{\"name\":\"kube_client\"},\"profile\":{\"test\":false},\"executable\":null}\n\
                        {\"target\":{\"name\":\"kube_client\"},\"profile\":{\"test\":true},\"executable\":\"/t/kube_client-1\"}\n";
        assert_eq!(test_program(messages, "kube_client").expect("there"), PathBuf::from("/t/kube_client-1"));
        assert!(test_program(messages, "kube").is_err());
    }

    #[test]
    fn the_lock_file_has_the_crates_as_members() {
        for package in &CRATES {
            let entry = format!("name = \"{}\"\nversion = \"{VERSION}\"\ndependencies", package.name);
            assert!(LOCK_FILE.contains(&entry), "{entry}");
        }
    }
}
