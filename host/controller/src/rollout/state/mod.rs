//! Which versions of a plugin can run, which one is to run, and what is decided about the running one. Pure: the caller passes the time.
//!
//! | what happened | which code runs |
//! |---|---|
//! | the file changed | that of the file |
//! | a version fails in its probation | that of the last version that has proved itself, until the file has other content |
//! | `pilothouse rollback` | the version that was asked for, until the file has other content |
//! | only the sidecar changed, or the host was restarted | the same as before |
//!
//! `canary` has what happens if the sidecar wants a new version to run beside the running one.

mod canary;

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::decision::{Counts, Decision};
use super::known_version::{KnownVersion, short};
use super::probation::{Probation, Sample};
use crate::timestamp::rfc_3339;
pub(super) use canary::CanaryState;
pub(crate) use canary::{CanaryStart, Plan};

/// The number of versions that can run, the running one included.
pub(super) const MAX_VERSIONS: usize = 3;
/// The shortest part of a digest that names a version.
const MIN_PREFIX: usize = 6;

/// The versions of one plugin.
#[derive(Debug, Default)]
pub(super) struct RolloutState {
    /// The versions that can run, the one whose file is the newest first.
    pub(super) versions: Vec<KnownVersion>,
    pub(super) running: Option<Running>,
    pub(super) held_back: Option<HeldBack>,
    pub(super) probation: Option<Probation>,
    /// The version that runs beside the running one.
    pub(super) canary: Option<CanaryState>,
    /// SHA-256 of the file, if its version is to run as a canary.
    canary_file: Option<String>,
    /// Another version is to run.
    request: Option<RolloutRequest>,
    /// Whether the file has changed, and its version was neither installed nor refused since.
    is_file_pending: bool,
    /// Whether the sidecar of the running version has a probation.
    pub(super) has_probation: bool,
}

/// The running version, or the one that ran when the host ended.
#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) version: KnownVersion,
    /// Its reconciles in earlier processes.
    earlier: Counts,
    /// The plugin's counters when it was installed in this process.
    start: Counts,
}

impl Running {
    /// Returns all reconciles of the version, from the plugin's counters.
    pub(super) fn total(&self, counters: Counts) -> Counts {
        self.earlier.plus(counters.since(self.start))
    }
}

/// The version in the plugin's file. It was rolled back, and does not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HeldBack {
    /// SHA-256 of the file.
    pub(super) digest: String,
    /// The version that runs in its place.
    pub(super) runs: KnownVersion,
    /// Why, as a clause.
    pub(super) reason: String,
    /// Whether the host decided it, and not an operator.
    pub(super) is_automatic: bool,
    /// Since when, in RFC 3339.
    pub(super) since: String,
}

/// A decision to run another version than that of the file, whatever the file is.
#[derive(Clone, Debug)]
struct RolloutRequest {
    run: KnownVersion,
    reason: String,
    /// Whether the host decided it, and not an operator.
    is_automatic: bool,
    /// SHA-256 of the version that the host rolls back; `None` for other decisions.
    rolled_back: Option<String>,
}

/// A version that was installed.
#[derive(Clone, Debug)]
pub(crate) struct Installation {
    pub(crate) version: KnownVersion,
    /// SHA-256 of the .wasm file, which is not that of the version if an older version runs in its place.
    pub(crate) file_digest: String,
    /// How long the sidecar wants new versions to be in probation.
    pub(crate) probation: Option<Duration>,
    /// The plugin's counters.
    pub(crate) counts: Counts,
    /// Whether the version before was backing off.
    pub(crate) previous_backs_off: bool,
    /// Whether the version of the file is to run beside it, as a canary.
    pub(crate) awaits_canary: bool,
}

/// What follows from an installation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Installed {
    /// The version of the file was rolled back; why, and whether the host decided it.
    pub(crate) rollback: Option<(String, bool)>,
    /// The version that runs again if the new one fails.
    pub(crate) probation: Option<(Duration, KnownVersion)>,
    /// Whether the version of the file is still to be loaded. It is newer than the one that was rolled back.
    pub(crate) awaits_file: bool,
}

