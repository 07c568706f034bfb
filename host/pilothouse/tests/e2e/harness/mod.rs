//! A running host in a folder of its own.

mod api_server;
mod guests;
mod kubectl;
mod leftovers;
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
pub(crate) use server::{Server, send};

/// How long a test waits for one thing to come true before it fails: longer than the host waits for a compiler, which takes minutes for a
/// plugin in Python on a busy machine.
const PATIENCE: Duration = Duration::from_secs(900);

/// A running `pilothouse dev`, or `pilothouse run` against the server that the tests were given.
pub(crate) struct Host {
    child: Child,
    folder: TempDir,
    /// The API server behind it.
    pub(crate) server: Server,
    /// The status surface, without a slash at the end.
    pub(crate) status_url: String,
    /// Keeps tests on one external server apart; they would reconcile each other's objects.
    _alone: Option<MutexGuard<'static, ()>>,
}

/// How a host is started.
#[derive(Clone, Default)]
pub(crate) struct Options {
    /// The test's own API server to run against, instead of an embedded one or the external one.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Where the host has not the rights that the test needs: what the test itself asks that server with.
    pub(crate) admin: Option<PathBuf>,
    /// Flags for the host alone.
    pub(crate) flags: Vec<&'static str>,
    /// Switches the requeue-everything of a reload off, so that a lost key cannot hide behind it.
    pub(crate) no_requeue_on_reload: bool,
    /// Lets the test inject faults into the embedded server.
    pub(crate) test_faults: bool,
    /// A cache of compiled plugins of the test's own, instead of the one that all tests share.
    pub(crate) cache: Option<PathBuf>,
}

/// Where the tests' hosts keep compiled plugins: each guest is compiled once, not once for each test.
const CACHE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/compiled");

/// The binary under test.
pub(crate) fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pilothouse"));
    // A developer's own settings must not decide a test.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PILOTHOUSE_"))
    {
        command.env_remove(name);
    }
    command.env_remove("KUBECONFIG").stdin(Stdio::null());
    command
}

impl Host {
    /// A host with its own embedded server, or on the external one.
    pub(crate) async fn start() -> Self {
        Self::start_with(Options::default()).await
    }

    pub(crate) async fn start_with(options: Options) -> Self {
        let is_external = options.kubeconfig.is_none() && Server::external_kubeconfig().is_some();
        let alone = match is_external {
            true => Some(server::ALONE.lock().await),
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
                    command.arg("--test-faults");
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
        command.args(&options.flags);
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().expect("the host starts");
        let status_url = status_url(&mut child, folder.path());
        let server = Server::new(options.admin.unwrap_or(kubeconfig), is_external).await;
        Self { child, folder, server, status_url, _alone: alone }
    }

    /// The plugins directory.
    pub(crate) fn plugins(&self) -> PathBuf {
        self.folder.path().join("plugins")
    }

    /// The host's process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Puts a plugin in place as a careful person does: whole, by a rename.
    pub(crate) fn drop_in(&self, name: &str, wasm: &[u8]) {
        let partial = self.plugins().join(format!(".{name}.incoming"));
        fs::write(&partial, wasm).expect("written");
        fs::rename(&partial, self.plugins().join(format!("{name}.wasm"))).expect("renamed");
    }

    /// Puts a sidecar in place, whole. Before its plugin, or the plugin loads twice.
    pub(crate) fn sidecar(&self, name: &str, text: &str) {
        let partial = self.plugins().join(format!(".{name}.yaml.incoming"));
        fs::write(&partial, text).expect("written");
        fs::rename(&partial, self.plugins().join(format!("{name}.yaml"))).expect("renamed");
    }

    /// The plugin's entry in `/api/plugins`, null when it has none.
    pub(crate) async fn plugin(&self, name: &str) -> Value {
        let answer: Value = serde_json::from_str(&self.get("/api/plugins").await.1).expect("JSON");
        let plugins = answer["plugins"].as_array().cloned().expect("a list");
        plugins.into_iter().find(|plugin| plugin["name"] == name).unwrap_or_default()
    }

    /// Waits until the plugin is in the state.
    pub(crate) async fn wait_for_state(&self, name: &str, state: &str) -> Value {
        self.wait_for_plugin(name, state, |plugin| plugin["state"] == state).await
    }

    /// Waits until the plugin runs in that generation.
    pub(crate) async fn wait_for_generation(&self, name: &str, generation: u64) -> Value {
        let what = format!("generation {generation}");
        self.wait_for_plugin(name, &what, |plugin| {
            plugin["state"] == "running" && plugin["generation"] == generation
        })
        .await
    }

    /// Waits until the plugin's entry is as wanted.
    pub(crate) async fn wait_for_plugin(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let mut last = Value::Null;
        let found = wait(|| async {
            let plugin = self.plugin(name).await;
            let there = wanted(&plugin);
            (there.then(|| plugin.clone()), plugin)
        })
        .await;
        match found {
            Ok(plugin) => plugin,
            Err(seen) => {
                last.clone_from(&seen);
                panic!("{name} never got to {what}: {last:#}\n{}", self.log_tail())
            }
        }
    }

    /// Waits until `look` finds something on the server.
    pub(crate) async fn wait<T, F>(&self, what: &str, mut look: impl FnMut() -> F) -> T
    where
        F: Future<Output = Option<T>>,
    {
        match wait(|| {
            let looking = look();
            async { (looking.await, ()) }
        })
        .await
        {
            Ok(found) => found,
            Err(()) => panic!("waited in vain for {what}\n{}", self.log_tail()),
        }
    }

    /// Waits until the cache behind all watches of this URL path has that version. Watches bring what they see each at its
    /// own time: an object of one may be reconciled before another, made earlier, is there.
    pub(crate) async fn wait_until_cached(&self, path: &str, version: &str) {
        let number = |text: &str| text.parse::<u64>().ok();
        let wanted = number(version).expect("a number");
        self.wait(&format!("version {version} of {path} in the cache"), || async {
            let dump: Value = serde_json::from_str(&self.get("/debug/informers").await.1).expect("JSON");
            let informer = dump["informers"].as_array()?.iter().find(|informer| informer["path"] == path)?;
            (number(informer["store"]["resourceVersion"].as_str()?)? >= wanted).then_some(())
        })
        .await;
    }

    /// GET from the status surface: the HTTP status and the body.
    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        server::get(&format!("{}{path}", self.status_url)).await
    }

