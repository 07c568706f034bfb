//! Starts hosts and provides what the tests need to observe them.

mod api_server;
mod cleanup;
pub(crate) mod collector;
mod guests;
mod kubectl;
mod registry;
mod server;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::MutexGuard;

pub(crate) use api_server::ApiServer;
pub(crate) use guests::{Guest, another_version, wat, wat_with};
pub(crate) use registry::Registry;
pub(crate) use server::{Server, send};

/// How long a test waits for one condition before it fails. Longer than the host waits for a compiler, which takes minutes for a Python
/// plugin on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(900);

/// A running `pilothouse dev`, or `pilothouse run` against an external server. Dropping this kills the process.
pub(crate) struct Host {
    child: Child,
    folder: TempDir,
    /// The API server that the host uses.
    pub(crate) server: Server,
    /// URL of the status server, without a trailing slash.
    pub(crate) status_url: String,
    /// Serializes tests on an external server, because their plugins would reconcile each other's objects.
    _external_lock: Option<MutexGuard<'static, ()>>,
}

/// Options for starting a host.
#[derive(Clone, Default)]
pub(crate) struct Options {
    /// The kubeconfig of the test's own API server. By default, an embedded or the external server.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The kubeconfig that the test itself uses, if the host's user lacks permissions that the test needs.
    pub(crate) admin: Option<PathBuf>,
    /// Additional flags of the host.
    pub(crate) flags: Vec<&'static str>,
    /// Additional environment variables of the host.
    pub(crate) environment: Vec<(&'static str, String)>,
    /// Disables requeueing all objects after a reload, which would hide a lost key.
    pub(crate) no_requeue_on_reload: bool,
    /// Enables fault injection in the embedded server.
    pub(crate) test_faults: bool,
    /// The directory for compiled plugins. By default, all tests share one.
    pub(crate) cache: Option<PathBuf>,
}

/// The shared directory for compiled plugins, so that each guest is compiled once rather than once per test.
pub(crate) const CACHE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/compiled");

/// Returns a command that runs the binary under test with a clean environment.
pub(crate) fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pilothouse"));
    // A developer's own settings must not influence the tests.
    let is_setting = |name: &std::ffi::OsStr| {
        let name = name.to_string_lossy();
        name.starts_with("PILOTHOUSE_") || name.starts_with("OTEL_")
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_setting(name)) {
        command.env_remove(name);
    }
    command.env_remove("KUBECONFIG").stdin(Stdio::null());
    command
}

impl Host {
    /// Starts a host with its own embedded server, or with the external server if there is one.
    pub(crate) async fn start() -> Self {
        Self::start_with(Options::default()).await
    }

