//! The watches of a version: resource types, subscriptions and indexes, shared with the running version.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_informer::{
    FailureKind, IndexError, IndexFn, InformerKey, InformerPhase, SubscribeOptions, Subscription,
};
use pilothouse_model::{FieldSelector, GroupVersionKind, LabelSelector, ResourceType, Transform};
use pilothouse_plugin::{HostMemory, HostMemoryKind, MAX_INDEX_VALUE, MAX_INDEX_VALUES};
use tokio::time::{sleep, timeout};

use super::authorization::{LoadAuthorization, crd_not_granted};
use super::{LoadProblem, LoadServices, LoadStep, RECHECK_INTERVAL, Report};
use crate::access::{Access, AccessMonitor, RequiredRead, Reviewer, forbidden, only_name};
use crate::cache::computed::ComputedIndexes;
use crate::cache::index_account::IndexAccount;
use crate::cache::own_writes::{OwnWrites, PluginWrites};
use crate::cache::views::{SharedIndex, View, ViewIndex, Views, WatchCache};
use crate::client::{DiscoveryError, Freshness};
use crate::config::descriptor::{Descriptor, Index, Trigger, Watch};
use crate::lifecycle::WaitingFor;
use crate::load::version::{ObserverSubscription, ResolvedTrigger, Version, WatchRoute, WatchSubscription};
use crate::runtime::key_mapper::KeyMapper;
use crate::runtime::predicate::Predicate;

/// A version's watches, all synced.
pub(super) struct PreparedWatches {
    pub(super) views: Arc<Views>,
    pub(super) routes: Vec<WatchRoute>,
    pub(super) observer_subscriptions: Vec<ObserverSubscription>,
}

/// Subscribes to the granted watches of the descriptor. Subscriptions of the running version that are the
/// same are taken over: they are neither listed again nor replayed. `views` contains the access and the
/// indexer; this function adds the watches.
pub(super) async fn subscribe(
    authorization: &LoadAuthorization<'_>,
    descriptor: &Descriptor,
    running: Option<&Version>,
    mut views: Views,
    report: &Report,
) -> Result<PreparedWatches, LoadProblem> {
    let services = authorization.services;
    let mut reusable: Vec<WatchSubscription> = running
        .map(|running| running.routes.iter().map(|route| route.subscribed.clone()).collect())
        .unwrap_or_default();
    authorization.wait_for_group_grants(&descriptor.watches).await;
    let mut resolved = Vec::new();
    for watch in &descriptor.watches {
        resolved.push((watch.clone(), resolve(authorization, descriptor, watch, report).await?));
    }
    let watches = authorization.granted_watches(&resolved).await;
    authorization.warn_about_unused_grants(descriptor, &resolved);
    let resources: BTreeMap<&str, ResourceType> =
        resolved.iter().map(|(watch, resource)| (watch.name.as_str(), resource.clone())).collect();
    let reviewer = authorization.wait_for_account_permissions(descriptor, reads(&watches, &resources)?).await;
    let mut routes = Vec::new();
    for watch in &watches {
        let resource = &resources[watch.name.as_str()];
        let routes_of_watch = subscribe_to(services, descriptor, watch, &resources, &mut reusable)?;
        // Writes of the old version that the cache does not show yet must survive the swap.
        let own_writes = views.writes.for_resource(resource);
        routes_of_watch.iter().for_each(|route| own_writes.add_filter(&route.subscribed.filter));
        let subscriptions =
            routes_of_watch.iter().map(|route| Arc::clone(&route.subscribed.subscription)).collect();
        let view = view(watch, resource, subscriptions, own_writes, &views.writes)?;
        views.by_name.insert(watch.name.as_str().into(), Box::new(view));
        routes.extend(routes_of_watch);
    }
    let access_monitor = access_monitor(authorization, Arc::clone(&views.access), &routes, reviewer);
    views.access_monitor = Some(access_monitor.start());
    for route in &routes {
        wait_for_sync(authorization, route, report).await?;
    }
    check_index_memory(views.writes.memory())?;
    // The observer's subscriptions are made only after the sync, so that each delivers all objects at once.
    let mut observer_subscriptions = subscribe_observer(services, descriptor, &routes)?;
    // Both are constant for as long as the version runs.
    routes.shrink_to_fit();
    observer_subscriptions.shrink_to_fit();
    Ok(PreparedWatches { views: Arc::new(views), routes, observer_subscriptions })
}

