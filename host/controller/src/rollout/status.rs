//! The public status of a plugin's versions.

use serde::{Deserialize, Serialize};

use super::decision::Counts;
use super::probation::Probation;
use super::state::{CanaryState, RolloutState};
use crate::config::canary_share::CanaryShare;
use crate::config::rollout_settings::MAX_PROBATION;

/// The versions of a plugin, as `/api/plugins` shows them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// The versions that `rollback` can run, the one whose file is the newest first.
    pub versions: Vec<VersionStatus>,
    /// The probation of the running version; absent if it is in none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probation: Option<ProbationStatus>,
    /// The version that reconciles a part of the keys; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanaryStatus>,
    /// The version in the plugins directory, if another one runs in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_back: Option<HeldBackStatus>,
}

/// One version of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionStatus {
    /// SHA-256 of the .wasm file, in hex.
    pub digest: String,
    /// The version that the descriptor names.
    pub version: String,
    /// Whether it runs.
    pub running: bool,
}

/// The probation of the running version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProbationStatus {
    /// For how many more seconds the version has to work.
    pub remaining_seconds: u64,
    /// The SHA-256 of the version that runs again if this one fails.
    pub previous: String,
    /// The reconciles of the running version.
    pub reconciles: u64,
    /// Its reconciles that failed.
    pub errors: u64,
}

/// The version that reconciles a part of the keys beside the running one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CanaryStatus {
    /// SHA-256 of the .wasm file, in hex.
    pub digest: String,
    /// The version that the descriptor names.
    pub version: String,
    /// The namespaces whose keys it reconciles; empty if it reconciles a percentage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// The percentage of the namespaces, and of cluster-scoped objects, that it reconciles; absent if it reconciles
    /// those of some namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    /// For how many more seconds it has to work before it is promoted; absent if it runs until an operator
    /// promotes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_seconds: Option<u64>,
    /// Its reconciles.
    pub reconciles: u64,
    /// Its reconciles that failed.
    pub errors: u64,
    /// Why it does no work now; "" if it works.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// A version that is not run, although it is the one in the plugins directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldBackStatus {
    /// SHA-256 of the .wasm file, in hex.
    pub digest: String,
    /// Why, as a clause.
    pub reason: String,
    /// Whether the host decided it, and not an operator.
    pub automatic: bool,
    /// Since when, in RFC 3339.
    pub since: String,
}

impl RolloutStatus {
    /// Returns the status; `None` for a plugin with a single version about which nothing is decided.
    pub(super) fn of(state: &RolloutState, counters: Counts, canaries: Counts) -> Option<Self> {
        let canary = state.canary.as_ref().and_then(|canary| CanaryStatus::of(canary, canaries));
        if state.versions.len() < 2
            && state.probation.is_none()
            && state.held_back.is_none()
            && canary.is_none()
        {
            return None;
        }
        let running = state.running.as_ref().map(|running| &running.version.digest);
        let version = |known: &super::KnownVersion| VersionStatus {
            digest: known.digest.clone(),
            version: known.version.clone(),
            running: Some(&known.digest) == running,
        };
        let probation = state.probation.as_ref().map(|probation| {
            let Counts { reconciles, errors } = probation.counts(counters);
            ProbationStatus {
                // A restarted host does not know the period until it has read the sidecar.
                remaining_seconds: probation.remaining().min(MAX_PROBATION).as_secs(),
                previous: probation.previous.digest.clone(),
                reconciles,
                errors,
            }
        });
        let held_back = state.held_back.as_ref().map(|held_back| HeldBackStatus {
            digest: held_back.digest.clone(),
            reason: held_back.reason.clone(),
            automatic: held_back.is_automatic,
            since: held_back.since.clone(),
        });
        Some(Self { versions: state.versions.iter().map(version).collect(), probation, canary, held_back })
    }
}

impl CanaryStatus {
    /// Returns the status, without an error; `None` until the canary runs. `canaries` are the counters of the plugin's canaries.
    fn of(canary: &CanaryState, canaries: Counts) -> Option<Self> {
        let (namespaces, percent) = match canary.share.clone()? {
            CanaryShare::Namespaces(names) => (names, None),
            CanaryShare::Percent(percent) => (Vec::new(), Some(percent)),
        };
        let Counts { reconciles, errors } = canary.counts(canaries);
        let remaining = canary.probation.as_ref().map(Probation::remaining);
        Some(Self {
            digest: canary.version.digest.clone(),
            version: canary.version.version.clone(),
            namespaces,
            percent,
            remaining_seconds: remaining.map(|remaining| remaining.min(MAX_PROBATION).as_secs()),
            reconciles,
            errors,
            error: String::new(),
        })
    }
}
