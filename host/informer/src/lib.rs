//! List-watch, reflector, delta queue, indexed store, shared informers and work queue: what client-go has in
//! `tools/cache` and `util/workqueue`, as a library.
//!
//! ```text
//! ListWatch → Reflector → DeltaQueue → Store and indexes → subscribers' backlogs → your code → WorkQueue → workers
//! └───────────────────── one task for each shared informer ────────────────────┘
//! ```
//!
//! Start with [`InformerRegistry`]: it gives a [`Subscription`] to objects, with notifications in order and a
//! [`StoreReader`] over the cache. Put the keys that need work into a [`WorkQueue`]. A whole program is
//! `examples/informer.rs`: `cargo run -p pilothouse-informer --example informer` shows what happens to the ConfigMaps of
//! the cluster that `$KUBECONFIG` names.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! # // The embedded API server: a real one would be `kube::Client::try_default().await?`.
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
//! let namespace = subscription.store().get(item.key()).expect("the cache is at least as new as what was told");
//! assert_eq!(subscription.store().by_index("name", namespace.name()).unwrap(), [namespace]);
//! # });
//! ```
//!
//! The parts in the order in which an event passes them:
//! - [`ListWatch`] makes requests; [`KubeListWatch`] does so with a [`kube::Client`].
//! - [`Reflector`] decides what to request when, and what to do when it fails.
//! - [`DeltaQueue`] holds what the store has not taken yet.
//! - [`Store`] has the objects by key and by index ([`IndexFn`]).
//! - [`Subscription`] is what one subscriber is told, and its view of the store.
//! - [`WorkQueue`] gives keys to workers, each to one at a time.
//!
//! Objects are [`pilothouse_model::Object`]s: the server's JSON bytes, immutable, with their metadata read once. What is
//! taken out of them before they are kept is a [`Transform`](pilothouse_model::Transform), named in the [`InformerKey`].
//!
//! [`metrics`] has what is counted, [`InformerRegistry::informers`] the state of everything for a bug report.
//!
//! # Errors and cancellation
//! Nothing that the server does ends an informer: it retries until it is stopped, and [`InformerStatus::error`] says what
//! keeps it. An informer that panics is started again and lists anew; its cache and its subscribers stay. Every `async` function here can be dropped at any point; its documentation says what that means.
//!
//! # Invariants of what is shared
//! Almost everything that threads share is behind a mutex or a read-write lock; only these are not, and why that is right:
//!
//! | what | where | what it protects | ordering, and why that suffices |
//! |---|---|---|---|
//! | an `ArcSwap` over a reader's store and restriction | `Subscriber::source`, read by [`StoreReader`] | nothing but itself: the pair is one immutable value, so a reader has the old pair or the new, never half of each | `ArcSwap`'s own (`SeqCst` on the swap, acquire on the load): what was written before the swap, the new store's objects and indexes, is seen after the load. One writer: the informer's task, with `Subscriber::indexes` locked, so that an index that is added meanwhile goes to the store that is read afterwards. A reader that loaded the old pair reads the old store, which its `Arc` keeps alive: older, but consistent, and no older than what it was told, because the difference is told only after the swap |
//! | counters and histograms | `metrics` | nothing: numbers that are only added to and read | `Relaxed`: no other memory is published by them, each is exact by itself, and a snapshot promises no single moment |
//! | the next scope | `InformerRegistry` | that no two subscribers get one number | `Relaxed`: an atomic addition never gives two callers the same value, in any ordering; the number reaches other threads through locks |
//! | the stop signal | a cancellation token of each informer | nothing but itself | its own. It only begins the end: `stopped`, under the lock of the seats, decides whether somebody can still join |
//! | a subscriber has to be woken | `Subscriber` | that nobody sleeps while something waits: it is set with the backlog locked, and whoever offered looks at it before it leaves the hub's lock or, the informer's task, at the end of its turn | `Relaxed`: who sets it and who looks hold the hub's lock, or are one thread. The subscriber clears it with the backlog locked when it has taken what waits, or has passed its own wake-up on; a clear that comes late loses nothing, since it looks at the backlog before it sleeps |
//! | wake-ups | `Notify` of the queues and backlogs | nothing: what to do is always looked up under the lock | a waiter registers (`enable`) before it looks, and who changes something notifies after unlocking: whatever a waiter did not see wakes it. A woken waiter that leaves something behind passes the wake-up on |
//!
//! None of these is a protocol of several atomic steps, so there is no interleaving of them to explore with loom; the
//! locks are in one order (see the informer's task in `shared`), and model tests cover what is under them.

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
pub use store::{IndexError, IndexFn, Store, StoreReader};
pub use work_queue::{
    NoMetrics, Note, PendingItem, Priority, QueueMetrics, QueueSnapshot, RateLimit, TokenBucket, WorkItem,
    WorkQueue, WorkQueueOptions,
};
