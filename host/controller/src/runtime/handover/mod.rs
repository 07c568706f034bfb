//! Transfers work from the old version to the new one, so that a swap loses nothing with the subscriptions that it drops: notifications
//! that wait in them, objects that only they covered, and keys that are queued under a target watch that was renamed.
//!
//! The queue is not transferred. It belongs to the plugin's name (`PluginServices` in `guest_host/services`), so every version of the plugin takes
//! its keys from the same one.

use std::collections::BTreeMap;
use std::sync::Arc;

use pilothouse_model::hash::HashSet;
use pilothouse_model::{Notification, ObjectKey, ResourceType};
use pilothouse_plugin::LogLevel;
use tokio::time::Instant;

use super::dispatch;
use crate::guest_host::PluginServices;
use crate::load::version::{Version, WatchRoute};

/// By name of a former target watch: the target watches under whose names its keys are reconciled now. Empty if no target watch of the same
/// resource is left.
pub(crate) type RenamedWatches = BTreeMap<Arc<str>, Vec<Arc<str>>>;

/// Transfers work from the versions `old`, of which the second is a canary, to `new`, which is installed but has not been dispatched to. If
/// `new` is one of `old`, it has been, and the other one ends. Nothing may be dispatched to any of them meanwhile.
///
/// An object that one of `old` covered and `new` does not is a deleted object to the plugin, as is one that leaves a selector. It is
/// dispatched as a deletion by the triggers of the new version.
pub(super) fn hand_over(old: &[&Version], new: &Version, plugin: &PluginServices) {
    // A canary has the target watches of the version beside it.
    let Some(first) = old.first() else { return };
    let renamed = renamed_watches(first, new);
    for (watch, names) in renamed.iter().filter(|(watch, _)| first.views.is_target(watch)) {
        match names.is_empty() {
            true => plugin.log.state(
                LogLevel::Warn,
                format_args!(
                    "the new version has no target watch of the resource of {watch:?}; keys queued under that are dropped"
                ),
            ),
            false => plugin.log.state(
                LogLevel::Info,
                format_args!("the target watch {watch:?} is named {names:?} in the new version"),
            ),
        }
    }
    *new.renamed_watches.lock() = renamed;
    let dropped = || {
        let is_dropped =
            |route: &&WatchRoute| !new.routes.iter().any(|other| shares_subscription(route, other));
        old.iter().flat_map(|old| &old.routes).filter(is_dropped)
    };
    if dropped().next().is_none() {
        return;
    }
    // First the objects of the new subscriptions' backlogs: their subscriptions deliver any deletion that comes after this.
    let backlogs: Vec<Option<HashSet<ObjectKey>>> = new
        .routes
        .iter()
        .map(|route| {
            let mut known = old.iter().flat_map(|old| &old.routes);
            let is_new = !known.any(|other| shares_subscription(route, other));
            is_new.then(|| route.subscribed.hold_pending())
        })
        .collect();
    let covers = |watch: &str, key: &ObjectKey| {
        let routes = new.routes.iter().zip(&backlogs).filter(|(route, _)| *route.watch == *watch);
        routes.into_iter().any(|(route, backlog)| match backlog {
            Some(backlog) => backlog.contains(key),
            None => route.subscribed.subscription.store().get(key).is_some(),
        })
    };
    let received = Instant::now();
    for route in dropped() {
        let successors = successors(new, route);
        // The cache is read before the backlog is taken, so that a deletion that comes in between is in the backlog.
        let cached = route.subscribed.subscription.store().list();
        let backlog = route.subscribed.take_all();
        for successor in successors {
            let uncovered = cached.iter().filter(|object| !covers(&successor.watch, object.key()));
            let deletions = uncovered.cloned().map(Notification::tombstone);
            for notification in backlog.iter().cloned().chain(deletions) {
                dispatch::queue(new, successor, &notification, received, plugin);
            }
        }
    }
}

/// Whether both routes are fed by the same subscription.
fn shares_subscription(route: &WatchRoute, other: &WatchRoute) -> bool {
    Arc::ptr_eq(&route.subscribed.subscription, &other.subscribed.subscription)
}

/// Whether both types have the same objects, possibly in different API versions.
pub(super) fn is_same_resource(left: &ResourceType, right: &ResourceType) -> bool {
    (&left.group, &left.plural) == (&right.group, &right.plural)
}

/// Returns the routes that continue the work of a dropped route, at most one per watch: the one with the same name and resource, or else all
/// with the same resource.
fn successors<'a>(new: &'a Version, dropped: &WatchRoute) -> Vec<&'a WatchRoute> {
    let same: Vec<_> = new
        .routes
        .iter()
        .filter(|route| is_same_resource(&route.subscribed.key.resource, &dropped.subscribed.key.resource))
        .collect();
    let mut chosen: Vec<_> = same.iter().copied().filter(|route| route.watch == dropped.watch).collect();
    if chosen.is_empty() {
        chosen = same;
    }
    let mut names = HashSet::default();
    chosen.retain(|route| names.insert(Arc::clone(&route.watch)));
    chosen
}

/// Maps the target watches that the new version lacks, those of still earlier versions included, to their successors.
fn renamed_watches(old: &Version, new: &Version) -> RenamedWatches {
    let names_of = |resource: &ResourceType| -> Vec<Arc<str>> {
        let targets = new.views.by_name.iter().filter(|(_, view)| view.is_target);
        targets
            .filter(|(_, view)| is_same_resource(&view.resource, resource))
            .map(|(name, _)| Arc::clone(name))
            .collect()
    };
    let mut renamed = RenamedWatches::new();
    for (name, view) in old.views.by_name.iter().filter(|(_, view)| view.is_target) {
        if !new.views.is_target(name) {
            renamed.insert(Arc::clone(name), names_of(&view.resource));
        }
    }
    for (name, old_names) in old.renamed_watches.lock().iter().filter(|(name, _)| !new.views.is_target(name))
    {
        let mut new_names: Vec<Arc<str>> = Vec::new();
        for name in old_names {
            match renamed.get(name) {
                Some(names) => new_names.extend(names.iter().cloned()),
                None => new_names.push(Arc::clone(name)),
            }
        }
        new_names.sort_unstable();
        new_names.dedup();
        renamed.insert(Arc::clone(name), new_names);
    }
    renamed
}

#[cfg(test)]
pub(crate) mod tests;
