//! The plugins that `run` takes from registries.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pilothouse_controller::{ProvidedPlugins, printable};
use pilothouse_registry::{PluginEntry, PluginSource, Problem, RegistrySettings, SourceEvents, SourceReport};
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use super::metrics::RegistryMetrics;
use super::objects::{StartedSource, forget, plugin_resource, show_report};
use crate::CommandError;
use crate::commands::plugin_resource::PluginResourceConfig;

/// Shows in the host, its log and its metrics what becomes of the plugins.
struct SourceReporter {
    provided: ProvidedPlugins,
    metrics: RegistryMetrics,
}

impl SourceEvents for SourceReporter {
    fn opened(&self, folder: &Path) {
        self.provided.set_folder(folder.to_owned());
    }

    fn set_problem(&self, plugin: &str, problem: Option<String>) {
        let shown = problem.clone();
        if self.provided.set_problem(plugin, problem) {
            match shown {
                // A part of it may be text of the registry.
                Some(problem) => tracing::warn!(plugin, "{}", printable(&problem)),
                None => tracing::info!(plugin, "it is up to date with its registry"),
            }
        }
    }

    fn pulling(&self, plugin: &str, text: &str) {
        if self.provided.set_problem(plugin, Some(text.to_owned())) {
            tracing::info!(plugin, "{text}");
        }
    }

    fn reported(&self, plugin: &str, report: &SourceReport) {
        self.metrics.add(plugin);
        show_report(&self.provided, plugin, report);
    }

    fn removed(&self, plugin: &str) {
        self.metrics.forget(plugin);
        forget(&self.provided, plugin);
    }

    fn pulled(&self, plugin: &str, result: Result<(), Problem>) {
        self.metrics.count_pull(plugin, result);
    }

    fn verified(&self, plugin: &str, result: Result<(), Problem>) {
        self.metrics.count_verification(plugin, result);
    }

    fn updated(&self, plugin: &str, text: &str) {
        // The host writes it to the plugin's log, and an Event.
        self.provided.set_updated(plugin, text.to_owned());
    }

    fn files_changed(&self) {
        self.provided.notify_changed();
    }
}

/// Starts to keep the plugins up to date. Those that the cache has are there when this returns; if it cannot be used, all of them wait for it.
/// `cache_dir` is the directory for compiled plugins. Adds the metrics about them to `metrics`.
///
/// # Errors
/// Errors if two plugins have the same name, or if no directory for the cache is known.
#[expect(clippy::disallowed_methods, reason = "the jitter between requests to registries")]
pub(crate) async fn start(
    settings: RegistrySettings,
    plugins: Vec<PluginEntry>,
    objects: &PluginResourceConfig,
    cache_dir: Option<PathBuf>,
    metrics: &mut Registry,
    shutdown: CancellationToken,
) -> Result<Option<StartedSource>, CommandError> {
    if plugins.is_empty() && !objects.enabled {
        return Ok(None);
    }
    let namespaces = objects
        .other_namespaces()
        .map_err(|problem| CommandError::Usage(format!("--config: {problem}; write names of namespaces")))?;
    let configured = plugins.iter().map(|plugin| plugin.name.clone()).collect();
    let cache = plugin_cache(&settings, cache_dir).ok_or_else(|| {
        CommandError::Usage(
            "--config: plugins come from registries, and $HOME is not set; set registries.cacheDir to a directory for them".to_owned(),
        )
    })?;
    let metrics = RegistryMetrics::register(metrics, plugins.iter().map(|plugin| plugin.name.as_str()));
    let provided = ProvidedPlugins::new();
    let events = Arc::new(SourceReporter { provided: provided.clone(), metrics });
    let opened =
        tokio::task::spawn_blocking(move || PluginSource::open(settings, plugins, &cache, events)).await;
    let source = opened
        .map_err(|error| CommandError::Failure(format!("internal error: {error}; please report this")))?
        .map_err(|error| CommandError::Usage(format!("--config: {error}")))?;
    let added = source.added();
    tokio::spawn(source.run(shutdown, rand::random::<f64>));
    if !objects.enabled {
        added.set(Vec::new());
    }
    let plugin_resource = objects.enabled.then(|| plugin_resource(namespaces, configured, added));
    Ok(Some(StartedSource { provided, plugin_resource }))
}

/// Returns the directory for plugins from registries; `None` if neither the settings nor the user have one. `cache_dir` is the directory for
/// compiled plugins.
pub(super) fn plugin_cache(settings: &RegistrySettings, cache_dir: Option<PathBuf>) -> Option<PathBuf> {
    settings.cache_dir.clone().or_else(|| Some(cache_dir?.join("oci")))
}
