//! Plugins that are added to those of the configuration while the source runs.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use pilothouse_registry::{
    Artifact, ClientOptions, Decision, Digest, Layout, PluginEntry, PluginSource, Problem, RegistryClient,
    RegistrySettings, SourceEvents, SourceReport,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::fake_registry::{FakeRegistry, Faults};

/// What the source has reported last of each plugin.
#[derive(Default)]
struct Reports {
    problems: Mutex<BTreeMap<String, String>>,
    reports: Mutex<BTreeMap<String, SourceReport>>,
    changed: Notify,
}

impl SourceEvents for Reports {
    fn opened(&self, _: &Path) {}

    fn set_problem(&self, plugin: &str, problem: Option<String>) {
        let mut problems = self.problems.lock();
        match problem {
            Some(problem) => problems.insert(plugin.to_owned(), problem),
            None => problems.remove(plugin),
        };
    }

    fn reported(&self, plugin: &str, report: &SourceReport) {
        self.reports.lock().insert(plugin.to_owned(), report.clone());
        self.changed.notify_one();
    }

    fn removed(&self, plugin: &str) {
        self.set_problem(plugin, None);
        self.reports.lock().remove(plugin);
        self.changed.notify_one();
    }

    fn pulled(&self, _: &str, _: Result<(), Problem>) {}

    fn verified(&self, _: &str, _: Result<(), Problem>) {}

    fn updated(&self, _: &str, _: &str) {}

    fn files_changed(&self) {}
}

impl Reports {
    /// Waits until what is known of a plugin is as wanted.
    async fn wait_for(&self, plugin: &str, is_wanted: impl Fn(Option<&SourceReport>) -> bool) {
        while !is_wanted(self.reports.lock().get(plugin)) {
            self.changed.notified().await;
        }
    }

    fn report(&self, plugin: &str) -> SourceReport {
        self.reports.lock().get(plugin).cloned().unwrap_or_default()
    }
}

fn entry(name: &str, image: &str) -> PluginEntry {
    let entry = serde_json::json!({"name": name, "image": image, "sidecar": {"workers": 2}});
    serde_json::from_value(entry).expect("an entry")
}

/// Pushes a plugin to `team/p:1`. Returns its wasm and the digest of its manifest.
async fn push(registry: &FakeRegistry) -> (Vec<u8>, Digest) {
    let reference = registry.reference("team/p:1");
    let options = ClientOptions { plain_http: true, ..ClientOptions::default() };
    let client = RegistryClient::new(&reference, registry.tls(), None, options).expect("a client");
    let wasm = b"\0asm\x01\0\0\0one".to_vec();
    let artifact = Artifact::of(&wasm, Layout::Cncf).expect("wasm");
    let digest = client.push(&reference, &artifact, Bytes::from(wasm.clone())).await.expect("pushed");
    (wasm, digest)
}

#[tokio::test]
async fn an_added_plugin_is_pulled_changed_and_removed_while_the_source_runs() {
    let registry = FakeRegistry::start(Faults::default()).await;
    let (wasm, digest) = push(&registry).await;
    let image = |rest: &str| format!("oci://{}/team/{rest}", registry.host());
    let cache = tempfile::tempdir().expect("a folder");
    let settings = RegistrySettings { plain_http: vec![registry.host()], ..RegistrySettings::default() };
    let (reports, folder) = (Arc::<Reports>::default(), cache.path().join("plugins"));
    let observer = Arc::<Reports>::clone(&reports);
    let source = PluginSource::open(settings, vec![entry("q", &image("p:1"))], cache.path(), observer);
    let source = source.expect("a source");
    let (added, shutdown) = (source.added(), CancellationToken::new());
    let _stops_at_the_end = shutdown.clone().drop_guard();
    tokio::spawn(source.run(shutdown, || 0.5));
    let file = |name: &str| std::fs::read(folder.join(name)).ok();
    let is_staged = |report: Option<&SourceReport>| report.is_some_and(|report| report.staged.is_some());
    reports.wait_for("q", is_staged).await;

    added.set(vec![entry("p", &image("p:1")), entry("absent", &image("absent:1"))]);
    reports.wait_for("p", is_staged).await;
    let report = reports.report("p");
    assert_eq!((report.staged, report.decision), (Some(digest), Some(Decision::NoPolicy)));
    assert_eq!((file("p.wasm"), file("p.yaml")), (Some(wasm.clone()), Some(br#"{"workers":2}"#.to_vec())));
    reports.wait_for("absent", |report| report.is_some_and(|report| report.failure.is_some())).await;
    let failure = reports.report("absent").failure.expect("a failure");
    assert_eq!(failure.problem(), Problem::NotFound);
    assert!(reports.problems.lock().contains_key("absent"));

    // The version in the folder stays until the one with another digest was pulled.
    let unknown = entry("p", &image(&format!("p@{}", Digest::of(b"unknown"))));
    added.set(vec![unknown, entry("absent", &image("absent:1"))]);
    reports.wait_for("p", |report| report.is_some_and(|report| report.failure.is_some())).await;
    assert_eq!((reports.report("p").staged, file("p.wasm")), (Some(digest), Some(wasm.clone())));

    // Another sidecar is written without a request of the registry.
    let before = registry.seen().len();
    let mut pinned = entry("p", &image(&format!("p@{digest}")));
    pinned.sidecar.as_mut().expect("a sidecar").insert("workers".to_owned(), 3.into());
    added.set(vec![pinned]);
    while file("p.yaml").as_deref() != Some(&br#"{"workers":3}"#[..]) {
        reports.changed.notified().await;
    }
    reports.wait_for("absent", |report| report.is_none()).await;
    assert_eq!(file("p.wasm"), Some(wasm.clone()));
    let asked = registry.seen().split_off(before);
    assert!(!asked.iter().any(|request| request.path.contains("team/p/")), "{asked:?}");

    added.set(Vec::new());
    reports.wait_for("p", |report| report.is_none()).await;
    assert_eq!((file("p.wasm"), file("p.yaml")), (None, None));
    assert_eq!(*reports.problems.lock(), BTreeMap::new());
    assert_eq!(file("q.wasm"), Some(wasm), "the plugin of the configuration stays");
    assert!(!cache.path().join("records/p").exists());
}