/// Why no version can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoTarget {
    /// No older version is kept.
    NoOlder,
    /// No version runs that others could be older than.
    NotRunning,
    /// No version, or several, have this digest; all that are kept.
    Unknown(Vec<KnownVersion>),
    /// The version runs already.
    Runs,
}

impl RolloutState {
    /// Restores the state of an earlier process. A version that has ended the host too often is rolled back before it runs again.
    pub(super) fn restore(
        &mut self,
        (now, time): (Instant, Timestamp),
        versions: Vec<KnownVersion>,
        running: Option<(KnownVersion, Counts)>,
        held_back: Option<HeldBack>,
        probation: Option<Probation>,
    ) {
        self.versions = versions;
        self.running =
            running.map(|(version, earlier)| Running { version, earlier, start: Counts::default() });
        self.held_back = held_back;
        self.probation = probation;
        let decision = self.probation.as_mut().map(|probation| probation.check(&Sample::default(), now));
        if let Some(Decision::RollBack(cause)) = decision
            && let Some(Probation { digest, previous: runs, .. }) = self.probation.take()
        {
            let (reason, since) = (cause.to_string(), rfc_3339(time));
            self.held_back = Some(HeldBack { digest, runs, reason, is_automatic: true, since });
        }
    }

    /// Returns the version that is to run in place of that of the file; `None` to run the file's.
    pub(super) fn replacement(&self, file_digest: &str) -> Option<KnownVersion> {
        if let Some(RolloutRequest { run, .. }) = &self.request {
            return (run.digest != file_digest).then(|| run.clone());
        }
        let held_back = self.held_back.as_ref().filter(|held_back| held_back.digest == file_digest);
        held_back.map(|held_back| held_back.runs.clone())
    }

    /// Returns the version with this digest, of which the start suffices; without a digest, the newest one that is older than the running one
    /// and was not rolled back. Beside a canary, that is the running version.
    pub(super) fn target(&self, digest: Option<&str>) -> Result<KnownVersion, NoTarget> {
        let running = self.running.as_ref().map(|running| &running.version);
        let is_running =
            |version: &KnownVersion| running.is_some_and(|running| running.digest == version.digest);
        let Some(prefix) = digest else {
            if self.has_canary() {
                return running.cloned().ok_or(NoTarget::NotRunning);
            }
            let position = self.versions.iter().position(is_running);
            let older = self.versions.get(position.ok_or(NoTarget::NotRunning)? + 1..).unwrap_or_default();
            let is_held_back = |version: &&KnownVersion| {
                self.held_back.as_ref().is_some_and(|held_back| held_back.digest == version.digest)
            };
            return older.iter().find(|version| !is_held_back(version)).cloned().ok_or(NoTarget::NoOlder);
        };
        // Digests of artifacts are written so, and this is one of a file.
        let prefix = prefix.strip_prefix("sha256:").unwrap_or(prefix);
        let mut known = self.versions.clone();
        // The version of the file can run although its code may not be kept any more.
        let in_file =
            self.held_back.as_ref().map(|held_back| &held_back.digest).or(self.canary_file.as_ref());
        let in_file = in_file.map(|digest| KnownVersion::new(digest, 0, ""));
        let canary = self.canary.as_ref().map(|canary| canary.version.clone());
        for version in canary.into_iter().chain(in_file) {
            if !known.iter().any(|other| other.digest == version.digest) {
                known.push(version);
            }
        }
        let mut found = known
            .into_iter()
            .filter(|version| prefix.len() >= MIN_PREFIX && version.digest.starts_with(prefix));
        match (found.next(), found.next()) {
            (Some(version), None) if is_running(&version) && !self.has_canary() => Err(NoTarget::Runs),
            (Some(version), None) => Ok(version),
            _ => Err(NoTarget::Unknown(self.versions.clone())),
        }
    }

    /// Whether the version with this digest was rolled back, and nobody has chosen it since.
    pub(super) fn is_held_back(&self, digest: &str) -> bool {
        let is_requested = self.requested().is_some_and(|version| version.digest == digest);
        !is_requested && self.held_back.as_ref().is_some_and(|held_back| held_back.digest == digest)
    }

