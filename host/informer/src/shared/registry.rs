//! The registry: starts one informer for each distinct key, shares it among subscribers and stops it with the last one.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::dump::InformerDump;
use super::informer::Informer;
use super::subscriber::Subscriber;
use super::subscription::{SubscribeOptions, Subscription};
use crate::key::InformerKey;
use crate::list_watch::ListWatchFactory;
use crate::metrics::{CountersByLabels, InformerMetrics, MeasuredListWatch};
use crate::options::InformerOptions;
use crate::reflector::ServerRecovery;

/// Shorter resync periods are raised to this one.
const MIN_RESYNC_PERIOD: Duration = Duration::from_secs(1);

/// Shared informers, one for each distinct [`InformerKey`]: the first subscriber starts an informer, the last one to leave
/// stops it (client-go's `SharedInformerFactory`). Cloning makes another handle to the same registry.
///
/// A narrower request is served from a wider informer that already runs. If the server forbids the wider watch, those
/// subscribers are moved to informers of their own.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = pilothouse_apiserver::ApiServer::builder().build();
/// # let client = kube::Client::new(server.service(), "default");
/// use k8s_openapi::api::core::v1::Namespace;
/// use pilothouse_informer::{InformerKey, InformerOptions, InformerRegistry, KubeListWatches, SubscribeOptions};
///
/// // `client` is a `kube::Client`, such as that of `kube::Client::try_default()`.
/// let registry = InformerRegistry::new(KubeListWatches::new(client), InformerOptions::default());
/// let all = registry.subscribe(InformerKey::of::<Namespace>(), SubscribeOptions::default()).unwrap();
/// let others = registry.subscribe(InformerKey::of::<Namespace>(), SubscribeOptions::default()).unwrap();
/// assert_eq!(registry.informers().len(), 1, "both share one watch and one cache");
/// assert_eq!(all.next_batch().await.unwrap().len(), others.next_batch().await.unwrap().len());
///
/// drop((all, others));
/// assert!(registry.informers().is_empty(), "the last subscriber stops the informer");
/// registry.stop().await;
/// # });
/// ```
#[derive(Clone)]
pub struct InformerRegistry {
    inner: Arc<RegistryInner>,
}

/// The state that all handles of a registry share.
pub(super) struct RegistryInner {
    factory: Box<dyn ListWatchFactory>,
    recovery: Option<Arc<ServerRecovery>>,
    options: InformerOptions,
    running: Mutex<RunningInformers>,
    tasks: TaskTracker,
    /// The next subscriber ID. It only has to be unique, so `Relaxed` suffices.
    next_id: AtomicU64,
    counters: CountersByLabels,
}

/// The informers that run now.
#[derive(Default)]
struct RunningInformers {
    informers: Vec<Arc<Informer>>,
    stopped: bool,
}

/// Why a subscription was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubscribeError {
    /// The registry was stopped.
    #[error("the informer registry has been stopped and accepts no more subscriptions")]
    Stopped,
    /// There is no tokio runtime to run the informer on.
    #[error("no tokio runtime to run the informer on; subscribe from inside one")]
    NoRuntime,
}

impl InformerRegistry {
    /// Creates a registry without informers.
    #[must_use]
    pub fn new(factory: impl ListWatchFactory, options: InformerOptions) -> Self {
        Self {
            inner: Arc::new(RegistryInner {
                recovery: factory.probe().map(|probe| Arc::new(ServerRecovery::new(probe))),
                factory: Box::new(factory),
                options,
                running: Mutex::new(RunningInformers::default()),
                tasks: TaskTracker::new(),
                // 0 is the index scope of the store itself.
                next_id: AtomicU64::new(1),
                counters: CountersByLabels::default(),
            }),
        }
    }

    /// Subscribes to objects. Starts an informer if no running one can serve the request.
    ///
    /// # Errors
    /// Errors after [`stop`](Self::stop), and outside a tokio runtime if [`InformerOptions::runtime`] is `None`.
    pub fn subscribe(
        &self,
        key: InformerKey,
        options: SubscribeOptions,
    ) -> Result<Subscription, SubscribeError> {
        let runtime = match &self.inner.options.runtime {
            Some(runtime) => runtime.clone(),
            None => Handle::try_current().map_err(|_| SubscribeError::NoRuntime)?,
        };
        let inner = &self.inner;
        let resync = options.resync.map(|period| {
            if period < MIN_RESYNC_PERIOD {
                tracing::warn!(%key, ?period, "a resync period below one second was raised to one second");
            }
            period.max(MIN_RESYNC_PERIOD)
        });
        let mut running = inner.running.lock();
        if running.stopped {
            return Err(SubscribeError::Stopped);
        }
        let informer = running.find(&key).unwrap_or_else(|| inner.start(&mut running, key.clone(), &runtime));
        let restriction = informer.key.restriction_for(&key).filter(|restriction| !restriction.is_empty());
        let id = inner.next_id.fetch_add(1, Ordering::Relaxed);
        let view = informer.view(id, restriction.clone());
        let subscriber = Arc::new(Subscriber::new(id, key, options.batch, options.backlog, view, &informer));
        // Only the last subscriber and the registry stop an informer, and both need this lock. So this fails only if the
        // informer's task was dropped, for example with its runtime.
        informer.add_subscriber(&subscriber, restriction, resync).map_err(|_| SubscribeError::Stopped)?;
        Ok(Subscription::new(subscriber, Arc::clone(inner)))
    }

