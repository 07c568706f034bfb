//! Drives one acceptance plugin: makes scripts, and reads what came of them from the plugin's log.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use serde_json::{Map, Value, json};

use super::language::Language;
use super::log::{Line, Log};
use crate::harness::Host;

/// A running plugin, and the name of the case that uses it now.
#[derive(Clone)]
pub(super) struct Driver {
    shared: Arc<Shared>,
    case: &'static str,
}

struct Shared {
    host: Host,
    log: Log,
    plugin: String,
    memory: Option<&'static str>,
    scripts: AtomicUsize,
}

fn sidecar(memory: Option<&str>, timeout: &str) -> String {
    let memory = memory.map(|memory| format!(", memory: {memory}")).unwrap_or_default();
    format!(
        "workers: 2\nlimits: {{reconcileTimeout: {timeout}, describeTimeout: 5m, indexTimeout: 5m{memory}}}\n"
    )
}

impl Driver {
    /// Starts the language's plugin and waits until it runs. It has little time for each call, until [`take_time`](Self::take_time).
    pub(super) async fn start(host: Host, language: &Language) -> Self {
        let plugin = language.plugin();
        host.sidecar(&plugin, &sidecar(language.memory, "1s"));
        host.drop_in(&plugin, &language.wasm());
        host.wait_for_state(&plugin, "running").await;
        let log = Log::follow(&host.status_url, &plugin);
        let shared = Shared { host, log, plugin, memory: language.memory, scripts: AtomicUsize::new(0) };
        Self { shared: Arc::new(shared), case: "" }
    }

    /// Gives calls the time that they may need on a busy machine: a case that expects a first attempt must not find a second.
    pub(super) async fn take_time(&self) {
        let Shared { host, plugin, memory, .. } = &*self.shared;
        host.sidecar(plugin, &sidecar(*memory, "5m"));
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

    /// A name for an object of this case that no other case uses.
    pub(super) fn name(&self, suffix: &str) -> String {
        format!("{}-{suffix}", self.case)
    }

    /// `namespace/name`.
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.namespace())
    }

    /// Runs one operation in a script of its own, and answers its value.
    pub(super) async fn run(&self, op: &str, arguments: &[(&str, &str)]) -> String {
        let (script, from) = self.start_script(op, arguments).await;
        self.result(&script, from).await
    }

    /// Makes a script; answers its name, and where the log stood before.
    pub(super) async fn start_script(&self, op: &str, arguments: &[(&str, &str)]) -> (String, usize) {
        let number = self.shared.scripts.fetch_add(1, Ordering::Relaxed);
        let name = self.name(&format!("script{number}"));
        let from = self.position();
        let mut data: Map<String, Value> = [("op".to_owned(), json!(op))].into_iter().collect();
        data.extend(arguments.iter().map(|(key, value)| ((*key).to_owned(), json!(value))));
        self.create(&name, "acceptance", Value::Object(data)).await;
        (name, from)
    }

    /// The value that a script logged after a position.
    pub(super) async fn result(&self, script: &str, from: usize) -> String {
        let key = self.key(script);
        let what = format!("the result of {script}");
        let fits = |line: &Line| line.message == "result" && line.field("key") == Some(&key);
        self.line(from, &what, fits).await.field("value").unwrap_or("(no value)").to_owned()
    }

    /// Where the plugin's log stands.
    pub(super) fn position(&self) -> usize {
        self.shared.log.len()
    }

    /// Waits for a line of the plugin's log.
    pub(super) async fn line(&self, from: usize, what: &str, fits: impl Fn(&Line) -> bool) -> Line {
        let look = || async { self.shared.log.find(from, &fits).into_iter().next() };
        self.shared.host.wait(what, look).await
    }

    /// Waits until the host's own log contains a text.
    pub(super) async fn host_logs(&self, text: &str) {
        let look = || async { self.shared.host.log().contains(text).then_some(()) };
        self.shared.host.wait(&format!("{text:?} in the log"), look).await;
    }

    /// Makes an item; `data` is the whole data of the ConfigMap.
    pub(super) async fn item(&self, suffix: &str, data: Value) -> String {
        let name = self.name(suffix);
        self.create(&name, "acceptance-item", data).await;
        name
    }

    /// Makes items and waits until the plugin's cache has the last of them.
    pub(super) async fn cached_items(&self, items: &[(&str, Value)]) -> Vec<String> {
        let mut names = Vec::new();
        for (suffix, data) in items {
            names.push(self.item(suffix, data.clone()).await);
        }
        if let Some(last) = names.last() {
            self.cached("items", last).await;
        }
        names
    }

    /// Waits until the plugin's cache has an object of the test's namespace.
    pub(super) async fn cached(&self, watch: &str, name: &str) {
        let arguments = [("a", watch), ("b", self.namespace()), ("c", name), ("d", "/metadata/name")];
        // The two watches are independent of each other: the script may be there before the item.
        self.until(&format!("{name} in the watch {watch}"), "get", &arguments, |found| found == name).await;
    }

    /// Runs one operation again and again, in a script of its own each time, until its value is as wanted.
    pub(super) async fn until(
        &self,
        what: &str,
        op: &str,
        arguments: &[(&str, &str)],
        wanted: impl Fn(&str) -> bool,
    ) -> String {
        let look = || async { Some(self.run(op, arguments).await).filter(|found| wanted(found)) };
        self.shared.host.wait(what, look).await
    }

    async fn create(&self, name: &str, label: &str, data: Value) {
        let manifest =
            json!({"metadata": {"name": name, "labels": {"test": label, "tier": self.case}}, "data": data});
        let map: ConfigMap = serde_json::from_value(manifest).expect("a config map");
        self.shared.host.server.config_maps().create(&PostParams::default(), &map).await.expect("created");
    }

    /// Makes the API server answer the next request that matches with a fault.
    pub(super) async fn fault(&self, fault: Value) {
        let request = http::Request::post("/debug/faults")
            .body(serde_json::to_vec(&fault).expect("JSON"))
            .expect("a request");
        let answer = self.shared.host.server.client.request_text(request).await;
        answer.unwrap_or_else(|error| panic!("the fault {fault} is not taken: {error}"));
    }
}

/// Compares, with what was compared in the message.
pub(super) fn expect(what: &str, found: &str, wanted: &str) -> Result<(), String> {
    if found == wanted { Ok(()) } else { Err(format!("{what}: wanted {wanted:?}, found {found:?}")) }
}