    /// Decides, for an operator, that another version is to run.
    pub(super) fn request(&mut self, run: KnownVersion) {
        let reason = "an operator chose another version".to_owned();
        self.request = Some(RolloutRequest { run, reason, is_automatic: false, rolled_back: None });
    }

    /// Forgets a decision about a file that has changed since: the newer file comes first. The version in probation is checked until that
    /// one replaces it.
    pub(super) fn file_changed(&mut self) {
        self.request = None;
        self.is_file_pending = true;
        self.supersede_canary();
    }

    /// Gives the decision up, because the version cannot be loaded. The running version stays. It stays in probation if an operator made the
    /// decision. One of the host would be made again and again, so the version is not checked any more. Returns whether the version of the
    /// file is still to be loaded: the decision came first.
    pub(super) fn give_up(&mut self) -> bool {
        let Some(request) = self.request.take() else {
            self.is_file_pending = false;
            return false;
        };
        if request.is_automatic {
            self.probation = None;
            if let Some(canary) = &mut self.canary {
                canary.probation = None;
            }
        }
        self.is_file_pending
    }

    /// Returns the version that is to run by a decision that is not carried out yet.
    pub(super) fn requested(&self) -> Option<&KnownVersion> {
        self.request.as_ref().map(|request| &request.run)
    }

    /// Records that the files lead to the version that runs already, without a canary.
    pub(super) fn record_unchanged(&mut self, file_digest: &str) {
        self.canary = None;
        self.is_file_pending = false;
        let Some(running) = self.running.as_ref().map(|running| running.version.digest.clone()) else {
            return;
        };
        self.take_request(&running);
        if running == file_digest {
            self.held_back = None;
        }
    }

    /// Records that a version runs now.
    pub(super) fn record_installation(
        &mut self,
        new: &Installation,
        now: Instant,
        time: Timestamp,
    ) -> Installed {
        let Installation { version, file_digest, counts, .. } = new;
        let before = self.running.take();
        let running = match &before {
            Some(before) if before.version.digest == version.digest => before.clone(),
            _ => Running { version: version.clone(), earlier: Counts::default(), start: *counts },
        };
        self.running = Some(running);
        self.has_probation = new.probation.is_some();
        if new.awaits_canary {
            // A canary that the swap has ended begins again, and its probation continues then.
            return Installed::default();
        }
        let request = self.take_request(&version.digest);
        let canary = self.canary.take().filter(|canary| canary.version.digest == version.digest);
        let mut installed = Installed::default();
        let rolled_back = request.as_ref().and_then(|request| request.rolled_back.as_ref());
        let is_other_than_file = rolled_back.is_some_and(|digest| digest != file_digest);
        // The file has changed since the version that is rolled back was installed, so nothing is decided about it.
        installed.awaits_file = self.is_file_pending && is_other_than_file && version.digest != *file_digest;
        self.is_file_pending = installed.awaits_file;
        if version.digest == *file_digest {
            self.held_back = None;
            self.versions.retain(|known| known.digest != version.digest);
            self.versions.insert(0, version.clone());
            if canary.is_some() && request.is_some() {
                // It was promoted, so somebody has decided about it.
                self.probation = None;
            } else {
                installed.probation = self.put_on_probation(new, before, now);
            }
        } else if installed.awaits_file {
            (self.probation, self.held_back) = (None, None);
            installed.rollback = request.map(|request| (request.reason, request.is_automatic));
        } else {
            self.probation = None;
            let is_known = |held_back: &HeldBack| {
                held_back.digest == *file_digest && held_back.runs.digest == version.digest
            };
            let known = self.held_back.take().filter(is_known);
            // After a crash of the host, it is known although the version ran until then.
            let is_reported =
                known.is_some() && before.is_none_or(|before| before.version.digest != *file_digest);
            let held_back = known.unwrap_or_else(|| held_back(new, request, time));
            if !is_reported {
                installed.rollback = Some((held_back.reason.clone(), held_back.is_automatic));
            }
            self.held_back = Some(held_back);
        }
        self.forget_surplus();
        installed
    }

