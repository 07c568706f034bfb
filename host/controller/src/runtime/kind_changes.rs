//! Notices that a kind is served in another way than when the version was loaded: its CRD was deleted and created again with another scope
//! or plural name. The version's URLs, keys and targets were built for the old resource, so the version has to be loaded again.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use pilothouse_informer::{FailureKind, InformerStatus};
use pilothouse_model::ResourceType;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::client::{Discovery, Freshness};
use crate::guest_host::PluginServices;
use crate::load::type_of;
use crate::load::version::{Version, WatchRoute};

/// Between two checks. They send no request while all watches are connected.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Starts a task that ends with a description of the change once [`wait_for_change`] has found one. Dropping the set aborts the task.
pub(super) fn spawn(discovery: Discovery, version: Arc<Version>, plugin: PluginServices) -> JoinSet<String> {
    let mut task = JoinSet::new();
    task.spawn(async move {
        let wait = || -> BoxFuture<'static, String> {
            Box::pin(wait_for_change(discovery.clone(), Arc::clone(&version), plugin.clone()))
        };
        plugin.restart("kinds", wait).await
    });
    task
}

/// Waits until the kind of a watch is served as another resource than the version was loaded with, and returns a description of the change.
/// What was compared already is kept in the version, so that a call after a panic misses no change.
async fn wait_for_change(discovery: Discovery, version: Arc<Version>, plugin: PluginServices) -> String {
    {
        let mut compared = version.compared_kinds.lock();
        if compared.is_empty() {
            *compared = version.routes.iter().map(|route| requests(&status(route))).collect();
        }
    }
    loop {
        sleep(CHECK_INTERVAL).await;
        plugin.panics.inject_test_panic("kinds");
        for (position, route) in version.routes.iter().enumerate() {
            let status = status(route);
            let is_missing = status.error.as_ref().is_some_and(|error| error.kind == FailureKind::NotFound);
            let is_compared = version.compared_kinds.lock()[position] == requests(&status);
            // A CRD cannot disappear without ending the watches of its kind, and a watch that ends is requested again.
            if is_compared && !is_missing {
                continue;
            }
            // If the server does not say now, the next check asks again.
            let Some((loaded, served)) = resources(&discovery, &version, &route.watch).await else {
                continue;
            };
            if served != *loaded {
                return format!("watch {:?}: its kind is served as {served} now", route.watch);
            }
            version.compared_kinds.lock()[position] = requests(&status);
        }
    }
}

fn status(route: &WatchRoute) -> InformerStatus {
    route.subscribed.subscription.status()
}

fn requests(status: &InformerStatus) -> u64 {
    status.list_requests + status.watch_requests
}

/// Returns the resource that the version was loaded with for the watch, and the one that its kind is served as now.
async fn resources<'a>(
    discovery: &Discovery,
    version: &'a Version,
    watch: &str,
) -> Option<(&'a ResourceType, ResourceType)> {
    let declared = version.descriptor.watch(watch)?;
    let loaded = &version.views.by_name.get(watch)?.resource;
    let served = discovery
        .resolve(type_of(declared).ok()?, declared.resource.as_deref(), Freshness::Fresh)
        .await
        .ok()?;
    Some((loaded, served))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU32, Ordering};

    use bytes::Bytes;
    use futures::{FutureExt, StreamExt, stream};
    use http_body::Frame;
    use http_body_util::{BodyExt, Full, StreamBody};
    use kube::client::Body;
    use pilothouse_informer::{
        InformerKey, InformerOptions, InformerRegistry, KubeListWatches, SubscribeOptions,
    };
    use pilothouse_plugin::InstanceLimits;
    use serde_json::json;
    use tokio::time::timeout;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::cache::views::Views;
    use crate::cache::views::model_tests::model_server;
    use crate::client::ApiClient;
    use crate::load::version::WatchSubscription;
    use crate::runtime::handover::tests::view;

    /// A server whose ConfigMaps become cluster-scoped with `change`, which also ends their watches. Counts the watches.
    fn server(change: &CancellationToken, watches: &Arc<AtomicU32>) -> kube::Client {
        let (change, watches) = (change.clone(), Arc::clone(watches));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (change, watches) = (change.clone(), Arc::clone(&watches));
            async move {
                let resource =
                    json!({"name": "configmaps", "kind": "ConfigMap", "namespaced": !change.is_cancelled()});
                let list = json!({"kind": "ConfigMapList", "apiVersion": "v1",
                    "metadata": {"resourceVersion": "1"}, "items": []});
                let body = if request.uri().query().unwrap_or_default().contains("watch=") {
                    watches.fetch_add(1, Ordering::Relaxed);
                    let is_changed = change.is_cancelled();
                    let end = async move {
                        change.cancelled().await;
                        if is_changed {
                            std::future::pending::<()>().await;
                        }
                    };
                    let frames = stream::once(end)
                        .filter_map(|()| std::future::ready(None::<Result<Frame<Bytes>, Infallible>>));
                    StreamBody::new(frames).boxed_unsync()
                } else if request.uri().path() == "/api/v1" {
                    Full::<Bytes>::from(json!({"resources": [resource]}).to_string()).boxed_unsync()
                } else {
                    Full::<Bytes>::from(list.to_string()).boxed_unsync()
                };
                Ok::<_, Infallible>(http::Response::new(body))
            }
        });
        kube::Client::new(service, "n")
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_kind_is_noticed_although_the_task_panicked() {
        let (change, watches) = (CancellationToken::new(), Arc::<AtomicU32>::default());
        let client = server(&change, &watches);
        let options = InformerOptions::default().with_streaming_list(false);
        let informers = InformerRegistry::new(KubeListWatches::new(client.clone()), options);
        let key = InformerKey::new(model_server::resource());
        let subscription =
            Arc::new(informers.subscribe(key.clone(), SubscribeOptions::default()).expect("open"));
        while watches.load(Ordering::Relaxed) == 0 || subscription.status().watch_requests == 0 {
            tokio::task::yield_now().await;
        }
        let plugin = PluginServices::for_test("kinds", client.clone());
        let pool = Version::test_pool(&plugin, "done.wat", InstanceLimits::default()).await;
        let mut views = Views::default();
        views.by_name.insert("maps".into(), Box::new(view(&plugin)));
        let mut version = Version::for_test(pool, Arc::new(views));
        let subscribed = WatchSubscription::new(key, None, subscription);
        let watch = "maps".into();
        version.routes.push(WatchRoute { watch, subscribed, trigger: None, _delivery_hold: None });
        let (version, discovery) = (Arc::new(version), Discovery::new(ApiClient::new(client)));
        let start = || -> BoxFuture<'static, String> {
            Box::pin(wait_for_change(discovery.clone(), Arc::clone(&version), plugin.clone()))
        };
        let mut waiting = Box::pin(plugin.restart("kinds", start));
        assert!(waiting.as_mut().now_or_never().is_none(), "nothing has changed");
        plugin.panics.arm("kinds", 1);
        change.cancel();
        // The informer requests the watch again once. Nothing else tells the task about the change after its panic.
        let changed = timeout(Duration::from_mins(1), waiting).await.expect("the change is noticed");
        assert!(changed.starts_with("watch \"maps\": its kind is served as "), "{changed}");
        assert_eq!((plugin.metrics.task_panics.get(), watches.load(Ordering::Relaxed)), (1, 2));
    }
}
