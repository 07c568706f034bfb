//! One write, against one cache. Pure.

use std::cmp::Ordering;

use pilothouse_model::{Notification, Object, ResourceVersion};
use tokio::time::Instant;

use super::FORGET;

/// What the plugin last wrote to an object.
#[derive(Clone, Debug)]
pub(crate) enum OwnWrite {
    /// The state that the server answered with.
    Object(Object),
    /// The end of the object with this UID; `before` is the UID of the newest that the plugin knew of when it asked for
    /// it, "" without one: that one is gone in any case.
    Deleted { uid: String, before: String },
}

/// What a cache knows of a key at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    pub(crate) object: Option<Object>,
    /// The version up to which the cache has seen everything; "" before its first list.
    pub(crate) seen: String,
    /// Its last list began after this.
    pub(crate) listed_after: Option<Instant>,
}

/// What a read sees of a key.
pub(crate) enum Seen {
    /// What the cache has, which the watch's selectors have let in.
    Cached(Option<Object>),
    /// What the plugin wrote, which nobody has judged yet.
    Written(Object),
}

/// A write that some cache may not have caught up with.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    what: What,
    at: Instant,
    /// The version that the cache furthest behind had seen then.
    seen_then: String,
    /// The caches that have told of it, by address; only of use where versions have no order.
    heard: Vec<usize>,
}

#[derive(Clone, Debug)]
enum What {
    Object(Object),
    Deleted(Deletion),
}

#[derive(Clone, Debug)]
struct Deletion {
    uid: String,
    before: String,
    /// The newest version of the object that was known, "" without one. It had not ended then.
    last: String,
    /// The newest version of that or of the one before: what is older is gone, too.
    floor: String,
}

impl Entry {
    /// What is to be remembered once this write follows that entry; `looks` is what the caches have of the key.
    pub(super) fn after(
        before: Option<Self>,
        write: OwnWrite,
        looks: impl Iterator<Item = Look>,
        now: Instant,
    ) -> Option<Self> {
        let looks: Vec<Look> = looks.collect();
        let seen_then = looks
            .iter()
            .map(|look| &look.seen)
            .reduce(|left, right| if is_less(right, left) { right } else { left });
        let seen_then = seen_then.cloned().unwrap_or_default();
        let new = |what| Self { what, at: now, seen_then, heard: Vec::new() };
        match write {
            OwnWrite::Object(object) => match before.map(|entry| (entry.what.clone(), entry)) {
                Some((What::Object(known), entry)) if is_older(&object, known.resource_version()) => {
                    Some(entry)
                }
                // An answer that comes after that of the deletion: the object is gone all the same.
                Some((What::Deleted(mut deletion), entry)) if deletion.uid == object.uid() => {
                    let version = object.resource_version();
                    deletion.last = later(&deletion.last, version).to_owned();
                    deletion.floor = later(&deletion.floor, version).to_owned();
                    Some(Self { what: What::Deleted(deletion), ..entry })
                }
                _ => Some(new(What::Object(object))),
            },
            OwnWrite::Deleted { uid, before: known } => {
                let written = before.as_ref().and_then(Self::object).cloned();
                let objects: Vec<Object> =
                    looks.into_iter().filter_map(|look| look.object).chain(written).collect();
                let newest = |uids: &[&str]| {
                    let of_them = objects.iter().filter(|object| uids.contains(&object.uid()));
                    of_them.map(Object::resource_version).reduce(later).unwrap_or_default().to_owned()
                };
                let (last, floor) = (newest(&[&uid]), newest(&[&uid, &known]));
                match before {
                    // The answer about an object that this one has come after.
                    Some(entry) if entry.is_of_another(&uid, &last) => Some(entry),
                    _ => Some(new(What::Deleted(Deletion { uid, before: known, last, floor }))),
                }
            }
        }
    }

    /// Whether it is about an object that came after the one with this UID, whose newest version this is.
    fn is_of_another(&self, uid: &str, last: &str) -> bool {
        match &self.what {
            What::Object(written) => {
                let order = ResourceVersion::compare_text(last, written.resource_version());
                written.uid() != uid && order == Some(Ordering::Less)
            }
            What::Deleted(_) => false,
        }
    }

    /// The state that was written, unless it was a deletion.
    pub(super) fn object(&self) -> Option<&Object> {
        match &self.what {
            What::Object(object) => Some(object),
            What::Deleted(_) => None,
        }
    }

    /// Heap bytes that the entry keeps alive. What was heard of it is not counted: the caches are few.
    pub(super) fn memory_size(&self) -> usize {
        let what = match &self.what {
            What::Object(object) => object.memory_size(),
            What::Deleted(Deletion { uid, before, last, floor }) => {
                [uid, before, last, floor].map(String::len).iter().sum()
            }
        };
        self.seen_then.len() + what
    }

