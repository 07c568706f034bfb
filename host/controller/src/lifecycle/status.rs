//! The public status of a plugin.

use std::collections::BTreeMap;

use pilothouse_plugin::{HostMemory, HostMemoryKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rollout::RolloutStatus;
use crate::shadow::ShadowStatus;

/// The state of a plugin. The serialized names are public.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PluginState {
    /// Its file was found.
    Found,
    /// Its wasm is being validated and compiled.
    Compiling,
    /// `describe` is being called.
    Describing,
    /// It waits for a grant, a permission, a CRD or another kind, a first list or its computed indexes, or for the
    /// API server. `error` says for what.
    Waiting,
    /// It reconciles.
    Running,
    /// It is being stopped, and finishes its work in progress.
    Draining,
    /// It was stopped: its file was removed or its sidecar says `enabled: false`.
    Stopped,
    /// It cannot run until its file or sidecar changes; `error` says why.
    Failed,
    /// It failed too often and is tried again later.
    BackingOff,
}

impl PluginState {
    /// All states, in the order of the lifecycle.
    pub const ALL: [Self; 9] = [
        Self::Found,
        Self::Compiling,
        Self::Describing,
        Self::Waiting,
        Self::Running,
        Self::Draining,
        Self::Stopped,
        Self::Failed,
        Self::BackingOff,
    ];

    /// The public name of the state.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Compiling => "compiling",
            Self::Describing => "describing",
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Draining => "draining",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::BackingOff => "backing-off",
        }
    }
}

/// The status of one plugin, as `/api/plugins` and `status` show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginStatus {
    /// The stem of the plugin's file name.
    pub name: String,
    /// The plugin's own version; "" before it was described.
    pub version: String,
    /// The current state.
    pub state: PluginState,
    /// The number of versions that have run under this name; 0 before the first.
    pub generation: u64,
    /// What is wrong, or what the plugin waits for; "" if nothing. A running plugin has an error if a newer
    /// file was refused.
    pub error: String,
    /// SHA-256 of the running .wasm, in hex.
    pub digest: String,
    /// Keys that are ready for a worker.
    pub queue_depth: usize,
    /// Counters since the host started.
    pub counters: BTreeMap<String, u64>,
    /// When the plugin entered its state, in RFC 3339; "" for a file that cannot be a plugin.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub since: String,
    /// Since when code of the plugin is being compiled, in RFC 3339; absent if none is. A version that runs
    /// continues meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiling_since: Option<String>,
    /// When a plugin that backs off, or a changed file that could not be loaded yet, is tried again, in RFC
    /// 3339; absent if no retry is due. `error` says so, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try: Option<String>,
    /// The memory that the host holds for the plugin.
    #[serde(default, skip_serializing_if = "HostMemoryStatus::is_absent")]
    pub host_memory: HostMemoryStatus,
    /// Whether the plugin does its work: it runs, is not failing and not paused.
    #[serde(default)]
    pub ready: bool,
    /// Whether a running plugin cannot do its work: a watch does not work, or all of its last calls failed, at
    /// least three.
    #[serde(default)]
    pub failing: bool,
    /// Whether an operator has paused the plugin.
    #[serde(default)]
    pub paused: bool,
    /// Whether the plugin's file was removed.
    #[serde(default)]
    pub removed: bool,
    /// Calls that failed since the last one that succeeded.
    #[serde(default)]
    pub consecutive_errors: u64,
    /// Keys that wait for a retry after a failure.
    #[serde(default)]
    pub keys_in_backoff: usize,
    /// The last error of a call since the version runs; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
    /// The plugin's versions; absent if it has had only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutStatus>,
    /// The new version that runs in the shadow of the running one; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowStatus>,
    /// What a plugin from a registry is made of; absent for a plugin of the directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<PluginOrigin>,
}

/// What a plugin from a registry is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginOrigin {
    /// The reference from which it is pulled, with `oci://`.
    pub image: String,
    /// The digest of the artifact that the host keeps, such as `sha256:…`; "" if there is none yet. After a rollback, another version runs.
    pub digest: String,
    /// Why that artifact may be loaded, such as `signed by ci`; "" if there is none yet.
    pub decision: String,
    /// When the registry was asked the last time and the plugin was up to date, in RFC 3339; absent if that has not happened since the host started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked_at: Option<String>,
}

impl std::fmt::Display for PluginOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.digest.as_str() {
            "" => write!(f, "{}, of which the host has no version yet", self.image),
            digest => write!(f, "{} ({digest}): {}", self.image, self.decision),
        }
    }
}

/// The last error of a call of a plugin's guests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastError {
    /// When the call failed, in RFC 3339.
    pub time: String,
    /// The watch of the object; "" for none.
    pub watch: String,
    /// The object as `namespace/name`; "" if the call was about several objects.
    pub key: String,
    /// The error, of which at most 1 KiB is kept.
    pub message: String,
}

/// The memory that the host holds for a plugin, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostMemoryStatus {
    /// The sum of all kinds.
    pub used: usize,
    /// `limits.hostMemory`; 0 for a file that cannot be a plugin.
    pub limit: usize,
    /// The bytes of each kind; kinds with none are absent.
    pub by_kind: BTreeMap<String, usize>,
}

impl HostMemoryStatus {
    /// Whether this belongs to a file that cannot be a plugin.
    fn is_absent(&self) -> bool {
        self.limit == 0
    }

    /// The current state of a memory account.
    pub(crate) fn of(memory: &HostMemory) -> Self {
        let by_kind =
            HostMemoryKind::ALL.iter().map(|kind| (kind.as_str().to_owned(), memory.used_by(*kind)));
        Self {
            used: memory.used(),
            limit: memory.limit(),
            by_kind: by_kind.filter(|(_, used)| *used > 0).collect(),
        }
    }
}

impl PluginStatus {
    /// The status of a file that cannot be a plugin at all.
    pub(crate) fn refused(name: &str, error: &dyn std::fmt::Display) -> Self {
        Self {
            name: name.to_owned(),
            version: String::new(),
            state: PluginState::Failed,
            generation: 0,
            error: error.to_string(),
            digest: String::new(),
            queue_depth: 0,
            host_memory: HostMemoryStatus::default(),
            counters: BTreeMap::new(),
            since: String::new(),
            compiling_since: None,
            next_try: None,
            ready: false,
            failing: false,
            paused: false,
            removed: false,
            consecutive_errors: 0,
            keys_in_backoff: 0,
            last_error: None,
            rollout: None,
            shadow: None,
            source: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_serialized_states_are_the_public_names() {
        for state in PluginState::ALL {
            assert_eq!(serde_json::to_value(state).expect("a word"), state.as_str());
        }
    }

    #[test]
    fn a_status_without_newer_fields_is_parsed() {
        let old = r#"{"name":"a","version":"","state":"running","generation":1,"error":"","digest":"","queueDepth":0,"counters":{}}"#;
        let status: PluginStatus = serde_json::from_str(old).expect("a status");
        assert_eq!((status.since.as_str(), &status.next_try, &status.last_error), ("", &None, &None));
        assert_eq!((status.ready, status.keys_in_backoff), (false, 0));
        let written = serde_json::to_value(&status).expect("JSON");
        for (field, value) in
            serde_json::from_str::<serde_json::Value>(old).expect("JSON").as_object().expect("it")
        {
            assert_eq!(written[field], *value, "{field}");
        }
    }
}
