//! The API server that the host under test uses.

use std::collections::BTreeMap;
use std::path::PathBuf;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::rt::TokioExecutor;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::cleanup::Cleanup;
use super::kubectl;

/// Held by each test while it uses an external server.
pub(super) static EXTERNAL_SERVER_LOCK: Mutex<()> = Mutex::const_new(());

/// The server, with a namespace for the test.
pub(crate) struct Server {
    kubeconfig: PathBuf,
    /// What to remove when the test ends. `None` for an embedded server, which ends with the test.
    cleanup: Option<Cleanup>,
    pub(crate) client: Client,
    /// A client for the same server without credentials.
    anonymous_client: Client,
    pub(crate) namespace: String,
}

impl Server {
    /// Returns the kubeconfig of the external server, if there is one.
    pub(super) fn external_kubeconfig() -> Option<PathBuf> {
        std::env::var_os("PILOTHOUSE_TEST_KUBECONFIG").filter(|path| !path.is_empty()).map(PathBuf::from)
    }

    pub(crate) async fn new(kubeconfig: PathBuf, is_external: bool) -> Self {
        let file = Kubeconfig::read_from(&kubeconfig).expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
            .await
            .expect("a configuration");
        let mut without_credential = config.clone();
        without_credential.auth_info = Default::default();
        let anonymous_client = Client::try_from(without_credential).expect("a client");
        let client = Client::try_from(config).expect("a client");
        let manifest = json!({"metadata": {"generateName": "e2e-"}});
        let namespace: Namespace = serde_json::from_value(manifest).expect("a namespace");
        let made = Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await;
        let namespace = made.expect("a namespace is made").metadata.name.expect("it has a name");
        let cleanup = match is_external {
            true => Some(Cleanup::before_test(&client, &namespace).await),
            false => None,
        };
        Self { kubeconfig, cleanup, client, anonymous_client, namespace }
    }

    /// Returns whether to skip a test that needs the embedded server. If so, prints the reason.
    pub(crate) fn skip_if_external(&self, reason: &str) -> bool {
        let is_external = self.cleanup.is_some();
        if is_external {
            let test = std::thread::current().name().unwrap_or_default().to_owned();
            super::print_uncaptured(&format!("SKIPPED {test}: {reason} (PILOTHOUSE_TEST_KUBECONFIG is set)"));
        }
        is_external
    }

    /// Returns whether to skip a test that needs the CRDs of the example plugins to be absent at first. If so, prints the reason.
    pub(crate) fn skip_if_crds_exist(&self) -> bool {
        let absent = self.cleanup.as_ref().is_none_or(Cleanup::crds_were_absent);
        !absent && self.skip_if_external("the server had the CRDs of the example plugins before")
    }

    /// Returns whether to skip a test that needs available replicas, because the server has no node. If so, prints the reason.
    pub(crate) async fn skip_without_nodes(&self) -> bool {
        let nodes = self.get("/api/v1/nodes").await;
        let none = nodes["items"].as_array().is_none_or(Vec::is_empty);
        none && self.skip_if_external("the server has no node, so no Deployment gets available replicas")
    }

