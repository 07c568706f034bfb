//! Warns about shadows of plugins that do not exist, such as those with a misspelt name.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::PluginHost;
use crate::lifecycle::PluginStatus;
use crate::name::PluginName;

/// The maximum number of plugins that a warning names.
const MAX_NAMES: usize = 10;

impl PluginHost {
    /// Logs a warning for each shadow whose plugin does not exist.
    pub(super) fn warn_about_unknown_shadows(&self) {
        let Some(shadows) = self.shared.shadows.get() else { return };
        for warning in warnings(shadows, &self.status()) {
            tracing::warn!("{warning}");
        }
    }
}

fn warnings(shadows: &BTreeMap<PluginName, PathBuf>, plugins: &[PluginStatus]) -> Vec<String> {
    let names: Vec<&str> = plugins.iter().map(|plugin| plugin.name.as_str()).collect();
    let shown = names[..names.len().min(MAX_NAMES)].join(", ");
    let more = match names.len().saturating_sub(MAX_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let unknown = shadows.iter().filter(|(name, _)| !names.contains(&name.as_str()));
    unknown
        .map(|(name, file)| {
            format!(
                "there is no plugin {name}, so its shadow {} does not run; the plugins are {shown}{more}; correct the name, or add the plugin",
                file.display()
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn shadows(names: &[&str]) -> BTreeMap<PluginName, PathBuf> {
        let name = |name: &&str| PluginName::of_file(Path::new(&format!("{name}.wasm"))).expect("a name");
        names.iter().map(|text| (name(text), PathBuf::from("new.wasm"))).collect()
    }

    fn plugins(names: &[&str]) -> Vec<PluginStatus> {
        names.iter().map(|name| PluginStatus::refused(name, &"")).collect()
    }

    #[test]
    fn a_shadow_of_an_unknown_plugin_causes_a_warning_with_the_plugins() {
        let found = warnings(&shadows(&["greeter", "greter"]), &plugins(&["greeter", "other"]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("there is no plugin greter, so its shadow new.wasm"), "{found:?}");
        assert!(found[0].contains("the plugins are greeter, other;"), "{found:?}");
    }

    #[test]
    fn a_warning_names_a_bounded_number_of_plugins() {
        let names: Vec<String> = (0..MAX_NAMES + 2).map(|number| format!("p{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let found = warnings(&shadows(&["q"]), &plugins(&names));
        assert!(found[0].contains("p9 and 2 more;"), "{found:?}");
    }
}