/// Subscribes to a watch. Returns a route for each of its informers, with a subscription that is taken over if there is an equal one.
fn subscribe_to(
    services: &LoadServices,
    descriptor: &Descriptor,
    watch: &Watch,
    resources: &BTreeMap<&str, ResourceType>,
    reusable: &mut Vec<WatchSubscription>,
) -> Result<Vec<WatchRoute>, LoadProblem> {
    let name: Arc<str> = watch.name.as_str().into();
    let resync = (watch.resync > 0).then(|| Duration::from_millis(watch.resync.into()));
    let has_computed_index = watch.indexes.iter().any(|index| index.computed);
    let mut routes = Vec::new();
    for key in informer_keys(watch, &resources[watch.name.as_str()])? {
        let subscribed = match take_reusable(reusable, &key, resync) {
            Some(subscribed) => subscribed,
            None => {
                let subscription = Arc::new(subscription(services, watch, &key, resync)?);
                WatchSubscription::new(key, resync, subscription)
            }
        };
        let trigger = resolved_trigger(descriptor, watch, resources)?;
        let delivery_hold = has_computed_index.then(|| subscribed.filter.hold());
        routes.push(WatchRoute {
            watch: Arc::clone(&name),
            subscribed,
            trigger,
            _delivery_hold: delivery_hold,
        });
    }
    Ok(routes)
}

/// Returns the monitor of the permissions that the routes need. It reviews those of the service account if there is a `reviewer`.
fn access_monitor(
    authorization: &LoadAuthorization<'_>,
    access: Arc<Access>,
    routes: &[WatchRoute],
    reviewer: Option<Reviewer>,
) -> AccessMonitor {
    let services = authorization.services;
    let watched =
        |route: &WatchRoute| (Arc::clone(&route.watch), Arc::downgrade(&route.subscribed.subscription));
    AccessMonitor {
        plugin: authorization.plugin.clone(),
        place: authorization.place,
        log: authorization.log.clone(),
        access,
        watched: routes.iter().map(watched).collect(),
        randomness: services.environment.randomness.clone(),
        reviews: reviewer.map(|reviewer| (reviewer, services.access_review_interval)),
    }
}

/// Makes the subscriptions of the observer, which share the informers of the routes.
fn subscribe_observer(
    services: &LoadServices,
    descriptor: &Descriptor,
    routes: &[WatchRoute],
) -> Result<Vec<ObserverSubscription>, LoadProblem> {
    let mut subscriptions = Vec::new();
    for route in routes {
        let Some(watch) = descriptor.watch(&route.watch).filter(|watch| watch.notify) else { continue };
        let WatchSubscription { key, resync, .. } = &route.subscribed;
        let subscription = subscription(services, watch, key, *resync)?;
        subscriptions.push(ObserverSubscription { watch: Arc::clone(&route.watch), subscription });
    }
    Ok(subscriptions)
}

/// The reads that the watches need.
fn reads(
    watches: &[Watch],
    resources: &BTreeMap<&str, ResourceType>,
) -> Result<Vec<RequiredRead>, LoadProblem> {
    let mut reads = Vec::new();
    for watch in watches {
        let (_, fields) = selectors(watch)?;
        let name: Arc<str> = watch.name.as_str().into();
        reads.extend(RequiredRead::of(&name, &resources[watch.name.as_str()], &watch.namespaces, &fields));
    }
    Ok(reads)
}

