//! Plugins are compiled in processes of their own, once for all starts of a host.

use std::cell::Cell;
use std::fs;

use serde_json::Value;

use crate::harness::{Guest, Host, Options, another_version, wait, wat};

async fn code_from(host: &Host, outcome: &str) -> u64 {
    let metrics = host.get("/metrics").await.1;
    let start = format!("pilothouse_plugin_code_total{{outcome=\"{outcome}\"}} ");
    let count = metrics.lines().find_map(|line| line.strip_prefix(&start));
    count.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("no {start}in\n{metrics}"))
}

/// The processes that the host has started.
fn compilers(host: &Host) -> Vec<u32> {
    let path = format!("/proc/{0}/task", host.process());
    let threads = fs::read_dir(path).expect("the host runs");
    let children = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
    children
        .flat_map(|text| text.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// A plugin that takes long to compile, again and again as another version: a compiler that the test is too slow to see is followed by the next.
struct Large<'a> {
    host: &'a Host,
    wasm: Vec<u8>,
    versions: Cell<u8>,
    loads: Cell<u64>,
}

impl Large<'_> {
    fn drop_in(&self) {
        self.versions.set(self.versions.get() + 1);
        self.host.drop_in("large", &another_version(&self.wasm, self.versions.get()));
    }

    async fn status(&self) -> Value {
        let plugin = self.host.plugin("large").await;
        let loads = plugin["counters"]["loads"].as_u64().unwrap_or_default();
        if loads > self.loads.replace(loads) {
            self.drop_in();
        }
        plugin
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_starts_again_compiles_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { cache: Some(folder.path().join("cache")), ..Options::default() };
    let first = Host::start_with(options.clone()).await;
    first.drop_in("done", &wat("done"));
    first.wait_for_state("done", "running").await;
    assert_eq!((code_from(&first, "cached").await, code_from(&first, "compiled").await), (0, 1));
    // The same code under another name is the same code.
    first.drop_in("again", &wat("done"));
    first.wait_for_state("again", "running").await;
    assert_eq!((code_from(&first, "cached").await, code_from(&first, "compiled").await), (1, 1));
    assert!(first.terminate().await.success());

    let entries = fs::read_dir(folder.path().join("cache/compiled")).expect("there");
    let entries: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    let second = Host::start_with(options.clone()).await;
    second.drop_in("done", &wat("done"));
    second.wait_for_state("done", "running").await;
    assert_eq!((code_from(&second, "cached").await, code_from(&second, "compiled").await), (1, 0));
    assert!(second.terminate().await.success());

    // Cut in the middle, as by a full disk of another tool.
    let whole = fs::read(&entries[0]).expect("an entry");
    fs::remove_file(&entries[0]).expect("removed");
    fs::write(&entries[0], &whole[..whole.len() / 2]).expect("written");
    let mut permissions = fs::metadata(&entries[0]).expect("there").permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&entries[0], permissions).expect("set");
    let third = Host::start_with(options).await;
    third.drop_in("done", &wat("done"));
    third.wait_for_state("done", "running").await;
    assert_eq!((code_from(&third, "unfit").await, code_from(&third, "compiled").await), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compiler_that_dies_fails_its_plugin_and_none_outlives_the_host() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { cache: Some(folder.path().join("cache")), ..Options::default() };
    let host = Host::start_with(options).await;
    let wasm = Guest::SampleControllerGo.wasm();
    let large = Large { host: &host, wasm, versions: Cell::new(0), loads: Cell::new(0) };
    large.drop_in();
    // Each of them: the host tries again soon, and the test must not miss what the status says until then.
    host.wait("its compiler's end in the status", || async {
        compilers(&host).into_iter().for_each(kill);
        let status = large.status().await;
        status["error"].as_str().is_some_and(|text| text.contains("signal 9")).then_some(())
    })
    .await;
    host.drop_in("done", &wat("done"));
    host.wait_for_state("done", "running").await;

    large.drop_in();
    let compiler = host
        .wait("the next compiler", || async {
            let compiler = compilers(&host).first().copied();
            large.status().await;
            compiler
        })
        .await;
    assert!(host.terminate().await.success());
    // It may take the moment that its signal or the end of its input needs.
    let gone = || async { ((!is_running(compiler)).then_some(()), ()) };
    let gone = wait(gone).await;
    assert!(gone.is_ok(), "the compiler {compiler} goes on without its host");
}

/// Nobody's child any more, it may be a zombie that no one waits for.
fn is_running(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// It may have ended by itself.
fn kill(process: u32) {
    let kill = std::process::Command::new("kill").args(["-KILL", &process.to_string()]).output();
    kill.expect("kill runs");
}
