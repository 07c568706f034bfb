//! The last write of each object, and what the plugin says of writes that were refused.

use std::collections::BTreeMap;

use crate::analysis::{ObjectId, RunView, is_refused_as_invalid};
use crate::run::{Author, ReconcileResult, RequestEvent};

/// How an object was written last.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastWrite<'a> {
    pub(super) event: usize,
    pub(super) request: &'a RequestEvent,
    /// The key of its reconcile, "" if a reconcile did not send it.
    pub(super) key: &'a str,
    /// Whether the plugin created the object at any time.
    pub(super) is_made_by_plugin: bool,
    /// The watch of the reconcile that created it.
    pub(super) watch: &'a str,
}

/// Returns the last write of each object that the server carried out or refused as invalid.
pub(super) fn last_writes<'a>(run: &RunView<'a>) -> BTreeMap<ObjectId, LastWrite<'a>> {
    let mut writes: BTreeMap<ObjectId, LastWrite<'a>> = BTreeMap::new();
    for (event, _, request) in run.requests() {
        if !request.is_effective() && !is_refused(request) {
            continue;
        }
        let id = request.object_id();
        let reconcile = request.reconcile.and_then(|number| run.reconciles.get(&number));
        let earlier = writes.get(&id);
        let is_creation = request.is_by_plugin() && request.changed && request.before.is_none();
        let watch = match reconcile.filter(|_| is_creation) {
            Some(reconcile) => reconcile.watch,
            None => earlier.map_or("", |write| write.watch),
        };
        let is_made_by_plugin = is_creation || earlier.is_some_and(|write| write.is_made_by_plugin);
        let key = reconcile.map_or("", |reconcile| reconcile.key);
        writes.insert(id, LastWrite { event, request, key, is_made_by_plugin, watch });
    }
    writes
}

/// Whether the last write was a change that the server refused as invalid, of which neither the reconcile's result nor a status nor an Event tells.
pub(super) fn is_silently_refused(run: &RunView<'_>, write: &LastWrite<'_>) -> bool {
    let reconcile = write.request.reconcile.and_then(|number| run.reconciles.get(&number));
    let is_swallowed = reconcile.is_some_and(|reconcile| {
        matches!(reconcile.end, Some((_, ReconcileResult::Ok | ReconcileResult::Requeue(_))))
    });
    let tells = |request: &RequestEvent| {
        let is_event = request.resource.starts_with("events") && request.verb != "get";
        let is_own_write = request.is_by_plugin() && request.is_effective();
        let names_key = is_own_write && request.object_id().key() == write.key;
        is_event && !matches!(request.author, Author::Actor(_))
            || names_key && request.object_id() != write.request.object_id()
            || is_own_write && request.subresource == "status"
    };
    let start = reconcile.map_or(0, |reconcile| reconcile.start);
    is_refused(write.request)
        && is_swallowed
        && !run.requests().any(|(event, _, request)| event >= start && tells(request))
}

fn is_refused(request: &RequestEvent) -> bool {
    request.is_by_plugin()
        && request.is_write()
        && request.answered
        && request.status.is_some_and(is_refused_as_invalid)
}
