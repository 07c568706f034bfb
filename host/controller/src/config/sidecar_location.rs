//! Where the operator writes a plugin's sidecar, for messages. Pure.

/// Where the operator writes a plugin's sidecar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SidecarLocation {
    /// A file beside the plugin's.
    #[default]
    File,
    /// The host's configuration or an object of the kind `Plugin`. The host writes the file beside the plugin's from these.
    Source,
}

impl SidecarLocation {
    /// Returns a noun for the place of this plugin.
    pub(crate) fn of(self, plugin: &str) -> String {
        match self {
            Self::File => format!("{plugin}.yaml"),
            Self::Source => {
                format!(
                    "the sidecar of {plugin} in `plugins` of the host's configuration file, or the spec of its Plugin object"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plugin_of_the_directory_has_a_file_of_its_operator() {
        assert_eq!(SidecarLocation::File.of("shop"), "shop.yaml");
        let source = SidecarLocation::Source.of("shop");
        assert!(source.contains("shop in `plugins`") && source.contains("Plugin object"), "{source}");
        assert!(!source.contains("shop.yaml"), "{source}");
    }
}