    /// The messages in the plugin's log so far, the host's own about it included.
    pub(crate) async fn said(&self, plugin: &str) -> Vec<String> {
        let (status, lines) = self.get(&format!("/api/logs?plugin={plugin}")).await;
        if status != 200 {
            // There is no such plugin yet.
            return Vec::new();
        }
        let message = |line: &str| {
            let line: Value = serde_json::from_str(line).expect("JSON");
            line["message"].as_str().expect("text").to_owned()
        };
        lines.lines().map(message).collect()
    }

    /// Waits until the plugin has said the message so many times.
    pub(crate) async fn wait_until_said(&self, plugin: &str, message: &str, times: usize) {
        self.wait(&format!("{plugin} to say {message:?} {times} times"), || async {
            let said = self.said(plugin).await;
            (said.iter().filter(|said| *said == message).count() >= times).then_some(())
        })
        .await;
    }

    /// Everything that the host has logged so far.
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

    /// Bytes of memory that the host's process has resident, where the system tells.
    pub(crate) fn resident_memory(&self) -> Option<usize> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_whitespace().next()?.parse::<usize>().ok().map(|kilobytes| kilobytes << 10)
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) async fn terminate(mut self) -> ExitStatus {
        let sent = Command::new("kill").arg(self.child.id().to_string()).status().expect("kill runs");
        assert!(sent.success());
        let ended = wait(|| {
            let ended = self.child.try_wait().expect("its state is known");
            async move { (ended, ()) }
        });
        match ended.await {
            Ok(status) => status,
            Err(()) => panic!("the host does not end\n{}", self.log_tail()),
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Says it whether or not the test passes: only what the print macros write is kept back from a test that does.
fn say_loudly(message: &str) {
    let _ = io::stderr().write_all(format!("\n!!! {message}\n\n").as_bytes());
}

/// Looks again and again until something is found; else what was seen last.
pub(crate) async fn wait<T, S, F>(mut look: impl FnMut() -> F) -> Result<T, S>
where
    F: Future<Output = (Option<T>, S)>,
{
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let (found, seen) = look().await;
        if let Some(found) = found {
            return Ok(found);
        }
        if tokio::time::Instant::now() > deadline {
            return Err(seen);
        }
        // Another process has no clock that a test could move.
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

/// Reads what the host prints until it has said where its status surface is.
fn status_url(child: &mut Child, folder: &Path) -> String {
    let stdout = child.stdout.take().expect("piped");
    for line in BufReader::new(stdout).lines() {
        let line = line.expect("text");
        if let Some(url) = line.strip_prefix("status") {
            return url.trim().trim_end_matches('/').to_owned();
        }
    }
    let log = fs::read_to_string(folder.join("host.log")).unwrap_or_default();
    panic!("the host ended before it said where it listens:\n{log}");
}
