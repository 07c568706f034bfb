//! The watches of a version: resource types, subscriptions and indexes, shared with the running version.

mod kinds;
mod subscriptions;
mod sync;
#[cfg(test)]
mod tests;
mod trigger;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

use pilothouse_model::ResourceType;

use super::authorization::LoadAuthorization;
use super::{LoadProblem, LoadServices, Report};
use crate::access::{Access, AccessMonitor, RequiredRead, Reviewer};
use crate::cache::views::Views;
use crate::config::descriptor::{Descriptor, Watch};
use crate::load::version::{ObserverSubscription, Version, WatchRoute, WatchSubscription};
pub(crate) use kinds::{check_namespaces, type_of};
use subscriptions::{selectors, subscribe_to, subscription};
use sync::wait_for_sync;
pub(crate) use trigger::check_namespace_trigger;
use view::{check_index_memory, view};

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
        resolved.push((watch.clone(), kinds::resolve(authorization, descriptor, watch, report).await?));
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
