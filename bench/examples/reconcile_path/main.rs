//! Reconciles a thousand objects in each of ROUNDS rounds, from a watch event to the end of the reconcile, so that callgrind can count the
//! instructions.
//!
//! Usage: `reconcile_path MODE ROUNDS`. MODE is one of
//!
//! - `off`: the guest does nothing;
//! - a number, the share of the reconciles whose spans are exported to a receiver that drops them: the guest does nothing;
//! - `read`: the guest reads its object from the cache;
//! - `record`: the same, and the reconciles are recorded. Another thread writes the recording.

#[path = "../../benches/guest/pods.rs"]
#[allow(dead_code, reason = "commands for the guest `probe`, which this guest does not have")]
mod pods;
#[path = "../../benches/guest/server.rs"]
mod server;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_controller::recording::{RecordingOptions, SecretMode, WritingTask, start_recording};
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

/// What is counted.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    /// Nothing is traced.
    Off,
    /// This share of the reconciles is traced.
    Traced(f64),
    /// The guest reads its object.
    Read,
    /// The guest reads its object, and the reconciles are recorded.
    Recorded,
}

impl Mode {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "off" => Self::Off,
            "read" => Self::Read,
            "record" => Self::Recorded,
            ratio => Self::Traced(ratio.parse().ok()?),
        })
    }

    /// Returns the path of the guest's text.
    fn guest(self) -> &'static str {
        match self {
            Self::Off | Self::Traced(_) => {
                concat!(env!("CARGO_MANIFEST_DIR"), "/../host/plugin/tests/guests/echo.wat")
            }
            Self::Read | Self::Recorded => {
                concat!(env!("CARGO_MANIFEST_DIR"), "/examples/reconcile_path/get.wat")
            }
        }
    }
}

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
    let usage = "usage: reconcile_path off|RATIO|read|record ROUNDS";
    let mut arguments = std::env::args().skip(1);
    let mode = arguments.next().and_then(|mode| Mode::parse(&mode)).ok_or(usage)?;
    let rounds: usize = arguments.next().and_then(|rounds| rounds.parse().ok()).ok_or(usage)?;
    pilothouse_model::hash::set_seed(1).map_err(|_| "the seed of hash maps is in use".to_owned())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| format!("a runtime: {error}"))?.block_on(reconcile(mode, rounds))
}

async fn reconcile(mode: Mode, rounds: usize) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| format!("a folder: {error}"))?;
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.path().join(name), bytes).map_err(|error| format!("{name}: {error}"))
    };
    // JSON is YAML.
    write("echo.yaml", SIDECAR.as_bytes())?;
    write("echo.wasm", &wat::parse_file(mode.guest()).map_err(|error| error.to_string())?)?;
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
    if let Mode::Traced(ratio) = mode {
        let options = TraceOptions { ratio, slow: Duration::MAX };
        let (tracer, mut spans) = Tracer::new(&options, &metrics, &environment);
        host.set_tracer(tracer);
        tokio::spawn(async move { while spans.recv().await.is_some() {} });
    }
    let recording = tempfile::tempdir().map_err(|error| format!("a folder: {error}"))?;
    let _task = match mode {
        Mode::Recorded => Some(record(&host, recording.path(), &environment, &metrics)?),
        _ => None,
    };
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

/// Records the reconciles of a host in this folder.
fn record(
    host: &PluginHost,
    folder: &Path,
    environment: &Environment,
    metrics: &Metrics,
) -> Result<WritingTask, String> {
    let options = RecordingOptions {
        directory: folder.to_owned(),
        last: RecordingOptions::DEFAULT_LAST,
        secrets: SecretMode::Hashed,
    };
    let started = start_recording(&options, environment, metrics);
    let (recorder, task) = started.map_err(|error| format!("a recording: {error}"))?;
    host.set_recorder_factory(Arc::new(recorder));
    Ok(task)
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
