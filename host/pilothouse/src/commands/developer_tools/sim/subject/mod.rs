//! What is simulated: plugins, and a scenario or generated objects.

mod generated;
mod watched_kinds;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pilothouse_plugin::Engine;
use pilothouse_sim::export::Files;
use pilothouse_sim::finding::trace::Input;
use pilothouse_sim::oracle::{Oracles, invariants_of};
use pilothouse_sim::plan::ActorStep;
use pilothouse_sim::scenario::actor::{ActorDefinition, Behaviour, shorter_tasks};
use pilothouse_sim::scenario::generate::Generated;
use pilothouse_sim::scenario::{FaultBounds, Kinds, Scenario};
use pilothouse_sim::world::{CompiledPlugins, World, WorldOptions, WorldPlugin};
use serde_json::Value;

use super::inputs::{self, PluginInput, read_scenario_part};
use super::subject_files::{ScenarioFile, SubjectFiles};
use crate::CommandError;
use crate::cli::simulation::{Guarantees, IgnoredOracle, Sim};
use generated::{generate_objects, world_options};
use watched_kinds::watched_resources;

/// The name of the file to which a reload changes the first plugin, in the folder of an exported finding.
const UPGRADE: &str = "upgrade.wasm";

/// The plugins with what surrounds them.
pub(super) struct Subject {
    compiled: CompiledPlugins,
    inputs: Vec<PluginInput>,
    /// The CRDs of the plugins that the scenario does not replace.
    plugin_crds: Vec<Value>,
    surroundings: Surroundings,
    /// Whether the host's guarantees are in force; `None` for what the scenario says.
    guarantees: Option<bool>,
    /// The file to which a reload changes the first plugin.
    upgrade: Option<PluginInput>,
    /// The resources that the plugins watch, as `plural.group`.
    watched: Vec<String>,
    /// The oracles that the flags switch off.
    ignored: Vec<IgnoredOracle>,
}

enum Surroundings {
    Scenario { scenario: Arc<Scenario>, input: Input },
    Generated(Generated),
}

impl Subject {
    /// Reads and compiles the plugins, and reads the scenario or generates objects. Without `files`, the plugins are those of the
    /// scenario. Must not be called on a thread of an async runtime.
    ///
    /// # Errors
    /// Returns a usage error that names the file, its line and what to do.
    pub(super) fn new(flags: &Sim, scenario: Option<&Path>, files: &[PathBuf]) -> Result<Self, CommandError> {
        Self::of_files(flags, SubjectFiles::read(flags, scenario, files)?)
    }

    /// Compiles the plugins, and parses the scenario or generates objects. Must not be called on a thread of an async runtime.
    ///
    /// # Errors
    /// Returns a usage error that names the file, its line and what to do.
    pub(super) fn of_files(flags: &Sim, files: SubjectFiles) -> Result<Self, CommandError> {
        let engine = inputs::engine(flags.cache_dir.clone())?;
        let load = |file| PluginInput::load(&engine, file);
        let inputs = files.plugins.into_iter().map(load).collect::<Result<Vec<_>, _>>()?;
        let mut known = Kinds::built_in();
        let mut plugin_crds = Vec::new();
        for crd in inputs.iter().flat_map(|input| &input.descriptor.crds) {
            known.add_crd(crd).map_err(CommandError::Usage)?;
            plugin_crds.push(crd.clone());
        }
        let surroundings = match files.scenario {
            Some(ScenarioFile { path, text, input }) => {
                let scenario = Scenario::parse(&path, &text, &known, &read_scenario_part);
                let scenario = scenario.map_err(CommandError::Usage)?;
                let names: Vec<_> = inputs.iter().map(|input| input.file.name.as_str()).collect();
                let unknown = |problem: String| CommandError::Usage(format!("{}: {problem}", path.display()));
                scenario.check_authors(&names).map_err(unknown)?;
                let name = |crd: &Value| crd["metadata"]["name"].clone();
                // One that the scenario replaces differs from the plugin's, which then is an upgrade.
                plugin_crds
                    .retain(|crd| scenario.crds.iter().all(|other| name(other) != name(crd) || other == crd));
                Surroundings::Scenario { scenario: Arc::new(scenario), input }
            }
            None => Surroundings::Generated(generate_objects(flags, &inputs, &known)?),
        };
        let upgrade = files.upgrade.map(load).transpose()?;
        let compiled = compiled(engine.clone(), &inputs, upgrade.as_ref());
        let guarantees = flags.guarantees.map(|guarantees| guarantees == Guarantees::On);
        let watched = watched_resources(&inputs, &known);
        Ok(Self {
            compiled,
            inputs,
            plugin_crds,
            surroundings,
            guarantees,
            upgrade,
            watched,
            ignored: flags.ignore.clone(),
        })
    }

    /// Creates a world.
    ///
    /// # Errors
    /// Returns a usage error if the scenario names an unknown controller.
    pub(super) fn world(&self) -> Result<World, CommandError> {
        World::new(self.compiled.clone(), self.options()?).map_err(|error| super::unusable(&error))
    }

    fn options(&self) -> Result<WorldOptions, CommandError> {
        let mut options = match &self.surroundings {
            Surroundings::Scenario { scenario, .. } => WorldOptions::of_scenario(scenario),
            Surroundings::Generated(generated) => world_options(generated),
        };
        options.crds.retain(|crd| !self.plugin_crds.contains(crd));
        options.applied_crds.clone_from(&self.plugin_crds);
        options.guarantees = self.guarantees.unwrap_or(options.guarantees);
        Ok(options)
    }

