//! Plugins that are added, changed and removed while the source runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};

use super::config::PluginEntry;
use super::plugin::SourcedPlugin;
use super::{Shared, supervise};

/// The plugins that are added to those of the configuration. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct AddedPlugins(Arc<watch::Sender<Vec<PluginEntry>>>);

impl AddedPlugins {
    /// Replaces the added plugins. A plugin that is not among them any more is removed from the folder; one whose entry has changed is
    /// brought up to date. Their names are valid, differ from each other and from those of the configuration.
    pub fn set(&self, entries: Vec<PluginEntry>) {
        self.0.send_if_modified(|current| {
            let is_different = *current != entries;
            *current = entries;
            is_different
        });
    }
}

/// The tasks of the added plugins.
pub(super) struct RunningPlugins {
    shared: Arc<Shared>,
    random: fn() -> f64,
    running: BTreeMap<String, RunningPlugin>,
}

struct RunningPlugin {
    plugin: SourcedPlugin,
    task: JoinHandle<()>,
}

impl Drop for RunningPlugin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl RunningPlugins {
    pub(super) fn new(shared: Arc<Shared>, random: fn() -> f64) -> Self {
        Self { shared, random, running: BTreeMap::new() }
    }

    /// Follows the changes of `added` for ever. When dropped, the tasks end and the files stay.
    pub(super) async fn follow(mut self, added: &AddedPlugins) {
        let mut changes = added.0.subscribe();
        loop {
            let entries = changes.borrow_and_update().clone();
            self.apply(entries).await;
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    async fn apply(&mut self, entries: Vec<PluginEntry>) {
        let names: BTreeSet<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        let removed: Vec<String> =
            self.running.keys().filter(|name| !names.contains(name.as_str())).cloned().collect();
        for name in removed {
            if let Some(running) = self.running.remove(&name) {
                let (plugin, shared) = (running.plugin.clone(), Arc::clone(&self.shared));
                let _ = spawn_blocking(move || plugin.remove(&shared)).await;
            }
        }
        for entry in entries {
            if self.running.get(&entry.name).is_some_and(|running| *running.plugin.entry() == entry) {
                continue;
            }
            let previous = self.running.remove(&entry.name);
            let (name, shared) = (entry.name.clone(), Arc::clone(&self.shared));
            let restored = spawn_blocking(move || {
                let previous = previous.as_ref().map(|running| &running.plugin);
                if let Some(previous) = previous {
                    previous.retire();
                }
                SourcedPlugin::restore(entry, previous, &shared)
            });
            // Fails only if it panicked; then the plugin is not there, and the next change tries again.
            if let Ok(plugin) = restored.await {
                let task = tokio::spawn(supervise(plugin.clone(), Arc::clone(&self.shared), self.random));
                self.running.insert(name, RunningPlugin { plugin, task });
            }
        }
    }
}
