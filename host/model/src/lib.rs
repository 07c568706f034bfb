//! Kubernetes objects as immutable JSON text, with the keys, selectors and changes that informers are made of.
//!
//! # How do I read an object of any kind?
//!
//! Parse it into an [`Object`]. Its metadata has accessors, and other fields are looked up by JSON pointer. No type for the kind is needed, and no
//! tree is built.
//!
//! ```
//! use pilothouse_model::Object;
//!
//! let pod = Object::from_json(
//!     r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop"},"spec":{"nodeName":"node-7"}}"#,
//! )?;
//! assert_eq!(pod.key().as_str(), "shop/web");
//! assert_eq!(pod.text("/spec/nodeName").as_deref(), Some("node-7"));
//! # Ok::<(), pilothouse_model::ObjectError>(())
//! ```
//!
//! # How do I read the events of a watch quickly?
//!
//! Use an [`ObjectReader`], which compares a new version with the stored one instead of parsing all of it.
//!
//! # How do I keep less of each object?
//!
//! A [`Transform`] drops parts of an object while it is parsed, such as `metadata.managedFields`. A [`Dictionary`] compresses what is kept to a
//! [`PackedObject`]. Its constructor needs the feature `compressed-cache`, which is enabled by default and compiles zstd.
//!
//! # How do I find out whether an object matches?
//!
//! [`LabelSelector`] and [`FieldSelector`] match like those of Kubernetes. [`JsonPath`] finds values by paths in kubectl's notation.
//!
//! # What do informers deliver?
//!
//! A reflector produces a [`Delta`] for each change that it observes, and a subscriber receives a [`Notification`]. Objects are identified by an
//! [`ObjectKey`] within a [`ResourceType`].
//!
//! # How do I use the types of k8s-openapi and kube?
//!
//! [`Object::decode`] turns an object into a Rust type of its kind. With the feature `kube`, `ResourceType::of::<Pod>()` returns the resource of
//! a type. A binary selects the version of the Kubernetes API with a feature of `k8s-openapi`; the feature `latest` selects the newest one.
//!
//! # How do I make a simulation repeatable?
//!
//! The maps of [`hash`] have an order that follows from a seed, if the program sets one.
//!
//! # What does the crate depend on?
//!
//! It does no I/O, and without the feature `kube` it depends on neither tokio, kube nor wasmtime. The crates whose types are part of this crate's
//! interface are re-exported.

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExamples;

mod delta;
pub mod hash;
mod json_path;
mod key;
pub mod names;
mod notification;
mod object;
pub mod percent_encoding;
mod quoted;
mod resource;
pub mod selector;
mod version;

pub use delta::*;
pub use json_path::{JsonPath, JsonPathError, JsonPathStep, MAX_JSON_PATH_LENGTH, MAX_JSON_PATH_STEPS};
pub use key::ObjectKey;
#[cfg(feature = "kube")]
pub use kube_core;
pub use names::{GroupVersionKind, TypeNameError};
pub use notification::Notification;
pub use object::{
    DecodeError, Dictionary, Object, ObjectError, ObjectReader, OwnerReference, PackedObject, ParseOptions,
    Projection, Transform, prefetch, unquote_json,
};
pub use resource::ResourceType;
#[cfg(feature = "kube")]
pub use resource::StaticScope;
pub use selector::{FieldSelector, LabelSelector, SelectorError};
pub use version::{ResourceVersion, Uid};
pub use {serde, serde_json};
