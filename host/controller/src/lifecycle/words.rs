//! What the outside sees of a plugin: its states and its status are public.

use std::collections::BTreeMap;

use pilothouse_plugin::{HostMemory, HostMemoryKind};
use serde::{Deserialize, Serialize};

/// Where a plugin is in its life. The words are public.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PluginState {
    /// Its file was seen.
    Found,
    /// Its wasm is being checked and compiled.
    Compiling,
    /// It is being asked what it wants.
    Describing,
    /// It needs something that is not there yet: a CRD, a grant, a first list; `error` says which.
    Waiting,
    /// It reconciles.
    Running,
    /// It finishes what it holds, because it is being stopped.
    Draining,
    /// It was stopped: its file was removed or its sidecar says `enabled: false`.
    Stopped,
    /// It cannot run until its file or sidecar changes; `error` says why.
    Failed,
    /// It failed too often and is tried again later.
    BackingOff,
}

impl PluginState {
    /// All of them, in the order of a life.
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

    /// The public word.
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

/// One plugin as `/api/plugins` and `status` show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginStatus {
    /// The file's stem.
    pub name: String,
    /// The plugin's own version text, "" before it described itself.
    pub version: String,
    /// Where it is in its life.
    pub state: PluginState,
    /// Counts the versions that have run under this name, from 1; 0 before the first.
    pub generation: u64,
    /// What is wrong, or what is waited for; "" when nothing is. A running plugin has one when a newer file was
    /// refused.
    pub error: String,
    /// SHA-256 of the running .wasm, in hex.
    pub digest: String,
    /// Keys that are ready for a worker.
    pub queue_depth: usize,
    /// Counts since the host started.
    pub counters: BTreeMap<String, u64>,
    /// Since when it is in this state, in RFC 3339; "" for a file that cannot be a plugin.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub since: String,
    /// When a plugin that backs off, or a changed file that could not be loaded yet, is tried again, in RFC 3339; absent
    /// where nothing is due. `error` says it, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try: Option<String>,
    /// What the host holds for the plugin.
    #[serde(default, skip_serializing_if = "HostMemoryStatus::is_absent")]
    pub host_memory: HostMemoryStatus,
}

/// What the host holds for a plugin, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostMemoryStatus {
    /// Of all kinds together.
    pub used: usize,
    /// `limits.hostMemory`; 0 for a file that cannot be a plugin.
    pub limit: usize,
    /// Of each kind of which there is any.
    pub by_kind: BTreeMap<String, usize>,
}

impl HostMemoryStatus {
    /// Whether it is of a file that cannot be a plugin.
    fn is_absent(&self) -> bool {
        self.limit == 0
    }

    /// What there is in an account now.
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
            next_try: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_the_interface() {
        for state in PluginState::ALL {
            assert_eq!(serde_json::to_value(state).expect("a word"), state.as_str());
        }
    }

    #[test]
    fn a_status_without_the_later_members_is_read() {
        let old = r#"{"name":"a","version":"","state":"running","generation":1,"error":"","digest":"","queueDepth":0,"counters":{}}"#;
        let status: PluginStatus = serde_json::from_str(old).expect("a status");
        assert_eq!((status.since.as_str(), &status.next_try), ("", &None));
        assert_eq!(serde_json::to_string(&status).expect("JSON"), old);
    }
}
