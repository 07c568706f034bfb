//! An API server with RBAC, and a host that runs as a service account without roles.

use std::fs;
use std::path::{Path, PathBuf};

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::Client;
use kube::api::{Api, PostParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::json;
use tempfile::TempDir;

use crate::harness::{ApiServer, Host, Options, binary};

/// The default names of `pilothouse rbac`: the service account's, its namespace's and the roles'.
const HOST: &str = "pilothouse";

pub(super) struct Cluster {
    pub(super) host: Host,
    _server: ApiServer,
    _folder: TempDir,
}

impl Cluster {
    pub(super) async fn start(flags: &[&'static str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let admin = folder.path().join("admin");
        let server = ApiServer::start("127.0.0.1:0", &admin, &["--authorization", "rbac"]);
        let client = client(&admin).await;
        create_namespace(&client, HOST).await;
        let accounts = Api::<ServiceAccount>::namespaced(client, HOST);
        let account = serde_json::from_value(json!({"metadata": {"name": HOST}})).expect("an account");
        accounts.create(&PostParams::default(), &account).await.expect("created");
        let request = TokenRequest { spec: Some(TokenRequestSpec::default()), ..TokenRequest::default() };
        let token =
            accounts.create_token_request(HOST, &PostParams::default(), &request).await.expect("a token");
        let token = token.status.expect("a status").token;
        let kubeconfig = folder.path().join("host");
        // Uses the cluster entry of the administrator's kubeconfig, which has the CA certificate.
        let file = fs::read_to_string(&admin).expect("readable");
        let file: serde_json::Value = serde_json::from_str(&file).expect("JSON");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": HOST,
            "clusters": [{"name": HOST, "cluster": file["clusters"][0]["cluster"]}],
            "users": [{"name": HOST, "user": {"token": token}}],
            "contexts": [{"name": HOST, "context": {"cluster": HOST, "user": HOST}}],
        });
        fs::write(&kubeconfig, config.to_string()).expect("written");
        let options = Options {
            kubeconfig: Some(kubeconfig),
            admin: Some(admin),
            flags: flags.to_vec(),
            ..Options::default()
        };
        Self { host: Host::start_with(options).await, _server: server, _folder: folder }
    }

    /// Applies the roles that `pilothouse rbac` prints for these plugins. Returns `None` if kubectl is not installed.
    pub(super) fn apply_roles(&self, plugins: &[&str]) -> Option<()> {
        let files: Vec<PathBuf> =
            plugins.iter().map(|name| self.host.plugins().join(format!("{name}.wasm"))).collect();
        let roles = rbac(&files);
        self.host.server.kubectl_anywhere(&["apply", "-f", "-"], &roles).map(|_| ())
    }

    /// Waits until the plugin is in the state `waiting` with an error that contains all parts.
    pub(super) async fn expect_waiting(&self, plugin: &str, parts: &[&str]) {
        expect_waiting(&self.host, plugin, parts).await;
    }
}

/// Waits until the plugin is in the state `waiting` with an error that contains all parts.
pub(super) async fn expect_waiting(host: &Host, plugin: &str, parts: &[&str]) {
    host.wait_for_plugin(plugin, &format!("waiting for {parts:?}"), |status| {
        let error = status["error"].as_str().unwrap_or_default();
        status["state"] == "waiting" && parts.iter().all(|part| error.contains(part))
    })
    .await;
}

pub(super) async fn create_namespace(client: &Client, name: &str) {
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).expect("a namespace");
    let namespaces = Api::<Namespace>::all(client.clone());
    namespaces.create(&PostParams::default(), &namespace).await.expect("created");
}

async fn client(kubeconfig: &Path) -> Client {
    let file = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("a configuration")).expect("a client")
}

fn rbac(files: &[PathBuf]) -> String {
    let output = binary().arg("rbac").args(files).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}
