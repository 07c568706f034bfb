//! What the outside sees of a plugin.

use std::collections::BTreeMap;

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
            counters: BTreeMap::new(),
        }
    }
}

/// The part of a status that the plugin's task sets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Life {
    pub(crate) state: PluginState,
    pub(crate) version: String,
    pub(crate) generation: u64,
    pub(crate) error: String,
    pub(crate) digest: String,
}

impl Life {
    pub(crate) fn found() -> Self {
        Self {
            state: PluginState::Found,
            version: String::new(),
            generation: 0,
            error: String::new(),
            digest: String::new(),
        }
    }

    /// A new file is on its way through the steps before running. What runs meanwhile stays what is shown.
    pub(crate) fn step(&mut self, state: PluginState, waiting_for: &str) {
        if !self.is_running() {
            self.state = state;
            waiting_for.clone_into(&mut self.error);
        } else if state == PluginState::Waiting {
            self.error =
                format!("the new version waits: {waiting_for}; generation {} goes on", self.generation);
        }
    }

    /// A new version runs.
    pub(crate) fn installed(&mut self, version: &str, digest: &str) {
        self.state = PluginState::Running;
        self.generation += 1;
        self.error.clear();
        version.clone_into(&mut self.version);
        digest.clone_into(&mut self.digest);
    }

    /// The files are those that run already: whatever was wrong with others is past.
    pub(crate) fn unchanged(&mut self) {
        if self.is_running() {
            self.error.clear();
        }
    }

    /// A file was refused. What runs goes on.
    pub(crate) fn refused(&mut self, error: &str) {
        if self.is_running() {
            self.error =
                format!("the changed file was refused: {error}; generation {} goes on", self.generation);
        } else {
            self.state = PluginState::Failed;
            error.clone_into(&mut self.error);
        }
    }

    pub(crate) fn draining(&mut self) {
        self.state = PluginState::Draining;
        self.error.clear();
    }

    pub(crate) fn stopped(&mut self, why: &str) {
        self.state = PluginState::Stopped;
        why.clone_into(&mut self.error);
    }

    fn is_running(&self) -> bool {
        self.state == PluginState::Running
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_goes_through_its_states_in_order() {
        let mut life = Life::found();
        for state in [PluginState::Compiling, PluginState::Describing] {
            life.step(state, "");
            assert_eq!(life.state, state);
        }
        life.step(PluginState::Waiting, "a CRD");
        assert_eq!((life.state, life.error.as_str()), (PluginState::Waiting, "a CRD"));
        life.installed("1.0", "abc");
        assert_eq!((life.state, life.generation, life.error.as_str()), (PluginState::Running, 1, ""));
        life.draining();
        life.stopped("the file was removed");
        assert_eq!(life.state, PluginState::Stopped);
    }

    #[test]
    fn a_refused_change_leaves_what_runs_and_says_so() {
        let mut life = Life::found();
        life.installed("1.0", "abc");
        life.step(PluginState::Compiling, "");
        assert_eq!((life.state, life.error.as_str()), (PluginState::Running, ""));
        life.refused("not wasm");
        assert_eq!((life.state, life.generation, life.version.as_str()), (PluginState::Running, 1, "1.0"));
        assert!(
            life.error.contains("not wasm") && life.error.contains("generation 1 goes on"),
            "{}",
            life.error
        );
        life.unchanged();
        assert_eq!(life.error, "");
    }

    #[test]
    fn a_file_that_never_ran_fails_until_it_changes() {
        let mut life = Life::found();
        life.refused("not wasm");
        assert_eq!((life.state, life.error.as_str()), (PluginState::Failed, "not wasm"));
        life.step(PluginState::Compiling, "");
        assert_eq!((life.state, life.error.as_str()), (PluginState::Compiling, ""));
    }

    #[test]
    fn the_words_are_those_of_the_interface() {
        for state in [PluginState::Found, PluginState::BackingOff, PluginState::Draining] {
            assert_eq!(serde_json::to_value(state).expect("a word"), state.as_str());
        }
    }
}
