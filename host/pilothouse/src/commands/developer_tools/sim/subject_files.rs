//! The files of a simulation, before anything is compiled.

use std::path::{Path, PathBuf};

use pilothouse_sim::finding::trace::Input;
use pilothouse_sim::scenario::Scenario;
use serde_json::Value;

use super::inputs::{GivenSidecar, PluginFile, input_of, read_text};
use crate::CommandError;
use crate::cli::simulation::Sim;

/// The plugins and the scenario of a simulation.
pub(super) struct SubjectFiles {
    pub(super) plugins: Vec<PluginFile>,
    /// The file to which a reload changes the first plugin.
    pub(super) upgrade: Option<PluginFile>,
    pub(super) scenario: Option<ScenarioFile>,
}

/// A scenario that was not parsed yet.
pub(super) struct ScenarioFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
    /// The file and its digest, for traces.
    pub(super) input: Input,
}

impl SubjectFiles {
    /// Reads the files. Without `plugins`, the plugins are those of the scenario.
    ///
    /// # Errors
    /// Returns a usage error that names the file, its line and what to do.
    pub(super) fn read(
        flags: &Sim,
        scenario: Option<&Path>,
        plugins: &[PathBuf],
    ) -> Result<Self, CommandError> {
        let scenario = scenario.map(ScenarioFile::read).transpose()?;
        let mut named: Vec<(PathBuf, Option<String>)> =
            plugins.iter().map(|file| (file.clone(), None)).collect();
        if let (Some(file), true) = (&scenario, named.is_empty()) {
            for plugin in Scenario::plugins_of(&file.path, &file.text).map_err(CommandError::Usage)? {
                // A sidecar is YAML, of which JSON is a part.
                let sidecar = (!plugin.sidecar.is_empty()).then(|| Value::Object(plugin.sidecar).to_string());
                named.push((plugin.file, sidecar));
            }
        }
        if named.is_empty() {
            let problem =
                "no plugin to simulate; name a .wasm file, or list it under plugins in the scenario";
            return Err(CommandError::Usage(problem.to_owned()));
        }
        let given = |text: Option<String>| {
            let (text, scenario) = text.zip(scenario.as_ref())?;
            Some(GivenSidecar { text, scenario: &scenario.path })
        };
        let plugins = named
            .into_iter()
            .map(|(file, sidecar)| PluginFile::read(&file, given(sidecar)))
            .collect::<Result<Vec<_>, _>>()?;
        check_names(&plugins)?;
        // The new version has the sidecar of the plugin that it replaces.
        let sidecar = plugins.first().map(|plugin| plugin.sidecar.clone());
        let read_upgrade = |file: &PathBuf| {
            let scenario = scenario.as_ref().map_or(file, |scenario| &scenario.path);
            PluginFile::read(file, sidecar.map(|text| GivenSidecar { text, scenario }))
        };
        let upgrade = flags.upgrade.as_ref().map(read_upgrade).transpose()?;
        Ok(Self { plugins, upgrade, scenario })
    }

    /// Returns the files and digests of all files: the plugins, the upgrade and the scenario.
    pub(super) fn inputs(&self) -> Vec<&Input> {
        let plugins = self.plugins.iter().chain(&self.upgrade).map(|plugin| &plugin.input);
        plugins.chain(self.scenario.as_ref().map(|scenario| &scenario.input)).collect()
    }
}

/// Checks that no two plugins have the same name, as in the directory of a host.
///
/// # Errors
/// Returns a usage error that names both files.
fn check_names(plugins: &[PluginFile]) -> Result<(), CommandError> {
    for (index, plugin) in plugins.iter().enumerate() {
        if let Some(other) = plugins[..index].iter().find(|other| other.name == plugin.name) {
            return Err(CommandError::Usage(format!(
                "{} and {} are two plugins of the name {}; rename one of the files, or leave it out",
                other.path.display(),
                plugin.path.display(),
                plugin.name
            )));
        }
    }
    Ok(())
}

impl ScenarioFile {
    fn read(path: &Path) -> Result<Self, CommandError> {
        let text = read_text(path)?;
        let input = input_of(path, text.as_bytes());
        Ok(Self { path: path.to_owned(), text, input })
    }
}
