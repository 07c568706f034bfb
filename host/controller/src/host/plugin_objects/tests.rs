//! Objects on the embedded API server, without a registry.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_plugin::Engine;
use prometheus_client::registry::Registry;
use serde_json::Value;

use super::*;
use crate::client::{ApiClient, apply_crds};
use crate::config::sidecar::GrantMode;
use crate::host::{HostOptions, ProvidedFailure};
use crate::metrics::Metrics;
use crate::plugin_resource::plugin_crd;
use crate::{ObjectPlugin, ObjectPlugins};

const OBJECTS: &str = "/apis/pilothouse.dev/v1alpha1/namespaces/default/plugins";

struct Cluster {
    server: ApiClient,
    provided: ProvidedPlugins,
    /// The plugins that were passed on last.
    applied: Arc<Mutex<ObjectPlugins>>,
    shutdown: CancellationToken,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl Cluster {
    /// Starts a host with the CRD.
    async fn start(directory: &Path, folder: &Path, namespaces: OtherNamespaces) -> Self {
        let api = pilothouse_apiserver::ApiServer::builder().build();
        let client = kube::Client::new(api.service(), "default");
        let server = ApiClient::new(client.clone());
        apply_crds(&server, None, &[plugin_crd()], &mut Vec::new()).await.expect("the CRD");
        let options = HostOptions {
            plugins: directory.to_owned(),
            api_server: "embedded".to_owned(),
            grant_crds: true,
            grants: GrantMode::Declared,
            instance: "test".to_owned(),
            namespace: "default".to_owned(),
            settle: Duration::ZERO,
            file_events: false,
            access_review_interval: Duration::from_secs(30),
            informer_runtime: None,
            cache_compression: None,
            streaming_lists: true,
            requeue_on_reload: true,
            name_request_origins: false,
            environment: Default::default(),
        };
        let engine = Engine::new(Default::default()).expect("an engine");
        let host = PluginHost::new(options, client, engine, Metrics::register(&mut Registry::default()));
        let provided = ProvidedPlugins::new();
        provided.set_folder(folder.to_owned());
        host.add_provided_plugins(provided.clone());
        let applied = Arc::<Mutex<ObjectPlugins>>::default();
        let resource = PluginResource {
            namespaces,
            configured: BTreeSet::from(["configured".to_owned()]),
            apply: Arc::new({
                let applied = Arc::clone(&applied);
                move |plugins| *applied.lock() = plugins
            }),
        };
        let shutdown = CancellationToken::new();
        tokio::spawn({
            let (host, shutdown) = (host.clone(), shutdown.clone());
            async move { host.run(shutdown).await }
        });
        tokio::spawn({
            let shutdown = shutdown.clone();
            async move { host.run_plugin_objects(resource, shutdown).await }
        });
        Self { server, provided, applied, shutdown }
    }

    async fn create(&self, namespace: &str, name: &str, spec: Value) {
        let object = json!({"apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "metadata": {"name": name}, "spec": spec});
        let path = format!("/apis/pilothouse.dev/v1alpha1/namespaces/{namespace}/plugins");
        let payload = Payload::json(object.to_string());
        self.server.request(Method::POST, &path, Some(payload)).await.expect("created");
    }

    async fn change(&self, name: &str, patch: Value) {
        let payload =
            Payload { content_type: "application/merge-patch+json", body: patch.to_string().into() };
        let path = format!("{OBJECTS}/{name}");
        self.server.request(Method::PATCH, &path, Some(payload)).await.expect("changed");
    }

    /// Waits until a condition of an object has a reason. Returns the condition and the object.
    async fn wait_for_reason(&self, path: &str, condition: &str, reason: &str) -> (Value, Value) {
        let wait = async {
            loop {
                let body = self.server.get(path).await.expect("answered").expect("an object");
                let object: Value = serde_json::from_slice(&body).expect("JSON");
                let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
                let found = conditions.into_iter().find(|found| found["type"] == condition);
                if let Some(found) = found.filter(|found| found["reason"] == reason) {
                    return (found, object);
                }
                sleep(Duration::from_millis(100)).await;
            }
        };
        let message = format!("{path}: {condition} never had the reason {reason}");
        timeout(Duration::from_secs(600), wait).await.expect(&message)
    }

    /// Waits until these plugins were passed on.
    async fn wait_for_plugins(&self, names: &[&str]) -> Vec<ObjectPlugin> {
        let wait = async {
            loop {
                let ObjectPlugins { plugins, .. } = self.applied.lock().clone();
                if plugins.iter().map(|plugin| plugin.name.as_str()).eq(names.iter().copied()) {
                    return plugins;
                }
                sleep(Duration::from_millis(100)).await;
            }
        };
        timeout(Duration::from_secs(600), wait).await.expect("the plugins are passed on")
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_is_passed_on_reported_changed_and_removed() {
    let (directory, folder) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let cluster = Cluster::start(directory.path(), folder.path(), OtherNamespaces::Listed(Vec::new())).await;
    cluster.create("default", "a", json!({"image": "r.example/a:1", "workers": 2})).await;
    let plugins = cluster.wait_for_plugins(&["a"]).await;
    assert_eq!((plugins[0].image.as_str(), &plugins[0].sidecar["workers"]), ("r.example/a:1", &json!(2)));
    let path = format!("{OBJECTS}/a");
    let (condition, object) = cluster.wait_for_reason(&path, "Running", "Pulling").await;
    assert_eq!((&condition["status"], &condition["observedGeneration"]), (&json!("False"), &json!(1)));
    assert_eq!(object["status"]["observedGeneration"], 1);

    let failure = ProvidedFailure {
        reason: "Denied",
        message: "the registry refuses the credentials; log in".to_owned(),
        is_unverified: false,
    };
    cluster.provided.set_report("a", ProvidedReport { failure: Some(failure), ..ProvidedReport::default() });
    let (condition, object) = cluster.wait_for_reason(&path, "Running", "Denied").await;
    assert!(condition["message"].as_str().expect("text").contains("log in"), "{condition}");
    assert_eq!(object["status"]["lastError"], "the registry refuses the credentials; log in");

    cluster.change("a", json!({"spec": {"workers": 3}})).await;
    let workers = || cluster.applied.lock().plugins.first().map(|plugin| plugin.sidecar["workers"].clone());
    let changed = async {
        while workers() != Some(json!(3)) {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(Duration::from_secs(600), changed).await.expect("the changed plugin is passed on");
    cluster.server.request(Method::DELETE, &path, None).await.expect("deleted");
    cluster.wait_for_plugins(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn the_loser_of_a_conflict_gets_a_condition_and_the_winner_is_not_changed() {
    let (directory, folder) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    std::fs::write(directory.path().join("file.wasm"), "no plugin").expect("written");
    let cluster = Cluster::start(directory.path(), folder.path(), OtherNamespaces::Listed(Vec::new())).await;
    for name in ["configured", "file", "free"] {
        cluster.create("default", name, json!({"image": "r.example/p:1"})).await;
    }
    cluster.wait_for_plugins(&["free"]).await;
    for (name, part) in [("file", "remove the file"), ("configured", "remove the entry")] {
        let (condition, _) =
            cluster.wait_for_reason(&format!("{OBJECTS}/{name}"), "Accepted", "NameConflict").await;
        assert!(condition["message"].as_str().expect("text").contains(part), "{condition}");
    }
    assert_eq!(cluster.provided.problems(), BTreeMap::new());
    std::fs::remove_file(directory.path().join("file.wasm")).expect("removed");
    cluster.wait_for_plugins(&["file", "free"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_of_another_namespace_counts_only_if_it_is_listed() {
    let (directory, folder) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let listed = OtherNamespaces::Listed(vec!["kube-system".to_owned()]);
    let cluster = Cluster::start(directory.path(), folder.path(), listed).await;
    let with_account =
        |namespace: &str| json!({"image": "r.example/p:1", "serviceAccount": format!("{namespace}/robot")});
    cluster.create("kube-public", "unlisted", with_account("kube-public")).await;
    cluster.create("kube-system", "account", with_account("kube-system")).await;
    cluster.create("kube-system", "none", json!({"image": "r.example/p:1"})).await;
    let path = "/apis/pilothouse.dev/v1alpha1/namespaces/kube-system/plugins/none";
    cluster.wait_for_reason(path, "Accepted", "ServiceAccountRequired").await;
    let plugins = cluster.wait_for_plugins(&["account"]).await;
    assert_eq!(plugins[0].sidecar["grants"], json!({"crds": false}));
    assert!(cluster.applied.lock().are_all, "the objects of both namespaces are known");
    let problem = cluster.provided.problems().remove("none").expect("a problem of the plugin");
    assert!(problem.contains("write kube-system/NAME"), "{problem}");
}
