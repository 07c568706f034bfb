//! A source that runs in a test, and what it reports.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use pilothouse_registry::{
    AddedPlugins, Artifact, ClientOptions, Digest, Layout, PluginEntry, PluginSource, Problem,
    RegistryClient, RegistrySettings, SourceEvents,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::fake_registry::FakeRegistry;
use crate::signing::Signer;

/// The interval at which plugins without `poll` are looked at, and some more than its jitter.
const LONGER_THAN_POLL: Duration = Duration::from_secs(100);

/// What the source has reported.
#[derive(Default)]
pub(crate) struct Reports {
    pub(crate) problems: Mutex<BTreeMap<String, Option<String>>>,
    /// The plugins that waited for their first version.
    pub(crate) pulling: Mutex<Vec<String>>,
    pub(crate) updates: Mutex<Vec<String>>,
    /// The results of attempts and of judgements, by plugin.
    pub(crate) pulls: Mutex<Vec<(String, Result<(), Problem>)>>,
    pub(crate) verifications: Mutex<Vec<(String, Result<(), Problem>)>>,
    /// Whether the cache could be opened.
    pub(crate) is_opened: Mutex<bool>,
    changed: Notify,
}

impl SourceEvents for Reports {
    fn opened(&self, _: &Path) {
        *self.is_opened.lock() = true;
    }

    fn set_problem(&self, plugin: &str, problem: Option<String>) {
        self.problems.lock().insert(plugin.to_owned(), problem);
        self.changed.notify_one();
    }

    fn pulling(&self, plugin: &str, text: &str) {
        self.pulling.lock().push(plugin.to_owned());
        self.set_problem(plugin, Some(text.to_owned()));
    }

    fn pulled(&self, plugin: &str, result: Result<(), Problem>) {
        self.pulls.lock().push((plugin.to_owned(), result));
    }

    fn verified(&self, plugin: &str, result: Result<(), Problem>) {
        self.verifications.lock().push((plugin.to_owned(), result));
    }

    fn updated(&self, plugin: &str, _: &str) {
        self.updates.lock().push(plugin.to_owned());
    }

    fn files_changed(&self) {}
}

/// A source that runs until this is dropped.
pub(crate) struct RunningSource {
    pub(crate) reports: Arc<Reports>,
    pub(crate) added: AddedPlugins,
    folder: PathBuf,
    shutdown: CancellationToken,
}

impl Drop for RunningSource {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl RunningSource {
    pub(crate) fn start(settings: &RegistrySettings, plugins: &[PluginEntry], cache: &Path) -> Self {
        let reports = Arc::<Reports>::default();
        let observer = Arc::<Reports>::clone(&reports);
        let source = PluginSource::open(settings.clone(), plugins.to_vec(), cache, observer);
        let source = source.expect("a source");
        let (added, shutdown) = (source.added(), CancellationToken::new());
        tokio::spawn(source.run(shutdown.clone(), || 0.5));
        Self { reports, added, folder: cache.join("plugins"), shutdown }
    }

    /// Waits until the report about a plugin is as wanted.
    pub(crate) async fn wait_for(&self, plugin: &str, is_wanted: impl Fn(&Option<String>) -> bool) {
        while !self.reports.problems.lock().get(plugin).is_some_and(&is_wanted) {
            self.reports.changed.notified().await;
        }
    }

    pub(crate) async fn wait_for_problem(&self, plugin: &str, text: &str) {
        self.wait_for(plugin, |problem| problem.as_ref().is_some_and(|problem| problem.contains(text))).await;
    }

    pub(crate) async fn wait_until_current(&self, plugin: &str) {
        self.wait_for(plugin, Option::is_none).await;
    }

    /// Has the source look at its plugins again at once, and waits until it has done so for one of them. The source has to be idle.
    pub(crate) async fn next_attempt(&self) {
        let before = self.reports.pulls.lock().len();
        tokio::time::pause();
        tokio::time::advance(LONGER_THAN_POLL).await;
        tokio::time::resume();
        while self.reports.pulls.lock().len() == before {
            self.reports.changed.notified().await;
        }
    }

    pub(crate) fn problem(&self, plugin: &str) -> Option<String> {
        self.reports.problems.lock().get(plugin).cloned().flatten()
    }

    pub(crate) fn file(&self, name: &str) -> Option<Vec<u8>> {
        std::fs::read(self.folder.join(name)).ok()
    }
}

pub(crate) fn entry(name: &str, image: &str) -> PluginEntry {
    let text = serde_json::json!({"name": name, "image": image, "sidecar": {"workers": 2}});
    serde_json::from_value(text).expect("an entry")
}

pub(crate) fn settings(registry: &FakeRegistry) -> RegistrySettings {
    RegistrySettings { plain_http: vec![registry.host()], ..RegistrySettings::default() }
}

/// Pushes a plugin with this content to `team/NAME:1`. Returns its wasm and the digest of its manifest.
pub(crate) async fn push(registry: &FakeRegistry, name: &str, content: &str) -> (Vec<u8>, Digest) {
    let reference = registry.reference(&format!("team/{name}:1"));
    let options = ClientOptions { plain_http: true, ..ClientOptions::default() };
    let client = RegistryClient::new(&reference, registry.tls(), None, options).expect("a client");
    let wasm = [b"\0asm\x01\0\0\0", content.as_bytes()].concat();
    let artifact = Artifact::of(&wasm, Layout::Cncf).expect("wasm");
    let digest = client.push(&reference, &artifact, Bytes::from(wasm.clone())).await.expect("pushed");
    (wasm, digest)
}

pub(crate) fn image(registry: &FakeRegistry, name: &str) -> String {
    format!("oci://{}/team/{name}:1", registry.host())
}

/// Writes a policy by which all plugins need the signature of this signer.
pub(crate) fn write_policy(file: &Path, signer: &Signer) {
    let rule = serde_json::json!({"match": ["**"], "signers": [{"name": "a", "key": signer.pem()}]});
    std::fs::write(file, serde_json::json!({"rules": [rule]}).to_string()).expect("written");
}