fn subscription(
    services: &LoadServices,
    watch: &Watch,
    key: &InformerKey,
    resync: Option<Duration>,
) -> Result<Subscription, LoadProblem> {
    let options = SubscribeOptions::default().with_resync(resync);
    services
        .informers
        .subscribe(key.clone(), options)
        .map_err(|error| LoadProblem::Informer { watch: watch.name.clone(), problem: error.to_string() })
}

async fn resolve(
    authorization: &LoadAuthorization<'_>,
    descriptor: &Descriptor,
    watch: &Watch,
    report: &Report,
) -> Result<ResourceType, LoadProblem> {
    let kind = type_of(watch)?;
    let own_crd =
        descriptor.own_crd(&watch.api_version, &watch.kind).filter(|_| !authorization.applies_crds());
    loop {
        match authorization
            .services
            .discovery
            .resolve(kind, watch.resource.as_deref(), Freshness::Fresh)
            .await
        {
            Ok(resource) => {
                check_namespaces(watch, &resource)?;
                return Ok(resource);
            }
            Err(error @ DiscoveryError::InvalidList { .. }) => return Err(error.into()),
            Err(error) => {
                let name = watch.name.clone();
                report(LoadStep::Waiting(match (&error, own_crd) {
                    (DiscoveryError::NotServed { .. }, Some(crd)) => {
                        let problem = crd_not_granted(watch, &authorization.sidecar_location(), crd.name);
                        WaitingFor::CrdGrant { watch: name, problem }
                    }
                    _ => WaitingFor::Kind { watch: name, problem: error.to_string() },
                }));
            }
        }
        sleep(RECHECK_INTERVAL).await;
    }
}

/// Parses the type that a watch names. Descriptors with an invalid type have been refused before.
pub(crate) fn type_of(watch: &Watch) -> Result<GroupVersionKind<'_>, LoadProblem> {
    let read = GroupVersionKind::parse(&watch.api_version, &watch.kind);
    read.map_err(|error| LoadProblem::Informer { watch: watch.name.clone(), problem: error.to_string() })
}

/// Errors if a watch restricts a cluster-scoped kind to namespaces; a Role could not grant that either.
pub(crate) fn check_namespaces(watch: &Watch, resource: &ResourceType) -> Result<(), LoadProblem> {
    if resource.namespaced || watch.namespaces.is_empty() {
        return Ok(());
    }
    Err(LoadProblem::ClusterScoped { watch: watch.name.clone(), kind: watch.kind.clone() })
}

/// Errors if the trigger `namespace` of a watch can never find an object: its objects name no namespace, or those of the target are in none.
pub(crate) fn check_namespace_trigger(
    watch: &Watch,
    namespaced: bool,
    target: &str,
    target_namespaced: bool,
) -> Result<(), LoadProblem> {
    let problem = if !target_namespaced {
        format!("the objects of the target watch {target:?} are cluster-scoped")
    } else if !namespaced && (watch.api_version.as_str(), watch.kind.as_str()) != ("v1", "Namespace") {
        format!("{} is cluster-scoped, and not a Namespace", watch.kind)
    } else {
        return Ok(());
    };
    Err(LoadProblem::NamespaceTrigger { watch: watch.name.clone(), problem })
}

fn selectors(watch: &Watch) -> Result<(LabelSelector, FieldSelector), LoadProblem> {
    let unusable = |problem: String| LoadProblem::Informer { watch: watch.name.clone(), problem };
    let labels = LabelSelector::parse(&watch.label_selector).map_err(|error| unusable(error.to_string()))?;
    let fields = FieldSelector::parse(&watch.field_selector).map_err(|error| unusable(error.to_string()))?;
    Ok((labels, fields))
}

