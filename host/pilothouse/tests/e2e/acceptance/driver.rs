//! Drives an acceptance plugin: creates scripts and reads their results from the plugin's log.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use serde_json::{Map, Value, json};

use super::language::Implementation;
use super::log::{Line, Log};
use crate::harness::Host;

/// A running plugin and the name of the current case.
#[derive(Clone)]
pub(super) struct Driver {
    shared: Arc<Shared>,
    case: &'static str,
}

struct Shared {
    host: Host,
    log: Log,
    plugin: String,
    scripts: AtomicUsize,
}

fn sidecar(timeout: &str) -> String {
    format!("workers: 2\nlimits: {{reconcileTimeout: {timeout}, describeTimeout: 5m, indexTimeout: 5m}}\n")
}

impl Driver {
    /// Starts the plugin and waits until it runs. The time limit of a call is short until [`raise_time_limit`](Self::raise_time_limit).
    pub(super) async fn start(host: Host, implementation: Implementation) -> Self {
        let plugin = implementation.plugin();
        host.write_sidecar(&plugin, &sidecar("1s"));
        host.install_plugin(&plugin, &implementation.wasm());
        host.wait_for_state(&plugin, "running").await;
        let log = Log::follow(&host.status_url, &plugin);
        let shared = Shared { host, log, plugin, scripts: AtomicUsize::new(0) };
        Self { shared: Arc::new(shared), case: "" }
    }

    /// Raises the time limit, so that a slow call on a busy machine does not cause a second attempt.
    pub(super) async fn raise_time_limit(&self) {
        let Shared { host, plugin, .. } = &*self.shared;
        host.write_sidecar(plugin, &sidecar("5m"));
        host.wait_for_generation(plugin, 2).await;
    }

    pub(super) fn for_case(&self, case: &'static str) -> Self {
        Self { shared: Arc::clone(&self.shared), case }
    }

    pub(super) fn host(&self) -> &Host {
        &self.shared.host
    }

    pub(super) fn plugin(&self) -> &str {
        &self.shared.plugin
    }

    pub(super) fn namespace(&self) -> &str {
        &self.shared.host.server.namespace
    }

    /// Returns a name for an object that is unique to this case.
    pub(super) fn name(&self, suffix: &str) -> String {
        format!("{}-{suffix}", self.case)
    }

    /// Returns `namespace/name`.
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.namespace())
    }

    /// Runs one operation in a new script and returns its value.
    pub(super) async fn run(&self, op: &str, arguments: &[(&str, &str)]) -> String {
        let (script, from) = self.start_script(op, arguments).await;
        self.result(&script, from).await
    }

    /// Creates a script. Returns its name and the position in the log before it.
    pub(super) async fn start_script(&self, op: &str, arguments: &[(&str, &str)]) -> (String, usize) {
        let number = self.shared.scripts.fetch_add(1, Ordering::Relaxed);
        let name = self.name(&format!("script{number}"));
        let from = self.position();
        let mut data: Map<String, Value> = [("op".to_owned(), json!(op))].into_iter().collect();
        data.extend(arguments.iter().map(|(key, value)| ((*key).to_owned(), json!(value))));
        self.create(&name, "acceptance", Value::Object(data)).await;
        (name, from)
    }

    /// Returns the value that a script logged after a position.
    pub(super) async fn result(&self, script: &str, from: usize) -> String {
        let key = self.key(script);
        let condition = format!("the result of {script}");
        let is_result = |line: &Line| line.message == "result" && line.field("key") == Some(&key);
        self.line(from, &condition, is_result).await.field("value").unwrap_or("(no value)").to_owned()
    }

    /// Returns the current position in the plugin's log.
    pub(super) fn position(&self) -> usize {
        self.shared.log.len()
    }

    /// Waits for a line of the plugin's log that satisfies the predicate.
    pub(super) async fn line(&self, from: usize, condition: &str, predicate: impl Fn(&Line) -> bool) -> Line {
        let poll = || async { self.shared.log.find(from, &predicate).into_iter().next() };
        self.shared.host.wait(condition, poll).await
    }

    /// Waits until the host's own log contains a text.
    pub(super) async fn wait_for_host_log(&self, text: &str) {
        let poll = || async { self.shared.host.log().contains(text).then_some(()) };
        self.shared.host.wait(&format!("{text:?} in the log"), poll).await;
    }

    /// Creates an item. `data` is the whole data of the ConfigMap.
    pub(super) async fn create_item(&self, suffix: &str, data: Value) -> String {
        let name = self.name(suffix);
        self.create(&name, "acceptance-item", data).await;
        name
    }

    /// Creates items and waits until the plugin's cache contains the last of them.
    pub(super) async fn create_cached_items(&self, items: &[(&str, Value)]) -> Vec<String> {
        let mut names = Vec::new();
        for (suffix, data) in items {
            names.push(self.create_item(suffix, data.clone()).await);
        }
        if let Some(last) = names.last() {
            self.wait_until_cached("items", last).await;
        }
        names
    }

    /// Waits until the plugin's cache contains an object of the test's namespace.
    pub(super) async fn wait_until_cached(&self, watch: &str, name: &str) {
        let arguments = [("a", watch), ("b", self.namespace()), ("c", name), ("d", "/metadata/name")];
        // Repeats the query, because the watches are independent: the script may arrive before the item.
        self.run_until(&format!("{name} in the watch {watch}"), "get", &arguments, |found| found == name)
            .await;
    }

    /// Repeats an operation, in a new script each time, until its value satisfies the predicate.
    pub(super) async fn run_until(
        &self,
        condition: &str,
        op: &str,
        arguments: &[(&str, &str)],
        predicate: impl Fn(&str) -> bool,
    ) -> String {
        let poll = || async { Some(self.run(op, arguments).await).filter(|found| predicate(found)) };
        self.shared.host.wait(condition, poll).await
    }

    async fn create(&self, name: &str, label: &str, data: Value) {
        let manifest =
            json!({"metadata": {"name": name, "labels": {"test": label, "tier": self.case}}, "data": data});
        let map: ConfigMap = serde_json::from_value(manifest).expect("a config map");
        self.shared.host.server.config_maps().create(&PostParams::default(), &map).await.expect("created");
    }

    /// Makes the API server respond to the next matching request with a fault.
    pub(super) async fn inject_fault(&self, fault: Value) {
        let request = http::Request::post("/debug/faults")
            .body(serde_json::to_vec(&fault).expect("JSON"))
            .expect("a request");
        let response = self.shared.host.server.client.request_text(request).await;
        response.unwrap_or_else(|error| panic!("the server rejects the fault {fault}: {error}"));
    }
}

/// Errors unless both texts are equal. `subject` names what is compared.
pub(super) fn expect(subject: &str, actual: &str, expected: &str) -> Result<(), String> {
    if actual == expected {
        Ok(())
    } else {
        Err(format!("{subject}: expected {expected:?}, found {actual:?}"))
    }
}
