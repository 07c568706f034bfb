//! Measures what a faulty plugin costs its neighbours: the time of a healthy plugin from a change of an object to the end of its reconcile,
//! alone and beside each fault on the same object, on a host with an API server in the same process.
//!
//! `cargo bench --workspace --bench neighbours` prints a table. Each line is measured in its own process. Nothing is asserted: the end-to-end
//! suite of faults tests that results stay correct.

use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};
use pilothouse_apiserver::ApiServer;
use pilothouse_controller::{HostOptions, Metrics, PluginHost};
use pilothouse_plugin::{Engine, EngineOptions};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const CHANGES: usize = 500;
/// Changes before the measurement, while code is compiled and instantiated and connections are opened.
const WARM_UP: usize = 50;
/// Lines that the healthy plugin logs in each reconcile.
const LINES: usize = 2;
const LIMITS: &str = "reconcileTimeout: 300ms, handles: 1000";

/// The name of each fault, its function in `faulty.wat`, and limits in addition to [`LIMITS`].
const FAULTS: [(&str, &str, &str); 13] = [
    ("trap", "$traps", ""),
    ("loop", "$loops", ""),
    ("memory", "$grows-memory", ""),
    ("recursion", "$recurses", ""),
    ("handles", "$leaks-handles", ""),
    ("table", "$grows-table", ""),
    ("100 MB out", "$says-too-much", ", memory: 256Mi"),
    ("100 MB in", "$asks-too-much", ", memory: 256Mi"),
    ("log flood", "$floods-log", ""),
    ("metric flood", "$floods-metrics", ""),
    ("event flood", "$floods-events", ""),
    ("cache storm", "$storms-cache", ""),
    ("client storm", "$storms-client", ""),
];

fn guest(name: &str, fault: &str) -> Vec<u8> {
    let path = format!("{}/../host/plugin/tests/guests/{name}.wat", env!("CARGO_MANIFEST_DIR"));
    let mut text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text = text.replace("$in-reconcile", fault);
    for placeholder in ["$in-describe", "$in-observe", "$in-index"] {
        text = text.replace(placeholder, "$nothing");
    }
    wat::parse_str(text).expect("a module")
}

fn sidecar(limits: &str) -> String {
    let descriptor: Value = json!({
        "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin",
        "watches": [{"name": "maps", "apiVersion": "v1", "kind": "ConfigMap", "trigger": "self"}],
        "writes": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}],
    });
    format!("limits: {{{limits}}}\nconfig: {descriptor}\n")
}

/// Writes the healthy plugin and the selected faulty ones to a directory.
fn plugins(beside: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, wasm: Vec<u8>, limits: &str| {
        std::fs::write(directory.path().join(format!("{name}.yaml")), sidecar(limits)).expect("written");
        std::fs::write(directory.path().join(format!("{name}.wasm")), wasm).expect("written");
    };
    write("healthy", guest("clocks", "$nothing"), "logLinesPerSecond: 1000000");
    for (at, (name, fault, limits)) in FAULTS.iter().enumerate() {
        if beside == *name || beside == "all of them" {
            write(&format!("faulty-{at}"), guest("faulty", fault), &format!("{LIMITS}{limits}"));
        }
    }
    if beside == "sleep" || beside == "all of them" {
        write("outside", guest("outside", ""), LIMITS);
    }
    directory
}

/// Returns the times from each change to the end of its reconcile, sorted.
async fn latencies(beside: &str) -> Vec<Duration> {
    let directory = plugins(beside);
    let client = kube::Client::new(ApiServer::builder().build().service(), "default");
    let options = HostOptions {
        plugins: directory.path().to_owned(),
        api_server: "in-process".into(),
        grant_crds: false,
        grants: pilothouse_controller::GrantMode::Declared,
        instance: "bench".into(),
        settle: Duration::from_millis(50),
        access_review_interval: Duration::from_secs(30),
        informer_runtime: None,
        cache_compression: None,
        streaming_lists: true,
        requeue_on_reload: true,
        name_request_origins: false,
        environment: Default::default(),
        file_events: true,
        namespace: "default".into(),
    };
    let engine = Engine::new(EngineOptions::default()).expect("an engine");
    let host = PluginHost::new(options, client.clone(), engine, Metrics::register(&mut Registry::default()));
    let shutdown = CancellationToken::new();
    let running = tokio::spawn({
        let (host, shutdown) = (host.clone(), shutdown.clone());
        async move { host.run(shutdown).await }
    });
    while !host.is_ready() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "a"}})).expect("a map");
    maps.create(&PostParams::default(), &map).await.expect("created");
    let mut last_line = 0;
    wait_for_reconcile(&host, &mut last_line).await;
    let mut latencies = Vec::with_capacity(CHANGES);
    for number in 0..WARM_UP + CHANGES {
        let begun = Instant::now();
        let patch = Patch::Merge(json!({"data": {"number": number.to_string()}}));
        maps.patch("a", &PatchParams::default(), &patch).await.expect("patched");
        wait_for_reconcile(&host, &mut last_line).await;
        if number >= WARM_UP {
            latencies.push(begun.elapsed());
        }
    }
    shutdown.cancel();
    running.await.expect("the host ends");
    latencies.sort_unstable();
    latencies
}

/// Waits for the lines that the healthy plugin logs in one reconcile. `last_line` is the number of the last line that was read.
async fn wait_for_reconcile(host: &PluginHost, last_line: &mut u64) {
    let mut found = 0;
    while found < LINES {
        host.logs().wait_after(*last_line).await;
        for line in host.logs().after(*last_line, None) {
            *last_line = line.sequence;
            found += usize::from(line.plugin == "healthy");
        }
    }
}

/// Measures in a child process, prints the figures and returns the median in microseconds.
fn median(beside: &str) -> Option<f64> {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    let output = child.env("BESIDE", beside).output().expect("this program again");
    let text = String::from_utf8_lossy(&output.stdout);
    let figures: Vec<f64> = text.split_whitespace().filter_map(|figure| figure.parse().ok()).collect();
    let [median, p99, max] = figures[..] else {
        println!("{beside:>14} | failed: {}", String::from_utf8_lossy(&output.stderr));
        return None;
    };
    print!("{beside:>14} | {median:>9.0} | {p99:>9.0} | {max:>9.0}");
    Some(median)
}

fn main() {
    if let Ok(beside) = std::env::var("BESIDE") {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        let latencies = runtime.block_on(async {
            tokio::spawn(async move { latencies(&beside).await }).await.expect("no panic")
        });
        for at in [latencies.len() / 2, latencies.len() * 99 / 100, latencies.len() - 1] {
            println!("{}", latencies[at].as_micros());
        }
        return;
    }
    println!("        beside | median µs |    p99 µs |    max µs | median, relative to alone");
    let Some(alone) = median("nobody") else { return };
    println!(" | 1.00");
    for beside in FAULTS.iter().map(|(name, ..)| *name).chain(["sleep", "all of them"]) {
        if let Some(median) = median(beside) {
            println!(" | {:.2}", median / alone);
        }
    }
}
