//! One own write, compared with the state of a cache. Pure.

use std::cmp::Ordering;

use pilothouse_model::{Notification, Object, ResourceVersion};
use tokio::time::Instant;

use super::RETENTION;

/// What the plugin wrote to an object.
#[derive(Clone, Debug)]
pub(crate) enum OwnWrite {
    /// The new state, from the server's response.
    Object(Object),
    /// The object with this UID was deleted. `uid_before` is the UID of the newest object that the plugin knew when it sent the request, ""
    /// without one; that object does not exist any more either.
    Deleted { uid: String, uid_before: String },
}

/// A cache's state of one key.
#[derive(Clone, Debug)]
pub(crate) struct CacheState {
    pub(crate) object: Option<Object>,
    /// The resource version up to which the cache has seen all changes; "" before its first list.
    pub(crate) version: String,
    /// A time before the cache's last list began; `None` before its first list.
    pub(crate) listed_after: Option<Instant>,
}

/// What a read returns for a key with an own write.
pub(crate) enum ReadResult {
    /// The cached state. The watch's selectors match it.
    Cached(Option<Object>),
    /// The written state. The caller has to apply the watch's selectors and projection.
    Written(Object),
}

/// A write with which some cache may not have caught up.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    outcome: Outcome,
    written_at: Instant,
    /// The resource version of the cache furthest behind when the write was recorded.
    cache_version: String,
    /// The ids of the caches whose watches have delivered the write. Needed only if resource versions have no order.
    confirmed_by: Vec<usize>,
}

#[derive(Clone, Debug)]
enum Outcome {
    Object(Object),
    Deleted(DeletionWrite),
}

#[derive(Clone, Debug)]
struct DeletionWrite {
    uid: String,
    uid_before: String,
    /// The newest resource version of the object that is known, "" without one. The deletion is later.
    last_version: String,
    /// The newest known resource version of the object or of the one before. An older state of the key cannot be valid any more.
    min_version: String,
}

impl Entry {
    /// Combines the key's previous entry with a new write. `states` are the states of the key in the caches.
    pub(super) fn merge(
        previous: Option<Self>,
        write: OwnWrite,
        states: impl Iterator<Item = CacheState>,
        now: Instant,
    ) -> Option<Self> {
        let states: Vec<CacheState> = states.collect();
        let cache_version = states
            .iter()
            .map(|state| &state.version)
            .reduce(|left, right| if is_less(right, left) { right } else { left });
        let cache_version = cache_version.cloned().unwrap_or_default();
        let new = |outcome| Self { outcome, written_at: now, cache_version, confirmed_by: Vec::new() };
        match write {
            OwnWrite::Object(object) => match previous.map(|entry| (entry.outcome.clone(), entry)) {
                Some((Outcome::Object(previous), entry))
                    if is_older(&object, previous.resource_version()) =>
                {
                    Some(entry)
                }
                // This response comes after that of the object's deletion: the object stays deleted.
                Some((Outcome::Deleted(mut deletion), entry)) if deletion.uid == object.uid() => {
                    let version = object.resource_version();
                    deletion.last_version = later(&deletion.last_version, version).to_owned();
                    deletion.min_version = later(&deletion.min_version, version).to_owned();
                    Some(Self { outcome: Outcome::Deleted(deletion), ..entry })
                }
                _ => Some(new(Outcome::Object(object))),
            },
            OwnWrite::Deleted { uid, uid_before } => {
                let written = previous.as_ref().and_then(Self::object).cloned();
                let objects: Vec<Object> =
                    states.into_iter().filter_map(|state| state.object).chain(written).collect();
                let newest_version = |uids: &[&str]| {
                    let matching = objects.iter().filter(|object| uids.contains(&object.uid()));
                    matching.map(Object::resource_version).reduce(later).unwrap_or_default().to_owned()
                };
                let last_version = newest_version(&[&uid]);
                let min_version = newest_version(&[&uid, &uid_before]);
                match previous {
                    // This response comes late: the entry is about an object that was created after the deletion.
                    Some(entry) if entry.is_of_later_object(&uid, &last_version) => Some(entry),
                    _ => {
                        let deletion = DeletionWrite { uid, uid_before, last_version, min_version };
                        Some(new(Outcome::Deleted(deletion)))
                    }
                }
            }
        }
    }

    /// Whether the written object was created after the one with this UID and last version.
    fn is_of_later_object(&self, uid: &str, last_version: &str) -> bool {
        match &self.outcome {
            Outcome::Object(written) => {
                let order = ResourceVersion::compare_text(last_version, written.resource_version());
                written.uid() != uid && order == Some(Ordering::Less)
            }
            Outcome::Deleted(_) => false,
        }
    }

    /// Returns the written state; `None` for a deletion.
    pub(super) fn object(&self) -> Option<&Object> {
        match &self.outcome {
            Outcome::Object(object) => Some(object),
            Outcome::Deleted(_) => None,
        }
    }

    /// The heap bytes that the entry keeps alive. Does not count `confirmed_by`, because caches are few.
    pub(super) fn memory_size(&self) -> usize {
        let outcome = match &self.outcome {
            Outcome::Object(object) => object.memory_size(),
            Outcome::Deleted(DeletionWrite { uid, uid_before, last_version, min_version }) => {
                [uid, uid_before, last_version, min_version].map(String::len).iter().sum()
            }
        };
        self.cache_version.len() + outcome
    }

