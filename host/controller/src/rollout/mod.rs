//! Which of a plugin's versions runs: that of the file, or an older one that an operator chose or that runs again after a rollback.
//!
//! `decision` decides about a new version in probation, `probation` is what it knows of that version, and `state` says which code is to run,
//! alone or as the canary of another version; all three are pure. `record` is what a restarted host knows. The plugin's task asks this module
//! which code to load, and tells it what runs; the swap itself is that of any other reload.

pub(crate) mod decision;
mod known_version;
mod probation;
mod record;
mod state;
mod status;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_plugin::{KeptCode, blocking};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::config::canary_share::CanaryShare;
use crate::environment::WallClock;
use decision::{Counts, Decision};
pub(crate) use known_version::{KnownVersion, short};
pub(crate) use probation::Sample;
use record::Record;
pub(crate) use record::RecordFile;
use state::RolloutState;
pub(crate) use state::{CanaryStart, Installation, Installed, NoTarget, Plan};
pub use status::{CanaryStatus, HeldBackStatus, ProbationStatus, RolloutStatus, VersionStatus};

/// The versions of one plugin. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Rollout(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<RolloutState>,
    /// The code of the versions that do not run.
    kept: Mutex<BTreeMap<String, KeptCode>>,
    /// Notified when an operator has chosen another version.
    requested: Notify,
    /// `None` if nothing survives a restart.
    file: Option<RecordFile>,
    is_restored: AtomicBool,
    clock: WallClock,
}

impl Rollout {
    /// The versions of a plugin with a record in this file. `clock` tells when operators decide.
    pub(crate) fn new(file: Option<RecordFile>, clock: WallClock) -> Self {
        Self(Arc::new(Shared { file, clock, ..Shared::default() }))
    }

    /// Restores what an earlier process has recorded. Does so once.
    pub(crate) async fn restore(&self) {
        if self.0.is_restored.swap(true, Ordering::Relaxed) {
            return;
        }
        let Some(file) = self.0.file.clone() else { return };
        if let Ok(Some(record)) = blocking::run(move || file.read()).await {
            *self.0.state.lock() = record.restored(Instant::now(), self.0.clock.now());
        }
    }

    /// Records the state for the next process. `counters` are the plugin's.
    pub(crate) async fn save(&self, counters: Counts, is_running: bool) {
        let record = Record::of(&self.0.state.lock(), counters, is_running);
        self.write(record).await;
    }

    /// Removes the record of a plugin whose file was removed.
    pub(crate) async fn remove_record(&self) {
        self.write(None).await;
    }

    async fn write(&self, record: Option<Record>) {
        let Some(file) = self.0.file.clone() else { return };
        // An error would mean that the thread panicked.
        let _ = blocking::run(move || file.write(record.as_ref())).await;
    }

    /// Decides which versions are to run. `wants_canary` is whether the sidecar has `rollout.canary`. Records the file of the canary, if one is to
    /// run, for `promote` and for the promotion that follows its probation.
    pub(crate) fn decide_versions(&self, file_digest: &str, wants_canary: bool) -> Plan {
        self.0.state.lock().decide_versions(file_digest, wants_canary)
    }

    /// Chooses another version for an operator, and returns it. The plugin's task then loads it, or ends the canary beside it.
    pub(crate) fn request(&self, digest: Option<&str>) -> Result<KnownVersion, NoTarget> {
        let mut state = self.0.state.lock();
        let target = state.target(digest)?;
        state.choose(target.clone(), self.0.clock.now());
        drop(state);
        self.0.requested.notify_one();
        Ok(target)
    }

    /// Chooses the canary for an operator, and returns it; `None` without one. The plugin's task then loads it for all keys.
    pub(crate) fn promote(&self) -> Option<KnownVersion> {
        let mut state = self.0.state.lock();
        let target = state.promotable()?;
        state.choose(target.clone(), self.0.clock.now());
        drop(state);
        self.0.requested.notify_one();
        Some(target)
    }

    /// Whether a canary is to go on running.
    pub(crate) fn has_canary(&self) -> bool {
        self.0.state.lock().has_canary()
    }

    /// Records that a canary runs now. Returns the period of a probation that begins.
    pub(crate) fn record_canary(&self, new: CanaryStart) -> Option<Duration> {
        self.0.state.lock().record_canary(new, Instant::now())
    }

