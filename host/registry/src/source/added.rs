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
pub struct AddedPlugins(Arc<watch::Sender<KnownEntries>>);

/// What is known of the added plugins.
#[derive(Clone, Debug, Default, PartialEq)]
struct KnownEntries {
    entries: Vec<PluginEntry>,
    /// Whether there are no others. Not before the first call of `set`.
    are_all: bool,
}

impl AddedPlugins {
    /// Replaces the added plugins by all that there are. A plugin that is not among them any more is removed from the folder; one whose entry has
    /// changed is brought up to date. Their names are valid, differ from each other and from those of the configuration. From the first call
    /// on, the cache keeps nothing for plugins that ran before the restart and are neither among these nor in the configuration. A host
    /// without added plugins therefore passes an empty list.
    pub fn set(&self, entries: Vec<PluginEntry>) {
        self.replace(KnownEntries { entries, are_all: true });
    }

    /// Replaces the added plugins like [`set`](Self::set) while others are still unknown. The cache keeps the content of all plugins that ran
    /// before the restart.
    pub fn set_known(&self, entries: Vec<PluginEntry>) {
        self.replace(KnownEntries { entries, are_all: false });
    }

    /// Returns the added plugins that are known.
    pub(super) fn entries(&self) -> Vec<PluginEntry> {
        self.0.borrow().entries.clone()
    }

    fn replace(&self, known: KnownEntries) {
        self.0.send_if_modified(|current| {
            let is_different = *current != known;
            *current = known;
            is_different
        });
    }
}

/// The tasks of the added plugins.
pub(super) struct RunningPlugins {
    shared: Arc<Shared>,
    /// The names of the configuration's plugins.
    configured: BTreeSet<String>,
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
    pub(super) fn new(shared: Arc<Shared>, configured: BTreeSet<String>, random: fn() -> f64) -> Self {
        Self { shared, configured, random, running: BTreeMap::new() }
    }

    /// Follows the changes of `added` for ever. When dropped, the tasks end and the files stay.
    pub(super) async fn follow(mut self, added: &AddedPlugins) {
        let mut changes = added.0.subscribe();
        let mut has_forgotten = false;
        loop {
            let KnownEntries { entries, are_all } = changes.borrow_and_update().clone();
            // Once: from then on, each plugin that is removed is forgotten, too.
            if are_all && !has_forgotten {
                self.forget_others(&entries).await;
                has_forgotten = true;
            }
            self.apply(entries).await;
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Forgets the plugins that ran before the restart and are not run any more.
    async fn forget_others(&self, entries: &[PluginEntry]) {
        let running = self.running.keys();
        let names: BTreeSet<String> =
            entries.iter().map(|entry| &entry.name).chain(&self.configured).chain(running).cloned().collect();
        let shared = Arc::clone(&self.shared);
        let _ = spawn_blocking(move || {
            shared.forget_all_but(&names.iter().map(String::as_str).collect());
        })
        .await;
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
