//! The write lock on the running versions, under which they are replaced.

use std::sync::Arc;

use tokio::sync::OwnedRwLockWriteGuard;
use tokio::time::timeout;

use super::DRAIN_TIMEOUT;
use super::running::{Canary, RunningVersions, SharedVersions};
use crate::load::version::Version;

/// Exclusive access to the running versions: none of their `reconcile` and `observe` calls is under way. Dropping this lets them continue.
pub(super) struct VersionsWriteGuard(OwnedRwLockWriteGuard<RunningVersions>);

impl VersionsWriteGuard {
    /// Waits until no such call is under way, then up to [`DRAIN_TIMEOUT`] for the requests that calls have left behind.
    pub(super) async fn acquire(running: SharedVersions) -> Self {
        let exclusive = Self(running.write_owned().await);
        exclusive.0.all().for_each(|version| version.fence.close());
        let drained = async {
            for version in exclusive.0.all() {
                version.fence.drained().await;
            }
        };
        if timeout(DRAIN_TIMEOUT, drained).await.is_err() {
            tracing::warn!(
                version = exclusive.0.stable.as_ref().map(|version| version.descriptor.version.as_str()),
                "a write of the previous version has had no response for {} s; the new version does not wait for it",
                DRAIN_TIMEOUT.as_secs()
            );
        }
        exclusive
    }

    /// Replaces the running versions, which are retired, and releases the lock.
    pub(super) fn replace(mut self, version: Arc<Version>) {
        let old = std::mem::replace(&mut *self.0, version.into());
        old.all().for_each(|version| version.retire());
    }

    /// Replaces the canary, which is retired unless only its share changes, and releases the lock.
    pub(super) fn set_canary(mut self, canary: Option<Arc<Canary>>) {
        let old = std::mem::replace(&mut self.0.canary, canary);
        let stays = |old: &Arc<Version>| self.0.all().any(|version| Arc::ptr_eq(version, old));
        if let Some(old) = old.filter(|old| !stays(&old.version)) {
            old.version.retire();
        }
    }
}

impl Drop for VersionsWriteGuard {
    fn drop(&mut self) {
        // The versions that run from now on, be they new or old.
        self.0.all().for_each(|version| version.fence.open());
    }
}