    /// Records that the canary reconciles other keys from now on.
    pub(crate) fn set_share(&self, share: CanaryShare) {
        self.0.state.lock().set_share(share);
    }

    /// Whether the canary is in probation.
    pub(crate) fn has_canary_in_probation(&self) -> bool {
        self.0.state.lock().canary.as_ref().is_some_and(|canary| canary.probation.is_some())
    }

    /// Decides about the canary in probation; `None` if none is. The counts of `sample` are those of the plugin's canaries, and `counters`
    /// those of the versions beside them.
    pub(crate) fn check_canary(&self, sample: &Sample, counters: Counts) -> Option<Decision> {
        self.0.state.lock().check_canary(sample, counters, (Instant::now(), self.0.clock.now()))
    }

    /// Whether the version with this digest was rolled back, and nobody has chosen it since.
    pub(crate) fn is_held_back(&self, digest: &str) -> bool {
        self.0.state.lock().is_held_back(digest)
    }

    /// Why the version of the file was rolled back, and whether the host decided it; `None` if it was not.
    pub(crate) fn held_back_reason(&self) -> Option<(String, bool)> {
        let state = self.0.state.lock();
        state.held_back.as_ref().map(|held_back| (held_back.reason.clone(), held_back.is_automatic))
    }

    /// Waits until an operator has chosen another version. Cancellation safe.
    pub(crate) async fn wait_until_requested(&self) {
        self.0.requested.notified().await;
    }

    /// Forgets a decision about a file that has changed since.
    pub(crate) fn file_changed(&self) {
        self.0.state.lock().file_changed();
    }

    /// Gives the decision to run another version up, because that one cannot be loaded. Returns whether the version of the file is still to be
    /// loaded.
    pub(crate) fn give_up(&self) -> bool {
        self.0.state.lock().give_up()
    }

    /// Returns the version that is to run by a decision that is not carried out yet.
    pub(crate) fn requested(&self) -> Option<KnownVersion> {
        self.0.state.lock().requested().cloned()
    }

    /// Records that the files lead to the version that runs already.
    pub(crate) fn record_unchanged(&self, file_digest: &str) {
        self.0.state.lock().record_unchanged(file_digest);
    }

    /// Records that a version runs now.
    pub(crate) fn record_installation(&self, new: &Installation) -> Installed {
        // The running version's code is in use anyway.
        self.0.kept.lock().remove(&new.version.digest);
        self.0.state.lock().record_installation(new, Instant::now(), self.0.clock.now())
    }

    /// Lets the code of versions go that cannot run again. Returns the versions whose code is to be kept, but is not yet.
    pub(crate) fn release_unused_code(&self) -> Vec<KnownVersion> {
        let state = self.0.state.lock();
        let running = state.running.as_ref().map(|running| running.version.digest.as_str());
        let mut wanted = state.versions.clone();
        wanted.retain(|version| Some(version.digest.as_str()) != running);
        drop(state);
        let mut kept = self.0.kept.lock();
        kept.retain(|digest, _| wanted.iter().any(|version| version.digest == *digest));
        wanted.retain(|version| !kept.contains_key(&version.digest));
        wanted
    }

    /// Keeps the code of a version.
    pub(crate) fn keep(&self, version: &KnownVersion, code: KeptCode) {
        self.0.kept.lock().insert(version.digest.clone(), code);
    }

    /// Forgets a version whose code cannot be kept. Returns whether the probation of the running version ends with it.
    pub(crate) fn forget(&self, version: &KnownVersion) -> bool {
        self.0.state.lock().forget(&version.digest)
    }

    /// Whether the running version is in probation.
    pub(crate) fn is_in_probation(&self) -> bool {
        self.0.state.lock().probation.is_some()
    }

    /// Decides about the version in probation; `None` if none is.
    pub(crate) fn check(&self, sample: &Sample) -> Option<Decision> {
        self.0.state.lock().check(sample, Instant::now())
    }

    /// Returns the public status; `None` for a plugin with a single version about which nothing is decided. `canaries` are the counters of the
    /// plugin's canaries, and `counters` those of its other versions.
    pub(crate) fn status(&self, counters: Counts, canaries: Counts) -> Option<RolloutStatus> {
        RolloutStatus::of(&self.0.state.lock(), counters, canaries)
    }

    /// Returns a clause about the version of the file, if another one runs in its place.
    pub(crate) fn status_text(&self) -> Option<String> {
        self.0.state.lock().text()
    }
}
