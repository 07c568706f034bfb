//! A host in this process, against the embedded API server in this process.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use pilothouse_apiserver::ApiServer;
use pilothouse_controller::{HostOptions, Metrics, PluginHost, PluginStatus};
use pilothouse_plugin::{Engine, EngineOptions};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::wire::{self, Log};

/// How long a test waits for a condition; long enough for a busy machine.
const WAIT_TIMEOUT: Duration = Duration::from_secs(300);

pub(crate) struct Stage {
    server: ApiServer,
    pub(crate) log: Log,
    folder: TempDir,
    host: PluginHost,
    running: JoinHandle<()>,
    shutdown: CancellationToken,
}

impl Stage {
    /// Starts a host that gets notifications of its directory and uses streaming lists, unless `configure` changes its options.
    pub(crate) fn start(configure: impl FnOnce(&mut HostOptions)) -> Self {
        let (server, log) = (ApiServer::builder().build(), Log::default());
        let folder = tempfile::tempdir().expect("a folder");
        let mut options = HostOptions {
            plugins: folder.path().to_owned(),
            api_server: "embedded:1".into(),
            grants: pilothouse_controller::GrantMode::Declared,
            grant_crds: false,
            instance: "test".into(),
            namespace: "default".into(),
            settle: Duration::from_millis(5),
            file_events: true,
            access_review_interval: Duration::from_secs(30),
            informer_runtime: None,
            cache_compression: None,
            streaming_lists: true,
            // Requeueing everything would hide a key that a reload lost.
            requeue_on_reload: false,
            name_request_origins: false,
            environment: Default::default(),
        };
        configure(&mut options);
        let metrics = Metrics::register(&mut Registry::default());
        let engine = Engine::new(EngineOptions::default()).expect("an engine");
        let host = PluginHost::new(options, wire::client(&server, &log), engine, metrics);
        let shutdown = CancellationToken::new();
        let running = tokio::spawn({
            let (host, shutdown) = (host.clone(), shutdown.clone());
            async move { host.run(shutdown).await }
        });
        Self { server, log, folder, host, running, shutdown }
    }

    /// Replaces the plugin's file in one step.
    pub(crate) fn install(&self, wasm: &[u8]) {
        self.put("recorder.wasm", wasm);
    }

    /// Replaces a file of the plugins directory in one step.
    pub(crate) fn put(&self, name: &str, content: &[u8]) {
        let new = self.folder.path().join("new");
        std::fs::write(&new, content).expect("written");
        std::fs::rename(new, self.folder.path().join(name)).expect("renamed");
    }

    pub(crate) fn remove(&self) {
        std::fs::remove_file(self.folder.path().join("recorder.wasm")).expect("removed");
    }

    pub(crate) fn sidecar(&self, text: &str) {
        self.put("recorder.yaml", text.as_bytes());
    }

    pub(crate) fn status(&self) -> Option<PluginStatus> {
        self.host.status().into_iter().next()
    }

    /// Returns the names of all indexes of informer subscribers.
    pub(crate) fn indexes(&self) -> Vec<String> {
        let informers = self.host.informers();
        informers.into_iter().flat_map(|informer| informer.subscribers).flat_map(|one| one.indexes).collect()
    }

    /// Waits until the plugin's status meets the condition.
    pub(crate) async fn until(&self, what: &str, condition: impl Fn(&PluginStatus) -> bool) {
        self.wait(what, || self.status().is_some_and(|status| condition(&status))).await;
    }

    /// Waits until the condition is true.
    pub(crate) async fn wait(&self, what: &str, condition: impl Fn() -> bool) {
        let deadline = Instant::now() + WAIT_TIMEOUT;
        while !condition() {
            assert!(Instant::now() < deadline, "waited in vain for {what}: {:#?}", self.status());
            sleep(Duration::from_millis(2)).await;
        }
    }

    /// Creates an object, and returns its resource version.
    pub(crate) async fn create(&self, name: &str, wish: &str) -> u64 {
        let manifest = json!({
            "metadata": {"name": name, "labels": {"recorded": "yes"}}, "data": {"wish": wish}
        });
        version(&self.send(Method::POST, "", "application/json", &manifest).await)
    }

    /// Changes an object, and returns its resource version.
    pub(crate) async fn change(&self, name: &str, round: u32) -> u64 {
        let patch = json!({"data": {"round": round.to_string()}});
        version(&self.send(Method::PATCH, name, "application/merge-patch+json", &patch).await)
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.send(Method::DELETE, name, "application/json", &json!({})).await;
    }

    async fn send(&self, method: Method, name: &str, content_type: &str, body: &Value) -> Value {
        let path = format!("/api/v1/namespaces/default/configmaps/{name}");
        self.request(method, path.trim_end_matches('/'), content_type, body).await
    }

    /// Sends a request to the server. Panics if it fails.
    pub(crate) async fn request(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Value {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .body(Full::new(Bytes::from(body.to_string())))
            .expect("a request");
        let response = self.server.service().oneshot(request).await.expect("it always answers");
        let status = response.status();
        let body = response.into_body().collect().await.expect("a whole body").to_bytes();
        assert!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).expect("JSON")
    }

    pub(crate) async fn end(self) -> BTreeMap<String, u64> {
        let counters = self.status().expect("a status").counters;
        self.shutdown.cancel();
        self.running.await.expect("it ends by itself");
        counters
    }
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).expect("a version")
}