    /// What a read of a cache in that state sees.
    pub(crate) fn seen(&self, look: Look) -> Seen {
        if self.is_of_another_history(&look) {
            return Seen::Cached(look.object);
        }
        match &self.what {
            What::Object(written) => {
                let has_it = match order(&look, written.resource_version()) {
                    Some(Ordering::Less) => {
                        // The cache may have moved between the look at its version and that at the object.
                        look.object
                            .as_ref()
                            .is_some_and(|object| !is_older(object, written.resource_version()))
                    }
                    Some(_) => true,
                    None => {
                        look.object.as_ref().is_some_and(|object| is_same(object, written))
                            || look.listed_after > Some(self.at)
                    }
                };
                if has_it { Seen::Cached(look.object) } else { Seen::Written(written.clone()) }
            }
            // Neither that object nor one that it came after.
            What::Deleted(deletion) => Seen::Cached(look.object.filter(|object| !deletion.takes(object))),
        }
    }

    /// Whether the cache cannot show anything older than the write any more.
    pub(super) fn is_past(&self, look: &Look, cache: usize, is_selective: bool, now: Instant) -> bool {
        let is_listed = look.listed_after > Some(self.at);
        let is_old = now.saturating_duration_since(self.at) > FORGET;
        if self.is_of_another_history(look) || (is_old && is_listed) {
            return true;
        }
        match &self.what {
            What::Object(written) => match order(look, written.resource_version()) {
                Some(order) => order != Ordering::Less,
                None => {
                    is_listed
                        || is_old
                        || self.heard.contains(&cache)
                        || look.object.as_ref().is_some_and(|object| is_same(object, written))
                }
            },
            What::Deleted(deletion) => {
                if look.object.as_ref().is_some_and(|object| deletion.takes(object)) {
                    return false;
                }
                // Where an object is in the watch for all its life, a cache that has seen a state of it and does not
                // have it has seen its end. Elsewhere it may have left the watch, and come again before its end.
                let has_ended = !is_selective
                    && (self.heard.contains(&cache)
                        || order(look, &deletion.last).is_some_and(Ordering::is_ge));
                has_ended || is_listed || is_old
            }
        }
    }

    /// Whether the server's versions have begun again: a list, not the cache's first, was of an earlier one than the
    /// caches had seen when the write was answered.
    fn is_of_another_history(&self, look: &Look) -> bool {
        look.listed_after.is_some() && is_less(&look.seen, &self.seen_then)
    }

    /// Takes note of what a cache's watch told of the key. One with selectors tells of objects that leave it as if they
    /// had ended.
    pub(super) fn hear(&mut self, cache: usize, is_selective: bool, notification: &Notification) {
        let is_it = match &self.what {
            What::Object(written) => match notification {
                Notification::Added { object, .. } => is_same(object, written),
                Notification::Updated { old, new } => is_same(old, written) || is_same(new, written),
                Notification::Deleted { last, .. } => !is_selective && last.uid() == written.uid(),
            },
            What::Deleted(deletion) => {
                matches!(notification, Notification::Deleted { last, .. } if last.uid() == deletion.uid)
            }
        };
        if is_it && !self.heard.contains(&cache) {
            self.heard.push(cache);
        }
    }
}

impl Deletion {
    /// Whether the object is gone with it.
    fn takes(&self, object: &Object) -> bool {
        object.uid() == self.uid
            || (object.uid() == self.before && !self.before.is_empty())
            || is_older(object, &self.floor)
    }
}

fn is_same(left: &Object, right: &Object) -> bool {
    left.uid() == right.uid() && left.resource_version() == right.resource_version()
}

fn is_older(object: &Object, version: &str) -> bool {
    is_less(object.resource_version(), version)
}

fn is_less(left: &str, right: &str) -> bool {
    ResourceVersion::compare_text(left, right) == Some(Ordering::Less)
}

/// The newest of some states of one name, by their versions.
pub(super) fn newest(objects: impl Iterator<Item = Object>) -> Option<Object> {
    objects.reduce(|left, right| if is_older(&left, right.resource_version()) { right } else { left })
}

/// The later of two versions; the first where they have no order, unless it is "".
fn later<'a>(left: &'a str, right: &'a str) -> &'a str {
    if is_less(left, right) || left.is_empty() { right } else { left }
}

/// The cache's version against another. One that has seen nothing yet is before all that have an order.
fn order(look: &Look, version: &str) -> Option<Ordering> {
    match look.seen.as_str() {
        "" => ResourceVersion::compare_text("0", version).map(|_| Ordering::Less),
        seen => ResourceVersion::compare_text(seen, version),
    }
}
