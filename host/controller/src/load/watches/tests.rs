//! Watches with an embedded API server.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_informer::{
    InformerKey, InformerOptions, InformerRegistry, KubeListWatches, SubscribeOptions,
};
use pilothouse_model::ResourceType;
use pilothouse_plugin::{HostMemory, HostMemoryKind};

use super::subscriptions::take_reusable;
use super::view::{check_index_memory, view};
use crate::cache::own_writes::PluginWrites;
use crate::config::descriptor::Watch;
use crate::load::version::WatchSubscription;

fn namespaces() -> ResourceType {
    ResourceType {
        group: String::new(),
        version: "v1".into(),
        kind: "Namespace".into(),
        plural: "namespaces".into(),
        namespaced: false,
    }
}

#[tokio::test]
async fn the_indexes_of_a_plugin_are_charged_to_it_while_a_version_has_them() {
    let api = pilothouse_apiserver::ApiServer::builder().build();
    let client = kube::Client::new(api.service(), "default");
    let informers = InformerRegistry::new(KubeListWatches::new(client), InformerOptions::default());
    let memory = HostMemory::new(1 << 20);
    let writes = PluginWrites::new(memory.clone());
    let used = || memory.used_by(HostMemoryKind::IndexValues);
    let view = async |indexes: serde_json::Value| {
        let watch = serde_json::json!({
            "name": "namespaces", "apiVersion": "v1", "kind": "Namespace", "indexes": indexes,
        });
        let watch: Watch = serde_json::from_value(watch).expect("a watch");
        let key = InformerKey::new(namespaces());
        let subscription = informers.subscribe(key, SubscribeOptions::default()).expect("open");
        while !subscription.status().synced {
            tokio::task::yield_now().await;
        }
        let own_writes = writes.for_resource(&namespaces());
        view(&watch, &namespaces(), vec![Arc::new(subscription)], own_writes, &writes).expect("a view")
    };
    let by_name = serde_json::json!([{"name": "byName", "label": "kubernetes.io/metadata.name"}]);
    let one = view(by_name.clone()).await;
    let bytes = used();
    assert!(bytes > 1000, "four namespaces with a label each: {bytes}");
    let another = view(by_name).await;
    assert_eq!(used(), bytes, "another version, with a subscription of its own, has the same index");
    let more = view(serde_json::json!([{"name": "byPhase", "field": ".status.phase"}])).await;
    assert!(used() > bytes, "another index");
    drop((one, more));
    assert_eq!(used(), bytes);
    drop(another);
    assert_eq!(used(), 0);
}

#[test]
fn indexes_beyond_the_host_memory_are_refused_with_the_limits_name() {
    let memory = HostMemory::new(1 << 20);
    memory.add(HostMemoryKind::IndexValues, 1 << 20);
    assert!(check_index_memory(&memory).is_ok());
    memory.add(HostMemoryKind::IndexValues, 1 << 20);
    let problem = check_index_memory(&memory).expect_err("too much");
    let expected = "the indexes of its watches do not fit: it exceeded limits.hostMemory of 1 MiB by growing to 2 MiB with index \
         values: have fewer indexes, or fewer or shorter index values, or raise limits.hostMemory";
    assert_eq!((problem.to_string().as_str(), problem.is_transient()), (expected, false));
}

#[tokio::test]
async fn a_reload_does_not_reuse_a_subscription_that_has_ended() {
    let api = pilothouse_apiserver::ApiServer::builder().build();
    let client = kube::Client::new(api.service(), "default");
    let informers = InformerRegistry::new(KubeListWatches::new(client), InformerOptions::default());
    let key = InformerKey::new(namespaces());
    let subscription = Arc::new(informers.subscribe(key.clone(), SubscribeOptions::default()).expect("open"));
    let reusable = || {
        let (key, subscription) = (key.clone(), Arc::clone(&subscription));
        vec![WatchSubscription::new(key, None, subscription)]
    };
    assert!(take_reusable(&mut reusable(), &key, None).is_some());
    assert!(take_reusable(&mut reusable(), &key, Some(Duration::from_secs(1))).is_none());
    informers.stop().await;
    assert!(take_reusable(&mut reusable(), &key, None).is_none(), "it delivers nothing any more");
}
