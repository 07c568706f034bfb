//! The informer with a `kube::Client` against the embedded API server: real requests and bodies instead of scripted ones.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use pilothouse_apiserver::{ApiServer, Matcher, Verb};
use pilothouse_informer::{
    FailureKind, InformerKey, InformerOptions, InformerRegistry, KubeListWatch, KubeListWatches, ListParams,
    ListWatch, SubscribeOptions, Subscription,
};
use pilothouse_model::{Notification, ResourceType};
use serde_json::json;

fn config_maps() -> InformerKey {
    InformerKey::new(ResourceType {
        group: String::new(),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        plural: "configmaps".into(),
        namespaced: true,
    })
    .in_namespace("default")
}

fn config_map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    }
}

struct Cluster {
    server: ApiServer,
    api: Api<ConfigMap>,
    registry: InformerRegistry,
}

fn cluster(streaming_list: bool) -> Cluster {
    let server = ApiServer::builder().build();
    let client = kube::Client::new(server.service(), "default");
    let options = InformerOptions::default().with_streaming_list(streaming_list).with_seed(1);
    let registry = InformerRegistry::new(KubeListWatches::new(client.clone()), options);
    Cluster { server, api: Api::default_namespaced(client), registry }
}

/// Takes batches until it has `count` notifications, and abbreviates them: `+name`, `~name`, `-name`.
async fn summaries(subscription: &Subscription, count: usize) -> Vec<String> {
    let mut summaries = Vec::new();
    while summaries.len() < count {
        let batch = tokio::time::timeout(Duration::from_secs(60), subscription.next_batch()).await;
        for notification in batch.expect("a notification within a minute").expect("the informer runs") {
            let sign = match &notification {
                Notification::Added { .. } => "+",
                Notification::Updated { .. } => "~",
                Notification::Deleted { .. } => "-",
            };
            summaries.push(format!("{sign}{}", notification.key().name()));
        }
    }
    summaries
}

async fn label(api: &Api<ConfigMap>, name: &str, value: &str) -> Result<(), kube::Error> {
    let patch = Patch::Merge(json!({ "metadata": { "labels": { "round": value } } }));
    api.patch(name, &PatchParams::default(), &patch).await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn the_informer_follows_the_server_with_streaming_and_with_plain_lists() -> Result<(), kube::Error> {
    for streaming in [true, false] {
        let Cluster { server, api, registry } = cluster(streaming);
        api.create(&PostParams::default(), &config_map("early")).await?;
        let first = registry.subscribe(config_maps(), SubscribeOptions::default()).expect("open");
        let second = registry.subscribe(config_maps(), SubscribeOptions::default()).expect("open");
        assert_eq!(summaries(&first, 1).await, ["+early"]);
        assert!(first.has_synced());
        api.create(&PostParams::default(), &config_map("late")).await?;
        label(&api, "early", "1").await?;
        api.delete("late", &DeleteParams::default()).await?;
        assert_eq!(summaries(&first, 3).await, ["+late", "~early", "-late"]);
        assert_eq!(summaries(&second, 4).await, ["+early", "+late", "~early", "-late"]);
        let by_watch = first.store().list();
        assert_eq!(by_watch.len(), 1);
        assert!(
            by_watch[0].json().starts_with(r#"{"apiVersion":"v1","kind":"ConfigMap""#),
            "{}",
            by_watch[0].json()
        );
        assert!(!by_watch[0].json().contains("managedFields"));
        let (lists, watches) = (
            server.requests().count(Verb::List, "v1/configmaps"),
            server.requests().count(Verb::Watch, "v1/configmaps"),
        );
        assert_eq!((lists, watches), (u64::from(!streaming), 1), "two subscribers, one watch");
        registry.stop().await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_cut_watch_resumes_without_a_list_and_a_compacted_watch_relists() -> Result<(), kube::Error> {
    let Cluster { server, api, registry } = cluster(false);
    api.create(&PostParams::default(), &config_map("a")).await?;
    let subscription = registry.subscribe(config_maps(), SubscribeOptions::default()).expect("open");
    assert_eq!(summaries(&subscription, 1).await, ["+a"]);
    server.cut_watches("", "configmaps");
    label(&api, "a", "1").await?;
    assert_eq!(summaries(&subscription, 1).await, ["~a"]);
    assert_eq!(server.requests().count(Verb::List, "v1/configmaps"), 1);

    server.faults().expire(Matcher::of(Verb::Watch, "configmaps"));
    server.cut_watches("", "configmaps");
    api.create(&PostParams::default(), &config_map("b")).await?;
    let delivered = summaries(&subscription, 2).await;
    assert!(delivered.contains(&"+b".to_owned()), "{delivered:?}");
    assert_eq!(server.requests().count(Verb::List, "v1/configmaps"), 2);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn retry_after_of_a_real_response_is_honoured() -> Result<(), kube::Error> {
    let Cluster { server, api, registry } = cluster(false);
    api.create(&PostParams::default(), &config_map("a")).await?;
    server.faults().fail_with_code(Matcher::of(Verb::List, "configmaps"), 1, 429, 7);
    let started_at = tokio::time::Instant::now();
    let subscription = registry.subscribe(config_maps(), SubscribeOptions::default()).expect("open");
    assert_eq!(summaries(&subscription, 1).await, ["+a"]);
    assert!(started_at.elapsed() >= Duration::from_secs(7), "{:?}", started_at.elapsed());
    Ok(())
}

#[tokio::test]
async fn failures_of_a_real_connection_are_classified() {
    // Nothing listens on port 1. A free port that was just released could be given to another test.
    let config = kube::Config::new("http://127.0.0.1:1".parse().expect("a URL"));
    let client = kube::Client::try_from(config).expect("a client");
    let refused = KubeListWatch::new(client, config_maps()).list(&ListParams::default()).await;
    assert_eq!(refused.err().map(|failure| failure.kind), Some(FailureKind::ConnectionRefused));

    let server = ApiServer::builder().build();
    let mut key = config_maps();
    key.resource.group = "missing.example.com".into();
    let client = kube::Client::new(server.service(), "default");
    let missing = KubeListWatch::new(client, key).list(&ListParams::default()).await;
    assert_eq!(missing.err().map(|failure| failure.kind), Some(FailureKind::NotFound));
}
