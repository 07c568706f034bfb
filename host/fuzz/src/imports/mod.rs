//! The target `imports`: calls every import with any arguments. The plugin `hostile` runs in a whole host, against an API server in this
//! process, and executes a script that is made from the input.
//!
//! Whatever the script does, the call must end within its limits, no task of the host may panic, the plugin must work afterwards, and the
//! error in its status must be a single line.

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

use crate::assert_one_line;

/// How long a script may take. Many times the limits of a call, for slow machines.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A host, its API server and the plugin `hostile`. All inputs share them, as in production: an input meets the effects of previous ones.
struct TestHost {
    runtime: Runtime,
    server: ApiServer,
    host: PluginHost,
    /// The number of inputs so far, so that each has its own object.
    inputs: AtomicU64,
    /// Set by the panic hook. A panic in a task of the host only ends that task, and would go unnoticed.
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

fn test_host() -> &'static TestHost {
    static TEST_HOST: OnceLock<TestHost> = OnceLock::new();
    TEST_HOST.get_or_init(|| {
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
        TestHost { runtime, server, host, inputs: AtomicU64::new(0), panicked, _plugins: plugins }
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
        access_review_interval: Duration::from_secs(30),
        informer_runtime: None,
        cache_compression: None,
        streaming_lists: true,
        requeue_on_reload: true,
        name_request_origins: false,
        environment: Default::default(),
    };
    let server = server.clone();
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let server = server.clone();
        async move { server.service().oneshot(request).await }
    });
    let engine = Engine::new(EngineOptions::default()).expect("an engine");
    let metrics = Metrics::register(&mut Registry::default());
    let host = PluginHost::new(options, kube::Client::new(service, "default"), engine, metrics);
    // It runs until the process ends.
    tokio::spawn({
        let host = host.clone();
        async move { host.run(CancellationToken::new()).await }
    });
    host
}

impl TestHost {
    async fn send(&self, method: Method, name: &str, body: &Value) {
        let request = Request::builder()
            .method(method)
            .uri(format!("/api/v1/namespaces/default/configmaps/{name}").trim_end_matches('/'))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body.to_string())))
            .expect("a request");
        let answer = self.server.service().oneshot(request).await.expect("it always answers");
        // The status does not matter: the script may have changed or deleted the object.
        drop(answer.into_body().collect().await);
    }

    /// Returns a counter of the plugin, 0 before the plugin is loaded.
    fn count(&self, counter: &str) -> u64 {
        let status = self.host.status();
        status.first().and_then(|plugin| plugin.counters.get(counter).copied()).unwrap_or_default()
    }

    /// Waits until the counter exceeds `before` and the plugin's queue is empty.
    async fn wait_for_count(&self, counter: &str, before: u64) {
        let is_idle = || self.host.status().first().is_some_and(|plugin| plugin.queue_depth == 0);
        while self.count(counter) <= before || !is_idle() {
            // The host has no notification for changed counters.
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Creates an object with the script and waits until the plugin has executed it. Then deletes the object and waits until the plugin has
    /// handled the deletion, which shows that it still works.
    async fn execute(&self, script: &Value) {
        let number = self.inputs.fetch_add(1, Ordering::Relaxed);
        let name = format!("fuzz-{number}");
        let manifest = json!({
            "metadata": {"name": name, "labels": {"fuzzed": "yes"}}, "data": {"script": script.to_string()}
        });
        let before = self.count("reconciles");
        self.send(Method::POST, "", &manifest).await;
        self.wait_for_count("reconciles", before).await;
        let before = self.count("succeeded");
        self.send(Method::DELETE, &name, &json!({})).await;
        self.wait_for_count("succeeded", before).await;
    }
}

pub(crate) fn run(input: &[u8]) {
    let test_host = test_host();
    let script = script::script(input);
    let ended = test_host.runtime.block_on(async { timeout(TIMEOUT, test_host.execute(&script)).await });
    assert!(ended.is_ok(), "the script did not end: {script}\n{:#?}", test_host.host.status());
    assert!(!test_host.panicked.load(Ordering::SeqCst), "a task of the host panicked: {script}");
    for plugin in test_host.host.status() {
        assert_ne!(plugin.state.as_str(), "failed", "the plugin failed: {plugin:#?}");
        assert_one_line(&plugin.error);
    }
}
