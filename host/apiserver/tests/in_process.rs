//! `kube::Client` with the server in process, without a socket.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use pilothouse_apiserver::ApiServer;

fn config_map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
        data: Some([("key".to_owned(), value.to_owned())].into()),
        ..ConfigMap::default()
    }
}

#[tokio::test]
async fn kube_client_creates_updates_watches_and_deletes_in_process() -> Result<(), kube::Error> {
    let server = ApiServer::builder().build();
    let api: Api<ConfigMap> = Api::default_namespaced(Client::new(server.service(), "default"));

    let list = api.list(&ListParams::default()).await?;
    let version = list.metadata.resource_version.clone().unwrap_or_default();
    let mut events = api.watch(&WatchParams::default(), &version).await?.boxed();

    let created = api.create(&PostParams::default(), &config_map("a", "1")).await?;
    assert!(created.uid().is_some() && created.creation_timestamp().is_some());
    let mut changed = api.get("a").await?;
    changed.data = Some([("key".to_owned(), "2".to_owned())].into());
    let replaced = api.replace("a", &PostParams::default(), &changed).await?;
    assert_ne!(replaced.resource_version(), created.resource_version());
    let stale = api.replace("a", &PostParams::default(), &changed).await;
    assert!(matches!(&stale, Err(kube::Error::Api(status)) if status.reason == "Conflict"), "{stale:?}");
    assert_eq!(api.list(&ListParams::default()).await?.items.len(), 1);
    api.delete("a", &DeleteParams::default()).await?;
    assert!(api.get_opt("a").await?.is_none());

    let mut seen = Vec::new();
    while seen.len() < 3 {
        match events.try_next().await? {
            Some(WatchEvent::Added(object)) => seen.push(("added", object.name_any())),
            Some(WatchEvent::Modified(object)) => seen.push(("modified", object.name_any())),
            Some(WatchEvent::Deleted(object)) => seen.push(("deleted", object.name_any())),
            other => panic!("not expected: {other:?}"),
        }
    }
    assert_eq!(seen, [("added", "a".into()), ("modified", "a".into()), ("deleted", "a".into())]);
    Ok(())
}
