//! How many plugins are loaded. A host that starts with many plugins reports it while they are compiled.

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::PluginHost;
use crate::lifecycle::{PluginState, PluginStatus};

/// How often the host logs how many plugins are loaded, while it starts.
const LOAD_PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// How many of a host's plugins are loaded, as `/api/plugins` and `status` show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadProgress {
    /// Plugins that were compiled and described, or that cannot be.
    pub done: usize,
    /// All plugins whose files exist.
    pub total: usize,
}

impl LoadProgress {
    /// Counts the plugins that are loaded.
    #[must_use]
    pub fn of(plugins: &[PluginStatus]) -> Self {
        let existing = plugins.iter().filter(|plugin| !plugin.removed);
        let total = existing.clone().count();
        Self { done: total - existing.filter(|plugin| is_loading(plugin.state)).count(), total }
    }

    /// Whether no plugin is being compiled or described for the first time.
    #[must_use]
    pub fn is_complete(self) -> bool {
        self.done >= self.total
    }
}

impl fmt::Display for LoadProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plugins loaded: {} of {}", self.done, self.total)
    }
}

impl PluginHost {
    /// Logs at intervals how many plugins are loaded, until all plugins that exist at the start are. Logs nothing if that is soon.
    pub(super) async fn log_load_progress(self) {
        let mut is_logged = false;
        loop {
            sleep(LOAD_PROGRESS_INTERVAL).await;
            if !self.shared.scanned.load(Ordering::Relaxed) {
                continue;
            }
            let progress = LoadProgress::of(&self.status());
            if is_logged || !progress.is_complete() {
                tracing::info!("{progress}");
                is_logged = true;
            }
            if progress.is_complete() {
                return;
            }
        }
    }
}

/// Whether the plugin's first version is being compiled or described. A plugin that reloads is in the state of its running version.
pub(super) fn is_loading(state: PluginState) -> bool {
    matches!(state, PluginState::Found | PluginState::Compiling | PluginState::Describing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugin(state: PluginState, removed: bool) -> PluginStatus {
        PluginStatus { state, removed, ..PluginStatus::refused("p", &"") }
    }

    #[test]
    fn plugins_that_are_found_compiled_or_described_are_not_loaded() {
        let plugins: Vec<_> = PluginState::ALL.iter().map(|state| plugin(*state, false)).collect();
        let progress = LoadProgress::of(&plugins);
        assert_eq!(progress, LoadProgress { done: 6, total: 9 });
        assert_eq!(progress.to_string(), "plugins loaded: 6 of 9");
        assert!(!progress.is_complete() && LoadProgress::default().is_complete());
    }

    #[test]
    fn removed_plugins_are_not_counted() {
        let plugins = [plugin(PluginState::Running, false), plugin(PluginState::Compiling, true)];
        assert_eq!(LoadProgress::of(&plugins), LoadProgress { done: 1, total: 1 });
    }
}