    /// Returns the state of all informers, for a bug report.
    #[must_use]
    pub fn informers(&self) -> Vec<InformerDump> {
        let informers = self.inner.running.lock().informers.clone();
        informers.iter().map(|informer| InformerDump::of(informer)).collect()
    }

    /// Returns the informers' metrics: one entry for each resource and [name](InformerMetrics::name) that was ever watched.
    /// The cost is linear in the number of subscribers, not of objects.
    #[must_use]
    pub fn metrics(&self) -> Vec<InformerMetrics> {
        let informers = self.inner.running.lock().informers.clone();
        informers.iter().for_each(|informer| informer.publish_counts());
        let keys = informers.iter().map(|informer| &informer.key);
        self.inner.counters.snapshot(keys, |position, metrics| informers[position].add_gauges(metrics))
    }

    /// Stops all informers and waits for their tasks. Nothing is delivered afterwards: [`Subscription::next_batch`] returns
    /// `None`. Idempotent.
    ///
    /// # Cancellation safety
    /// Dropping the future ends the wait, not the stop.
    pub async fn stop(&self) {
        let informers = {
            let mut running = self.inner.running.lock();
            running.stopped = true;
            std::mem::take(&mut running.informers)
        };
        for informer in informers {
            informer.stop();
        }
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }
}

impl RunningInformers {
    /// Returns a running informer that can serve the request: the one with exactly this key, or a wider one that the server
    /// does not forbid.
    fn find(&self, key: &InformerKey) -> Option<Arc<Informer>> {
        let live = || self.informers.iter().filter(|informer| !informer.is_stopped());
        let exact = live().find(|informer| informer.key == *key);
        let wider = || {
            live().find(|informer| informer.key.restriction_for(key).is_some() && !informer.is_forbidden())
        };
        exact.or_else(wider).cloned()
    }
}

impl RegistryInner {
    fn start(
        self: &Arc<Self>,
        running: &mut RunningInformers,
        key: InformerKey,
        runtime: &Handle,
    ) -> Arc<Informer> {
        tracing::debug!(%key, "starting an informer");
        let counters = self.counters.counters(&key);
        let informer = Arc::new(Informer::new(key, &self.options, Arc::clone(&counters)));
        let status = informer.status.subscribe();
        let list_watch =
            MeasuredListWatch { list_watch: self.factory.list_watch(&informer.key), counters, status };
        let registry = Arc::downgrade(self);
        let forbidden = move |informer: &Arc<Informer>| {
            if let Some(registry) = registry.upgrade() {
                registry.move_restricted(informer);
            }
        };
        self.tasks.spawn_on(
            Arc::clone(&informer).run(
                Arc::new(list_watch),
                self.recovery.clone(),
                self.options.clone(),
                forbidden,
            ),
            runtime,
        );
        running.informers.retain(|informer| !informer.is_stopped());
        running.informers.push(Arc::clone(&informer));
        informer
    }

    /// Moves the subscribers with narrower requests to informers of their own, because the server forbids the watch of `wide`.
    fn move_restricted(self: &Arc<Self>, wide: &Arc<Informer>) {
        let Ok(runtime) = Handle::try_current() else { return };
        let mut running = self.running.lock();
        if running.stopped {
            return;
        }
        for (subscriber, transfer) in wide.take_restricted() {
            let own = running
                .informers
                .iter()
                .find(|informer| informer.key == subscriber.key && !informer.is_stopped());
            let own = match own {
                Some(informer) => Arc::clone(informer),
                None => self.start(&mut running, subscriber.key.clone(), &runtime),
            };
            tracing::info!(wide = %wide.key, own = %own.key, "the wider watch is forbidden; starting the narrower one");
            *subscriber.informer.lock() = Arc::clone(&own);
            if own.add_transferred(&subscriber, transfer).is_err() {
                subscriber.close();
            }
        }
        Self::stop_unused(&mut running, wide);
    }

    pub(super) fn unsubscribe(&self, subscriber: &Arc<Subscriber>) {
        let mut running = self.running.lock();
        let informer = Arc::clone(&subscriber.informer.lock());
        informer.publish_counts();
        subscriber.close();
        informer.remove_subscriber(subscriber);
        Self::stop_unused(&mut running, &informer);
    }

    fn stop_unused(running: &mut RunningInformers, informer: &Arc<Informer>) {
        if informer.is_unused() {
            tracing::debug!(key = %informer.key, "stopping an informer without subscribers");
            running.informers.retain(|other| !Arc::ptr_eq(other, informer));
            informer.stop();
        }
    }
}

impl fmt::Debug for InformerRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.informers()).finish()
    }
}
