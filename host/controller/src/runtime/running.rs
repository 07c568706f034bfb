//! The versions that run: one, and possibly its canary. Which of them reconciles a key is decided when a worker has taken the key from the
//! queue that both share, with the lock of the versions held for reading. A change of the versions, or of the canary's share, holds it for
//! writing. So a key is reconciled by one version at a time, and none is lost.

use std::sync::Arc;

use pilothouse_model::ObjectKey;
use tokio::sync::RwLock;

use crate::config::canary_share::CanaryShare;
use crate::guest_host::PluginServices;
use crate::lifecycle::RecentErrors;
use crate::load::version::Version;

/// The running versions. A `reconcile` or `observe` call holds a read lock on them; a swap holds the write lock. `index` calls hold none:
/// they change only what the plugin itself reads.
pub(super) type SharedVersions = Arc<RwLock<RunningVersions>>;

#[derive(Default)]
pub(super) struct RunningVersions {
    /// The version that reconciles all keys but those of the canary; `None` while the plugin does not run.
    pub(super) stable: Option<Arc<Version>>,
    /// Present only beside a stable version.
    pub(super) canary: Option<Arc<Canary>>,
}

/// A new version that reconciles a part of the keys.
pub(super) struct Canary {
    pub(super) version: Arc<Version>,
    pub(super) share: CanaryShare,
    /// The failed calls of this version.
    pub(super) recent_errors: RecentErrors,
}

impl RunningVersions {
    /// Returns the version that reconciles the key; `None` while the plugin does not run.
    pub(super) fn version_for(&self, key: &ObjectKey) -> Option<ChosenVersion<'_>> {
        let stable = self.stable.as_ref()?;
        Some(match self.canary.as_deref().filter(|canary| canary.share.includes(key)) {
            None => ChosenVersion { version: stable, canary: None },
            Some(canary) => ChosenVersion { version: &canary.version, canary: Some(canary) },
        })
    }

    /// Returns all running versions.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Version>> {
        self.stable.iter().chain(self.canary.iter().map(|canary| &canary.version))
    }
}

/// The version that reconciles a key.
#[derive(Clone, Copy)]
pub(super) struct ChosenVersion<'a> {
    pub(super) version: &'a Arc<Version>,
    /// Present if that is the canary.
    canary: Option<&'a Canary>,
}

impl<'a> ChosenVersion<'a> {
    /// Whether that is the canary.
    pub(super) fn is_canary(&self) -> bool {
        self.canary.is_some()
    }

    /// Returns where the version's failed calls are recorded.
    pub(super) fn recent_errors(&self, plugin: &'a PluginServices) -> &'a RecentErrors {
        self.canary.map_or(&plugin.recent_errors, |canary| &canary.recent_errors)
    }

    /// Counts a reconcile of a canary. Those of all versions are counted elsewhere.
    pub(super) fn count(&self, plugin: &PluginServices, is_error: bool) {
        if self.is_canary() {
            let metrics = &plugin.metrics;
            if is_error {
                metrics.canary_failed.inc()
            } else {
                metrics.canary_succeeded.inc()
            };
        }
    }
}

impl From<Arc<Version>> for RunningVersions {
    fn from(stable: Arc<Version>) -> Self {
        Self { stable: Some(stable), canary: None }
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_model::hash::{HashMap, HashSet};
    use std::sync::OnceLock;

    use futures::FutureExt;
    use pilothouse_informer::Priority;
    use pilothouse_plugin::{InstanceLimits, InstancePool, Reason};
    use proptest::prelude::*;

    use super::*;
    use crate::client::in_flight::HeldItem;
    use crate::runtime::queue::ReconcileKey;
    use crate::runtime::versions_write_guard::VersionsWriteGuard;

    fn plugin() -> PluginServices {
        let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
            Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
        });
        PluginServices::for_test("divided", kube::Client::new(service, "n"))
    }

    /// A plugin with workers that the test moves step by step. Versions are told apart by their addresses.
    struct Plugin {
        plugin: PluginServices,
        pool: InstancePool,
        running: SharedVersions,
        /// The keys that workers reconcile, each with its version and the lock that the worker holds.
        working: Vec<(HeldItem, usize, tokio::sync::OwnedRwLockReadGuard<RunningVersions>)>,
        /// The last version that reconciled each key.
        last: HashMap<ObjectKey, usize>,
    }

    #[derive(Clone, Debug)]
    enum Event {
        /// An event of an object in this namespace.
        Change(u8, u8),
        /// A worker takes a key.
        Take,
        /// A worker finishes its key.
        Finish(usize),
        /// A canary begins or its share changes; `None` ends it.
        Share(Option<Share>),
        /// Another version replaces all that run.
        Swap,
    }

    #[derive(Clone, Debug)]
    enum Share {
        Namespaces(Vec<u8>),
        Percent(u8),
    }

    fn namespace(number: u8) -> String {
        format!("n{number}")
    }

    impl Share {
        fn get(self) -> CanaryShare {
            match self {
                Self::Percent(percent) => CanaryShare::Percent(percent),
                Self::Namespaces(numbers) => {
                    let mut names: Vec<_> = numbers.into_iter().map(namespace).collect();
                    names.sort_unstable();
                    CanaryShare::Namespaces(names)
                }
            }
        }
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let share = prop_oneof![
            proptest::collection::vec(0..6_u8, 1..4).prop_map(Share::Namespaces),
            (1..=100_u8).prop_map(Share::Percent),
        ];
        let event = prop_oneof![
            4 => (0..6_u8, 0..3_u8).prop_map(|(namespace, name)| Event::Change(namespace, name)),
            4 => Just(Event::Take),
            3 => (0..4_usize).prop_map(Event::Finish),
            1 => proptest::option::of(share).prop_map(Event::Share),
            1 => Just(Event::Swap),
        ];
        proptest::collection::vec(event, 0..120)
    }

