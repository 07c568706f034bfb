//! Every import with any arguments: the plugin `hostile` runs in a whole host, against an API server in this process, and does what a script
//! made of the input says.
//!
//! Whatever the script does, the call ends within its limits, no task of the host panics, the plugin works again afterwards, and what its
//! status says is one line.

mod script;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use pilothouse_apiserver::ApiServer;
use pilothouse_controller::{GrantMode, HostOptions, Metrics, PluginHost};
use pilothouse_plugin::{Engine, EngineOptions};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::is_one_line;

/// Many times the limits of a call, for a slow machine: a script that does not end by then does not end.
const PATIENCE: Duration = Duration::from_secs(60);

/// One host for all inputs, as in production: what one input leaves behind, the next ones meet.
struct Stage {
    runtime: Runtime,
    server: ApiServer,
    host: PluginHost,
    /// Counts the inputs, so that each has an object of its own.
    inputs: AtomicU64,
    /// Set by the panic hook. A panic in a task of the host ends that task only, and would go unnoticed.
    panicked: Arc<AtomicBool>,
    _plugins: TempDir,
}

fn guest() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/target/guests/hostile.wasm");
    std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; run `cargo xtask build-guests hostile`", path.display()))
}

fn sidecar() -> String {
    let descriptor = json!({
        "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin",
        "watches": [{
            "name": "maps", "apiVersion": "v1", "kind": "ConfigMap", "labelSelector": "fuzzed=yes", "trigger": "self",
            "indexes": [{"name": "own", "label": "fuzzed"}]
        }],
        "writes": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "namespaces": ["default"]}]
    });
    let limits = json!({
        "memory": "32Mi", "reconcileTimeout": "2s", "clientQps": 1_000_000, "logLinesPerSecond": 1_000_000,
        "hostMemory": "16Mi"
    });
    json!({"config": {"descriptor": descriptor}, "limits": limits}).to_string()
}

fn stage() -> &'static Stage {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    STAGE.get_or_init(|| {
        let panicked = Arc::new(AtomicBool::new(false));
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new({
            let panicked = Arc::clone(&panicked);
            move |info| {
                panicked.store(true, Ordering::SeqCst);
                before(info);
            }
        }));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let plugins = tempfile::tempdir().expect("a folder");
        std::fs::write(plugins.path().join("hostile.yaml"), sidecar()).expect("written");
        std::fs::write(plugins.path().join("hostile.wasm"), guest()).expect("written");
        let server = ApiServer::builder().build();
        let host = runtime.block_on(async { start(&server, plugins.path()) });
        Stage { runtime, server, host, inputs: AtomicU64::new(0), panicked, _plugins: plugins }
    })
}

fn start(server: &ApiServer, plugins: &Path) -> PluginHost {
    let options = HostOptions {
        plugins: plugins.to_owned(),
        api_server: "embedded:1".into(),
        grant_crds: false,
        grants: GrantMode::Declared,
        instance: "fuzz".into(),
        namespace: "default".into(),
        settle: Duration::from_millis(5),
        file_events: false,
        review_every: Duration::from_secs(30),
        informer_runtime: None,
        compress_caches: false,
        streaming_lists: true,
        requeue_on_reload: true,
    };
    let server = server.clone();
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let server = server.clone();
        async move { server.service().oneshot(request).await }
    });
    let engine = Engine::new(EngineOptions::default()).expect("an engine");
    let metrics = Metrics::register(&mut Registry::default());
    let host = PluginHost::new(options, kube::Client::new(service, "default"), engine, metrics);
    // It runs for as long as the process.
    tokio::spawn({
        let host = host.clone();
        async move { host.run(CancellationToken::new()).await }
    });
    host
}

impl Stage {
    async fn send(&self, method: Method, name: &str, body: &Value) {
        let request = Request::builder()
            .method(method)
            .uri(format!("/api/v1/namespaces/default/configmaps/{name}").trim_end_matches('/'))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body.to_string())))
            .expect("a request");
        let answer = self.server.service().oneshot(request).await.expect("it always answers");
        // The script may have deleted the object, or changed it.
        drop(answer.into_body().collect().await);
    }

    /// A counter of the plugin; 0 before it is there.
    fn count(&self, counter: &str) -> u64 {
        let status = self.host.status();
        status.first().and_then(|plugin| plugin.counters.get(counter).copied()).unwrap_or_default()
    }

    /// Waits until the plugin has counted more than before, and has nothing queued.
    async fn counted(&self, counter: &str, before: u64) {
        let is_idle = || self.host.status().first().is_some_and(|plugin| plugin.queue_depth == 0);
        while self.count(counter) <= before || !is_idle() {
            // The host tells nobody of its counters.
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Gives the plugin its object and waits until it has been through the script, then takes the object away and waits until the plugin
    /// has done that work, too: it works again, whatever the script did.
    async fn perform(&self, script: &Value) {
        let number = self.inputs.fetch_add(1, Ordering::Relaxed);
        let name = format!("fuzz-{number}");
        let manifest = json!({
            "metadata": {"name": name, "labels": {"fuzzed": "yes"}}, "data": {"script": script.to_string()}
        });
        let before = self.count("reconciles");
        self.send(Method::POST, "", &manifest).await;
        self.counted("reconciles", before).await;
        let before = self.count("succeeded");
        self.send(Method::DELETE, &name, &json!({})).await;
        self.counted("succeeded", before).await;
    }
}

pub(crate) fn run(input: &[u8]) {
    let stage = stage();
    let script = script::script(input);
    let ended = stage.runtime.block_on(async { timeout(PATIENCE, stage.perform(&script)).await });
    assert!(ended.is_ok(), "the script did not end: {script}\n{:#?}", stage.host.status());
    assert!(!stage.panicked.load(Ordering::SeqCst), "a task of the host panicked: {script}");
    for plugin in stage.host.status() {
        assert_ne!(plugin.state.as_str(), "failed", "the plugin failed: {plugin:#?}");
        is_one_line(&plugin.error);
    }
}
