//! One version of a plugin: its code and all that it needs to run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_informer::condition::Condition;
use pilothouse_informer::{InformerKey, InformerPhase, Subscription};
use pilothouse_model::hash::HashSet;
use pilothouse_model::{Notification, ObjectKey};
use pilothouse_plugin::InstancePool;

use crate::cache::delivery_filter::{DeliveryFilter, DeliveryHold};
use crate::cache::views::Views;
use crate::client::fence::Fence;
use crate::config::canary_share::CanaryShare;
use crate::config::current_grants::SidecarGrants;
use crate::config::descriptor::Descriptor;
use crate::config::limits::PluginLimits;
use crate::config::sidecar::Sidecar;
use crate::lifecycle::Health;
use crate::rollout::KnownVersion;
use crate::runtime::RenamedWatches;
use crate::runtime::dedicated_instance::DedicatedInstance;
use crate::runtime::key_mapper::KeyMapper;
use crate::runtime::predicate::{Predicate, PredicateSuspension};
use crate::shadow::ShadowRecord;

/// A version that was described and whose watches are synced.
pub(crate) struct Version {
    pub(crate) descriptor: Descriptor,
    /// SHA-256 of the .wasm.
    pub(crate) digest: String,
    /// SHA-256 of the .wasm in the plugins directory. It is another one if this version runs in its place.
    pub(crate) file_digest: String,
    /// How long its sidecar wants new versions to be in probation.
    pub(crate) probation: Option<Duration>,
    /// Which keys it reconciles.
    pub(crate) role: Role,
    /// The sidecar's text; "" if there is none.
    pub(crate) sidecar_text: String,
    /// The grants in that sidecar. While the version runs, the plugin's current grants apply instead.
    pub(crate) sidecar_grants: Arc<SidecarGrants>,
    pub(crate) workers: usize,
    /// The plugin's limits while this version runs.
    pub(crate) plugin_limits: PluginLimits,
    /// The instances in which a stateless plugin reconciles.
    pub(crate) pool: InstancePool,
    /// The instance that observes; a stateful plugin also reconciles there.
    pub(crate) dedicated_instance: DedicatedInstance,
    pub(crate) views: Arc<Views>,
    pub(crate) routes: Vec<WatchRoute>,
    /// The subscriptions of the observer; empty without one.
    pub(crate) observer_subscriptions: Vec<ObserverSubscription>,
    pub(crate) fence: Fence,
    /// Counts the faults of this version's guests. A new version starts without faults.
    pub(crate) health: Health,
    /// What is shown of its shadow while it runs; `None` without one.
    pub(crate) shadow: Option<Arc<ShadowRecord>>,
    /// How the target watches of earlier versions map to this one's, for keys that were queued under the old
    /// names.
    pub(crate) renamed_watches: Mutex<RenamedWatches>,
    /// CRDs that a newer version applied before it failed or was removed. Nobody reverts them.
    pub(crate) newer_crds: Mutex<Vec<String>>,
    /// Whether the server now serves a watched kind differently, so that the same files must be loaded again.
    pub(crate) must_reload: AtomicBool,
    /// The number of requests of each route's informer when its kind was last compared with what the server serves; empty before the first
    /// comparison.
    pub(crate) compared_kinds: Mutex<Vec<u64>>,
}

/// Which keys a version reconciles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// All keys.
    Alone,
    /// All keys, until the version of the file is loaded as its canary.
    BesideCanary,
    /// These keys. Another version reconciles the others.
    Canary(CanaryShare),
}

/// What is done with the notifications of one subscription.
pub(crate) struct WatchRoute {
    pub(crate) watch: Arc<str>,
    pub(crate) subscribed: WatchSubscription,
    /// `None` for a watch that only fills the cache.
    pub(crate) trigger: Option<ResolvedTrigger>,
    /// Present if the watch has a computed index, which needs every change from the moment at which the version is loaded.
    pub(crate) _delivery_hold: Option<DeliveryHold>,
}

/// A subscription with its parameters, by which the next version finds one that it can take over.
#[derive(Clone)]
pub(crate) struct WatchSubscription {
    pub(crate) key: InformerKey,
    pub(crate) resync: Option<Duration>,
    pub(crate) subscription: Arc<Subscription>,
    pub(crate) filter: Arc<DeliveryFilter>,
    /// A batch that was taken but not yet returned, because the plugin's indexes must be updated first. It
    /// outlives the version that took it.
    pub(crate) taken: Arc<Mutex<Option<Vec<Notification>>>>,
}

/// A subscription of the observer alone: each version receives all objects from the beginning.
pub(crate) struct ObserverSubscription {
    pub(crate) watch: Arc<str>,
    pub(crate) subscription: Subscription,
}

/// A trigger of the descriptor with its predicate and its target watch: which objects a change queues, and under which condition.
pub(crate) struct ResolvedTrigger {
    pub(crate) predicate: Predicate,
    /// Whether the predicate is suspended, because it costs too much.
    pub(crate) suspension: Mutex<PredicateSuspension>,
    pub(crate) mapper: KeyMapper,
    pub(crate) target_watch: Arc<str>,
}

impl WatchRoute {
    /// Returns which changes the route may act on. It refuses all others.
    pub(crate) fn condition(&self) -> Condition {
        self.trigger
            .as_ref()
            .map_or_else(|| Condition::constant(false), |trigger| trigger.predicate.condition())
    }
}

impl WatchSubscription {
    pub(crate) fn new(key: InformerKey, resync: Option<Duration>, subscription: Arc<Subscription>) -> Self {
        let filter = DeliveryFilter::new(&subscription);
        Self { key, resync, subscription, filter, taken: Arc::default() }
    }

