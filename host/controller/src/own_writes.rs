//! A plugin's own writes, as its own reads see them until the watch brings them (invariant 6).
//!
//! An entry lives until the informer has seen a version at least as high as the write's. That ends by itself, because
//! the server sends every write that the watch covers, and bookmarks for what it does not cover.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use parking_lot::RwLock;
use pilothouse_model::{Object, ObjectKey, ResourceVersion};

/// What the plugin last wrote to an object.
#[derive(Clone, Debug)]
pub(crate) enum OwnWrite {
    /// The state that the server answered with.
    Object(Object),
    /// A deletion; the UID is "" where the server did not tell it.
    Deleted { uid: String },
}

/// What an informer knows of a key at one moment.
pub(crate) struct Cached<'a> {
    pub(crate) object: Option<&'a Object>,
    /// The newest version that the informer has seen of anything.
    pub(crate) seen: &'a str,
}

/// The writes to the objects of one watch.
#[derive(Debug, Default)]
pub(crate) struct OwnWrites {
    entries: RwLock<BTreeMap<ObjectKey, OwnWrite>>,
}

impl OwnWrites {
    /// Remembers a write. A later write to the same object replaces an earlier one.
    pub(crate) fn record(&self, key: ObjectKey, write: OwnWrite) {
        let mut entries = self.entries.write();
        if let (Some(OwnWrite::Object(known)), OwnWrite::Object(new)) = (entries.get(&key), &write) {
            let older = ResourceVersion::compare_text(new.resource_version(), known.resource_version())
                == Some(Ordering::Less);
            if older && new.uid() == known.uid() {
                return;
            }
        }
        entries.insert(key, write);
    }

    /// Whether there is none, which is the usual case: then reads go straight to the cache.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.read().is_empty()
    }

    /// What the plugin sees of the object, and forgets the write once the cache has caught up.
    pub(crate) fn see(&self, key: &ObjectKey, cached: &Cached<'_>) -> Option<Object> {
        match self.entries.read().get(key) {
            None => return cached.object.cloned(),
            Some(write) if is_pending(write, cached) => return written(write),
            Some(_) => {}
        }
        self.forget(key, cached)
    }

    /// Forgets the write unless another was recorded since: that one is kept, and is what the plugin sees.
    fn forget(&self, key: &ObjectKey, cached: &Cached<'_>) -> Option<Object> {
        let mut entries = self.entries.write();
        match entries.get(key) {
            Some(write) if is_pending(write, cached) => written(write),
            _ => {
                entries.remove(key);
                cached.object.cloned()
            }
        }
    }

    /// The keys with writes, for reads of many objects.
    pub(crate) fn keys(&self) -> Vec<ObjectKey> {
        self.entries.read().keys().cloned().collect()
    }
}

fn written(write: &OwnWrite) -> Option<Object> {
    match write {
        OwnWrite::Object(object) => Some(object.clone()),
        OwnWrite::Deleted { .. } => None,
    }
}

/// Whether the cache is still behind the write.
fn is_pending(write: &OwnWrite, cached: &Cached<'_>) -> bool {
    match write {
        OwnWrite::Object(written) => {
            match ResourceVersion::compare_text(cached.seen, written.resource_version()) {
                Some(order) => order == Ordering::Less,
                // Versions without an order: until the cache has that very version, or another object altogether.
                None => cached.object.is_none_or(|object| {
                    object.uid() == written.uid() && object.resource_version() != written.resource_version()
                }),
            }
        }
        OwnWrite::Deleted { uid } => {
            cached.object.is_some_and(|object| uid.is_empty() || object.uid() == uid)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(uid: &str, version: &str) -> Object {
        Object::from_json(format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p","uid":"{uid}","resourceVersion":"{version}"}}}}"#
        ))
        .expect("an object")
    }

    fn seen(writes: &OwnWrites, cached: Option<&Object>, seen: &str) -> Option<String> {
        let object = writes.see(&ObjectKey::cluster("p"), &Cached { object: cached, seen })?;
        Some(object.resource_version().to_owned())
    }

    fn wrote(write: OwnWrite) -> OwnWrites {
        let writes = OwnWrites::default();
        writes.record(ObjectKey::cluster("p"), write);
        writes
    }

    #[test]
    fn a_write_is_seen_until_the_informer_has_caught_up() {
        let writes = wrote(OwnWrite::Object(object("u", "10")));
        let (old, new) = (object("u", "9"), object("u", "10"));
        assert_eq!(seen(&writes, Some(&old), "9").as_deref(), Some("10"));
        assert_eq!(seen(&writes, None, "9").as_deref(), Some("10"), "a created object");
        assert_eq!(seen(&writes, Some(&new), "10").as_deref(), Some("10"));
        assert!(writes.is_empty(), "the entry is gone once the cache has it");
    }

    #[test]
    fn an_object_that_somebody_else_deleted_meanwhile_does_not_stay() {
        let writes = wrote(OwnWrite::Object(object("u", "10")));
        assert_eq!(seen(&writes, None, "12"), None);
        assert!(writes.is_empty());
    }

    #[test]
    fn a_write_that_is_recorded_while_an_older_one_is_forgotten_stays() {
        let writes = wrote(OwnWrite::Object(object("u", "12")));
        // Another reader found the write before this one, at 10, to be caught up with.
        let at_ten = object("u", "10");
        let seen_then = Cached { object: Some(&at_ten), seen: "10" };
        let sees = writes.forget(&ObjectKey::cluster("p"), &seen_then).expect("the later write");
        assert_eq!(sees.resource_version(), "12");
        assert!(!writes.is_empty());
    }

    #[test]
    fn a_delete_hides_that_uid_only() {
        let writes = wrote(OwnWrite::Deleted { uid: "u".into() });
        assert_eq!(seen(&writes, Some(&object("u", "9")), "9"), None);
        assert_eq!(seen(&writes, Some(&object("v", "11")), "11").as_deref(), Some("11"));
        assert!(writes.is_empty());
    }

    #[test]
    fn versions_without_an_order_wait_for_that_very_version() {
        let writes = wrote(OwnWrite::Object(object("u", "b")));
        assert_eq!(seen(&writes, Some(&object("u", "a")), "a").as_deref(), Some("b"));
        assert_eq!(seen(&writes, Some(&object("u", "b")), "b").as_deref(), Some("b"));
        assert!(writes.is_empty());
    }

    #[test]
    fn an_older_answer_that_comes_late_does_not_replace_a_newer_one() {
        let writes = wrote(OwnWrite::Object(object("u", "10")));
        writes.record(ObjectKey::cluster("p"), OwnWrite::Object(object("u", "8")));
        assert_eq!(seen(&writes, None, "5").as_deref(), Some("10"));
    }
}