    /// Takes the decision that led to this version. One that was made meanwhile, for another version, stays.
    fn take_request(&mut self, digest: &str) -> Option<RolloutRequest> {
        let is_carried_out = self.request.as_ref().is_some_and(|request| request.run.digest == digest);
        if is_carried_out { self.request.take() } else { None }
    }

    /// Starts or continues the probation of the version of the file. Returns its period and the version before if it has started.
    fn put_on_probation(
        &mut self,
        new: &Installation,
        before: Option<Running>,
        now: Instant,
    ) -> Option<(Duration, KnownVersion)> {
        let current = self.probation.take();
        let period = new.probation?;
        if let Some(mut probation) =
            current.as_ref().filter(|current| current.digest == new.version.digest).cloned()
        {
            // Only the sidecar has changed, or the host was restarted.
            probation.resume(period, now);
            self.probation = Some(probation);
            return None;
        }
        let proven = match current {
            // The version before has not proved itself, so the one before that counts.
            Some(current) => Some((current.previous, current.old)),
            // It was no better.
            None if new.previous_backs_off => None,
            None => before.map(|before| {
                let total = before.total(new.counts);
                (before.version, total)
            }),
        };
        let proven = proven.filter(|(version, _)| version.digest != new.version.digest)?;
        let previous = proven.0.clone();
        self.probation = Some(Probation::begin(new.version.digest.clone(), proven, period, new.counts, now));
        Some((period, previous))
    }

    /// Forgets the oldest versions beyond [`MAX_VERSIONS`], but neither the running one nor the one that a rollback would run.
    fn forget_surplus(&mut self) {
        let running = self.running.as_ref().map(|running| running.version.digest.as_str());
        let previous = self.probation.as_ref().map(|probation| probation.previous.digest.as_str());
        while self.versions.len() > MAX_VERSIONS {
            let is_needed =
                |version: &KnownVersion| [running, previous].contains(&Some(version.digest.as_str()));
            let Some(surplus) = self.versions.iter().rposition(|version| !is_needed(version)) else { return };
            self.versions.remove(surplus);
        }
    }

    /// Forgets a version whose code is not kept. Returns whether the probation ends with it, because the version cannot be rolled back any more.
    pub(super) fn forget(&mut self, digest: &str) -> bool {
        self.versions.retain(|version| version.digest != digest);
        let is_needed = self.probation.as_ref().is_some_and(|probation| probation.previous.digest == digest);
        if is_needed {
            self.probation = None;
        }
        is_needed
    }

    /// Decides about the version in probation; `None` if none is. A version that is rolled back stays until the one before is loaded.
    pub(super) fn check(&mut self, sample: &Sample, now: Instant) -> Option<Decision> {
        let probation = self.probation.as_mut()?;
        if self.request.is_some() {
            return Some(Decision::Wait);
        }
        let decision = probation.check(sample, now);
        match &decision {
            Decision::Wait => {}
            Decision::Pass => self.probation = None,
            Decision::RollBack(cause) => {
                let (run, reason) = (probation.previous.clone(), cause.to_string());
                let rolled_back = Some(probation.digest.clone());
                self.request = Some(RolloutRequest { run, reason, is_automatic: true, rolled_back });
            }
        }
        Some(decision)
    }

    /// Returns a clause about the version of the file, if another one runs in its place.
    pub(super) fn text(&self) -> Option<String> {
        let HeldBack { digest, runs, reason, since, .. } = self.held_back.as_ref()?;
        let digest = short(digest);
        Some(format!("{runs} runs in place of the file's ({digest}) since {since}: {reason}"))
    }
}

fn held_back(new: &Installation, request: Option<RolloutRequest>, time: Timestamp) -> HeldBack {
    let is_automatic = request.as_ref().is_some_and(|request| request.is_automatic);
    let reason = request.map_or_else(|| "it was rolled back".to_owned(), |request| request.reason);
    HeldBack {
        digest: new.file_digest.clone(),
        runs: new.version.clone(),
        reason,
        is_automatic,
        since: rfc_3339(time),
    }
}

#[cfg(test)]
mod canary_tests;
#[cfg(test)]
mod tests;