    /// Returns the next batch, once the plugin's computed indexes include it; `None` once the informer has
    /// stopped.
    ///
    /// # Cancellation safety
    /// Safe: the next call returns a batch that was taken but not returned.
    pub(crate) async fn next_batch(&self, views: &Arc<Views>, watch: &str) -> Option<Vec<Notification>> {
        let has_taken = self.taken.lock().is_some();
        if !has_taken {
            let batch = self.subscription.next_batch().await?;
            *self.taken.lock() = Some(batch);
        }
        if views.has_computed_index(watch) {
            let keys: Vec<_> =
                self.taken.lock().iter().flatten().map(|notification| notification.key().clone()).collect();
            views.index(watch, &keys).await;
        }
        self.taken.lock().take()
    }

    /// Whether the informer has stopped, so that no more notifications come.
    pub(crate) fn has_ended(&self) -> bool {
        self.subscription.status().phase == InformerPhase::Stopped
    }

    /// Takes all pending notifications, for a version that ends together with its subscription.
    pub(crate) fn take_all(&self) -> Vec<Notification> {
        let mut all = self.taken.lock().take().unwrap_or_default();
        all.extend(self.subscription.take_pending());
        all
    }

    /// Removes the initial objects from the pending notifications, and returns them. They are in the cache, and count as delivered.
    pub(crate) fn take_initial(&self) -> Vec<Notification> {
        let waiting = self.subscription.take_pending();
        let mut taken = self.taken.lock();
        let held = taken.take().into_iter().flatten().chain(waiting);
        let is_initial =
            |notification: &Notification| matches!(notification, Notification::Added { initial: true, .. });
        let (initial, changes): (Vec<_>, Vec<_>) = held.partition(is_initial);
        *taken = Some(changes).filter(|changes| !changes.is_empty());
        initial
    }

    /// Takes all pending notifications, keeps them for the next call of [`next_batch`](Self::next_batch), and
    /// returns the objects that they add. From now on the subscription counts these objects as delivered:
    /// their deletion is delivered, too.
    pub(crate) fn hold_pending(&self) -> HashSet<ObjectKey> {
        let waiting = self.subscription.take_pending();
        let mut taken = self.taken.lock();
        let held = taken.get_or_insert_default();
        held.extend(waiting);
        let mut present = HashSet::default();
        for notification in &*held {
            match notification {
                Notification::Deleted { last, .. } => drop(present.remove(last.key())),
                added_or_updated => drop(present.insert(added_or_updated.key().clone())),
            }
        }
        present
    }
}

impl Version {
    /// Whether loading these files again would give this version. The share of a canary is no part of a version.
    pub(crate) fn is_built_from(&self, digest: &str, sidecar_text: &str) -> bool {
        let is_current = !self.must_reload.load(Ordering::Relaxed);
        let has_same_sidecar = || {
            self.sidecar_text == sidecar_text
                || Sidecar::differ_only_in_canary(&self.sidecar_text, sidecar_text)
        };
        is_current && self.digest == digest && has_same_sidecar()
    }

    /// Returns what the rollout remembers of this version.
    pub(crate) fn known_version(&self) -> KnownVersion {
        KnownVersion::new(&self.digest, self.pool.code().size(), &self.descriptor.version)
    }

    /// Retires a version that was replaced or stopped: it sends nothing more, and nobody waits for it.
    pub(crate) fn retire(&self) {
        self.fence.close();
        self.views.access.retire();
        self.health.retire();
    }

    /// Instances of one of the plugin crate's test guests.
    #[cfg(test)]
    pub(crate) async fn test_pool(
        plugin: &crate::guest_host::PluginServices,
        file: &str,
        limits: pilothouse_plugin::InstanceLimits,
    ) -> InstancePool {
        let path = format!("{}/../plugin/tests/guests/{file}", env!("CARGO_MANIFEST_DIR"));
        let engine = pilothouse_plugin::Engine::new(pilothouse_plugin::EngineOptions::default());
        let engine = engine.expect("an engine");
        let code = engine.load(wat::parse_file(path).expect("a guest")).await.expect("a plugin");
        let host = crate::guest_host::GuestHost::for_describe(plugin.clone(), "{}".into());
        InstancePool::new(code, Arc::new(host), limits)
    }

    /// A version without watches, for tests to fill.
    #[cfg(test)]
    pub(crate) fn for_test(pool: InstancePool, views: Arc<Views>) -> Self {
        let descriptor = r#"{"apiVersion":"pilothouse.dev/v1alpha1","kind":"Plugin",
            "watches":[{"name":"maps","apiVersion":"v1","kind":"ConfigMap","trigger":"self"}]}"#;
        Self {
            descriptor: Descriptor::parse(descriptor).expect("a descriptor"),
            digest: String::new(),
            file_digest: String::new(),
            probation: None,
            role: Role::Alone,
            sidecar_text: String::new(),
            sidecar_grants: Arc::default(),
            must_reload: false.into(),
            compared_kinds: Mutex::default(),
            plugin_limits: PluginLimits::default(),
            workers: 0,
            dedicated_instance: DedicatedInstance::new(pool.clone(), false),
            pool,
            routes: Vec::new(),
            observer_subscriptions: Vec::new(),
            fence: Fence::default(),
            shadow: None,
            health: Health::new(Arc::clone(&views.access), Default::default()),
            renamed_watches: Mutex::default(),
            newer_crds: Mutex::default(),
            views,
        }
    }

    /// The watches with their resources, for logs: `foos (foos.v1.example.com), …`.
    pub(crate) fn watch_list(&self) -> String {
        let watches: Vec<_> =
            self.views.by_name.iter().map(|(name, view)| format!("{name} ({})", view.resource)).collect();
        watches.join(", ")
    }
}
