//! `apiserver --data`: no acknowledged write is lost when the process is killed. `dev --data` continues where it stopped.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::json;
use tokio::sync::watch;

use crate::harness::{ApiServer, Host, Options, Server};

/// How often the server is killed.
const ROUNDS: usize = 8;
/// How many clients write at the same time.
const WRITERS: usize = 4;
/// How many objects each of them creates, updates and deletes in turn.
const OBJECTS: usize = 7;
/// How many writes are acknowledged in each round before the server is killed.
const WRITES: usize = 60;

/// A stored version of an object.
#[derive(Clone, Debug, PartialEq)]
struct Version {
    uid: String,
    resource_version: u64,
    number: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Write {
    Create,
    Update,
    Delete,
}

/// What a client knows of an object.
#[derive(Clone, Debug, Default)]
struct Object {
    /// The last version that the server acknowledged; `None` if the last acknowledged write deleted it.
    acknowledged: Option<Version>,
    /// A write that was not answered. It may or may not be on disk.
    unanswered: Option<Write>,
}

/// What all clients know, and how many writes were acknowledged in this round.
#[derive(Default)]
struct Acknowledged {
    objects: BTreeMap<String, Object>,
    writes: [usize; 3],
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_create_update_or_delete_is_lost_when_the_server_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = folder.path().join("kubeconfig");
    let data = folder.path().join("data");
    let flags = ["--controllers", "none", "--data", data.to_str().expect("a path in UTF-8")];
    let acknowledged = Arc::new(watch::Sender::new(Acknowledged::default()));
    let mut totals = [0; 3];
    for round in 0..ROUNDS {
        let process = ApiServer::start("127.0.0.1:0", &kubeconfig, &flags);
        let server = Server::new(kubeconfig.clone(), false).await;
        check(&server.client, &acknowledged, round).await;
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| tokio::spawn(write(server.client.clone(), writer, Arc::clone(&acknowledged))))
            .collect();
        let mut progress = acknowledged.subscribe();
        let enough = progress.wait_for(|known| known.writes.iter().sum::<usize>() >= WRITES).await;
        drop(enough.expect("writers"));
        drop(process);
        for writer in writers {
            writer.await.expect("no panic");
        }
        acknowledged.send_modify(|known| {
            for (total, writes) in totals.iter_mut().zip(std::mem::take(&mut known.writes)) {
                *total += writes;
            }
        });
    }
    let _process = ApiServer::start("127.0.0.1:0", &kubeconfig, &flags);
    check(&Server::new(kubeconfig, false).await.client, &acknowledged, ROUNDS).await;
    assert!(totals.iter().all(|total| *total >= ROUNDS), "creates, updates and deletes: {totals:?}");
}

/// Creates, updates and deletes objects until the server is gone, and records what it acknowledged.
async fn write(client: Client, writer: usize, acknowledged: Arc<watch::Sender<Acknowledged>>) {
    let api = Api::<ConfigMap>::default_namespaced(client);
    for number in 0.. {
        let name = format!("w{writer}-{}", number % OBJECTS);
        let known = acknowledged.borrow().objects.get(&name).cloned().unwrap_or_default().acknowledged;
        let kind = match known {
            None => Write::Create,
            Some(_) if number % 3 == 0 => Write::Delete,
            Some(_) => Write::Update,
        };
        acknowledged.send_modify(|all| all.objects.entry(name.clone()).or_default().unanswered = Some(kind));
        let version = known.map(|version| version.resource_version.to_string());
        let manifest = json!({
            "metadata": {"name": name, "resourceVersion": version}, "data": {"number": number.to_string()}
        });
        let map: ConfigMap = serde_json::from_value(manifest).expect("a ConfigMap");
        let result = match kind {
            Write::Create => api.create(&PostParams::default(), &map).await.map(Some),
            Write::Update => api.replace(&name, &PostParams::default(), &map).await.map(Some),
            Write::Delete => api.delete(&name, &DeleteParams::default()).await.map(|_| None),
        };
        let written = match result {
            Ok(written) => written.map(|map| identity(map).1),
            Err(kube::Error::Api(status)) => panic!("{kind:?} of {name}: {status:?}"),
            Err(_) => return,
        };
        acknowledged.send_modify(|all| {
            all.writes[kind as usize] += 1;
            all.objects.insert(name, Object { acknowledged: written, unanswered: None });
        });
    }
}

/// Returns the name and the version of an object.
fn identity(map: ConfigMap) -> (String, Version) {
    let metadata = map.metadata;
    let text = |value: Option<String>| value.expect("set by the server");
    let version = Version {
        uid: text(metadata.uid),
        resource_version: text(metadata.resource_version).parse().expect("a number"),
        number: map.data.unwrap_or_default().remove("number").unwrap_or_default(),
    };
    (text(metadata.name), version)
}

/// Checks that each object has its acknowledged version, or that of the write that was not answered. From then on, what was found is known.
async fn check(client: &Client, acknowledged: &watch::Sender<Acknowledged>, round: usize) {
    let list = Api::<ConfigMap>::default_namespaced(client.clone())
        .list(&ListParams::default())
        .await
        .expect("a list");
    let mut found: BTreeMap<String, Version> = list.items.into_iter().map(identity).collect();
    acknowledged.send_modify(|known| {
        for (name, object) in &mut known.objects {
            let (found, expected) = (found.remove(name), object.acknowledged.take());
            let is_expected = match (object.unanswered.take(), &expected, &found) {
                _ if found == expected => true,
                (Some(Write::Create), None, Some(_)) | (Some(Write::Delete), Some(_), None) => true,
                (Some(Write::Update), Some(old), Some(new)) => {
                    old.uid == new.uid && new.resource_version > old.resource_version
                }
                _ => false,
            };
            assert!(is_expected, "{name} after {round} kills: {found:?} in place of {expected:?}");
            object.acknowledged = found;
        }
    });
    let strangers: Vec<_> = found.keys().filter(|name| name.starts_with('w')).collect();
    assert!(strangers.is_empty(), "after {round} kills: {strangers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn dev_with_data_continues_where_it_was_killed() {
    let data = tempfile::tempdir().expect("a folder");
    let start = || {
        // A host with an external server ignores the variable.
        let environment =
            vec![("PILOTHOUSE_DATA", data.path().to_str().expect("a path in UTF-8").to_owned())];
        Host::start_with(Options { environment, ..Options::default() })
    };
    let maps = |host: &Host| Api::<ConfigMap>::default_namespaced(host.server.client.clone());
    let host = start().await;
    if host.server.skip_if_external("the server of `dev --data`") {
        return;
    }
    let manifest = json!({"metadata": {"name": "kept"}, "data": {"number": "1"}});
    let map: ConfigMap = serde_json::from_value(manifest).expect("a ConfigMap");
    let created = maps(&host).create(&PostParams::default(), &map).await.expect("created");
    let created = identity(created);
    drop(host);

    let host = start().await;
    assert_eq!(identity(maps(&host).get("kept").await.expect("still there")), created);
    maps(&host).delete("kept", &DeleteParams::default()).await.expect("deleted");
    drop(host);
    let host = start().await;
    assert!(maps(&host).get_opt("kept").await.expect("an answer").is_none(), "deleted for good");
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
