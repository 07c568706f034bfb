//! The plugins that `rbac`, `preflight` and `size` inspect: files, and those that the configuration takes from registries.

use std::path::{Path, PathBuf};
#[cfg(feature = "registry")]
use std::sync::Arc;

#[cfg(feature = "registry")]
use super::plugin_manifest;
use super::run::HostConfig;
use crate::CommandError;

/// A plugin that a command inspects.
#[derive(Clone)]
pub(super) enum InspectedPlugin {
    /// A file in the file system.
    File(PathBuf),
    /// One of `plugins` in the configuration.
    #[cfg(feature = "registry")]
    Configured(Arc<ConfiguredPlugin>),
}

/// One of `plugins` in the configuration, with the settings that a host would pull it with.
#[cfg(feature = "registry")]
pub(super) struct ConfiguredPlugin {
    pub(super) entry: pilothouse_registry::PluginEntry,
    pub(super) settings: Arc<pilothouse_registry::RegistrySettings>,
    pub(super) policy: Arc<Option<pilothouse_registry::SignaturePolicy>>,
}

/// A plugin's file while it is inspected. What was pulled is removed with this value.
pub(super) enum OpenedPlugin {
    File(PathBuf),
    #[cfg(feature = "registry")]
    Pulled(super::registry::PulledPlugin),
}

impl InspectedPlugin {
    /// Returns the plugin's name.
    pub(super) fn name(&self) -> String {
        match self {
            Self::File(path) => path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            #[cfg(feature = "registry")]
            Self::Configured(plugin) => plugin.entry.name.clone(),
        }
    }

    /// Returns what a message names the plugin by, which is also an argument of `check`: the path, or the reference.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            #[cfg(feature = "registry")]
            Self::Configured(plugin) => plugin.entry.shown_image(),
        }
    }

    /// Returns the argument with which `rbac` prints the roles of the plugin.
    pub(super) fn rbac_argument(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            #[cfg(feature = "registry")]
            Self::Configured(_) => "--config FILE".to_owned(),
        }
    }

    /// Pulls the plugin, unless it is a file.
    ///
    /// # Errors
    /// Errors if it cannot be pulled, or if the policy does not allow it.
    pub(super) async fn open(&self) -> Result<OpenedPlugin, CommandError> {
        match self {
            Self::File(path) => Ok(OpenedPlugin::File(path.clone())),
            #[cfg(feature = "registry")]
            Self::Configured(plugin) => {
                let ConfiguredPlugin { entry, settings, policy } = &**plugin;
                let pulled = super::registry::pull(entry, settings, policy.as_ref().as_ref()).await;
                pulled.map(OpenedPlugin::Pulled).map_err(|failure| {
                    let (name, text, remedy) = (&entry.name, failure.text, failure.remedy);
                    CommandError::Failure(format!("the plugin {name} in --config: {text}; {remedy}"))
                })
            }
        }
    }

    /// Returns an error that names the plugin as [`shown`](Self::shown), and not by the file that was pulled.
    pub(super) fn renamed(&self, error: CommandError, opened: &OpenedPlugin) -> CommandError {
        let rename = |text: String| text.replace(&opened.file().display().to_string(), &self.shown());
        match error {
            CommandError::Failure(text) => CommandError::Failure(rename(text)),
            CommandError::Usage(text) => CommandError::Usage(rename(text)),
        }
    }
}

impl OpenedPlugin {
    /// Returns the path of the file.
    pub(super) fn file(&self) -> &Path {
        match self {
            Self::File(path) => path,
            #[cfg(feature = "registry")]
            Self::Pulled(pulled) => &pulled.file,
        }
    }
}

/// Returns these files, the plugins of the objects in those that are manifests, and the plugins that the configuration takes from registries.
///
/// # Errors
/// Errors if there is no plugin at all, or if the signature policy cannot be read.
pub(super) async fn files_and_configured(
    files: Vec<PathBuf>,
    config: &HostConfig,
) -> Result<Vec<InspectedPlugin>, CommandError> {
    #[cfg(feature = "registry")]
    let (manifests, files): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|path| plugin_manifest::is_manifest(path));
    let mut plugins: Vec<_> = files.into_iter().map(InspectedPlugin::File).collect();
    #[cfg(feature = "registry")]
    plugins.extend(of_objects(&manifests, config).await?);
    plugins.extend(from_registries(config).await?);
    if plugins.is_empty() {
        return Err(CommandError::Usage(
            "there is no plugin; name FILE.wasm, or a --config that has plugins of registries".to_owned(),
        ));
    }
    Ok(plugins)
}

/// Returns the plugins of objects of the kind `Plugin`, by the files with their manifests.
///
/// # Errors
/// Errors if a manifest is wrong, or if the signature policy cannot be read.
#[cfg(feature = "registry")]
async fn of_objects(
    manifests: &[PathBuf],
    config: &HostConfig,
) -> Result<Vec<InspectedPlugin>, CommandError> {
    let entries: Vec<_> =
        manifests.iter().map(|path| plugin_manifest::read(path)).collect::<Result<_, _>>()?;
    pulled(entries.concat(), config).await
}

/// Returns the plugins that the configuration takes from registries.
///
/// # Errors
/// Errors if there are some, and the signature policy cannot be read.
#[cfg(feature = "registry")]
async fn from_registries(config: &HostConfig) -> Result<Vec<InspectedPlugin>, CommandError> {
    pulled(config.plugins.clone(), config).await
}

/// Returns these plugins, which are pulled with the settings of the configuration.
#[cfg(feature = "registry")]
async fn pulled(
    entries: Vec<pilothouse_registry::PluginEntry>,
    config: &HostConfig,
) -> Result<Vec<InspectedPlugin>, CommandError> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let policy = super::registry::read_policy(&config.registries).await.map_err(|failure| {
        CommandError::Failure(format!("--config: {}; {}", failure.text, failure.remedy))
    })?;
    Ok(configured(entries, config, policy).collect())
}

/// Returns no plugins: this build has no client of registries.
#[cfg(not(feature = "registry"))]
fn from_registries(_: &HostConfig) -> std::future::Ready<Result<Vec<InspectedPlugin>, CommandError>> {
    std::future::ready(Ok(Vec::new()))
}

/// Returns these entries of the configuration.
#[cfg(feature = "registry")]
pub(super) fn configured(
    entries: Vec<pilothouse_registry::PluginEntry>,
    config: &HostConfig,
    policy: Option<pilothouse_registry::SignaturePolicy>,
) -> impl Iterator<Item = InspectedPlugin> {
    let (settings, policy) = (Arc::new(config.registries.clone()), Arc::new(policy));
    entries.into_iter().map(move |entry| {
        let (settings, policy) = (Arc::clone(&settings), Arc::clone(&policy));
        InspectedPlugin::Configured(Arc::new(ConfiguredPlugin { entry, settings, policy }))
    })
}
