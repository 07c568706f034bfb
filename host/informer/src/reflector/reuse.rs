//! What a further list brings once more is kept once.
//!
//! While a list is read, the store still holds the state before it. Most objects of a further list are the same as there: those
//! are dropped at once in favour of the stored ones, so that a relist needs memory for what has changed and not for everything
//! twice.
//!
//! Where the store compresses, what is new is packed as it is read, for the same reason.
//!
//! The bytes decide. UID and version would not do: a server that was restored from a backup gives out versions anew.

use pilothouse_model::Object;

use crate::store::Store;

/// Puts the stored object in the place of each that has the same bytes, and packs the others if the store does.
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