    /// Instances of a guest, which is compiled once for all cases.
    fn pool() -> InstancePool {
        static POOL: OnceLock<InstancePool> = OnceLock::new();
        let compile = || {
            let pool = async { Version::test_pool(&plugin(), "done.wat", InstanceLimits::default()).await };
            tokio::runtime::Runtime::new().expect("a runtime").block_on(pool)
        };
        POOL.get_or_init(compile).clone()
    }

    impl Plugin {
        fn new(pool: InstancePool) -> Self {
            let plugin = plugin();
            let version = Arc::new(Version::for_test(pool.clone(), Arc::default()));
            let running = Arc::new(RwLock::new(version.into()));
            Self { plugin, pool, running, working: Vec::new(), last: HashMap::default() }
        }

        fn version(&self) -> Arc<Version> {
            Arc::new(Version::for_test(self.pool.clone(), Arc::default()))
        }

        fn change(&self, key: ObjectKey) {
            self.plugin.queue.add(
                ReconcileKey { watch: "maps".into(), key },
                Reason::Updated,
                Priority::Normal,
            );
        }

        /// A worker takes a key, and chooses its version as a worker does. Returns whether there was one.
        fn take(&mut self) -> bool {
            let Some(Some((held, _))) = self.plugin.queue.get().now_or_never() else { return false };
            let running = Arc::clone(&self.running).try_read_owned().expect("no change is under way");
            let chosen = running.version_for(&held.key().key).expect("a version runs");
            let version = Arc::as_ptr(chosen.version).addr();
            let is_other =
                |(other, at, _): &(HeldItem, usize, _)| other.key() == held.key() && *at != version;
            assert!(!self.working.iter().any(is_other), "{:?} is reconciled by two versions", held.key());
            // Exactly one of the running versions has the key.
            let canary = running.canary.as_ref();
            let is_canarys = canary.is_some_and(|canary| canary.share.includes(&held.key().key));
            assert_eq!(chosen.is_canary(), is_canarys);
            self.last.insert(held.key().key.clone(), version);
            self.working.push((held, version, running));
            true
        }

        /// Acquires the versions for a change, which must wait for the workers.
        async fn acquire(&mut self) -> VersionsWriteGuard {
            let mut acquiring =
                tokio_test::task::spawn(VersionsWriteGuard::acquire(Arc::clone(&self.running)));
            while !self.working.is_empty() {
                assert!(acquiring.poll().is_pending(), "a key is being reconciled");
                self.working.pop();
            }
            acquiring.await
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn each_key_has_one_version_at_a_time_and_none_is_lost(events in events()) {
            let pool = pool();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
            runtime.expect("a runtime").block_on(async move {
                let mut plugin = Plugin::new(pool);
                let mut changed = HashSet::default();
                for event in events {
                    match event {
                        Event::Change(number, name) => {
                            let key = ObjectKey::new(&namespace(number), &name.to_string());
                            changed.insert(key.clone());
                            plugin.change(key);
                        }
                        Event::Take => {
                            plugin.take();
                        }
                        Event::Finish(position) if position < plugin.working.len() => {
                            drop(plugin.working.remove(position));
                        }
                        Event::Finish(_) => {}
                        Event::Share(share) => {
                            let (exclusive, version) = (plugin.acquire().await, plugin.version());
                            let canary = share.map(|share| {
                                let (share, recent_errors) = (share.get(), RecentErrors::default());
                                Arc::new(Canary { version, share, recent_errors })
                            });
                            exclusive.set_canary(canary);
                        }
                        Event::Swap => {
                            let version = plugin.version();
                            plugin.acquire().await.replace(version);
                        }
                    }
                }
                plugin.working.clear();
                while plugin.take() {
                    plugin.working.clear();
                }
                for key in &changed {
                    assert!(plugin.last.contains_key(key), "{key} is lost");
                }
                let queue = plugin.plugin.queue.snapshot();
                assert_eq!(queue.depth + queue.delayed + queue.processing, 0);
            });
        }
    }

    #[tokio::test]
    async fn a_key_changes_its_version_with_the_share() {
        let pool = Version::test_pool(&plugin(), "done.wat", InstanceLimits::default()).await;
        let mut plugin = Plugin::new(pool);
        let key = ObjectKey::new("shop", "a");
        let mut at = async |share: Option<CanaryShare>| {
            let (exclusive, version) = (plugin.acquire().await, plugin.version());
            let recent_errors = RecentErrors::default();
            exclusive.set_canary(share.map(|share| Arc::new(Canary { version, share, recent_errors })));
            plugin.running.read().await.version_for(&key).expect("a version runs").is_canary()
        };
        let namespaces = |name: &str| CanaryShare::Namespaces(vec![name.to_owned()]);
        assert!(!at(None).await);
        assert!(!at(Some(namespaces("other"))).await);
        assert!(at(Some(namespaces("shop"))).await);
        assert!(at(Some(CanaryShare::Percent(100))).await);
        assert!(!at(None).await);
    }
}
