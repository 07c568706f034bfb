//! The canary: the version of the file, while it reconciles a part of the keys beside the running version.
//!
//! | what happened | what runs |
//! |---|---|
//! | the file changed, and the sidecar has `rollout.canary` | the running version, and that of the file as its canary |
//! | the canary passes its probation, or `pilothouse promote` | the version of the file alone |
//! | the canary fails in its probation, or `pilothouse rollback` | the running version alone, until the file has other content |

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::{HeldBack, RolloutRequest, RolloutState};
use crate::config::canary_share::CanaryShare;
use crate::rollout::decision::{Counts, Decision};
use crate::rollout::known_version::KnownVersion;
use crate::rollout::probation::{Probation, Sample};
use crate::timestamp::rfc_3339;

/// The canary of a plugin, or the one that ran when the host ended.
#[derive(Clone, Debug)]
pub(in crate::rollout) struct CanaryState {
    pub(in crate::rollout) version: KnownVersion,
    /// Its keys; `None` until it runs in this process.
    pub(in crate::rollout) share: Option<CanaryShare>,
    /// `None` if it runs until it is promoted.
    pub(in crate::rollout) probation: Option<Probation>,
    /// The counters of the plugin's canaries when it began.
    start: Counts,
    /// Whether the file has changed since, so that the host does not promote it by itself.
    is_superseded: bool,
}

/// Which versions are to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The version that is to run in place of that of the file; `None` for the file's.
    pub(crate) replacement: Option<KnownVersion>,
    /// Whether that of the file is to run beside it.
    pub(crate) has_canary: bool,
}

/// A canary that has begun to run.
#[derive(Clone, Debug)]
pub(crate) struct CanaryStart {
    pub(crate) version: KnownVersion,
    pub(crate) share: CanaryShare,
    /// How long the sidecar wants it to be in probation; `None` to run it until it is promoted.
    pub(crate) probation: Option<Duration>,
    /// The counters of the plugin's canaries.
    pub(crate) counts: Counts,
}

impl CanaryState {
    /// Returns the reconciles of this canary, from the counters of the plugin's canaries.
    pub(in crate::rollout) fn counts(&self, counters: Counts) -> Counts {
        counters.since(self.start)
    }
}

impl RolloutState {
    /// Decides which versions are to run. A version becomes a canary if another one runs, and nothing else is decided about it. Records the file
    /// of the canary, and whether a canary that runs already is of that file.
    pub(in crate::rollout) fn decide_versions(&mut self, file_digest: &str, wants_canary: bool) -> Plan {
        let replacement = self.replacement(file_digest);
        let is_undecided = wants_canary && replacement.is_none() && self.request.is_none();
        let running = self.running.as_ref().filter(|running| running.version.digest != file_digest);
        match running.filter(|_| is_undecided) {
            Some(running) => {
                self.canary_file = Some(file_digest.to_owned());
                if let Some(canary) = &mut self.canary {
                    // A file may be written again with the same content.
                    canary.is_superseded = canary.version.digest != file_digest;
                }
                Plan { replacement: Some(running.version.clone()), has_canary: true }
            }
            None => {
                self.canary_file = None;
                Plan { replacement, has_canary: false }
            }
        }
    }

    /// Whether a canary runs.
    pub(in crate::rollout) fn has_canary(&self) -> bool {
        self.canary.as_ref().is_some_and(|canary| canary.share.is_some())
    }

    /// Records that a canary runs now. Its probation continues if only the sidecar has changed, or if the host was restarted. Returns the
    /// period of a probation that begins.
    pub(in crate::rollout) fn record_canary(&mut self, new: CanaryStart, now: Instant) -> Option<Duration> {
        let CanaryStart { version, share, probation: period, counts } = new;
        // The running version is the one that the canary is compared with, so it counts as proved.
        (self.held_back, self.probation) = (None, None);
        self.is_file_pending = false;
        let known = self.canary.take().filter(|known| known.version.digest == version.digest);
        let (start, current) = match known {
            Some(known) => (known.start, known.probation),
            None => (counts, None),
        };
        let has_begun_before = current.is_some();
        let probation = period.zip(self.running.as_ref()).map(|(period, running)| match current {
            Some(mut probation) => {
                probation.resume(period, now);
                probation
            }
            None => {
                let previous = (running.version.clone(), Counts::default());
                Probation::begin(version.digest.clone(), previous, period, start, now)
            }
        });
        let begins = period.filter(|_| !has_begun_before && probation.is_some());
        self.canary =
            Some(CanaryState { version, share: Some(share), probation, start, is_superseded: false });
        begins
    }

