//! Shared informers for Kubernetes controllers: list-watch, reflector, indexed store, subscriptions and a work queue, like
//! client-go's `tools/cache` and `util/workqueue`.
//!
//! # How do I watch Pods and look them up by node?
//!
//! Subscribe to the Pods with an [`InformerRegistry`]. The [`Subscription`] delivers every change and has a
//! [store](Subscription::store) of all Pods. Add an index over the field that you look up.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! # // The embedded API server; with a real one this would be `kube::Client::try_default().await?`.
//! # let server = pilothouse_apiserver::ApiServer::builder().build();
//! # let client = kube::Client::new(server.service(), "default");
//! # let web = r#"{"metadata":{"name":"web"},"spec":{"nodeName":"node-7","containers":[{"name":"web","image":"web"}]}}"#;
//! # let web: Pod = serde_json::from_str(web).unwrap();
//! # let api = kube::Api::<Pod>::default_namespaced(client.clone());
//! # api.create(&kube::api::PostParams::default(), &web).await.unwrap();
//! use futures::StreamExt;
//! use k8s_openapi::api::core::v1::Pod;
//! use pilothouse_informer::{
//!     IndexFn, InformerKey, InformerOptions, InformerRegistry, KubeListWatches, SubscribeOptions,
//! };
//!
//! // `client` is a `kube::Client`, such as that of `kube::Client::try_default()`.
//! let registry = InformerRegistry::new(KubeListWatches::new(client), InformerOptions::default());
//! let pods = registry.subscribe(InformerKey::of::<Pod>(), SubscribeOptions::default()).unwrap();
//! pods.add_index("node", IndexFn::field(".spec.nodeName").unwrap()).unwrap();
//!
//! let mut changes = pods.stream();
//! while let Some(change) = changes.next().await {
//!     let Some(node) = change.object().text("/spec/nodeName") else { continue };
//!     for pod in pods.store().by_index_as::<Pod>("node", &node).unwrap() {
//!         println!("{:?} runs on {node}", pod.metadata.name);
//!         # assert_eq!((pod.metadata.name.as_deref(), &*node), (Some("web"), "node-7"));
//!     }
//!     # break;
//! }
//! # });
//! ```
//!
//! A complete program is `examples/informer.rs`: `cargo run -p pilothouse-informer --example informer` prints every change of
//! the ConfigMaps in the cluster that `$KUBECONFIG` names.
//!
//! # How do I reconcile objects in several workers?
//!
//! Add the keys that need work to a [`WorkQueue`]. No two workers hold the same key, and a key that is added while a worker
//! holds it is handed out once more afterwards.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! # let server = pilothouse_apiserver::ApiServer::builder().build();
//! # let client = kube::Client::new(server.service(), "default");
//! use k8s_openapi::api::core::v1::Namespace;
//! use pilothouse_informer::{
//!     InformerKey, InformerOptions, InformerRegistry, KubeListWatches, Priority, SubscribeOptions, WorkQueue,
//!     WorkQueueOptions,
//! };
//!
//! let registry = InformerRegistry::new(KubeListWatches::new(client), InformerOptions::default());
//! let namespaces = registry.subscribe(InformerKey::of::<Namespace>(), SubscribeOptions::default()).unwrap();
//! let queue = WorkQueue::new(WorkQueueOptions::default());
//! for notification in namespaces.next_batch().await.expect("the informer runs") {
//!     queue.add(notification.key().clone(), Priority::Normal);
//! }
//!
//! let item = queue.get().await.expect("the queue is open");
//! let namespace = namespaces.store().get(item.key()).expect("the cache is at least as new as the notification");
//! println!("reconciling {}", namespace.name());
//! queue.forget(item.key());
//! item.done();
//! # });
//! ```
//!
//! # How do I …
//!
//! - watch only some of the objects? Narrow the [`InformerKey`]: [`in_namespace`](InformerKey::in_namespace),
//!   [`with_labels`](InformerKey::with_labels), [`with_fields`](InformerKey::with_fields).
//! - be woken only for some of the changes? See [`Subscription::set_condition`].
//! - watch a kind without a Rust type? Create a [`ResourceType`] and pass it to [`InformerKey::new`]. An [`Object`] is the
//!   server's JSON text; its fields are looked up by JSON pointer.
//! - use less memory? Drop fields with [`InformerKey::with_transform`], or [compress](InformerOptions::compression) the caches.
//! - wait until the caches are complete? See [`wait_for_cache_sync`].
//! - have a change delivered again when my code fails? Use [`handler::run_handler`].
//! - find out why nothing arrives? See [`Subscription::status`], [`InformerRegistry::metrics`] for metrics, and
//!   [`InformerRegistry::informers`] for a bug report.
//! - test without a cluster? Implement [`ListWatch`].
//!
//! # Which features of kube and k8s-openapi do I need?
//!
//! This crate uses kube's client without TLS. Add `kube` to your own dependencies with the TLS implementation that you want;
//! its default features are enough. The feature `latest`, which is enabled by default, selects the newest version of the
//! Kubernetes API in `k8s-openapi`. To select another one, disable the default features and enable that version's feature of
//! `k8s-openapi`. The other default feature, `compressed-cache`, adds [`Compression::default`] and compiles zstd. The crates whose
//! types are part of this crate's interface are re-exported.
//!
//! # How does it work?
//!
//! ```text
//! ListWatch → Reflector → DeltaQueue → Store and indexes → subscribers' backlogs → your code → WorkQueue → workers
//! └───────────────────── one task for each shared informer ────────────────────┘
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
//! Objects are immutable, with their metadata parsed once.
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
//! | data has arrived that is not pushed yet | `DeltaQueue::incoming` | only when the consumer ends its turn: it waits for the data that follows, so that changes of one object are merged | `Relaxed`: a stale value makes a turn end earlier or later, and loses nothing. The deltas are pushed under the queue's lock |
//! | the delta queue merges | `Store::version_frozen` | that the store's version is not raised by changes that are applied out of order | `Relaxed`: the informer's task alone writes and reads it |
//! | the dictionary of a compressed store | a `OnceLock` of the packer | only itself: it is immutable once it is set | `OnceLock`'s own: whoever sees the dictionary sees its content. Objects that were stored before it are packed under the store's lock |
//! | wake-ups | `Notify` of the queues and backlogs | nothing: what to do is always looked up under the lock | a waiter registers (`enable`) before it looks, and a thread that changes something notifies after unlocking, so a waiter is woken for every change that it did not see. A woken waiter that leaves something behind passes the wake-up on |
//!
//! None of these is a protocol of several atomic steps, so there are no interleavings to explore with loom. All locks are
//! taken in one order (documented on the informer's task in `shared`), and model tests cover the state that they protect.

mod coalesce;
pub mod condition;
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
    FailureDump, IndexHandle, InformerDump, InformerRegistry, NotificationStream, StoreDump, SubscribeError,
    SubscribeOptions, SubscriberDump, Subscription, wait_for_cache_sync,
};
pub use status::{InformerPhase, InformerStatus};
pub use store::{
    IndexError, IndexFn, IndexMemory, IndexValueCursor, ReadError, ScanPage, Store, StoreReader,
};
pub use work_queue::{
    ExponentialBackoff, KeyPayload, KeyState, KeyStatus, NoMetrics, PendingItem, Priority, QueueMetrics,
    QueueSnapshot, RateLimit, TokenBucket, WorkItem, WorkQueue, WorkQueueOptions,
};

pub use pilothouse_model as model;
pub use pilothouse_model::{
    DecodeError, Deletion, Delta, FieldSelector, JsonPathError, LabelSelector, Notification, Object,
    ObjectKey, Projection, Replacement, ResourceType, StaticScope, Transform,
};
pub use {async_trait::async_trait, bytes, futures, k8s_openapi, kube, serde, tokio, tokio_util};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExample;
