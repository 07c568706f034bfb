//! Write Kubernetes controllers as WebAssembly plugins for Pilothouse.
//!
//! A plugin is a type that implements [`Describe`], which says what objects it watches, and [`Reconciler`], which brings one of
//! them to its desired state. [`export!`] makes a plugin of it. One that wants every change is an [`Observer`]; one that computes
//! the values of an index is an [`Indexer`].
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use pilothouse_sdk::{Config, Context, Describe, Error, Outcome, Plugin, Reconciler, Request, Watch, info};
//!
//! #[derive(Default)]
//! struct Greeter;
//!
//! impl Describe for Greeter {
//!     fn describe(_config: &Config) -> Result<Plugin, Error> {
//!         Ok(Plugin::new("greeter", "0.1.0").watch(Watch::of::<ConfigMap>("configmaps").triggers_itself()))
//!     }
//! }
//!
//! impl Reconciler for Greeter {
//!     fn reconcile(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
//!         match ctx.cache::<ConfigMap>("configmaps").get(&request.key)? {
//!             Some(_) => info!("hello, {}", request.key),
//!             None => info!("goodbye, {}", request.key),
//!         }
//!         Ok(Outcome::Done)
//!     }
//! }
//!
//! pilothouse_sdk::export!(Greeter);
//! ```
//!
//! Reads come from the host's cache and cost no request ([`Context::cache`]); writes go to the API server
//! ([`client`]) and are visible to this plugin's own reads at once. Everything typed works with the types of
//! `k8s_openapi` and with those that `kube::CustomResource` derives; everything works without types too
//! ([`Object`], [`client::untyped`]).

#[doc(hidden)]
pub mod bindings;
mod cache;
pub mod client;
pub mod clock;
pub mod conditions;
mod context;
mod describe;
mod error;
mod events;
#[doc(hidden)]
pub mod export;
pub mod finalizer;
mod indexer;
mod key;
pub mod log;
pub mod metrics;
mod object;
mod observer;
pub mod owner;
mod panic;
mod plugin;
mod queue;
mod reconciler;
mod typed;
mod watch;

pub use cache::{Cache, Page, Query, Row};
pub use context::Context;
pub use describe::Describe;
pub use error::{ApiError, DecodeError, Error};
pub use events::Events;
pub use indexer::Indexer;
pub use key::{ObjectKey, ObjectType};
pub use object::{Object, Owner};
pub use observer::{Change, Notification, Observer};
pub use plugin::{Config, Limits, Plugin, WriteRule};
pub use queue::Queue;
pub use reconciler::{Outcome, Reason, Reconciler, Request};
pub use typed::{FromObject, Resource};
pub use watch::{Index, Projection, Watch};

pub use bindings::pilothouse::controller::types::{Cause, Rule};

// Their types are part of this crate's interface.
pub use {jiff, k8s_openapi, kube_core, serde_json};

// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
