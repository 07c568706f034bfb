//! Reuses stored objects that a relist returns unchanged.
//!
//! While a list is read, the store still holds the previous state. Most objects of a relist are unchanged. Those are replaced
//! by the stored ones at once, so a relist needs memory only for the objects that changed, not for all objects twice. If the
//! store compresses, new objects are packed as they are read, for the same reason.
//!
//! Objects are compared by their bytes. UID and version are not enough: a server that was restored from a backup assigns the
//! same versions again.

use pilothouse_model::Object;

use crate::store::Store;

/// Replaces each object that has the same bytes as the stored one by the stored one, and packs the others if the store
/// compresses.
pub(super) fn reuse_unchanged(store: &Store, objects: &mut [Object]) {
    if !store.is_empty() {
        for object in &mut *objects {
            if let Some(stored) = store.get_identical(object) {
                *object = stored;
            }
        }
    }
    store.pack(objects);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Compression;
    use crate::scripted_server::pod;

    #[test]
    fn listed_objects_with_the_same_bytes_reuse_the_stored_object() {
        for store in [Store::new(), Store::compressed(Compression { training_bytes: 1 })] {
            check(&store);
        }
    }

    fn check(store: &Store) {
        store.update(pod("same", 1).object());
        store.update(pod("newer", 1).object());
        let restored = pod("restored", 1).object();
        let other = restored.json().replacen(
            "\"resourceVersion\":\"1\"",
            "\"resourceVersion\":\"1\",\"generation\":7",
            1,
        );
        let other = Object::from_json(other).expect("an object");
        assert_ne!(restored, other, "the same version of the same object, in other bytes");
        store.update(restored);
        let mut resolve = [pod("same", 1).object(), pod("newer", 2).object(), other, pod("new", 3).object()];
        let before = resolve.clone();
        reuse_unchanged(store, &mut resolve);
        let shared = resolve.iter().map(|object| store.list().iter().any(|stored| stored.ptr_eq(object)));
        assert_eq!(shared.collect::<Vec<_>>(), [true, false, false, false]);
        assert_eq!(resolve, before, "nothing but the allocation changes");
    }
}