    /// Runs kubectl in the test's namespace. Returns `None` if kubectl is not installed, after printing a message.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Option<String> {
        self.kubectl_with(arguments, "")
    }

    /// Runs kubectl like [`kubectl`](Self::kubectl), with `input` on its standard input.
    pub(crate) fn kubectl_with(&self, arguments: &[&str], input: &str) -> Option<String> {
        self.kubectl_anywhere(&[&["--namespace", &self.namespace], arguments].concat(), input)
    }

    /// Runs kubectl like [`kubectl_with`](Self::kubectl_with), without selecting a namespace.
    pub(crate) fn kubectl_anywhere(&self, arguments: &[&str], input: &str) -> Option<String> {
        if !*kubectl::INSTALLED {
            return None;
        }
        match kubectl::run(&self.kubeconfig, arguments, input) {
            Ok(text) => Some(text),
            Err(error) => panic!("kubectl {}: {error}", arguments.join(" ")),
        }
    }

    /// Sends a GET request. Returns the JSON body, or null on an error.
    pub(crate) async fn get(&self, path: &str) -> Value {
        let request = http::Request::get(path).body(Vec::new()).expect("a request");
        self.client.request::<Value>(request).await.unwrap_or_default()
    }

    /// Sends a POST request with a manifest.
    pub(crate) async fn post(&self, path: &str, manifest: &Value) -> Value {
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .body(manifest.to_string().into_bytes())
            .expect("a request");
        self.client.request::<Value>(request).await.unwrap_or_else(|error| panic!("POST {path}: {error}"))
    }

    /// Sends a request without credentials and returns the status of the response.
    pub(crate) async fn anonymous_status(
        &self,
        method: http::Method,
        path: &str,
        body: String,
    ) -> http::StatusCode {
        let request = http::Request::builder().method(method).uri(path);
        let request = request.body(kube::client::Body::from(body.into_bytes())).expect("a request");
        self.anonymous_client.send(request).await.expect("answered").status()
    }

    /// Returns the path of an object in the test's namespace, under a prefix such as `/apis/apps/v1`.
    pub(crate) fn path(&self, prefix: &str, plural: &str, name: &str) -> String {
        format!("{prefix}/namespaces/{}/{plural}/{name}", self.namespace)
    }

    pub(crate) fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Creates a script for the conformance plugin.
    pub(crate) async fn create_script(&self, name: &str, action: &str) -> ConfigMap {
        let manifest = json!({
            "metadata": {"name": name, "labels": {"test": "conformance"}}, "data": {"action": action}
        });
        let script = serde_json::from_value(manifest).expect("a config map");
        self.config_maps().create(&PostParams::default(), &script).await.expect("created")
    }

    /// Creates a ConfigMap with the label `test=observer`.
    pub(crate) async fn create_observed(&self, name: &str, data: Value) -> ConfigMap {
        self.create_labelled(name, "observer", data).await
    }

    /// Creates a ConfigMap with the given value of the label `test`.
    pub(crate) async fn create_labelled(&self, name: &str, test: &str, data: Value) -> ConfigMap {
        let manifest = json!({"metadata": {"name": name, "labels": {"test": test}}, "data": data});
        let map = serde_json::from_value(manifest).expect("a config map");
        self.config_maps().create(&PostParams::default(), &map).await.expect("created")
    }

    /// Creates a ConfigMap with the label `test=sandbox`.
    pub(crate) async fn create_sandboxed(&self, name: &str, data: Value) -> ConfigMap {
        self.create_labelled(name, "sandbox", data).await
    }

    /// Changes one entry of a ConfigMap's data.
    pub(crate) async fn set_data(&self, name: &str, key: &str, value: &str) -> ConfigMap {
        let patch = Patch::Merge(json!({"data": {key: value}}));
        self.config_maps().patch(name, &PatchParams::default(), &patch).await.expect("patched")
    }

    /// Returns a ConfigMap's data, empty if the ConfigMap does not exist.
    pub(crate) async fn data(&self, name: &str) -> BTreeMap<String, String> {
        let found = self.config_maps().get_opt(name).await.expect("answered");
        found.and_then(|found| found.data).unwrap_or_default()
    }

    /// Returns the Events in the test's namespace.
    pub(crate) async fn events(&self) -> Vec<k8s_openapi::api::events::v1::Event> {
        let events = Api::namespaced(self.client.clone(), &self.namespace);
        events.list(&ListParams::default()).await.expect("listed").items
    }

    /// Returns how many requests with a verb the embedded server has received for a resource such as `apps/v1/deployments`.
    pub(crate) async fn request_count(&self, verb: &str, resource: &str) -> u64 {
        let response = self.get("/debug/requests").await;
        let counts = response["counts"].as_array().expect("the embedded server counts requests");
        let matching = counts.iter().filter(|count| count["verb"] == verb && count["resource"] == resource);
        matching.filter_map(|count| count["count"].as_u64()).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(cleanup) = self.cleanup.take() else { return };
        let client = self.client.clone();
        // The next test must find the server in the same state as this test did.
        let removed = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(cleanup.remove(&client))
        });
        if let Err(error) = removed {
            let namespace = &self.namespace;
            super::print_uncaptured(&format!(
                "cannot remove all objects of the test in {namespace}: {error}"
            ));
        }
    }
}

/// Sends a request over plain HTTP and returns the status of the response.
pub(crate) async fn send(request: http::Request<String>) -> http::StatusCode {
    let client = HttpClient::builder(TokioExecutor::new()).build_http::<String>();
    client.request(request).await.expect("the host answers").status()
}

/// Sends a GET request and returns the status and the body.
pub(super) async fn get(url: &str) -> (u16, String) {
    let client = HttpClient::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let response = client.get(url.parse().expect("a URL")).await.expect("the host answers");
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.expect("a whole body").to_bytes();
    (status, String::from_utf8(body.to_vec()).expect("text"))
}
