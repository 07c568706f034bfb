//! Kubernetes objects as Pilothouse keeps them: immutable JSON bytes with their metadata read once, the keys and
//! selectors that name them, and the changes that happen to them.
//!
//! This crate does no I/O and knows neither tokio, kube nor wasmtime, so every other crate may depend on it.

pub mod cel;
mod delta;
mod json_path;
mod key;
pub mod names;
mod notification;
mod object;
mod resource;
pub mod selector;
mod version;

pub use delta::*;
pub use json_path::{JsonPath, JsonPathError, MAX_JSON_PATH_LENGTH, MAX_JSON_PATH_STEPS};
pub use key::ObjectKey;
pub use names::{GroupVersionKind, TypeNameError};
pub use notification::Notification;
pub use object::{
    Dictionary, Object, ObjectError, ObjectReader, OwnerReference, PackedObject, ParseOptions, Projection,
    Transform, prefetch, unquote_json,
};
pub use resource::ResourceType;
pub use selector::{FieldSelector, LabelSelector, SelectorError};
pub use version::{ResourceVersion, Uid};
