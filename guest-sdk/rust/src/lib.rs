//! Write Kubernetes controllers as WebAssembly plugins for Pilothouse.
//!
//! A plugin is a type that implements [`Describe`], which declares the objects that it watches, and [`Reconciler`], which brings one of
//! them to its desired state. [`export!`] exports it. A plugin that receives every change implements [`Observer`]; one that computes
//! the values of an index implements [`Indexer`].
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use pilothouse_sdk::{Config, Context, Describe, Error, Outcome, Plugin, Reconciler, Request, Watch, WatchRef, info};
//!
//! const CONFIG_MAPS: WatchRef<ConfigMap> = WatchRef::new("configmaps");
//!
//! #[derive(Default)]
//! struct Greeter;
//!
//! impl Describe for Greeter {
//!     fn describe(_config: &Config) -> Result<Plugin, Error> {
//!         Ok(Plugin::new("greeter", "0.1.0").watch(Watch::of(CONFIG_MAPS).triggers_itself()))
//!     }
//! }
//!
//! impl Reconciler for Greeter {
//!     fn reconcile(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
//!         match ctx.cache(CONFIG_MAPS).get(&request.key)? {
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
//! [`Context`] gives access to the host. Reads come from the host's cache and send no request ([`Context::cache`]). Writes go to the API
//! server ([`Context::client`]) and are visible to the plugin's own reads immediately. [`Context::queue`] queues more work and
//! [`Context::events`] records Events. The log ([`info!`]) and [`metrics`] need no context.
//!
//! [`testing`] has a fake host for unit tests.
//!
//! Typed calls work with the types of `k8s_openapi` and with those that `kube::CustomResource` derives. Every call also works without
//! types ([`Object`], [`client::UntypedClient`]).

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
mod host;
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
#[cfg(not(target_family = "wasm"))]
pub mod testing;
mod typed;
mod watch;
mod watch_ref;

pub use cache::{Cache, Page, Query, Row};
pub use context::Context;
pub use describe::Describe;
pub use error::{ApiError, DecodeError, Error};
pub use events::Events;
pub use indexer::Indexer;
pub use key::{ObjectKey, ObjectType};
pub use object::{Object, Owner};
pub use observer::{Change, Notification, Observer};
pub use plugin::{Config, Limits, Plugin, Verb, WriteRule};
pub use queue::Queue;
pub use reconciler::{Outcome, Reason, Reconciler, Request};
pub use typed::{FromObject, Resource};
pub use watch::{Index, Projection, Watch};
pub use watch_ref::{WatchName, WatchRef};

pub use bindings::pilothouse::controller::types::{Cause, Rule};

// Types of these crates are part of this crate's API.
pub use {jiff, k8s_openapi, kube_core, serde_json};

// Compiles the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
