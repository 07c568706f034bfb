//! An object in the form in which the store keeps it.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};

use pilothouse_model::{Object, ObjectKey, PackedObject};

/// An object as the store keeps it. It is looked up by its own key, so the map holds no second copy of the key.
///
/// The store hands out views of packed objects, never the packed object itself: text that a reader unpacked is freed with the
/// reader's view.
#[derive(Clone)]
pub(crate) enum StoredObject {
    Plain(Object),
    Packed(PackedObject),
}

impl StoredObject {
    /// Wraps an object: as packed if it is a view of a packed object.
    pub(crate) fn new(object: Object) -> Self {
        match PackedObject::of(&object) {
            Some(packed) => Self::Packed(packed.clone()),
            None => Self::Plain(object),
        }
    }

    /// Returns the object; for a packed one, a new view.
    pub(crate) fn object(&self) -> Object {
        match self {
            Self::Plain(object) => object.clone(),
            Self::Packed(packed) => packed.object(),
        }
    }

    pub(crate) fn key(&self) -> &ObjectKey {
        match self {
            Self::Plain(object) => object.key(),
            Self::Packed(packed) => packed.key(),
        }
    }

    pub(crate) fn resource_version(&self) -> &str {
        match self {
            Self::Plain(object) => object.resource_version(),
            Self::Packed(packed) => packed.resource_version(),
        }
    }

    pub(crate) fn memory_size(&self) -> usize {
        match self {
            Self::Plain(object) => object.memory_size(),
            Self::Packed(packed) => packed.memory_size(),
        }
    }

    pub(crate) fn is_compressed(&self) -> bool {
        matches!(self, Self::Packed(packed) if packed.is_compressed())
    }

    /// As [`Object::prefetch_metadata`].
    pub(crate) fn prefetch_metadata(&self) {
        match self {
            Self::Plain(object) => object.prefetch_metadata(),
            Self::Packed(packed) => packed.prefetch_metadata(),
        }
    }

    /// As [`Object::prefetch_text`].
    pub(crate) fn prefetch_text(&self) {
        match self {
            Self::Plain(object) => object.prefetch_text(),
            Self::Packed(packed) => packed.prefetch_text(),
        }
    }

    /// Whether both are the same allocation, not just equal.
    pub(crate) fn is_same_stored(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Plain(left), Self::Plain(right)) => left.ptr_eq(right),
            (Self::Packed(left), Self::Packed(right)) => left.ptr_eq(right),
            _ => false,
        }
    }

    /// Whether `object` is this stored object (the same allocation), not just an equal one.
    pub(crate) fn is_same(&self, object: &Object) -> bool {
        match (self, PackedObject::of(object)) {
            (Self::Plain(stored), _) => stored.ptr_eq(object),
            (Self::Packed(stored), Some(packed)) => stored.ptr_eq(packed),
            (Self::Packed(_), None) => false,
        }
    }
}

impl Borrow<ObjectKey> for StoredObject {
    fn borrow(&self) -> &ObjectKey {
        self.key()
    }
}

// Equality and hash are those of the key, as `Borrow<ObjectKey>` requires.
impl Hash for StoredObject {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl PartialEq for StoredObject {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for StoredObject {}