    pub(crate) async fn start_with(options: Options) -> Self {
        let is_external = options.kubeconfig.is_none() && Server::external_kubeconfig().is_some();
        let external_lock = match is_external {
            true => Some(server::EXTERNAL_SERVER_LOCK.lock().await),
            false => None,
        };
        let given = options.kubeconfig.or_else(Server::external_kubeconfig);
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("plugins")).expect("a plugins folder");
        let log = File::create(folder.path().join("host.log")).expect("a log file");
        let mut command = binary();
        let kubeconfig = match given {
            Some(kubeconfig) => {
                command.args(["run", "--kubeconfig"]).arg(&kubeconfig);
                kubeconfig
            }
            None => {
                let kubeconfig = folder.path().join("kubeconfig");
                command.args(["dev", "--kubeconfig-out"]).arg(&kubeconfig);
                if options.test_faults {
                    command.arg("--enable-faults");
                }
                kubeconfig
            }
        };
        command.args(["--listen", "127.0.0.1:0", "--plugins"]).arg(folder.path().join("plugins"));
        command.args(["--log-format", "json", "--cache-dir"]);
        command.arg(options.cache.unwrap_or_else(|| CACHE.into()));
        if options.no_requeue_on_reload {
            command.arg("--test-no-requeue-on-reload");
        }
        command.args(&options.flags).envs(options.environment);
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().expect("the host starts");
        let status_url = status_url(&mut child, folder.path());
        let server = Server::new(options.admin.unwrap_or(kubeconfig), is_external).await;
        Self { child, folder, server, status_url, _external_lock: external_lock }
    }

    /// Returns the plugins directory.
    pub(crate) fn plugins(&self) -> PathBuf {
        self.folder.path().join("plugins")
    }

    /// Returns the host's process id.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Installs or replaces a plugin atomically.
    pub(crate) fn install_plugin(&self, name: &str, wasm: &[u8]) {
        let partial = self.plugins().join(format!(".{name}.incoming"));
        fs::write(&partial, wasm).expect("written");
        fs::rename(&partial, self.plugins().join(format!("{name}.wasm"))).expect("renamed");
    }

    /// Writes a sidecar atomically. If it is written after its plugin, the plugin loads twice.
    pub(crate) fn write_sidecar(&self, name: &str, text: &str) {
        let partial = self.plugins().join(format!(".{name}.yaml.incoming"));
        fs::write(&partial, text).expect("written");
        fs::rename(&partial, self.plugins().join(format!("{name}.yaml"))).expect("renamed");
    }

    /// Returns the plugin's entry in `/api/plugins`, or null if there is none.
    pub(crate) async fn plugin(&self, name: &str) -> Value {
        let response: Value = serde_json::from_str(&self.get("/api/plugins").await.1).expect("JSON");
        let plugins = response["plugins"].as_array().cloned().expect("a list");
        plugins.into_iter().find(|plugin| plugin["name"] == name).unwrap_or_default()
    }

    /// Waits until the plugin is in the state.
    pub(crate) async fn wait_for_state(&self, name: &str, state: &str) -> Value {
        self.wait_for_plugin(name, state, |plugin| plugin["state"] == state).await
    }

    /// Waits until the plugin runs in that generation.
    pub(crate) async fn wait_for_generation(&self, name: &str, generation: u64) -> Value {
        let condition = format!("generation {generation}");
        self.wait_for_plugin(name, &condition, |plugin| {
            plugin["state"] == "running" && plugin["generation"] == generation
        })
        .await
    }

    /// Waits until the plugin's entry satisfies the predicate.
    pub(crate) async fn wait_for_plugin(
        &self,
        name: &str,
        condition: &str,
        predicate: impl Fn(&Value) -> bool,
    ) -> Value {
        let result = wait(|| async {
            let plugin = self.plugin(name).await;
            let is_satisfied = predicate(&plugin);
            (is_satisfied.then(|| plugin.clone()), plugin)
        })
        .await;
        match result {
            Ok(plugin) => plugin,
            Err(last) => {
                panic!("{name}: timed out waiting for {condition}: {last:#}\n{}", self.log_tail())
            }
        }
    }

    /// Polls until `poll` returns a value.
    pub(crate) async fn wait<T, F>(&self, condition: &str, mut poll: impl FnMut() -> F) -> T
    where
        F: Future<Output = Option<T>>,
    {
        match wait(|| {
            let polled = poll();
            async { (polled.await, ()) }
        })
        .await
        {
            Ok(value) => value,
            Err(()) => panic!("timed out waiting for {condition}\n{}", self.log_tail()),
        }
    }

    /// Waits until the cache of this URL path has reached a resource version. Watches are independent: an object of one watch may
    /// be reconciled before an earlier object of another watch is cached.
    pub(crate) async fn wait_until_cached(&self, path: &str, version: &str) {
        let number = |text: &str| text.parse::<u64>().ok();
        let expected = number(version).expect("a number");
        self.wait(&format!("version {version} of {path} in the cache"), || async {
            let dump: Value = serde_json::from_str(&self.get("/debug/informers").await.1).expect("JSON");
            let informer = dump["informers"].as_array()?.iter().find(|informer| informer["path"] == path)?;
            (number(informer["store"]["resourceVersion"].as_str()?)? >= expected).then_some(())
        })
        .await;
    }

    /// Sends a GET request to the status server. Returns the status and the body.
    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        server::get(&format!("{}{path}", self.status_url)).await
    }

    /// Returns the messages in the plugin's log so far, including the host's messages about it.
    pub(crate) async fn log_messages(&self, plugin: &str) -> Vec<String> {
        let (status, lines) = self.get(&format!("/api/logs?plugin={plugin}")).await;
        if status != 200 {
            // The plugin does not exist yet.
            return Vec::new();
        }
        let message = |line: &str| {
            let line: Value = serde_json::from_str(line).expect("JSON");
            line["message"].as_str().expect("text").to_owned()
        };
        lines.lines().map(message).collect()
    }

    /// Waits until the plugin has logged the message `times` times.
    pub(crate) async fn wait_for_message(&self, plugin: &str, message: &str, times: usize) {
        self.wait(&format!("{plugin} to log {message:?} {times} times"), || async {
            let messages = self.log_messages(plugin).await;
            (messages.iter().filter(|logged| *logged == message).count() >= times).then_some(())
        })
        .await;
    }

    /// Returns the host's log so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("host.log")).unwrap_or_default()
    }

    fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        format!("the host's log ends:\n{}", lines[lines.len().saturating_sub(25)..].join("\n"))
    }

    /// Runs a subcommand of the binary against this host.
    pub(crate) fn pilothouse(&self, arguments: &[&str]) -> std::process::Output {
        binary().args(arguments).args(["--server", &self.status_url]).output().expect("the command runs")
    }

    /// Returns the resident memory of the host's process in bytes, if the system provides it.
    pub(crate) fn resident_memory(&self) -> Option<usize> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_whitespace().next()?.parse::<usize>().ok().map(|kilobytes| kilobytes << 10)
    }

    /// Sends SIGTERM and waits for the process to exit.
    pub(crate) async fn terminate(mut self) -> ExitStatus {
        let sent = Command::new("kill").arg(self.child.id().to_string()).status().expect("kill runs");
        assert!(sent.success());
        let exit = wait(|| {
            let status = self.child.try_wait().expect("a process state");
            async move { (status, ()) }
        });
        match exit.await {
            Ok(status) => status,
            Err(()) => panic!("the host did not exit after SIGTERM\n{}", self.log_tail()),
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Prints a message even if the test passes. The test harness captures only the output of the print macros.
fn print_uncaptured(message: &str) {
    let _ = io::stderr().write_all(format!("\n!!! {message}\n\n").as_bytes());
}

/// Polls until `poll` returns a value. On a timeout, returns the last state.
pub(crate) async fn wait<T, S, F>(mut poll: impl FnMut() -> F) -> Result<T, S>
where
    F: Future<Output = (Option<T>, S)>,
{
    let deadline = tokio::time::Instant::now() + TIMEOUT;
    loop {
        let (value, state) = poll().await;
        if let Some(value) = value {
            return Ok(value);
        }
        if tokio::time::Instant::now() > deadline {
            return Err(state);
        }
        // Real time: another process is not affected by tokio's paused clock.
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

/// Reads the host's output until it has printed the URL of its status server.
fn status_url(child: &mut Child, folder: &Path) -> String {
    let stdout = child.stdout.take().expect("piped");
    for line in BufReader::new(stdout).lines() {
        let line = line.expect("text");
        if let Some(url) = line.strip_prefix("status") {
            return url.trim().trim_end_matches('/').to_owned();
        }
    }
    let log = fs::read_to_string(folder.join("host.log")).unwrap_or_default();
    panic!("the host exited before it printed its addresses:\n{log}");
}
