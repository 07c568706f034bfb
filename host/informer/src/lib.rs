//! List-watch, reflector, delta queue, indexed store, shared informers and work queue: a Rust counterpart of client-go's
//! `tools/cache` and `util/workqueue`.
//!
//! ```text
//! ListWatch → Reflector → DeltaQueue → Store and indexes → subscribers' backlogs → your code → WorkQueue → workers
//! └───────────────────── one task for each shared informer ────────────────────┘
//! ```
//!
//! Start with [`InformerRegistry`]: it returns a [`Subscription`], which delivers notifications in order and has a
//! [`StoreReader`] over the cache. Add the keys that need work to a [`WorkQueue`]. A complete program is
//! `examples/informer.rs`: `cargo run -p pilothouse-informer --example informer` prints every change of the ConfigMaps in
//! the cluster that `$KUBECONFIG` names.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! # // The embedded API server; with a real one this would be `kube::Client::try_default().await?`.
//! # let server = pilothouse_apiserver::ApiServer::builder().build();
//! # let client = kube::Client::new(server.service(), "default");
//! use pilothouse_informer::{
//!     IndexFn, InformerKey, InformerOptions, InformerRegistry, KubeListWatches, Priority, SubscribeOptions,
//!     WorkQueue, WorkQueueOptions,
//! };
//! use pilothouse_model::ResourceType;
//!
//! let namespaces = ResourceType {
//!     group: String::new(), version: "v1".into(), kind: "Namespace".into(), plural: "namespaces".into(), namespaced: false,
//! };
//! let registry = InformerRegistry::new(KubeListWatches::new(client), InformerOptions::default());
//! let subscription = registry.subscribe(InformerKey::new(namespaces), SubscribeOptions::default()).unwrap();
//! subscription.add_index("name", IndexFn::label("kubernetes.io/metadata.name")).unwrap();
//!
//! let queue = WorkQueue::new(WorkQueueOptions::default());
//! for notification in subscription.next_batch().await.expect("the informer runs") {
//!     queue.add(notification.key().clone(), Priority::Normal);
//! }
//! let item = queue.get().await.expect("the queue is open");
//! let namespace = subscription.store().get(item.key()).expect("the cache is at least as new as the notification");
//! assert_eq!(subscription.store().by_index("name", namespace.name()).unwrap(), [namespace]);
//! # });
//! ```
//!
//! The components, in the order in which an event passes through them:
//! - [`ListWatch`] sends list and watch requests; [`KubeListWatch`] implements it with a [`kube::Client`].
//! - [`Reflector`] decides which request to send next and how to recover from failures.
//! - [`DeltaQueue`] holds changes that have not been applied to the store yet.
//! - [`Store`] holds the objects by key and by index ([`IndexFn`]).
//! - [`Subscription`] is one subscriber's notifications and its view of the store.
//! - [`WorkQueue`] hands out keys to workers; no two workers hold the same key.
//!
//! Objects are [`pilothouse_model::Object`]s: the server's JSON bytes, immutable, with their metadata parsed once. The
//! [`Transform`](pilothouse_model::Transform) in the [`InformerKey`] says which fields are removed before an object is
//! cached.
//!
//! [`metrics`] defines the counters and gauges; [`InformerRegistry::informers`] dumps the state of every informer for a
//! bug report.
//!
//! # Errors and cancellation
//! No server failure ends an informer: it retries until it is stopped, and [`InformerStatus::error`] holds the current
//! failure. An informer that panics is restarted and relists; its cache and its subscribers are kept. Every `async`
//! function of this crate can be dropped at any point; its documentation says what that means.
//!
//! # Shared state without a lock
//! Almost all state that threads share is behind a mutex or a read-write lock. The exceptions:
//!
//! | what | where | what it protects | ordering, and why that suffices |
//! |---|---|---|---|
//! | an `ArcSwap` over a reader's store and restriction | `Subscriber::source`, read by [`StoreReader`] | only itself: the pair is one immutable value, so a reader sees the old pair or the new pair, never a mix | `ArcSwap`'s own (`SeqCst` on the swap, acquire on the load): everything written before the swap, such as the new store's objects and indexes, is visible after the load. The only writer is the informer's task, which holds `Subscriber::indexes`, so an index added concurrently goes to the store that is read afterwards. A reader that loaded the old pair reads the old store, which its `Arc` keeps alive. That store is older but consistent, and no older than the delivered notifications, because the difference is delivered only after the swap |
//! | counters and histograms | `metrics` | nothing: the numbers are only added to and read | `Relaxed`: they publish no other memory, each one is exact by itself, and a snapshot promises no single point in time |
//! | the next scope ID | `InformerRegistry` | that no two subscribers get the same number | `Relaxed`: an atomic addition never gives two callers the same value in any ordering; the number reaches other threads through locks |
//! | the stop signal | a cancellation token of each informer | only itself | its own. It only starts the shutdown: `stopped`, read under the lock of the subscriber list, decides whether a subscriber can still be added |
//! | a subscriber has to be woken | `Subscriber::has_unseen` | that no subscriber sleeps while notifications are pending: the flag is set with the backlog locked, and whoever pushed reads it before releasing the lock of the subscriber list or, in the informer's task, at the end of its turn | `Relaxed`: the thread that sets the flag and the thread that reads it hold that lock, or are the same thread. The subscriber clears it with the backlog locked after it took the pending notifications or passed on its own wake-up; a late clear loses nothing, because the subscriber looks at the backlog before it sleeps |
//! | wake-ups | `Notify` of the queues and backlogs | nothing: what to do is always looked up under the lock | a waiter registers (`enable`) before it looks, and a thread that changes something notifies after unlocking, so a waiter is woken for every change that it did not see. A woken waiter that leaves something behind passes the wake-up on |
//!
//! None of these is a protocol of several atomic steps, so there are no interleavings to explore with loom. All locks are
//! taken in one order (documented on the informer's task in `shared`), and model tests cover the state that they protect.

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
mod scripted_server;
mod shared;
mod status;
mod store;
pub mod supervise;
pub mod work_queue;

pub use delta_queue::DeltaQueue;
pub use failure::{Failure, FailureKind};
pub use key::{InformerKey, Restriction};
pub use list_watch::{
    ByteStream, KubeListWatch, KubeListWatches, ListParams, ListWatch, ListWatchFactory, ServerProbe,
    WatchParams,
};
pub use metrics::{HistogramSnapshot, InformerMetrics};
pub use options::{Compression, InformerOptions};
pub use reflector::Reflector;
pub use shared::{
    FailureDump, IndexHandle, InformerDump, InformerRegistry, StoreDump, SubscribeError, SubscribeOptions,
    SubscriberDump, Subscription, wait_for_cache_sync,
};
pub use status::{InformerPhase, InformerStatus};
pub use store::{IndexError, IndexFn, IndexPlace, Scan, Store, StoreReader};
pub use work_queue::{
    NoMetrics, Note, PendingItem, Priority, QueueMetrics, QueueSnapshot, RateLimit, TokenBucket, WorkItem,
    WorkQueue, WorkQueueOptions,
};
