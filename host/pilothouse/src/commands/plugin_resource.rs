//! The member `pluginResource` of the host's configuration: objects of the kind `Plugin`.

use pilothouse_controller::OtherNamespaces;
use serde::Deserialize;

/// Objects of the kind `Plugin`, each of which describes a plugin from a registry.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PluginResourceConfig {
    /// Whether the host runs the plugins of objects in its own namespace. Default: false. The CRD must be installed.
    #[serde(default)]
    pub(crate) enabled: bool,
    /// Other namespaces whose objects are run, too, each as a service account of its namespace; `["*"]` for all.
    #[serde(default)]
    pub(crate) namespaces: Vec<String>,
}

impl PluginResourceConfig {
    /// Returns the other namespaces.
    ///
    /// # Errors
    /// Errors if an entry is invalid.
    pub(crate) fn other_namespaces(&self) -> Result<OtherNamespaces, String> {
        OtherNamespaces::parse(&self.namespaces)
            .map_err(|problem| format!("pluginResource.namespaces: {problem}"))
    }
}
