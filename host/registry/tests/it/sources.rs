//! The source that keeps a host's plugins up to date: what it puts into the folder, and what it reports.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use pilothouse_registry::{
    Artifact, ClientOptions, Digest, Layout, OnViolation, PluginEntry, PluginSource, Problem, RegistryClient,
    RegistrySettings, SourceObserver,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::fake_registry::{FakeRegistry, Faults};
use crate::signing::{Signer, attach_bundle};

/// What the source has reported.
#[derive(Default)]
struct Reports {
    problems: Mutex<BTreeMap<String, Option<String>>>,
    /// The plugins that waited for their first version.
    pulling: Mutex<Vec<String>>,
    updates: Mutex<Vec<String>>,
    /// The results of attempts and of judgements, by plugin.
    pulls: Mutex<Vec<(String, Result<(), Problem>)>>,
    verifications: Mutex<Vec<(String, Result<(), Problem>)>>,
    changed: Notify,
}

impl SourceObserver for Reports {
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
struct RunningSource {
    reports: Arc<Reports>,
    folder: PathBuf,
    shutdown: CancellationToken,
}

impl Drop for RunningSource {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl RunningSource {
    fn start(settings: &RegistrySettings, plugins: &[PluginEntry], cache: &Path) -> Self {
        let reports = Arc::<Reports>::default();
        let observer = Arc::clone(&reports);
        let mut folder = None;
        let source = PluginSource::open(settings.clone(), plugins.to_vec(), cache, |path| {
            folder = Some(path);
            observer
        });
        let shutdown = CancellationToken::new();
        tokio::spawn(source.expect("a source").run(shutdown.clone(), || 0.5));
        Self { reports, folder: folder.expect("opened"), shutdown }
    }

    /// Waits until the report about a plugin is as wanted.
    async fn wait_for(&self, plugin: &str, is_wanted: impl Fn(&Option<String>) -> bool) {
        while !self.reports.problems.lock().get(plugin).is_some_and(&is_wanted) {
            self.reports.changed.notified().await;
        }
    }

    async fn wait_for_problem(&self, plugin: &str, text: &str) {
        self.wait_for(plugin, |problem| problem.as_ref().is_some_and(|problem| problem.contains(text))).await;
    }

    async fn wait_until_current(&self, plugin: &str) {
        self.wait_for(plugin, Option::is_none).await;
    }

