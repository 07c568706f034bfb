use std::borrow::Borrow;
use std::hash::{Hash, Hasher};

use pilothouse_model::{Object, ObjectKey, PackedObject};

/// An object as the store keeps it, which is looked up by its own key, so that the map holds no second copy of that.
///
/// The store lends out views of packed objects, never the packed object's own text: what a reader unpacked is gone with the
/// reader.
#[derive(Clone)]
pub(crate) enum StoredObject {
    Plain(Object),
    Packed(PackedObject),
}

impl StoredObject {
    /// As the object is: packed when it is a view of a packed one.
    pub(crate) fn of(object: Object) -> Self {
        match PackedObject::of(&object) {
            Some(packed) => Self::Packed(packed.clone()),
            None => Self::Plain(object),
        }
    }

    /// The object: for a packed one, a view of its own.
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

    pub(crate) fn is_packed(&self) -> bool {
        matches!(self, Self::Packed(_))
    }

    /// Whether this is what is kept of that very object.
    pub(crate) fn is(&self, object: &Object) -> bool {
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

// Equal and hashed as the key alone, as `Borrow<ObjectKey>` demands.
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
