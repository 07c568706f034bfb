//! The API server behind the host under test.

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

use super::kubectl;
use super::leftovers::Leftovers;

/// Held by each test while it uses an external server.
pub(super) static ALONE: Mutex<()> = Mutex::const_new(());

/// The server, with a namespace of the test's own.
pub(crate) struct Server {
    kubeconfig: PathBuf,
    /// What must be removed when the test ends; none of an embedded server, which ends with it.
    leftovers: Option<Leftovers>,
    pub(crate) client: Client,
    /// A client of the same server without any credential.
    stranger: Client,
    pub(crate) namespace: String,
}

impl Server {
    /// The kubeconfig of the server that the tests were given, if any.
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
        let stranger = Client::try_from(without_credential).expect("a client");
        let client = Client::try_from(config).expect("a client");
        let manifest = json!({"metadata": {"generateName": "e2e-"}});
        let namespace: Namespace = serde_json::from_value(manifest).expect("a namespace");
        let made = Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await;
        let namespace = made.expect("a namespace is made").metadata.name.expect("it has a name");
        let leftovers = match is_external {
            true => Some(Leftovers::of_a_test(&client, &namespace).await),
            false => None,
        };
        Self { kubeconfig, leftovers, client, stranger, namespace }
    }

    /// True, and loud, when the test needs the embedded server and has another.
    pub(crate) fn skips(&self, why: &str) -> bool {
        let is_external = self.leftovers.is_some();
        if is_external {
            let test = std::thread::current().name().unwrap_or_default().to_owned();
            super::say_loudly(&format!("SKIPPED {test}: {why} (PILOTHOUSE_TEST_KUBECONFIG is set)"));
        }
        is_external
    }

    /// True, and loud, when the kinds that the example plugins bring may be there already.
    pub(crate) fn skips_absent_kinds(&self) -> bool {
        let absent = self.leftovers.as_ref().is_none_or(Leftovers::has_all_crds);
        !absent && self.skips("the server had the CRDs of the example plugins before")
    }

    /// True, and loud, when the server has no node, so that no Pod of a Deployment will ever be available.
    pub(crate) async fn skips_pods(&self) -> bool {
        let nodes = self.get("/api/v1/nodes").await;
        let none = nodes["items"].as_array().is_none_or(Vec::is_empty);
        none && self.skips("the server has no node, so no Deployment gets available replicas")
    }

    /// Runs kubectl in the test's namespace; `None` when it is not installed, which has been said.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Option<String> {
        self.kubectl_with(arguments, "")
    }

    /// As [`kubectl`](Self::kubectl), with something on its standard input.
    pub(crate) fn kubectl_with(&self, arguments: &[&str], input: &str) -> Option<String> {
        self.kubectl_anywhere(&[&["--namespace", &self.namespace], arguments].concat(), input)
    }

    /// As [`kubectl_with`](Self::kubectl_with), in whichever namespaces the input names.
    pub(crate) fn kubectl_anywhere(&self, arguments: &[&str], input: &str) -> Option<String> {
        if !*kubectl::INSTALLED {
            return None;
        }
        match kubectl::run(&self.kubeconfig, arguments, input) {
            Ok(text) => Some(text),
            Err(complaint) => panic!("kubectl {}: {complaint}", arguments.join(" ")),
        }
    }

    /// GET of any path as JSON; null for an error.
    pub(crate) async fn get(&self, path: &str) -> Value {
        let request = http::Request::get(path).body(Vec::new()).expect("a request");
        self.client.request::<Value>(request).await.unwrap_or_default()
    }

    /// POST of a manifest to any path.
    pub(crate) async fn post(&self, path: &str, manifest: &Value) -> Value {
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .body(manifest.to_string().into_bytes())
            .expect("a request");
        self.client.request::<Value>(request).await.unwrap_or_else(|error| panic!("POST {path}: {error}"))
    }

    /// The status that a request without any credential is answered with.
    pub(crate) async fn anonymous(&self, method: http::Method, path: &str, body: String) -> http::StatusCode {
        let request = http::Request::builder().method(method).uri(path);
        let request = request.body(kube::client::Body::from(body.into_bytes())).expect("a request");
        self.stranger.send(request).await.expect("answered").status()
    }

    /// The path of an object in the test's namespace, under `prefix` such as `/apis/apps/v1`.
    pub(crate) fn path(&self, prefix: &str, plural: &str, name: &str) -> String {
        format!("{prefix}/namespaces/{}/{plural}/{name}", self.namespace)
    }

    pub(crate) fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Makes a script for the conformance plugin.
    pub(crate) async fn script(&self, name: &str, action: &str) -> ConfigMap {
        let manifest = json!({
            "metadata": {"name": name, "labels": {"test": "conformance"}}, "data": {"action": action}
        });
        let script = serde_json::from_value(manifest).expect("a config map");
        self.config_maps().create(&PostParams::default(), &script).await.expect("created")
    }

    /// Makes a ConfigMap with this data, which plugins find by its label `test=observer`.
    pub(crate) async fn observed(&self, name: &str, data: Value) -> ConfigMap {
        self.labelled(name, "observer", data).await
    }

    /// Makes a ConfigMap with this data and this value of the label `test`.
    pub(crate) async fn labelled(&self, name: &str, test: &str, data: Value) -> ConfigMap {
        let manifest = json!({"metadata": {"name": name, "labels": {"test": test}}, "data": data});
        let map = serde_json::from_value(manifest).expect("a config map");
        self.config_maps().create(&PostParams::default(), &map).await.expect("created")
    }

    /// Makes a ConfigMap with this data, which the plugins of the sandbox's tests find by its label `test=sandbox`.
    pub(crate) async fn sandboxed(&self, name: &str, data: Value) -> ConfigMap {
        self.labelled(name, "sandbox", data).await
    }

    /// Changes one entry of a ConfigMap's data.
    pub(crate) async fn set_data(&self, name: &str, key: &str, value: &str) -> ConfigMap {
        let patch = Patch::Merge(json!({"data": {key: value}}));
        self.config_maps().patch(name, &PatchParams::default(), &patch).await.expect("patched")
    }

    /// A ConfigMap's data, empty when it is not there.
    pub(crate) async fn data(&self, name: &str) -> BTreeMap<String, String> {
        let found = self.config_maps().get_opt(name).await.expect("answered");
        found.and_then(|found| found.data).unwrap_or_default()
    }

    /// The Events about objects in the test's namespace.
    pub(crate) async fn events(&self) -> Vec<k8s_openapi::api::events::v1::Event> {
        let events = Api::namespaced(self.client.clone(), &self.namespace);
        events.list(&ListParams::default()).await.expect("listed").items
    }

    /// How many requests of a verb there were for a resource such as `apps/v1/deployments`, on the embedded server.
    pub(crate) async fn requests(&self, verb: &str, resource: &str) -> u64 {
        let answer = self.get("/debug/requests").await;
        let counts = answer["counts"].as_array().expect("the embedded server counts requests");
        let of_it = counts.iter().filter(|count| count["verb"] == verb && count["resource"] == resource);
        of_it.filter_map(|count| count["count"].as_u64()).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(leftovers) = self.leftovers.take() else { return };
        let client = self.client.clone();
        // The next test must find the server as this one did.
        let removed = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(leftovers.remove(&client))
        });
        if let Err(error) = removed {
            let namespace = &self.namespace;
            super::say_loudly(&format!("not all that the test made in {namespace} is removed: {error}"));
        }
    }
}

/// The status that a request over plain HTTP is answered with.
pub(crate) async fn send(request: http::Request<String>) -> http::StatusCode {
    let client = HttpClient::builder(TokioExecutor::new()).build_http::<String>();
    client.request(request).await.expect("the host answers").status()
}

/// GET of a URL: the HTTP status and the body.
pub(super) async fn get(url: &str) -> (u16, String) {
    let client = HttpClient::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let response = client.get(url.parse().expect("a URL")).await.expect("the host answers");
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.expect("a whole body").to_bytes();
    (status, String::from_utf8(body.to_vec()).expect("text"))
}