    fn file(&self, name: &str) -> Option<Vec<u8>> {
        std::fs::read(self.folder.join(name)).ok()
    }
}

fn entry(name: &str, image: &str) -> PluginEntry {
    let text = serde_json::json!({"name": name, "image": image, "sidecar": {"workers": 2}});
    serde_json::from_value(text).expect("an entry")
}

fn settings(registry: &FakeRegistry) -> RegistrySettings {
    RegistrySettings { plain_http: vec![registry.host()], ..RegistrySettings::default() }
}

/// Pushes a plugin with this content to `team/NAME:1`. Returns its wasm and the digest of its manifest.
async fn push(registry: &FakeRegistry, name: &str, content: &str) -> (Vec<u8>, Digest) {
    let reference = registry.reference(&format!("team/{name}:1"));
    let options = ClientOptions { plain_http: true, ..ClientOptions::default() };
    let client = RegistryClient::new(&reference, registry.tls(), None, options).expect("a client");
    let wasm = [b"\0asm\x01\0\0\0", content.as_bytes()].concat();
    let artifact = Artifact::of(&wasm, Layout::Cncf).expect("wasm");
    let digest = client.push(&reference, &artifact, Bytes::from(wasm.clone())).await.expect("pushed");
    (wasm, digest)
}

fn image(registry: &FakeRegistry, name: &str) -> String {
    format!("oci://{}/team/{name}:1", registry.host())
}

#[tokio::test]
async fn a_bad_entry_affects_its_own_plugin_only() {
    let registry = FakeRegistry::start(Faults::default()).await;
    let (wasm, _) = push(&registry, "good", "one").await;
    let cache = tempfile::tempdir().expect("a folder");
    let mut impatient = entry("impatient", &image(&registry, "good"));
    impatient.poll = Some("1s".to_owned());
    let entries = [
        entry("good", &image(&registry, "good")),
        entry("absent", &image(&registry, "absent")),
        entry("nonsense", "oci://nonsense"),
        impatient,
    ];
    let running = RunningSource::start(&settings(&registry), &entries, cache.path());
    running.wait_until_current("good").await;
    running.wait_for_problem("absent", "404").await;
    running.wait_for_problem("nonsense", "write oci://").await;
    running.wait_for_problem("impatient", "at least 10s").await;
    assert_eq!(*running.reports.pulling.lock(), ["good", "absent", "impatient"]);
    assert_eq!(running.file("good.wasm"), Some(wasm));
    assert_eq!(running.file("good.yaml").as_deref(), Some(&br#"{"workers":2}"#[..]));
    assert_eq!((running.file("absent.wasm"), running.file("absent.yaml")), (None, None));
    assert_eq!(*running.reports.updates.lock(), ["good"]);
    let pulls = running.reports.pulls.lock();
    for (plugin, result) in [
        ("good", Ok(())),
        ("absent", Err(Problem::NotFound)),
        ("nonsense", Err(Problem::Invalid)),
        ("impatient", Err(Problem::Invalid)),
    ] {
        assert!(pulls.contains(&(plugin.to_owned(), result)), "{plugin}: {pulls:?}");
    }
    assert!(running.reports.verifications.lock().is_empty(), "there is no policy");
}

#[tokio::test]
async fn a_restart_without_the_registry_works_from_the_cache() {
    let registry = FakeRegistry::start(Faults::default()).await;
    let (wasm, _) = push(&registry, "p", "one").await;
    let cache = tempfile::tempdir().expect("a folder");
    let (settings, entries) = (settings(&registry), [entry("p", &image(&registry, "p"))]);
    let first = RunningSource::start(&settings, &entries, cache.path());
    first.wait_until_current("p").await;
    drop((first, registry));

    let second = RunningSource::start(&settings, &entries, cache.path());
    assert_eq!(second.file("p.wasm"), Some(wasm.clone()), "before anything was asked");
    second.wait_for_problem("p", "runs on").await;
    assert_eq!(second.file("p.wasm"), Some(wasm));
    drop(second);

    let others = RunningSource::start(&settings, &[entry("p", "oci://127.0.0.1:1/other:1")], cache.path());
    assert_eq!(others.file("p.wasm"), None, "another repository has no version yet");
    let none = RunningSource::start(&settings, &[entry("q", "oci://127.0.0.1:1/q:1")], cache.path());
    assert_eq!(none.file("p.yaml"), None, "the plugin is not configured any more");
}

#[tokio::test]
async fn a_restart_loads_only_what_the_policy_of_today_allows() {
    let registry = FakeRegistry::start(Faults::default()).await;
    let (wasm, digest) = push(&registry, "p", "one").await;
    let signer = Signer::new();
    attach_bundle(&registry, "team/p", digest, &signer);
    let folder = tempfile::tempdir().expect("a folder");
    let policy = folder.path().join("policy.yaml");
    let write_policy = |signer: &Signer| {
        let text = serde_json::json!({"rules": [{"match": ["**"], "signers": [{"name": "a", "key": signer.pem()}]}]});
        std::fs::write(&policy, text.to_string()).expect("written");
    };
    write_policy(&signer);
    let settings = RegistrySettings { policy: Some(policy.clone()), ..settings(&registry) };
    let entries = [entry("p", &image(&registry, "p"))];
    let first = RunningSource::start(&settings, &entries, &folder.path().join("cache"));
    first.wait_until_current("p").await;
    drop((first, registry));

    let second = RunningSource::start(&settings, &entries, &folder.path().join("cache"));
    assert_eq!(second.file("p.wasm"), Some(wasm), "its signature is in the cache");
    drop(second);

    write_policy(&Signer::new());
    let third = RunningSource::start(&settings, &entries, &folder.path().join("cache"));
    assert_eq!(third.file("p.wasm"), None);
}

#[tokio::test]
async fn an_unsigned_version_does_not_replace_the_one_that_runs() {
    let registry = FakeRegistry::start(Faults::default()).await;
    let (wasm, digest) = push(&registry, "p", "one").await;
    let signer = Signer::new();
    attach_bundle(&registry, "team/p", digest, &signer);
    let folder = tempfile::tempdir().expect("a folder");
    let policy = folder.path().join("policy.yaml");
    let text =
        serde_json::json!({"rules": [{"match": ["**"], "signers": [{"name": "a", "key": signer.pem()}]}]});
    std::fs::write(&policy, text.to_string()).expect("written");
    let settings =
        RegistrySettings { policy: Some(policy), on_violation: OnViolation::Stop, ..settings(&registry) };
    let entries = [entry("p", &image(&registry, "p"))];
    let first = RunningSource::start(&settings, &entries, &folder.path().join("cache"));
    first.wait_until_current("p").await;
    drop(first);

    push(&registry, "p", "malicious").await;
    let second = RunningSource::start(&settings, &entries, &folder.path().join("cache"));
    second.wait_for_problem("p", "there is no signature").await;
    let unverified = ("p".to_owned(), Err(Problem::Unverified));
    assert_eq!(*second.reports.verifications.lock(), [("p".to_owned(), Ok(())), unverified.clone()]);
    assert_eq!(*second.reports.pulls.lock(), [unverified]);
    assert_eq!(
        second.file("p.wasm"),
        Some(wasm),
        "a new version is refused, and the old one still satisfies the policy"
    );
}
