//! The traits of the types that objects are read as.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{DecodeError, Object};

/// A Rust type for one kind of object. Implemented for every type of `k8s_openapi` that has metadata, and for every type that
/// `kube::CustomResource` derives.
pub trait Resource:
    kube_core::Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug + 'static
{
}

impl<K> Resource for K where
    K: kube_core::Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug + 'static
{
}

/// A type that a cached object can be read as: [`Object`] (a handle; copies nothing) or any [`Resource`] (parses the whole object).
pub trait FromObject: Sized {
    /// Whether reading copies the whole object out of the host.
    #[doc(hidden)]
    const PARSES: bool;

    /// Reads the object.
    ///
    /// # Errors
    /// When the object cannot be read as this type.
    fn from_object(object: &Object) -> Result<Self, DecodeError>;

    /// Like `from_object`, for callers that own the handle.
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
