//! Plugins are compiled in processes of their own, once for all starts of a host.

use std::fs;

use crate::harness::{Guest, Host, Options, another_version, wat};

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

async fn compiler_of(host: &Host) -> u32 {
    host.wait("a compiler process", || async { compilers(host).first().copied() }).await
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
    assert!(first.terminate().success());

    let entries = fs::read_dir(folder.path().join("cache/compiled")).expect("there");
    let entries: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    let second = Host::start_with(options.clone()).await;
    second.drop_in("done", &wat("done"));
    second.wait_for_state("done", "running").await;
    assert_eq!((code_from(&second, "cached").await, code_from(&second, "compiled").await), (1, 0));
    assert!(second.terminate().success());

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
    let large = Guest::SampleControllerGo.wasm();
    host.drop_in("large", &large);
    let compiler = compiler_of(&host).await;
    kill(compiler, "-KILL");
    let died =
        |plugin: &serde_json::Value| plugin["error"].as_str().is_some_and(|text| text.contains("signal 9"));
    host.wait_for_plugin("large", "its compiler's end", died).await;
    host.drop_in("done", &wat("done"));
    host.wait_for_state("done", "running").await;

    host.drop_in("large", &another_version(&large, 1));
    let compiler = host
        .wait("the next compiler", || async { compilers(&host).into_iter().find(|other| *other != compiler) })
        .await;
    assert!(host.terminate().success());
    // It may take the moment that its signal or the end of its input needs.
    for _ in 0..1000 {
        if !is_running(compiler) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("the compiler {compiler} goes on without its host");
}

/// Nobody's child any more, it may be a zombie that no one waits for.
fn is_running(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn kill(process: u32, signal: &str) {
    let sent = std::process::Command::new("kill").args([signal, &process.to_string()]).status();
    assert!(sent.expect("kill runs").success());
}