    /// Restores the canary of an earlier process. One that has ended the host too often is rolled back before it runs again. `abrupt_ends` is
    /// `None` if it was not in probation.
    pub(in crate::rollout) fn restore_canary(
        &mut self,
        version: KnownVersion,
        abrupt_ends: Option<u32>,
        (now, time): (Instant, Timestamp),
    ) {
        let Some(running) = &self.running else { return };
        let probation = abrupt_ends.map(|abrupt_ends| {
            let previous = (running.version.clone(), Counts::default());
            // The period is that of the sidecar, which is not read yet.
            let mut probation =
                Probation::begin(version.digest.clone(), previous, Duration::MAX, Counts::default(), now);
            probation.abrupt_ends = abrupt_ends;
            probation
        });
        let start = Counts::default();
        self.canary = Some(CanaryState { version, share: None, probation, start, is_superseded: false });
        self.check_canary(&Sample::default(), Counts::default(), (now, time));
    }

    /// Records that the canary reconciles other keys from now on.
    pub(in crate::rollout) fn set_share(&mut self, share: CanaryShare) {
        if let Some(canary) = &mut self.canary {
            canary.share = Some(share);
        }
    }

    /// Decides about a canary in probation; `None` if none is. The counts of `sample` are those of the plugin's canaries, and `counters` those
    /// of the versions beside them. A canary that has reconciled nothing is not promoted, because nothing is known of it.
    pub(in crate::rollout) fn check_canary(
        &mut self,
        sample: &Sample,
        counters: Counts,
        (now, time): (Instant, Timestamp),
    ) -> Option<Decision> {
        let old = self.running.as_ref().map(|running| running.total(counters)).unwrap_or_default();
        let canary = self.canary.as_mut()?;
        let probation = canary.probation.as_mut()?;
        if self.request.is_some() {
            return Some(Decision::Wait);
        }
        probation.old = old;
        let decision = probation.check(sample, now);
        match &decision {
            Decision::Wait => {}
            Decision::Pass if probation.counts(sample.counts).reconciles == 0 => return Some(Decision::Wait),
            Decision::Pass => {
                canary.probation = None;
                if !canary.is_superseded {
                    let (run, reason) =
                        (canary.version.clone(), "its canary has passed its probation".to_owned());
                    self.request =
                        Some(RolloutRequest { run, reason, is_automatic: true, rolled_back: None });
                }
            }
            Decision::RollBack(cause) => self.roll_back_canary(cause.to_string(), true, time),
        }
        Some(decision)
    }

    /// The running version alone is to run, until the file has other content.
    fn roll_back_canary(&mut self, reason: String, is_automatic: bool, time: Timestamp) {
        let (Some(canary), Some(running)) = (self.canary.take(), &self.running) else { return };
        let (digest, runs, since) = (canary.version.digest, running.version.clone(), rfc_3339(time));
        self.held_back = Some(HeldBack { digest, runs, reason, is_automatic, since });
    }

    /// Carries out an operator's choice. To choose the version that runs beside a canary is to roll the canary back.
    pub(in crate::rollout) fn choose(&mut self, run: KnownVersion, time: Timestamp) {
        let is_running = self.running.as_ref().is_some_and(|running| running.version.digest == run.digest);
        if is_running && self.has_canary() {
            self.request = None;
            self.roll_back_canary("an operator chose the version before".to_owned(), false, time);
        } else {
            self.request(run);
        }
    }

    /// Returns the version that `promote` runs alone: the canary, or the version that is to become one; `None` without any.
    pub(in crate::rollout) fn promotable(&self) -> Option<KnownVersion> {
        let canary = self.canary.as_ref().filter(|canary| canary.share.is_some());
        let in_file = || Some(KnownVersion::new(self.canary_file.as_deref()?, 0, ""));
        canary.map(|canary| canary.version.clone()).or_else(in_file)
    }

    /// The file has changed: what is decided about the canary does not hold for the new version.
    pub(super) fn supersede_canary(&mut self) {
        if let Some(canary) = &mut self.canary {
            canary.is_superseded = true;
        }
    }
}