    /// Returns what a read of a cache in this state sees.
    pub(crate) fn read(&self, state: CacheState) -> ReadResult {
        if self.is_before_version_reset(&state) {
            return ReadResult::Cached(state.object);
        }
        match &self.outcome {
            Outcome::Object(written) => {
                let is_in_cache = match order(&state, written.resource_version()) {
                    Some(Ordering::Less) => {
                        // The cache may have advanced after its version was read and before the object was.
                        state
                            .object
                            .as_ref()
                            .is_some_and(|object| !is_older(object, written.resource_version()))
                    }
                    Some(_) => true,
                    None => {
                        state.object.as_ref().is_some_and(|object| is_same_version(object, written))
                            || state.listed_after > Some(self.written_at)
                    }
                };
                if is_in_cache {
                    ReadResult::Cached(state.object)
                } else {
                    ReadResult::Written(written.clone())
                }
            }
            Outcome::Deleted(deletion) => {
                ReadResult::Cached(state.object.filter(|object| !deletion.hides(object)))
            }
        }
    }

    /// Whether the cache has caught up with the write, and cannot show anything older any more.
    pub(super) fn is_in_cache(
        &self,
        state: &CacheState,
        cache_id: usize,
        is_selective: bool,
        now: Instant,
    ) -> bool {
        let is_listed = state.listed_after > Some(self.written_at);
        let is_expired = now.saturating_duration_since(self.written_at) > RETENTION;
        if self.is_before_version_reset(state) || (is_expired && is_listed) {
            return true;
        }
        match &self.outcome {
            Outcome::Object(written) => match order(state, written.resource_version()) {
                Some(order) => order != Ordering::Less,
                None => {
                    is_listed
                        || is_expired
                        || self.confirmed_by.contains(&cache_id)
                        || state.object.as_ref().is_some_and(|object| is_same_version(object, written))
                }
            },
            Outcome::Deleted(deletion) => {
                if state.object.as_ref().is_some_and(|object| deletion.hides(object)) {
                    return false;
                }
                // Without selectors, a cache that has seen a state of the object and does not contain it has seen its deletion. With
                // selectors, the object may have left the watch, and may enter it again before its deletion.
                let has_seen_deletion = !is_selective
                    && (self.confirmed_by.contains(&cache_id)
                        || order(state, &deletion.last_version).is_some_and(Ordering::is_ge));
                has_seen_deletion || is_listed || is_expired
            }
        }
    }

    /// Whether the server's resource versions have started again since the write: the cache has listed a version that is lower than all
    /// caches had when the write was recorded.
    fn is_before_version_reset(&self, state: &CacheState) -> bool {
        state.listed_after.is_some() && is_less(&state.version, &self.cache_version)
    }

    /// Records that a cache's watch has delivered the write, if this notification proves it. A watch with selectors also reports an object
    /// as deleted when it leaves the selection, which proves nothing about a written state.
    pub(super) fn confirm(&mut self, cache_id: usize, is_selective: bool, notification: &Notification) {
        let is_confirmed = match &self.outcome {
            Outcome::Object(written) => match notification {
                Notification::Added { object, .. } => is_same_version(object, written),
                Notification::Updated { old, new } => {
                    is_same_version(old, written) || is_same_version(new, written)
                }
                Notification::Deleted { last, .. } => !is_selective && last.uid() == written.uid(),
            },
            Outcome::Deleted(deletion) => {
                matches!(notification, Notification::Deleted { last, .. } if last.uid() == deletion.uid)
            }
        };
        if is_confirmed && !self.confirmed_by.contains(&cache_id) {
            self.confirmed_by.push(cache_id);
        }
    }
}

impl DeletionWrite {
    /// Whether a cached state is of the deleted object or an earlier one.
    fn hides(&self, object: &Object) -> bool {
        object.uid() == self.uid
            || (object.uid() == self.uid_before && !self.uid_before.is_empty())
            || is_older(object, &self.min_version)
    }
}

fn is_same_version(left: &Object, right: &Object) -> bool {
    left.uid() == right.uid() && left.resource_version() == right.resource_version()
}

fn is_older(object: &Object, version: &str) -> bool {
    is_less(object.resource_version(), version)
}

fn is_less(left: &str, right: &str) -> bool {
    ResourceVersion::compare_text(left, right) == Some(Ordering::Less)
}

/// Returns the newest of several states of one key, by their resource versions.
pub(super) fn newest(objects: impl Iterator<Item = Object>) -> Option<Object> {
    objects.reduce(|left, right| if is_older(&left, right.resource_version()) { right } else { left })
}

/// Returns the later of two resource versions. If they have no order, returns the first unless it is "".
fn later<'a>(left: &'a str, right: &'a str) -> &'a str {
    if is_less(left, right) || left.is_empty() { right } else { left }
}

/// Compares the cache's resource version with another one; `None` if they have no order. A cache before its first list is older than every
/// decimal version.
fn order(state: &CacheState, version: &str) -> Option<Ordering> {
    match state.version.as_str() {
        "" => ResourceVersion::compare_text("0", version).map(|_| Ordering::Less),
        cached => ResourceVersion::compare_text(cached, version),
    }
}
