//! What a faulty plugin costs its neighbour: how long a healthy plugin takes from a change of an object to the end of its reconcile, alone and
//! beside each fault on the same object, on a host with an API server in the same process.
//!
//! `cargo bench --workspace --bench neighbours` prints a table. Each line is a process of its own. Nothing is asserted: that results stay the
//! same, the end-to-end suite of faults shows.

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
/// Not counted: what is compiled, instantiated and connected only once.
const FIRST: usize = 50;
/// Lines that the healthy plugin logs in each reconcile.
const LINES: usize = 2;
const LIMITS: &str = "reconcileTimeout: 300ms, handles: 1000";

/// Faults of `faulty.wat`, with the limits that differ from the others'.
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
    for place in ["$in-describe", "$in-observe", "$in-index"] {
        text = text.replace(place, "$nothing");
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

/// Puts the healthy plugin, and those whose faults are asked for, into a directory.
fn plugins(beside: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let put = |name: &str, wasm: Vec<u8>, limits: &str| {
        std::fs::write(directory.path().join(format!("{name}.yaml")), sidecar(limits)).expect("written");
        std::fs::write(directory.path().join(format!("{name}.wasm")), wasm).expect("written");
    };
    put("healthy", guest("clocks", "$nothing"), "logLinesPerSecond: 1000000");
    for (at, (name, fault, limits)) in FAULTS.iter().enumerate() {
        if beside == *name || beside == "all of them" {
            put(&format!("faulty-{at}"), guest("faulty", fault), &format!("{LIMITS}{limits}"));
        }
    }
    if beside == "sleep" || beside == "all of them" {
        put("outside", guest("outside", ""), LIMITS);
    }
    directory
}

/// The time from each change to the end of the reconcile that it caused, in order of length.
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
        review_every: Duration::from_secs(30),
        informer_runtime: None,
        compress_caches: false,
        streaming_lists: true,
        requeue_on_reload: true,
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
    let mut seen = 0;
    reconciled(&host, &mut seen).await;
    let mut took = Vec::with_capacity(CHANGES);
    for number in 0..FIRST + CHANGES {
        let begun = Instant::now();
        let patch = Patch::Merge(json!({"data": {"number": number.to_string()}}));
        maps.patch("a", &PatchParams::default(), &patch).await.expect("patched");
        reconciled(&host, &mut seen).await;
        if number >= FIRST {
            took.push(begun.elapsed());
        }
    }
    shutdown.cancel();
    running.await.expect("the host ends");
    took.sort_unstable();
    took
}

/// Waits for the healthy plugin's next lines.
async fn reconciled(host: &PluginHost, seen: &mut u64) {
    let mut found = 0;
    while found < LINES {
        host.logs().wait_after(*seen).await;
        for line in host.logs().after(*seen, None) {
            *seen = line.sequence;
            found += usize::from(line.plugin == "healthy");
        }
    }
}

fn median(beside: &str) -> Option<f64> {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    let output = child.env("BESIDE", beside).output().expect("this program again");
    let text = String::from_utf8_lossy(&output.stdout);
    let figures: Vec<f64> = text.split_whitespace().filter_map(|figure| figure.parse().ok()).collect();
    let [median, nearly_all, longest] = figures[..] else {
        println!("{beside:>14} | failed: {}", String::from_utf8_lossy(&output.stderr));
        return None;
    };
    print!("{beside:>14} | {median:>9.0} | {nearly_all:>9.0} | {longest:>9.0}");
    Some(median)
}

fn main() {
    if let Ok(beside) = std::env::var("BESIDE") {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        let took = runtime.block_on(async {
            tokio::spawn(async move { latencies(&beside).await }).await.expect("no panic")
        });
        for at in [took.len() / 2, took.len() * 99 / 100, took.len() - 1] {
            println!("{}", took[at].as_micros());
        }
        return;
    }
    println!("        beside | median µs |    99% µs |    max µs | median, of that alone");
    let Some(alone) = median("nobody") else { return };
    println!(" | 1.00");
    for beside in FAULTS.iter().map(|(name, ..)| *name).chain(["sleep", "all of them"]) {
        if let Some(median) = median(beside) {
            println!(" | {:.2}", median / alone);
        }
    }
}
