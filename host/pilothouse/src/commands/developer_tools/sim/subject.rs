//! What is simulated: plugins, and a scenario or generated objects.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pilothouse_controller::descriptor::{Descriptor, Trigger, Watch};
use pilothouse_plugin::Engine;
use pilothouse_sim::actor::Actor;
use pilothouse_sim::export::Files;
use pilothouse_sim::finding::trace::Input;
use pilothouse_sim::oracle::{Oracles, invariants_of};
use pilothouse_sim::plan::ActorStep;
use pilothouse_sim::scenario::actor::{ActorDefinition, ActorState, Behaviour, shorter_tasks};
use pilothouse_sim::scenario::generate::{
    Generated, NameForm, Place, Role, WatchReference, WatchedKind, generate,
};
use pilothouse_sim::scenario::{FaultBounds, KindInfo, Kinds, Manifest, Scenario};
use pilothouse_sim::world::{CompiledPlugins, World, WorldOptions, WorldPlugin};
use serde_json::{Value, json};

use super::inputs::{self, PluginInput, manifest_files, read_scenario_part, read_text};
use super::subject_files::{ScenarioFile, SubjectFiles};
use crate::CommandError;
use crate::cli::simulation::{Guarantees, IgnoredOracle, Sim};

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
            None => Surroundings::Generated(generated(flags, &inputs, &known)?),
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
            Surroundings::Generated(generated) => of_generated(generated),
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