    /// Returns the names of the files that an exported finding consists of.
    ///
    /// # Errors
    /// Returns a usage error if the simulation differs from every cluster.
    pub(super) fn exported_files(&self) -> Result<Files, CommandError> {
        if !self.options()?.guarantees {
            return Err(super::export::impossible(
                "the host's guarantees are off, and `pilothouse run` always gives them",
            ));
        }
        Ok(Files {
            plugins: self.inputs.iter().map(|input| input.file.input.file.clone()).collect(),
            upgrade: self.upgrade.as_ref().map(|_| UPGRADE.to_owned()),
            watched: self.watched.clone(),
        })
    }

    /// Returns the files of the plugins: name and content. Sidecars are among them.
    pub(super) fn plugin_files(&self) -> Vec<(String, &[u8])> {
        let mut files: Vec<(String, &[u8])> = Vec::new();
        for input in &self.inputs {
            files.push((input.file.input.file.clone(), input.file.wasm.as_slice()));
            if !input.file.sidecar.is_empty() {
                let name = Path::new(&input.file.input.file).with_extension("yaml");
                files.push((name.display().to_string(), input.file.sidecar.as_bytes()));
            }
        }
        files.extend(self.upgrade.as_ref().map(|input| (UPGRADE.to_owned(), input.file.wasm.as_slice())));
        files
    }

    /// Returns the built-in oracles and the invariants of the scenario, without those that it or the flags switch off.
    ///
    /// # Errors
    /// Returns a usage error if an unknown one is switched off.
    pub(super) fn oracles(&self) -> Result<Oracles, CommandError> {
        let mut oracles = match &self.surroundings {
            Surroundings::Scenario { scenario, .. } => oracles_of(scenario)?,
            Surroundings::Generated(_) => Oracles::built_in(),
        };
        for IgnoredOracle { name, reason } in &self.ignored {
            let disabled = oracles.disable(name, reason);
            disabled.map_err(|problem| CommandError::Usage(format!("--ignore: {problem}")))?;
        }
        Ok(oracles)
    }

    /// Returns the upper bounds of the scenario's faults; `None` without bounds.
    pub(super) fn fault_bounds(&self) -> Option<FaultBounds> {
        match &self.surroundings {
            Surroundings::Scenario { scenario, .. } => scenario.faults.clone(),
            Surroundings::Generated(_) => None,
        }
    }

    /// Returns the files and digests of the plugins and of the upgrade.
    pub(super) fn plugin_inputs(&self) -> Vec<Input> {
        self.inputs.iter().chain(&self.upgrade).map(|input| input.file.input.clone()).collect()
    }

    /// Returns the shorter tasks of the user, each as the steps that it leaves out. None if several actors have steps: one may wait for another.
    pub(super) fn shorter_tasks(&self) -> Vec<Vec<ActorStep>> {
        let actors: Vec<&ActorDefinition> = match &self.surroundings {
            Surroundings::Scenario { scenario, .. } => scenario.actors.iter().map(Arc::as_ref).collect(),
            Surroundings::Generated(generated) => generated.user.iter().map(Arc::as_ref).collect(),
        };
        let has_steps = |actor: &&&ActorDefinition| matches!(actor.behaviour, Behaviour::Steps(_));
        match actors.iter().filter(has_steps).collect::<Vec<_>>()[..] {
            [actor] => shorter_tasks(actor),
            _ => Vec::new(),
        }
    }

    /// Returns how many histories the worlds have.
    pub(super) fn histories(&self) -> usize {
        match &self.surroundings {
            Surroundings::Scenario { scenario, .. } => scenario.histories().len(),
            Surroundings::Generated(generated) => generated.histories.len(),
        }
    }

    /// Returns the scenario's file and digest.
    pub(super) fn scenario_input(&self) -> Option<Input> {
        match &self.surroundings {
            Surroundings::Scenario { input, .. } => Some(input.clone()),
            Surroundings::Generated(_) => None,
        }
    }

    /// Returns a name for what is simulated: the scenario's, or those of the plugins.
    pub(super) fn name(&self) -> String {
        match &self.surroundings {
            Surroundings::Scenario { scenario, .. } => scenario.name.clone(),
            Surroundings::Generated(_) => {
                self.inputs.iter().map(|input| input.file.name.as_str()).collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// Returns the kinds for which no objects could be generated, one line each.
    pub(super) fn problems(&self) -> &[String] {
        match &self.surroundings {
            Surroundings::Scenario { .. } => &[],
            Surroundings::Generated(generated) => &generated.problems,
        }
    }
}

/// Returns the oracles in a scenario: the built-in ones without those that it switches off, and its invariants.
///
/// # Errors
/// Returns a usage error if the scenario switches off an unknown oracle.
fn oracles_of(scenario: &Arc<Scenario>) -> Result<Oracles, CommandError> {
    let mut oracles = Oracles::built_in();
    invariants_of(scenario).into_iter().for_each(|oracle| oracles.add(oracle));
    for (name, reason) in &scenario.oracles_off {
        oracles.disable(name, reason).map_err(CommandError::Usage)?;
    }
    Ok(oracles)
}

/// Returns the loaded plugins. The upgrade is that of the first one.
fn compiled(engine: Engine, inputs: &[PluginInput], upgrade: Option<&PluginInput>) -> CompiledPlugins {
    let mut upgrade = upgrade.map(|input| input.code.clone());
    let plugin = |input: &PluginInput| WorldPlugin {
        name: input.file.name.clone(),
        code: input.code.clone(),
        upgrade: upgrade.take(),
        sidecar: input.file.sidecar.clone(),
    };
    CompiledPlugins::new(engine, inputs.iter().map(plugin).collect())
}