fn informer_keys(watch: &Watch, resource: &ResourceType) -> Result<Vec<InformerKey>, LoadProblem> {
    let (labels, fields) = selectors(watch)?;
    let transform = Transform::standard().with_projection(watch.projection.into());
    let key =
        InformerKey::new(resource.clone()).with_labels(labels).with_fields(fields).with_transform(transform);
    if watch.namespaces.is_empty() {
        return Ok(vec![key]);
    }
    Ok(watch.namespaces.iter().map(|namespace| key.clone().in_namespace(namespace)).collect())
}

fn resolved_trigger(
    descriptor: &Descriptor,
    watch: &Watch,
    resources: &BTreeMap<&str, ResourceType>,
) -> Result<Option<ResolvedTrigger>, LoadProblem> {
    let Some(trigger) = &watch.trigger else { return Ok(None) };
    let target_name = trigger.target().unwrap_or(&watch.name);
    let target = &resources[target_name];
    let mapper = match trigger {
        Trigger::Itself => KeyMapper::Itself,
        Trigger::Owner { .. } => {
            KeyMapper::owners(&target.api_version(), &target.kind, target.namespaced, true)
        }
        Trigger::OwnerAny { .. } => {
            KeyMapper::owners(&target.api_version(), &target.kind, target.namespaced, false)
        }
        Trigger::Label { key, .. } => KeyMapper::Label { key: key.clone(), namespaced: target.namespaced },
        Trigger::Field { path, namespace_path, .. } => {
            KeyMapper::field(path, namespace_path.as_deref(), target.namespaced)?
        }
        Trigger::Index { index, .. } => KeyMapper::Index { index: index.clone() },
        Trigger::Namespace { .. } => {
            let source = &resources[watch.name.as_str()];
            check_namespace_trigger(watch, source.namespaced, target_name, target.namespaced)?;
            KeyMapper::Namespace
        }
    };
    debug_assert!(descriptor.watch(target_name).is_some(), "the descriptor was validated");
    Ok(Some(ResolvedTrigger {
        predicate: Predicate::compile(&watch.predicate)?,
        suspension: Mutex::default(),
        mapper,
        target_watch: target_name.into(),
    }))
}

fn view(
    watch: &Watch,
    resource: &ResourceType,
    subscriptions: Vec<Arc<Subscription>>,
    own_writes: Arc<OwnWrites>,
    writes: &PluginWrites,
) -> Result<View, LoadProblem> {
    let mut indexes = BTreeMap::new();
    let mut index_handles = Vec::new();
    for index in &watch.indexes {
        if index.computed {
            indexes.insert(index.name.clone(), ViewIndex::Computed);
            continue;
        }
        let known = shared_index(index, writes.index_account())?;
        for subscription in &subscriptions {
            // The name is derived from the definition, so an index with this name is the same index.
            let handle = subscription.acquire_index(&known.name, known.function.clone());
            let unusable = |problem: IndexError| LoadProblem::Informer {
                watch: watch.name.clone(),
                problem: problem.to_string(),
            };
            index_handles.push(handle.map_err(unusable)?);
        }
        indexes.insert(index.name.clone(), ViewIndex::Shared(known));
    }
    let computed =
        watch.indexes.iter().filter(|index| index.computed).map(|index| index.name.clone()).collect();
    let (label_selector, field_selector) = selectors(watch)?;
    let cache = Arc::new(WatchCache {
        namespaces: watch.namespaces.clone(),
        readers: subscriptions.iter().map(|subscription| subscription.store()).collect(),
        is_selective: !(watch.label_selector.is_empty() && watch.field_selector.is_empty()),
        only_name: only_name(&field_selector),
    });
    let known: Weak<WatchCache> = Arc::downgrade(&cache);
    own_writes.add_cache(known);
    Ok(View {
        resource: resource.clone(),
        label_selector,
        field_selector,
        projection: watch.projection.into(),
        subscriptions,
        cache,
        indexes,
        _index_handles: index_handles,
        computed: ComputedIndexes::new(computed, writes.memory().clone()),
        is_target: watch.trigger == Some(Trigger::Itself),
        own_writes,
    })
}