/// Returns the resources that the plugins watch. The simulation refuses a kind that it does not know.
fn watched_resources(inputs: &[PluginInput], kinds: &Kinds) -> Vec<String> {
    let watches = inputs.iter().flat_map(|input| &input.descriptor.watches);
    let kinds = watches.filter_map(|watch| watched_kind(watch, kinds).ok());
    let mut names: Vec<String> = kinds
        .map(|watched| match watched.kind.resource.group.as_str() {
            "" => watched.kind.resource.plural.clone(),
            group => format!("{}.{group}", watched.kind.resource.plural),
        })
        .collect();
    names.sort();
    names.dedup();
    names
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

/// Returns the world of generated objects.
fn of_generated(generated: &Generated) -> WorldOptions {
    let user = generated.user.clone();
    let objects = generated.objects.iter();
    WorldOptions {
        objects: objects.map(|manifest| (manifest.resource.clone(), manifest.object.clone())).collect(),
        actors: Box::new(move |seed| {
            let actor = |user: &Arc<ActorDefinition>| -> Box<dyn Actor> {
                Box::new(ActorState::new(Arc::clone(user), seed))
            };
            user.iter().map(actor).collect()
        }),
        histories: generated.histories.clone(),
        ..WorldOptions::default()
    }
}

/// Generates objects and steps for the kinds that the plugins watch.
fn generated(flags: &Sim, inputs: &[PluginInput], kinds: &Kinds) -> Result<Generated, CommandError> {
    let mut examples = Vec::new();
    for file in
        flags.objects.iter().map(|folder| manifest_files(folder)).collect::<Result<Vec<_>, _>>()?.concat()
    {
        let manifests = Manifest::all_of(&read_text(&file)?, kinds).map_err(|problem| {
            CommandError::Usage(format!("{}: {problem}; correct it, or remove the file", file.display()))
        });
        examples.extend(manifests?);
    }
    let mut problems = Vec::new();
    let mut watched: Vec<WatchedKind> = Vec::new();
    for input in inputs {
        let (plugin, descriptor) = (input.file.name.as_str(), &input.descriptor);
        for watch in &descriptor.watches {
            match watched_kind(watch, kinds) {
                Ok(kind) => watched.push(WatchedKind {
                    name: name_of(plugin, &watch.name),
                    references: references_of(plugin, descriptor, watch),
                    writes_status: may(descriptor, &kind.kind, "status", &["update", "patch"]),
                    may_delete: may_delete(descriptor),
                    ..kind
                }),
                Err(problem) => problems.push(format!("watch {}: {problem}", watch.name)),
            }
        }
        watched.extend(read_live(descriptor, kinds));
    }
    let mut generated = generate(&watched, &examples, flags.seed);
    generated.problems.extend(problems);
    if generated.user.is_none() {
        let why = generated.problems.join("; ");
        return Err(CommandError::Usage(format!(
            "nothing to simulate: {why}; write a scenario, or give --objects"
        )));
    }
    Ok(generated)
}

fn watched_kind(watch: &Watch, kinds: &Kinds) -> Result<WatchedKind, String> {
    let manifest = json!({"apiVersion": watch.api_version, "kind": watch.kind});
    let role = match watch.trigger {
        Some(Trigger::Itself) => Role::Reconciled,
        Some(Trigger::Owner { .. } | Trigger::OwnerAny { .. }) => Role::Owned,
        _ if watch.notify => Role::Reconciled,
        _ => Role::Read,
    };
    Ok(WatchedKind {
        name: watch.name.clone(),
        references: Vec::new(),
        kind: kinds.of_manifest(&manifest)?.clone(),
        role,
        label_selector: watch.label_selector.clone(),
        namespaces: watch.namespaces.clone(),
        writes_status: false,
        may_delete: false,
    })
}

/// Returns the kinds that a plugin reads from the server, and neither watches nor creates.
fn read_live(descriptor: &Descriptor, kinds: &Kinds) -> Vec<WatchedKind> {
    let is_watched = |kind: &KindInfo| {
        let (name, version) = (&kind.resource.kind, kind.resource.api_version());
        descriptor.watches.iter().any(|watch| watch.kind == *name && watch.api_version == version)
    };
    let is_read = |kind: &&KindInfo| {
        may(descriptor, kind, "", &["get", "list"])
            && !may(descriptor, kind, "", &["create"])
            && !is_watched(kind)
    };
    let watched = |kind: &KindInfo| WatchedKind {
        name: String::new(),
        kind: kind.clone(),
        role: Role::ReadLive,
        label_selector: String::new(),
        namespaces: Vec::new(),
        references: Vec::new(),
        writes_status: false,
        may_delete: false,
    };
    kinds.iter().filter(is_read).map(watched).collect()
}

/// Whether a plugin asks for the right to delete objects of any kind.
fn may_delete(descriptor: &Descriptor) -> bool {
    let is_delete = |verb: &String| ["delete", "deletecollection", "*"].contains(&verb.as_str());
    descriptor.writes.iter().any(|rule| rule.verbs.iter().any(is_delete))
}

/// Whether a plugin asks for one of these verbs on a kind, or on its subresource.
fn may(descriptor: &Descriptor, kind: &KindInfo, subresource: &str, verbs: &[&str]) -> bool {
    let names = |list: &[String], name: &str| list.iter().any(|known| known == name || known == "*");
    let plural = &kind.resource.plural;
    let resource = if subresource.is_empty() { plural.clone() } else { format!("{plural}/{subresource}") };
    descriptor.writes.iter().any(|rule| {
        names(&rule.api_groups, &kind.resource.group)
            && names(&rule.resources, &resource)
            && verbs.iter().any(|verb| names(&rule.verbs, verb))
    })
}

/// Returns the name of a watch among those of all plugins.
fn name_of(plugin: &str, watch: &str) -> String {
    format!("{plugin} {watch}")
}

/// Returns where the objects of a watch name those of other watches: in what triggers the others, and in the indexes by which others trigger
/// them.
fn references_of(plugin: &str, descriptor: &Descriptor, watch: &Watch) -> Vec<WatchReference> {
    let reference = |place: Place, form: NameForm, other: &str| WatchReference {
        place,
        form,
        watch: name_of(plugin, other),
    };
    let mut references = Vec::new();
    match &watch.trigger {
        Some(Trigger::Label { key, watch: target }) => {
            references.push(reference(Place::Label(key.clone()), NameForm::Name, target));
        }
        Some(Trigger::Field { path, namespace_path, watch: target }) => {
            references.push(reference(Place::Field(path.clone()), NameForm::Name, target));
            let namespace = namespace_path.iter();
            references.extend(
                namespace.map(|path| reference(Place::Field(path.clone()), NameForm::Namespace, target)),
            );
        }
        _ => {}
    }
    for other in &descriptor.watches {
        let Some(Trigger::Index { watch: target, index }) = &other.trigger else { continue };
        let index = watch.indexes.iter().find(|known| known.name == *index && *target == watch.name);
        let place = index.and_then(|index| {
            let label = index.label.clone().map(Place::Label);
            let annotation = index.annotation.clone().map(Place::Annotation);
            label.or(annotation).or_else(|| index.field.clone().map(Place::Field))
        });
        references.extend(place.map(|place| reference(place, NameForm::Key, &other.name)));
    }
    references
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_are_only_read_from_the_server_are_found() {
        let descriptor = Descriptor::parse(
            r#"{"apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "name": "p", "version": "1.0.0",
            "watches": [{"name": "pods", "apiVersion": "v1", "kind": "Pod", "trigger": "self"}],
            "writes": [
                {"apiGroups": [""], "resources": ["pods", "secrets", "configmaps"], "verbs": ["get", "patch"]},
                {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}, {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["patch"]}]}"#,
        )
        .expect("a descriptor");
        let found = read_live(&descriptor, &Kinds::built_in());
        let kinds: Vec<_> = found.iter().map(|watched| watched.kind.resource.kind.as_str()).collect();
        assert_eq!(kinds, ["Secret"]);
    }

    #[test]
    fn objects_name_those_of_the_watches_that_they_trigger() {
        let descriptor = Descriptor::parse(
            r#"{"apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "name": "p", "version": "1.0.0", "watches": [
            {"name": "sets", "apiVersion": "v1", "kind": "ConfigMap", "trigger": "self",
             "indexes": [{"name": "byNode", "field": "{.data.node}"}, {"name": "byOwner", "label": "owner"}]},
            {"name": "nodes", "apiVersion": "v1", "kind": "Node", "trigger": {"index": {"watch": "sets", "index": "byNode"}}},
            {"name": "secrets", "apiVersion": "v1", "kind": "Secret", "trigger": {"label": {"key": "set", "watch": "sets"}}},
            {"name": "copies", "apiVersion": "v1", "kind": "Secret", "trigger": {"field":
             {"path": "{.metadata.annotations.set}", "namespacePath": "{.metadata.annotations.in}", "watch": "sets"}}}]}"#,
        )
        .expect("a descriptor");
        let of = |name: &str| {
            let watch = descriptor.watches.iter().find(|watch| watch.name == name).expect(name);
            references_of("p", &descriptor, watch)
                .into_iter()
                .map(|WatchReference { place, form, watch }| (place, form, watch))
                .collect::<Vec<_>>()
        };
        let field = |path: &str| Place::Field(path.to_owned());
        let sets = || "p sets".to_owned();
        assert_eq!(of("sets"), [(field("{.data.node}"), NameForm::Key, "p nodes".to_owned())]);
        assert_eq!(of("nodes"), []);
        assert_eq!(of("secrets"), [(Place::Label("set".to_owned()), NameForm::Name, sets())]);
        assert_eq!(
            of("copies"),
            [
                (field("{.metadata.annotations.set}"), NameForm::Name, sets()),
                (field("{.metadata.annotations.in}"), NameForm::Namespace, sets()),
            ]
        );
    }
}
