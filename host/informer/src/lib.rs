//! List-watch, reflector, delta queue, indexed store, shared informers and work queue: what client-go has in
//! `tools/cache` and `util/workqueue`, as a library.
//!
//! ```text
//! ListWatch → Reflector → DeltaQueue → Store and indexes → subscribers' backlogs → your code → WorkQueue → workers
//! └───────────────────── one task for each shared informer ────────────────────┘
//! ```
//!
//! Start with [`InformerRegistry`]: it gives a [`Subscription`] to objects, with notifications in order and a
//! [`StoreReader`] over the cache. Put the keys that need work into a [`WorkQueue`].
//!
//! The parts in the order in which an event passes them:
//! - [`ListWatch`] makes requests; [`KubeListWatch`] does so with a [`kube::Client`].
//! - [`Reflector`] decides what to request when, and what to do when it fails.
//! - [`DeltaQueue`] holds what the store has not taken yet.
//! - [`Store`] has the objects by key and by index ([`IndexFn`]).
//! - [`Subscription`] is what one subscriber is told, and its view of the store.
//! - [`WorkQueue`] gives keys to workers, each to one at a time.
//!
//! Objects are [`pilothouse_model::Object`]s: the server's JSON bytes, immutable, with their metadata read once.

mod coalesce;
mod decode;
mod delta_queue;
mod failure;
pub mod handler;
mod key;
mod list_watch;
pub mod metrics;
mod options;
pub mod reflector;
#[cfg(test)]
mod scripted;
mod shared;
mod status;
mod store;
pub mod work_queue;

pub use delta_queue::DeltaQueue;
pub use failure::{Failure, FailureKind};
pub use key::{InformerKey, Restriction};
pub use list_watch::{
    ByteStream, KubeListWatch, KubeListWatches, ListParams, ListWatch, ListWatchFactory, WatchParams,
};
pub use metrics::{HistogramSnapshot, InformerMetrics};
pub use options::InformerOptions;
pub use reflector::Reflector;
pub use shared::{
    FailureDump, InformerDump, InformerRegistry, StoreDump, SubscribeError, SubscribeOptions, SubscriberDump,
    Subscription, wait_for_cache_sync,
};
pub use status::{InformerPhase, InformerStatus};
pub use store::{IndexError, IndexFn, Store, StoreReader};
pub use work_queue::{
    NoMetrics, PendingItem, Priority, QueueMetrics, QueueSnapshot, RateLimit, TokenBucket, WorkItem,
    WorkQueue, WorkQueueOptions,
};