fn shared_index(index: &Index, account: Arc<IndexAccount>) -> Result<SharedIndex, LoadProblem> {
    let (name, function) = if let Some(label) = &index.label {
        (format!("label:{label}"), IndexFn::label(label.as_str()))
    } else if let Some(annotation) = &index.annotation {
        (format!("annotation:{annotation}"), IndexFn::annotation(annotation.as_str()))
    } else if let Some(field) = &index.field {
        (format!("field:{field}"), IndexFn::field(field)?)
    } else {
        ("owner-uid".to_owned(), IndexFn::owner_uid())
    };
    // As for computed indexes: the informer evaluates these for every change of every object, for all plugins that name them.
    let function = function.limited(MAX_INDEX_VALUES, MAX_INDEX_VALUE).charged_to(account);
    Ok(SharedIndex { name, function })
}

/// Errors if the plugin's indexes leave no host memory for anything else. The informers have their lists, so they are complete.
fn check_index_memory(memory: &HostMemory) -> Result<(), LoadProblem> {
    Ok(memory.check(HostMemoryKind::IndexValues)?)
}

/// Waits until the informer has its first list, and reports at intervals why it has not. Does not wait for
/// delivery to the subscription: notifications are taken only once the version runs.
async fn wait_for_sync(
    authorization: &LoadAuthorization<'_>,
    route: &WatchRoute,
    report: &Report,
) -> Result<(), LoadProblem> {
    let (watch, subscription) = (&*route.watch, &route.subscribed.subscription);
    loop {
        let mut changes = subscription.status_changes();
        let status = subscription.status();
        if status.synced {
            return Ok(());
        }
        if status.phase == InformerPhase::Stopped {
            let problem = "the host is shutting down".to_owned();
            return Err(LoadProblem::Informer { watch: watch.to_owned(), problem });
        }
        if let Ok(ended) = timeout(RECHECK_INTERVAL, changes.changed()).await {
            if ended.is_err() {
                // The subscription was moved to another informer, whose status is asked next.
                sleep(Duration::from_millis(10)).await;
            }
            continue;
        }
        let status = subscription.status();
        let waiting_for = match status.error {
            Some(error) if error.kind == FailureKind::Forbidden => {
                forbidden(watch, &error, authorization.plugin, authorization.place)
            }
            Some(error) => WaitingFor::FailedList { watch: watch.to_owned(), problem: error.to_string() },
            None => WaitingFor::FirstList { watch: watch.to_owned() },
        };
        report(LoadStep::Waiting(waiting_for));
    }
}

/// Takes the running version's subscription to the same objects. One whose informer has stopped delivers nothing any more and is not reused.
fn take_reusable(
    reusable: &mut Vec<WatchSubscription>,
    key: &InformerKey,
    resync: Option<Duration>,
) -> Option<WatchSubscription> {
    let is_same =
        |known: &WatchSubscription| known.key == *key && known.resync == resync && !known.has_ended();
    let position = reusable.iter().position(is_same)?;
    Some(reusable.swap_remove(position))
}

#[cfg(test)]
mod tests {
    use pilothouse_informer::{InformerOptions, InformerRegistry, KubeListWatches};

    use super::*;

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
        let subscription =
            Arc::new(informers.subscribe(key.clone(), SubscribeOptions::default()).expect("open"));
        let reusable = || {
            let (key, subscription) = (key.clone(), Arc::clone(&subscription));
            vec![WatchSubscription::new(key, None, subscription)]
        };
        assert!(take_reusable(&mut reusable(), &key, None).is_some());
        assert!(take_reusable(&mut reusable(), &key, Some(Duration::from_secs(1))).is_none());
        informers.stop().await;
        assert!(take_reusable(&mut reusable(), &key, None).is_none(), "it delivers nothing any more");
    }
}
