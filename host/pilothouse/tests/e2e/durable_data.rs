//! `apiserver --data`: no acknowledged write is lost when the process is killed.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use serde_json::json;
use tokio::sync::watch;

use crate::harness::{ApiServer, Server};

/// How often the server is killed.
const ROUNDS: usize = 8;
/// How many clients write at the same time.
const WRITERS: usize = 4;
/// How many writes are acknowledged in each round before the server is killed.
const WRITES: usize = 40;

/// The UID and resourceVersion of each object whose creation was acknowledged, by namespace and name.
type Acknowledged = BTreeMap<(String, String), (String, String)>;

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_write_is_lost_when_the_server_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = folder.path().join("kubeconfig");
    let data = folder.path().join("data");
    let flags = ["--controllers", "none", "--data", data.to_str().expect("a path in UTF-8")];
    let mut all = Acknowledged::new();
    for round in 0..ROUNDS {
        let process = ApiServer::start("127.0.0.1:0", &kubeconfig, &flags);
        let server = Server::new(kubeconfig.clone(), false).await;
        check(&server.client, &all, round).await;
        let acknowledged = Arc::new(watch::Sender::new(Acknowledged::new()));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let api = Api::<ConfigMap>::namespaced(server.client.clone(), &server.namespace);
                tokio::spawn(write(api, writer, Arc::clone(&acknowledged)))
            })
            .collect();
        let mut progress = acknowledged.subscribe();
        let enough = progress.wait_for(|acknowledged| acknowledged.len() >= WRITES).await;
        drop(enough.expect("writers"));
        drop(process);
        for writer in writers {
            writer.await.expect("no panic");
        }
        all.extend(acknowledged.borrow().clone());
    }
    let _process = ApiServer::start("127.0.0.1:0", &kubeconfig, &flags);
    check(&Server::new(kubeconfig, false).await.client, &all, ROUNDS).await;
}

/// Creates objects until the server is gone, and records those that it acknowledged.
async fn write(api: Api<ConfigMap>, writer: usize, acknowledged: Arc<watch::Sender<Acknowledged>>) {
    for number in 0.. {
        let manifest = json!({"metadata": {"name": format!("w{writer}-{number}")}, "data": {"number": number.to_string()}});
        let map: ConfigMap = serde_json::from_value(manifest).expect("a ConfigMap");
        let Ok(created) = api.create(&PostParams::default(), &map).await else { return };
        let (key, value) = identity(created);
        acknowledged.send_modify(|acknowledged| drop(acknowledged.insert(key, value)));
    }
}

fn identity(map: ConfigMap) -> ((String, String), (String, String)) {
    let metadata = map.metadata;
    let text = |value: Option<String>| value.expect("set by the server");
    ((text(metadata.namespace), text(metadata.name)), (text(metadata.uid), text(metadata.resource_version)))
}

async fn check(client: &Client, acknowledged: &Acknowledged, round: usize) {
    let list = Api::<ConfigMap>::all(client.clone()).list(&ListParams::default()).await.expect("a list");
    let found: Acknowledged = list.items.into_iter().map(identity).collect();
    for (key, value) in acknowledged {
        assert_eq!(found.get(key), Some(value), "{key:?} after {round} kills");
    }
}

#[test]
fn damaged_and_locked_directories_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let (kubeconfig, data) = (folder.path().join("kubeconfig"), folder.path().join("data"));
    let directory = data.to_str().expect("a path in UTF-8");
    let problem = || {
        let output = crate::harness::binary()
            .args(["apiserver", "--data", directory, "--kubeconfig-out"])
            .arg(folder.path().join("other"))
            .output()
            .expect("it starts");
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).expect("text")
    };
    let process = ApiServer::start("127.0.0.1:0", &kubeconfig, &["--data", directory]);
    assert!(problem().contains("is in use by another process"));
    drop(process);
    std::fs::write(data.join("objects.redb"), "not a database").expect("written");
    assert!(problem().contains("is not a database of this server"));
    assert_eq!(std::fs::read_to_string(data.join("objects.redb")).expect("left alone"), "not a database");
}
