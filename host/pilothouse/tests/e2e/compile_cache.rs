//! Plugins are compiled in separate processes, and the result is reused when the host restarts.

use std::cell::Cell;
use std::fs;

use serde_json::Value;

use crate::harness::{Guest, Host, Options, another_version, wait, wat};

/// Returns how often the host has obtained code with this outcome: `cached`, `compiled` or `unfit`.
async fn code_count(host: &Host, outcome: &str) -> u64 {
    let metrics = host.get("/metrics").await.1;
    let start = format!("pilothouse_plugin_code_total{{outcome=\"{outcome}\"}} ");
    let count = metrics.lines().find_map(|line| line.strip_prefix(&start));
    count.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("no {start}in\n{metrics}"))
}

/// Returns the process ids of the host's children.
fn compilers(host: &Host) -> Vec<u32> {
    let path = format!("/proc/{0}/task", host.process());
    let threads = fs::read_dir(path).expect("the host runs");
    let children = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
    children
        .flat_map(|text| text.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// A plugin that takes long to compile. Each time a version is loaded, another one is installed, so that the test eventually sees a
/// running compiler.
struct SlowPlugin<'a> {
    host: &'a Host,
    wasm: Vec<u8>,
    versions: Cell<u8>,
    loads: Cell<u64>,
}

impl SlowPlugin<'_> {
    fn install_next_version(&self) {
        self.versions.set(self.versions.get() + 1);
        self.host.install_plugin("large", &another_version(&self.wasm, self.versions.get()));
    }

    async fn status(&self) -> Value {
        let plugin = self.host.plugin("large").await;
        let loads = plugin["counters"]["loads"].as_u64().unwrap_or_default();
        if loads > self.loads.replace(loads) {
            self.install_next_version();
        }
        plugin
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_host_uses_the_compilation_cache() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { cache: Some(folder.path().join("cache")), ..Options::default() };
    let first = Host::start_with(options.clone()).await;
    first.install_plugin("done", &wat("done"));
    first.wait_for_state("done", "running").await;
    assert_eq!((code_count(&first, "cached").await, code_count(&first, "compiled").await), (0, 1));
    // The cache is keyed by content: the same file under another name is not compiled again.
    first.install_plugin("again", &wat("done"));
    first.wait_for_state("again", "running").await;
    assert_eq!((code_count(&first, "cached").await, code_count(&first, "compiled").await), (1, 1));
    assert!(first.terminate().await.success());

    let entries = fs::read_dir(folder.path().join("cache/compiled")).expect("there");
    let entries: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    let second = Host::start_with(options.clone()).await;
    second.install_plugin("done", &wat("done"));
    second.wait_for_state("done", "running").await;
    assert_eq!((code_count(&second, "cached").await, code_count(&second, "compiled").await), (1, 0));
    assert!(second.terminate().await.success());

    // A truncated cache entry is compiled again.
    let whole = fs::read(&entries[0]).expect("an entry");
    fs::remove_file(&entries[0]).expect("removed");
    fs::write(&entries[0], &whole[..whole.len() / 2]).expect("written");
    let mut permissions = fs::metadata(&entries[0]).expect("there").permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&entries[0], permissions).expect("set");
    let third = Host::start_with(options).await;
    third.install_plugin("done", &wat("done"));
    third.wait_for_state("done", "running").await;
    assert_eq!((code_count(&third, "unfit").await, code_count(&third, "compiled").await), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_compiler_fails_its_plugin_and_no_compiler_outlives_the_host() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { cache: Some(folder.path().join("cache")), ..Options::default() };
    let host = Host::start_with(options).await;
    let wasm = Guest::SampleControllerGo.wasm();
    let slow = SlowPlugin { host: &host, wasm, versions: Cell::new(0), loads: Cell::new(0) };
    slow.install_next_version();
    // Kills every compiler, because the host retries soon and the status shows the error only until then.
    host.wait("the killed compiler in the status", || async {
        compilers(&host).into_iter().for_each(kill);
        let status = slow.status().await;
        status["error"].as_str().is_some_and(|text| text.contains("signal 9")).then_some(())
    })
    .await;
    host.install_plugin("done", &wat("done"));
    host.wait_for_state("done", "running").await;

    slow.install_next_version();
    let compiler = host
        .wait("the next compiler", || async {
            let compiler = compilers(&host).first().copied();
            slow.status().await;
            compiler
        })
        .await;
    assert!(host.terminate().await.success());
    // The compiler may need a moment to notice the end of its input.
    let has_exited = || async { ((!is_running(compiler)).then_some(()), ()) };
    let result = wait(has_exited).await;
    assert!(result.is_ok(), "the compiler {compiler} outlives its host");
}

/// Returns whether a process runs. A zombie, which remains if no process waits for it, does not.
fn is_running(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Sends SIGKILL. Ignores failures, because the process may have exited.
fn kill(process: u32) {
    let kill = std::process::Command::new("kill").args(["-KILL", &process.to_string()]).output();
    kill.expect("kill runs");
}
