//! What a swap must not lose with the subscriptions that it drops: notifications that wait in them, objects that only they
//! covered, and keys that are queued under a target watch that has another name now.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use pilothouse_model::{Notification, ObjectKey, ResourceType};

use super::dispatch;
use crate::guest_host::GuestServices;
use crate::load::version::{Route, Version};

/// The names under which the keys of former target watches are reconciled now; no name where no target watch of their
/// resource is left.
pub(crate) type Renamed = BTreeMap<Arc<str>, Vec<Arc<str>>>;

/// Hands over from `old` to `new`, which is installed and has not been dispatched to. Nothing is dispatched to either
/// meanwhile.
///
/// An object that `old` knew and `new` does not cover is deleted as far as the plugin is concerned (B30), and is
/// dispatched as such by the triggers of the new version.
pub(super) fn hand_over(old: &Version, new: &Version, guest: &GuestServices) {
    let renamed = renamed(old, new);
    for (watch, names) in renamed.iter().filter(|(watch, _)| old.views.is_target(watch)) {
        match names.is_empty() {
            true => tracing::warn!(
                plugin = %guest.name, %watch,
                "this version has no target watch of the same resource any more; keys queued under it are dropped"
            ),
            false => {
                tracing::info!(plugin = %guest.name, %watch, ?names, "the target watch has another name now");
            }
        }
    }
    *new.renamed.lock() = renamed;
    let dropped = || old.routes.iter().filter(|route| !new.routes.iter().any(|other| shares(route, other)));
    if dropped().next().is_none() {
        return;
    }
    // First what the new subscriptions have been told of: a deletion that comes after this is delivered by them.
    let told: Vec<Option<HashSet<ObjectKey>>> = new
        .routes
        .iter()
        .map(|route| {
            let is_new = !old.routes.iter().any(|other| shares(route, other));
            is_new.then(|| route.subscribed.hold_waiting())
        })
        .collect();
    let covers = |watch: &str, key: &ObjectKey| {
        let routes = new.routes.iter().zip(&told).filter(|(route, _)| *route.watch == *watch);
        routes.into_iter().any(|(route, told)| match told {
            Some(told) => told.contains(key),
            None => route.subscribed.subscription.store().get(key).is_some(),
        })
    };
    for route in dropped() {
        let successors = successors(new, route);
        // Before what waits is taken: a deletion that comes in between is among what waits.
        let cached = route.subscribed.subscription.store().list();
        let waiting = route.subscribed.take_all();
        for successor in successors {
            let departed = cached.iter().filter(|object| !covers(&successor.watch, object.key()));
            let departed =
                departed.map(|last| Notification::Deleted { last: last.clone(), final_state_unknown: true });
            for notification in waiting.iter().cloned().chain(departed) {
                dispatch::queue(new, successor, &notification, guest);
            }
        }
    }
}

/// Whether both are fed by the same subscription.
fn shares(route: &Route, other: &Route) -> bool {
    Arc::ptr_eq(&route.subscribed.subscription, &other.subscribed.subscription)
}

/// Whether they are the same objects, in whichever version they are read.
pub(super) fn is_same(left: &ResourceType, right: &ResourceType) -> bool {
    (&left.group, &left.plural) == (&right.group, &right.plural)
}

/// The routes that go on with the work of a route that ends, one for each watch: that of the same name and resource, or
/// else all of the same resource.
fn successors<'a>(new: &'a Version, ended: &Route) -> Vec<&'a Route> {
    let same: Vec<_> = new
        .routes
        .iter()
        .filter(|route| is_same(&route.subscribed.key.resource, &ended.subscribed.key.resource))
        .collect();
    let mut chosen: Vec<_> = same.iter().copied().filter(|route| route.watch == ended.watch).collect();
    if chosen.is_empty() {
        chosen = same;
    }
    let mut names = HashSet::new();
    chosen.retain(|route| names.insert(Arc::clone(&route.watch)));
    chosen
}

/// What became of the target watches that the new version does not have, those of earlier versions included.
fn renamed(old: &Version, new: &Version) -> Renamed {
    let names_of = |resource: &ResourceType| -> Vec<Arc<str>> {
        let targets = new.views.by_name.iter().filter(|(_, view)| view.is_target);
        targets
            .filter(|(_, view)| is_same(&view.resource, resource))
            .map(|(name, _)| Arc::clone(name))
            .collect()
    };
    let mut renamed = Renamed::new();
    for (name, view) in old.views.by_name.iter().filter(|(_, view)| view.is_target) {
        if !new.views.is_target(name) {
            renamed.insert(Arc::clone(name), names_of(&view.resource));
        }
    }
    for (name, then) in old.renamed.lock().iter().filter(|(name, _)| !new.views.is_target(name)) {
        let mut now: Vec<Arc<str>> = Vec::new();
        for name in then {
            match renamed.get(name) {
                Some(names) => now.extend(names.iter().cloned()),
                None => now.push(Arc::clone(name)),
            }
        }
        now.sort_unstable();
        now.dedup();
        renamed.insert(Arc::clone(name), now);
    }
    renamed
}

#[cfg(test)]
pub(crate) mod tests;
