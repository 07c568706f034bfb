//! One version of a plugin: its code with all that it needs to run.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_informer::{InformerKey, InformerPhase, Subscription};
use pilothouse_model::{Notification, ObjectKey};
use pilothouse_plugin::InstancePool;

use crate::cache::views::Views;
use crate::client::fence::Fence;
use crate::config::descriptor::Descriptor;
use crate::config::operator::Terms;
use crate::lifecycle::Health;
use crate::runtime::Renamed;
use crate::runtime::pinned::Pinned;
use crate::runtime::predicate::Predicate;
use crate::runtime::targets::Targets;

/// A described, synced version.
pub(crate) struct Version {
    pub(crate) descriptor: Descriptor,
    /// SHA-256 of the .wasm.
    pub(crate) digest: String,
    /// The sidecar's text, "" without one.
    pub(crate) sidecar_text: String,
    /// What that says of its rights. What counts while it runs is what the operator says now.
    pub(crate) terms: Arc<Terms>,
    pub(crate) workers: usize,
    /// Bytes that the host may hold for the plugin while this version runs.
    pub(crate) host_memory: usize,
    /// Where a plugin reconciles that is not stateful.
    pub(crate) pool: InstancePool,
    /// Where it observes, and where a stateful one reconciles, too.
    pub(crate) pinned: Pinned,
    pub(crate) views: Arc<Views>,
    pub(crate) routes: Vec<Route>,
    /// What the observer is told of; empty without one.
    pub(crate) feeds: Vec<Feed>,
    pub(crate) fence: Fence,
    /// How often its guests failed. A new version begins with a clean record.
    pub(crate) health: Health,
    /// What became of the target watches of the versions before, for keys that are queued under those.
    pub(crate) renamed: Mutex<Renamed>,
    /// CRDs that a newer version changed before it failed or was taken back: nobody reverts them.
    pub(crate) newer_crds: Mutex<Vec<String>>,
    /// Whether the server serves its kinds in another way by now, so that it must be loaded again from the same files.
    pub(crate) is_outdated: AtomicBool,
}

/// What becomes of one subscription's notifications.
pub(crate) struct Route {
    pub(crate) watch: Arc<str>,
    pub(crate) subscribed: Subscribed,
    /// Absent for a watch that only fills the cache.
    pub(crate) work: Option<Work>,
}

/// A subscription and what was asked for, by which the next version recognises that it needs the same.
#[derive(Clone)]
pub(crate) struct Subscribed {
    pub(crate) key: InformerKey,
    pub(crate) resync: Option<Duration>,
    pub(crate) subscription: Arc<Subscription>,
    /// A batch that was taken and not yet returned, because the plugin's indexes had to learn of it first. It outlives
    /// the version that took it.
    pub(crate) taken: Arc<Mutex<Option<Vec<Notification>>>>,
}

/// A subscription of the observer's own: it is told of everything from the beginning, in each version anew.
pub(crate) struct Feed {
    pub(crate) watch: Arc<str>,
    pub(crate) subscription: Subscription,
}

/// The work that a change starts.
pub(crate) struct Work {
    pub(crate) predicate: Predicate,
    pub(crate) targets: Targets,
    pub(crate) target_watch: Arc<str>,
}

impl Subscribed {
    /// The next batch, once the plugin's computed indexes know of it; `None` once the informer has stopped.
    ///
    /// # Cancellation safety
    /// Safe: a batch that was taken and not returned is what the next call returns.
    pub(crate) async fn next_batch(&self, views: &Arc<Views>, watch: &str) -> Option<Vec<Notification>> {
        let has_taken = self.taken.lock().is_some();
        if !has_taken {
            let batch = self.subscription.next_batch().await?;
            *self.taken.lock() = Some(batch);
        }
        if views.is_computed(watch) {
            let keys: Vec<_> =
                self.taken.lock().iter().flatten().map(|notification| notification.key().clone()).collect();
            views.index(watch, &keys).await;
        }
        self.taken.lock().take()
    }

    /// Whether nothing will come any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.subscription.status().phase == InformerPhase::Stopped
    }

    /// Takes everything that waits, for a version that ends with its subscription.
    pub(crate) fn take_all(&self) -> Vec<Notification> {
        let mut all = self.taken.lock().take().unwrap_or_default();
        all.extend(self.subscription.take_waiting());
        all
    }

    /// Takes everything that waits, for the next call of [`next_batch`](Self::next_batch) to return, and answers which
    /// objects it tells of. From now on the subscription counts as told of these: a deletion is delivered, though nobody
    /// has taken the addition.
    pub(crate) fn hold_waiting(&self) -> HashSet<ObjectKey> {
        let waiting = self.subscription.take_waiting();
        let mut taken = self.taken.lock();
        let held = taken.get_or_insert_default();
        held.extend(waiting);
        let mut present = HashSet::new();
        for notification in &*held {
            match notification {
                Notification::Deleted { last, .. } => drop(present.remove(last.key())),
                told => drop(present.insert(told.key().clone())),
            }
        }
        present
    }
}

impl Version {
    /// Whether these are the files that this version was made of, and would be made of them again.
    pub(crate) fn is_of(&self, digest: &str, sidecar_text: &str) -> bool {
        let is_current = !self.is_outdated.load(Ordering::Relaxed);
        is_current && self.digest == digest && self.sidecar_text == sidecar_text
    }

    /// It was swapped out or stopped: it sends nothing more, and nobody waits for it.
    pub(crate) fn retire(&self) {
        self.fence.close();
        self.views.permission.retire();
        self.health.retire();
    }

    /// Instances of one of the plugin crate's test guests.
    #[cfg(test)]
    pub(crate) async fn test_pool(
        guest: &crate::guest_host::GuestServices,
        file: &str,
        limits: pilothouse_plugin::Limits,
    ) -> InstancePool {
        let path = format!("{}/../plugin/tests/guests/{file}", env!("CARGO_MANIFEST_DIR"));
        let engine = pilothouse_plugin::Engine::new(pilothouse_plugin::EngineOptions::default());
        let engine = engine.expect("an engine");
        let code = engine.load(wat::parse_file(path).expect("a guest")).await.expect("a plugin");
        let host = crate::guest_host::GuestHost::for_describe(guest.clone(), "{}".into());
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
            sidecar_text: String::new(),
            terms: Arc::default(),
            is_outdated: false.into(),
            host_memory: pilothouse_plugin::HostMemory::DEFAULT_LIMIT,
            workers: 0,
            pinned: Pinned::new(pool.clone(), false),
            pool,
            routes: Vec::new(),
            feeds: Vec::new(),
            fence: Fence::default(),
            health: Health::under(Arc::clone(&views.permission)),
            renamed: Mutex::default(),
            newer_crds: Mutex::default(),
            views,
        }
    }

    /// What it watches, for people: `foos (foos.v1.example.com), …`.
    pub(crate) fn watching(&self) -> String {
        let watches: Vec<_> =
            self.views.by_name.iter().map(|(name, view)| format!("{name} ({})", view.resource)).collect();
        watches.join(", ")
    }
}
