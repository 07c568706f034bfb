//! The example `secret-replicator`: copies Secrets into other namespaces.

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::harness::{Guest, Host};

async fn create_namespace(host: &Host, name: &str) {
    let manifest = json!({"metadata": {"name": name}});
    let namespace: Namespace = serde_json::from_value(manifest).expect("a namespace");
    let all = Api::<Namespace>::all(host.server.client.clone());
    all.create(&PostParams::default(), &namespace).await.expect("created");
}

fn secrets(host: &Host, namespace: &str) -> Api<Secret> {
    Api::namespaced(host.server.client.clone(), namespace)
}

async fn wait_for_copy(host: &Host, namespace: &str, token: &str) {
    let secrets = secrets(host, namespace);
    host.wait(&format!("the copy in {namespace} with {token:?}"), || async {
        let copy = secrets.get_opt("token").await.expect("answered")?;
        (copy.data?.get("token")?.0 == token.as_bytes()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_follow_their_source_and_are_deleted_with_it() {
    let host = Host::start().await;
    let (first, second) = (format!("{}-a", host.server.namespace), format!("{}-b", host.server.namespace));
    if host.server.skip_if_external("the test creates namespaces") {
        return;
    }
    create_namespace(&host, &first).await;
    host.install_plugin("secret-replicator", &Guest::SecretReplicator.wasm());
    host.wait_for_state("secret-replicator", "running").await;
    let own = secrets(&host, &host.server.namespace);
    let manifest = json!({
        "metadata": {"name": "token", "annotations": {"replicator.example.com/to": format!("{first}, {second}")}},
        "stringData": {"token": "one"},
    });
    let source: Secret = serde_json::from_value(manifest).expect("a secret");
    own.create(&PostParams::default(), &source).await.expect("created");
    wait_for_copy(&host, &first, "one").await;

    // A namespace that is created later gets its copy.
    create_namespace(&host, &second).await;
    wait_for_copy(&host, &second, "one").await;

    // The source changes; another client changes a copy; a copy is deleted.
    let change = |token: &str| Patch::Merge(json!({"stringData": {"token": token}}));
    own.patch("token", &PatchParams::default(), &change("two")).await.expect("patched");
    wait_for_copy(&host, &first, "two").await;
    secrets(&host, &first).patch("token", &PatchParams::default(), &change("theirs")).await.expect("patched");
    wait_for_copy(&host, &first, "two").await;
    secrets(&host, &second).delete("token", &DeleteParams::default()).await.expect("deleted");
    wait_for_copy(&host, &second, "two").await;

    // A namespace that is removed from the list loses its copy. Deleting the source deletes the remaining copies.
    let fewer = Patch::Merge(json!({"metadata": {"annotations": {"replicator.example.com/to": first}}}));
    own.patch("token", &PatchParams::default(), &fewer).await.expect("patched");
    let wait_for_deletion = async |namespace: &str| {
        let secrets = secrets(&host, namespace);
        host.wait(&format!("no copy in {namespace}"), || async {
            secrets.get_opt("token").await.expect("answered").is_none().then_some(())
        })
        .await;
    };
    wait_for_deletion(&second).await;
    own.delete("token", &DeleteParams::default()).await.expect("deleted");
    wait_for_deletion(&first).await;
    wait_for_deletion(&host.server.namespace).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_not_a_copy_is_not_touched() {
    let host = Host::start().await;
    if host.server.skip_if_external("the test creates namespaces") {
        return;
    }
    let other = format!("{}-a", host.server.namespace);
    create_namespace(&host, &other).await;
    let theirs = json!({"metadata": {"name": "token"}, "stringData": {"token": "theirs"}});
    let theirs: Secret = serde_json::from_value(theirs).expect("a secret");
    secrets(&host, &other).create(&PostParams::default(), &theirs).await.expect("created");
    host.install_plugin("secret-replicator", &Guest::SecretReplicator.wasm());
    host.wait_for_state("secret-replicator", "running").await;
    let manifest = json!({
        "metadata": {"name": "token", "annotations": {"replicator.example.com/to": other}},
        "stringData": {"token": "ours"},
    });
    let source: Secret = serde_json::from_value(manifest).expect("a secret");
    secrets(&host, &host.server.namespace).create(&PostParams::default(), &source).await.expect("created");
    host.wait("the Event about the name", || async {
        let events = host.server.events().await;
        events.iter().any(|event| event.reason.as_deref() == Some("NameTaken")).then_some(())
    })
    .await;
    wait_for_copy(&host, &other, "theirs").await;
}
