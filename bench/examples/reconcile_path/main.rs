//! Reconciles a thousand objects in each of ROUNDS rounds, from a watch event to the end of the reconcile, so that callgrind can count the
//! instructions. The guest does nothing.
//!
//! Usage: `reconcile_path TRACING ROUNDS`. TRACING is `off`, or the share of the reconciles whose spans are exported. The receiver of the spans
//! drops them.

#[path = "../../benches/guest/pods.rs"]
#[allow(dead_code, reason = "commands for the guest `probe`, which this guest does not have")]
mod pods;
#[path = "../../benches/guest/server.rs"]
mod server;

use std::process::ExitCode;
use std::time::Duration;

use pilothouse_controller::{Environment, GrantMode, HostOptions, Metrics, PluginHost, TraceOptions, Tracer};
use pilothouse_plugin::{Engine, EngineOptions};
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

const OBJECTS: usize = 1000;
/// Objects with which each round begins, and one that it ends with.
const IN_LIST: usize = OBJECTS + pods::COMMAND_OBJECTS;
const IN_ROUND: usize = OBJECTS + 1;
/// How often the count of reconciles is read. Rare, so that reading it is no part of what is counted.
const POLL: Duration = Duration::from_millis(500);
/// The guest reconciles these objects.
const SIDECAR: &str = r#"{"workers": 1, "config": {"apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "name": "echo", "version": "1.0.0",
    "watches": [{"name": "pods", "apiVersion": "v1", "kind": "Pod", "trigger": "self"}]}}"#;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let usage = "usage: reconcile_path off|RATIO ROUNDS";
    let mut arguments = std::env::args().skip(1);
    let ratio = match arguments.next().ok_or(usage)?.as_str() {
        "off" => None,
        ratio => Some(ratio.parse::<f64>().map_err(|_| usage)?),
    };
    let rounds: usize = arguments.next().and_then(|rounds| rounds.parse().ok()).ok_or(usage)?;
    pilothouse_model::hash::set_seed(1).map_err(|_| "the seed of hash maps is in use".to_owned())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| format!("a runtime: {error}"))?.block_on(reconcile(ratio, rounds))
}

async fn reconcile(ratio: Option<f64>, rounds: usize) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| format!("a folder: {error}"))?;
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.path().join(name), bytes).map_err(|error| format!("{name}: {error}"))
    };
    let guest = concat!(env!("CARGO_MANIFEST_DIR"), "/../host/plugin/tests/guests/echo.wat");
    // JSON is YAML.
    write("echo.yaml", SIDECAR.as_bytes())?;
    write("echo.wasm", &wat::parse_file(guest).map_err(|error| error.to_string())?)?;
    let environment = Environment::default();
    let options = HostOptions {
        plugins: folder.path().to_owned(),
        api_server: "in-process".into(),
        grant_crds: false,
        grants: GrantMode::Declared,
        instance: "bench".into(),
        settle: Duration::from_millis(50),
        access_review_interval: Duration::from_secs(3600),
        requeue_on_reload: true,
        name_request_origins: false,
        environment: environment.clone(),
        file_events: true,
        informer_runtime: None,
        cache_compression: None,
        streaming_lists: true,
        namespace: "default".into(),
    };
    let engine = Engine::new(EngineOptions::default()).map_err(|error| error.to_string())?;
    let (client, feed) = server::client(&pods::list(OBJECTS));
    let metrics = Metrics::register(&mut Registry::default());
    let host = PluginHost::new(options, client, engine, metrics.clone());
    if let Some(ratio) = ratio {
        let options = TraceOptions { ratio, slow: Duration::MAX };
        let (tracer, mut spans) = Tracer::new(&options, &metrics, &environment);
        host.set_tracer(tracer);
        tokio::spawn(async move { while spans.recv().await.is_some() {} });
    }
    let running = host.clone();
    tokio::spawn(async move { running.run(CancellationToken::new()).await });
    wait_for(&host, IN_LIST).await;
    for round in 1..=rounds {
        for chunk in pods::round(OBJECTS) {
            feed.send(chunk).map_err(|_| "the watch has ended".to_owned())?;
        }
        wait_for(&host, IN_LIST + round * IN_ROUND).await;
    }
    Ok(())
}

/// Waits until the plugin has ended this number of reconciles.
async fn wait_for(host: &PluginHost, reconciles: usize) {
    let ended = || {
        let status = host.status();
        status.first().and_then(|plugin| plugin.counters.get("reconciles").copied()).unwrap_or_default()
    };
    while ended() < reconciles as u64 {
        tokio::time::sleep(POLL).await;
    }
}
