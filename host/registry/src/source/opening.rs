//! Opens the cache of a source. One that cannot be used holds up the plugins of registries, and nothing else of the host.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::config::{PluginEntry, RegistrySettings};
use super::plugin::SourcedPlugin;
use super::used::UsedContent;
use super::{AddedPlugins, Shared, SourceEvents, SourceReport};
use crate::cache::Cache;
use crate::error::{Problem, RegistryError};

/// The wait before a cache that could not be used is opened again.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// What a source is opened with.
#[derive(Clone)]
pub(super) struct SourceSetup {
    settings: RegistrySettings,
    plugins: Vec<PluginEntry>,
    folder: PathBuf,
    events: Arc<dyn SourceEvents>,
}

/// A source with its cache, whose plugins are those of the configuration.
pub(super) struct OpenedSource {
    pub(super) shared: Arc<Shared>,
    pub(super) plugins: Vec<SourcedPlugin>,
    /// The names of these plugins.
    pub(super) configured: BTreeSet<String>,
}

impl SourceSetup {
    pub(super) fn new(
        settings: RegistrySettings,
        plugins: Vec<PluginEntry>,
        default_cache: &Path,
        events: Arc<dyn SourceEvents>,
    ) -> Self {
        let folder = settings.cache_dir.clone().unwrap_or_else(|| default_cache.to_owned());
        Self { settings, plugins, folder, events }
    }

    /// Opens the cache, and fills the folder from it. Blocks.
    #[expect(clippy::disallowed_methods, reason = "files have times of the system clock")]
    pub(super) fn open(&self) -> Result<OpenedSource, RegistryError> {
        let Self { settings, plugins, folder, events } = self.clone();
        let cache = Cache::open(&folder, SystemTime::now())?;
        // Before anything is pruned: which plugins will be added is not known yet.
        let used = Mutex::new(UsedContent::recorded(&cache, settings.limits()));
        let configured: BTreeSet<_> = plugins.iter().map(|plugin| plugin.name.clone()).collect();
        let is_configured = |file: &str| {
            let name = file.strip_suffix(".wasm").or_else(|| file.strip_suffix(".yaml"));
            name.is_some_and(|name| configured.contains(name))
        };
        for file in cache.plugin_files() {
            if !is_configured(&file) {
                cache.remove_plugin_file(&file)?;
            }
        }
        let shared = Arc::new(Shared { settings, cache, events, used });
        let plugins = plugins.into_iter().map(|entry| SourcedPlugin::restore(entry, None, &shared)).collect();
        shared.events.opened(&shared.cache.plugins());
        Ok(OpenedSource { shared, plugins, configured })
    }

    /// Opens the cache again and again until that succeeds.
    pub(super) async fn open_when_possible(&self, added: &AddedPlugins) -> OpenedSource {
        let mut reported = BTreeSet::new();
        loop {
            sleep(RETRY_INTERVAL).await;
            let setup = self.clone();
            let opened = spawn_blocking(move || setup.open()).await.unwrap_or_else(|error| {
                let text = format!("internal error: {error}; please report this");
                Err(RegistryError::new(Problem::Cache, text))
            });
            match opened {
                Ok(opened) => {
                    let names = names(&added.entries());
                    reported.difference(&names).for_each(|removed| self.events.removed(removed));
                    return opened;
                }
                Err(error) => self.report(&error, added, &mut reported),
            }
        }
    }

    /// Reports the error about each plugin. `reported` are the added plugins that have it; of those that are not added any more, it is removed.
    pub(super) fn report(
        &self,
        error: &RegistryError,
        added: &AddedPlugins,
        reported: &mut BTreeSet<String>,
    ) {
        let added = added.entries();
        let names = names(&added);
        reported.difference(&names).for_each(|removed| self.events.removed(removed));
        for entry in self.plugins.iter().chain(&added) {
            let (name, failure) = (&entry.name, Some(error.clone()));
            let report = SourceReport { image: entry.shown_image(), failure, ..SourceReport::default() };
            self.events.pulled(name, Err(error.problem()));
            self.events.set_problem(name, Some(error.to_string()));
            self.events.reported(name, &report);
        }
        *reported = names;
    }
}

fn names(entries: &[PluginEntry]) -> BTreeSet<String> {
    entries.iter().map(|entry| entry.name.clone()).collect()
}

/// Checks that a cache of plugins can be used: its folders can be created, and a file can be written. Blocks.
///
/// # Errors
/// Errors if it cannot.
#[expect(clippy::disallowed_methods, reason = "files have times of the system clock")]
pub fn check_plugin_cache(folder: &Path) -> Result<(), RegistryError> {
    Cache::open(folder, SystemTime::now())?.check_writable()
}
