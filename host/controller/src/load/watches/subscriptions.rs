//! The subscriptions of a watch: one for each namespace, taken over from the running version where it has the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_informer::{InformerKey, SubscribeOptions, Subscription};
use pilothouse_model::{FieldSelector, LabelSelector, ResourceType, Transform};

use super::super::{LoadProblem, LoadServices};
use super::trigger::resolved_trigger;
use crate::config::descriptor::{Descriptor, Watch};
use crate::load::version::{WatchRoute, WatchSubscription};

/// Subscribes to a watch. Returns a route for each of its informers, with a subscription that is taken over if there is an equal one.
pub(super) fn subscribe_to(
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

/// Takes the running version's subscription to the same objects. One whose informer has stopped delivers nothing any more and is not reused.
pub(super) fn take_reusable(
    reusable: &mut Vec<WatchSubscription>,
    key: &InformerKey,
    resync: Option<Duration>,
) -> Option<WatchSubscription> {
    let is_same =
        |known: &WatchSubscription| known.key == *key && known.resync == resync && !known.has_ended();
    let position = reusable.iter().position(is_same)?;
    Some(reusable.swap_remove(position))
}

pub(super) fn subscription(
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

pub(super) fn selectors(watch: &Watch) -> Result<(LabelSelector, FieldSelector), LoadProblem> {
    let unusable = |problem: String| LoadProblem::Informer { watch: watch.name.clone(), problem };
    let labels = LabelSelector::parse(&watch.label_selector).map_err(|error| unusable(error.to_string()))?;
    let fields = FieldSelector::parse(&watch.field_selector).map_err(|error| unusable(error.to_string()))?;
    Ok((labels, fields))
}
