use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{DecodeError, Object};

/// A Rust type for one kind of object: every type of `k8s_openapi` that has metadata, and every type that
/// `kube::CustomResource` derives. Never implemented by hand.
pub trait Resource:
    kube_core::Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug + 'static
{
}

impl<K> Resource for K where
    K: kube_core::Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug + 'static
{
}

/// What a cached object can be read as: [`Object`] (a handle, nothing is copied) or any [`Resource`] (parsed whole).
pub trait FromObject: Sized {
    /// Whether reading takes the whole object out of the host.
    #[doc(hidden)]
    const PARSES: bool;

    /// Reads it.
    ///
    /// # Errors
    /// When the object is of another shape than the type.
    fn from_object(object: &Object) -> Result<Self, DecodeError>;

    /// `from_object` for callers that give the handle away.
    #[doc(hidden)]
    fn from_owned(object: Object) -> Result<Self, DecodeError> {
        Self::from_object(&object)
    }
}

impl FromObject for Object {
    const PARSES: bool = false;

    fn from_object(object: &Object) -> Result<Self, DecodeError> {
        Ok(object.clone())
    }
}

impl<K: Resource> FromObject for K {
    const PARSES: bool = true;

    fn from_object(object: &Object) -> Result<Self, DecodeError> {
        object.parse()
    }
}
