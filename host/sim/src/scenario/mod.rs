//! Scenarios of `pilothouse sim`: plugins, objects, actors, faults, invariants and HTTP services.
//!
//! A [`Scenario`] is parsed from YAML (docs/simulation-scenarios.md). It reads no file itself, and starts nothing:
//! [`Scenario::actors`] and [`Scenario::http_services`] return the state machines of one run, and
//! [`Scenario::judge`] evaluates its invariants over a finished run.
//!

pub mod actor;
mod document;
mod faults;
pub mod generate;
pub mod history;
pub mod http;
pub mod invariant;
mod kinds;
mod manifest;
mod merge;
mod object_reference;
mod program;
mod template;
#[cfg(test)]
mod test_view;
#[cfg(test)]
mod tests;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pilothouse_apiserver::Controllers;
use pilothouse_yaml::{describe_message, suggestion};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

use crate::actor::Actor;
use crate::http::HttpServices;
use crate::oracle;
use crate::run::Run;
use actor::{ActorDefinition, ActorState, Behaviour, StepAction, actor_of};
pub use document::{API_VERSION, KIND, MAX_FILE_SIZE};
use document::{Document, OracleDocument, PluginDocument, check_count, check_name, parse_document};
pub use faults::{DelayBounds, FaultBounds};
use generate::{Generated, WatchedKind, generate};
use history::{History, changed_at_once};
use http::{HttpDefinitions, HttpState};
use invariant::{By, Invariant, InvariantForm, Judgement, WriteSelector, judge};
pub use kinds::{KindInfo, Kinds, MAX_CRDS, run_name};
use manifest::FileReader;
pub use manifest::Manifest;
pub use object_reference::{DEFAULT_NAMESPACE, ObjectReference};
pub use program::{ObjectValues, Program, Reads};
pub use template::Template;
pub use text::DurationRange;
use text::quoted;

const MAX_PLUGINS: usize = 10;
const MAX_OBJECTS: usize = 1000;
const MAX_ACTORS: usize = 50;
const MAX_INVARIANTS: usize = 100;
const MAX_CONTROLLERS: usize = 100;

/// A scenario.
#[derive(Debug)]
pub struct Scenario {
    /// The name.
    pub name: String,
    /// The plugins. If there are none, the command line names them.
    pub plugins: Vec<PluginFile>,
    /// The kinds that the scenario can name.
    pub kinds: Arc<Kinds>,
    /// The CRDs that exist before the plugin starts.
    pub crds: Vec<Value>,
    /// The objects that exist before the plugin starts, Namespaces first.
    pub objects: Vec<Manifest>,
    /// The actors.
    pub actors: Vec<Arc<ActorDefinition>>,
    /// Upper bounds of the faults; `None` if all faults are allowed.
    pub faults: Option<FaultBounds>,
    /// What must hold.
    pub invariants: Vec<Invariant>,
    /// Built-in oracles that are switched off, each with the reason.
    pub oracles_off: BTreeMap<String, String>,
    /// The HTTP services.
    pub http: Arc<HttpDefinitions>,
    /// The built-in controllers that run; `None` for the default.
    pub controllers: Option<Controllers>,
    /// Whether the host's guarantees are in force.
    pub guarantees: bool,
}

/// A plugin of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginFile {
    /// The wasm file.
    pub file: PathBuf,
    /// The members of its sidecar, in the format of `docs/sidecar.schema.json`.
    pub sidecar: Map<String, Value>,
}

impl Scenario {
    /// Returns how long all actors together sleep, in virtual milliseconds.
    pub(crate) fn sleep_ms(&self) -> u64 {
        let steps = self.actors.iter().filter_map(|actor| match &actor.behaviour {
            Behaviour::Steps(steps) => Some(steps),
            Behaviour::ForEach(_) => None,
        });
        let sleeps = steps.flatten().map(|step| match step.action {
            StepAction::Sleep(duration) => duration,
            _ => 0,
        });
        sleeps.fold(0, u64::saturating_add)
    }

    /// Returns the plugins that a scenario names. They can be loaded before [`Scenario::parse`], so that it knows the kinds
    /// of their CRDs.
    ///
    /// # Errors
    /// Errors with one line that names the file, the line in it and what to do.
    pub fn plugins_of(file: &Path, text: &str) -> Result<Vec<PluginFile>, String> {
        let located = in_file(file);
        let document = parse_document(text).map_err(&located)?;
        plugins(&document, file).map_err(located)
    }

    /// Parses the text of a scenario file. `read` returns the text of another file, which the scenario names. `known` are
    /// the built-in kinds and those of the plugins' CRDs.
    ///
    /// # Errors
    /// Errors with one line that names the file, the line in it and what to do.
    pub fn parse(
        file: &Path,
        text: &str,
        known: &Kinds,
        read: &dyn Fn(&Path) -> Result<String, String>,
    ) -> Result<Self, String> {
        let located = in_file(file);
        let document = parse_document(text).map_err(&located)?;
        Self::validate(document, file, known, read).map_err(located)
    }

    fn validate(
        document: Document,
        file: &Path,
        known: &Kinds,
        read: &dyn Fn(&Path) -> Result<String, String>,
    ) -> Result<Self, String> {
        let plugins = plugins(&document, file)?;
        let files = FileReader { file, read };
        let (crds, kinds) = crds(&document, known, &files)?;
        let mut objects = Vec::new();
        for entry in &document.objects {
            let found = files.manifests(&entry.value, &kinds);
            objects.extend(found.map_err(|problem| at(entry.referenced.line(), &problem))?);
            check_count("objects", objects.len(), MAX_OBJECTS)?;
        }
        let http = HttpDefinitions::new(document.http, &kinds)?;
        check_count("actors", document.actors.len(), MAX_ACTORS)?;
        let mut actors = Vec::new();
        let mut names = BTreeSet::new();
        for entry in document.actors {
            let line = entry.referenced.line();
            check_name("the actor's name", &entry.value.name).map_err(|problem| at(line, &problem))?;
            if !names.insert(entry.value.name.clone()) {
                let problem = format!("the actor {} is there twice; rename one", quoted(&entry.value.name));
                return Err(at(line, &problem));
            }
            actors.push(Arc::new(actor_of(entry.value, &kinds, &files, line)?));
        }
        let faults = document.faults.map(|entry| {
            let line = entry.referenced.line();
            FaultBounds::new(entry.value).map_err(|problem| at(line, &problem))
        });
        check_count("invariants", document.invariants.len(), MAX_INVARIANTS)?;
        let mut invariants: Vec<Invariant> = Vec::new();
        for entry in document.invariants {
            let line = entry.referenced.line();
            let title = format!("invariant {}: ", quoted(&entry.value.name));
            let invariant = Invariant::new(entry.value, line, !http.is_empty(), &kinds)
                .map_err(|problem| at(line, &format!("{title}{problem}")))?;
            if invariants.iter().any(|known| known.name == invariant.name) {
                return Err(at(line, &format!("{title}the name is there twice; rename one")));
            }
            invariants.push(invariant);
        }
        let stem = || file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self {
            name: document.name.unwrap_or_else(stem),
            plugins,
            kinds,
            crds,
            objects,
            actors,
            faults: faults.transpose()?,
            invariants,
            oracles_off: oracles_off(document.oracles)?,
            http: Arc::new(http),
            controllers: document.controllers.as_ref().map(controllers).transpose()?,
            guarantees: document.guarantees.as_ref().map_or(Ok(true), guarantees)?,
        })
    }

    /// Returns a scenario with generated objects and steps, and a line for each kind for which there are none. `kinds` are the
    /// built-in kinds and those of the plugins' CRDs.
    #[must_use]
    pub fn generated(
        watched: &[WatchedKind],
        examples: &[Manifest],
        kinds: Kinds,
        seed: u64,
    ) -> (Self, Vec<String>) {
        let Generated { objects, user, problems, .. } = generate(watched, examples, seed);
        let scenario = Self {
            name: "generated".to_owned(),
            plugins: Vec::new(),
            kinds: Arc::new(kinds),
            crds: Vec::new(),
            objects,
            actors: user.into_iter().collect(),
            faults: None,
            invariants: Vec::new(),
            oracles_off: BTreeMap::new(),
            http: Arc::default(),
            controllers: None,
            guarantees: true,
        };
        (scenario, problems)
    }

    /// Checks that each invariant on writes of a named author names an actor, or one of these plugins.
    ///
    /// # Errors
    /// Errors with one line that names the line in the file and suggests a name.
    pub fn check_authors(&self, plugins: &[&str]) -> Result<(), String> {
        let known = || self.actors.iter().map(|actor| actor.name.as_str()).chain(plugins.iter().copied());
        for invariant in &self.invariants {
            let InvariantForm::OnWrite(WriteSelector { by: Some(By::Name(name)), .. }) = &invariant.form
            else {
                continue;
            };
            if !known().any(|other| other == name) {
                let all = ["plugin", "actor", "controller"].into_iter().chain(known());
                let problem = format!(
                    "invariant {}: onWrite.by: unknown plugin or actor {}; {}",
                    quoted(&invariant.name),
                    quoted(name),
                    did_you_mean(name, &all.collect::<Vec<_>>())
                );
                return Err(text::printable(&at(invariant.line, &problem)));
            }
        }
        Ok(())
    }

    /// Creates the actors of one run.
    #[must_use]
    pub fn actors(&self, seed: u64) -> Vec<Box<dyn Actor>> {
        let actor = |definition: &Arc<ActorDefinition>| -> Box<dyn Actor> {
            Box::new(ActorState::new(Arc::clone(definition), seed))
        };
        self.actors.iter().map(actor).collect()
    }

    /// Returns what the only actor with steps may do in their place. None if several actors have steps: one may wait for another.
    #[must_use]
    pub fn histories(&self) -> Vec<History> {
        let has_steps = |actor: &&Arc<ActorDefinition>| matches!(actor.behaviour, Behaviour::Steps(_));
        match self.actors.iter().filter(has_steps).collect::<Vec<_>>()[..] {
            [actor] => changed_at_once(actor).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Creates the HTTP services of one run; `None` if the scenario has none.
    #[must_use]
    pub fn http_services(&self) -> Option<Box<dyn HttpServices>> {
        (!self.http.is_empty())
            .then(|| -> Box<dyn HttpServices> { Box::new(HttpState::new(Arc::clone(&self.http))) })
    }

    /// Evaluates the invariants over a run.
    #[must_use]
    pub fn judge(&self, run: &Run) -> Vec<Judgement> {
        judge(&self.invariants, run)
    }
}

fn plugins(document: &Document, file: &Path) -> Result<Vec<PluginFile>, String> {
    check_count("plugins", document.plugins.len(), MAX_PLUGINS)?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let plugin = |entry: &Spanned<Value>| {
        let document = match &entry.value {
            Value::String(file) => PluginDocument { file: file.clone(), sidecar: None },
            value => serde_json::from_value(value.clone()).map_err(|error| {
                let error = describe_message(&error.to_string());
                let problem = format!("plugins: {error}; write a file, or file and sidecar");
                at(entry.referenced.line(), &problem)
            })?,
        };
        Ok(PluginFile { file: folder.join(document.file), sidecar: document.sidecar.unwrap_or_default() })
    };
    document.plugins.iter().map(plugin).collect()
}

fn crds(
    document: &Document,
    known: &Kinds,
    files: &FileReader<'_>,
) -> Result<(Vec<Value>, Arc<Kinds>), String> {
    check_count("crds", document.crds.len(), MAX_CRDS)?;
    let mut kinds = known.clone();
    let mut crds = Vec::new();
    for entry in &document.crds {
        let located = |problem: String| at(entry.referenced.line(), &format!("crds: {problem}"));
        for crd in files.objects(&entry.value).map_err(located)? {
            kinds.add_crd(&crd).map_err(located)?;
            crds.push(crd);
        }
    }
    Ok((crds, Arc::new(kinds)))
}

/// Returns the reasons of the oracles that are switched off.
fn oracles_off(
    oracles: BTreeMap<String, Spanned<OracleDocument>>,
) -> Result<BTreeMap<String, String>, String> {
    let known: Vec<_> = oracle::BUILT_IN.iter().map(|oracle| oracle.name).collect();
    let reason = |(name, entry): (String, Spanned<OracleDocument>)| {
        let problem = if !known.contains(&name.as_str()) {
            format!("oracles: unknown oracle {}; {}", quoted(&name), did_you_mean(&name, &known))
        } else if entry.value.off.trim().is_empty() {
            format!("oracles: {name}.off has no text; write why the oracle does not apply")
        } else {
            return Ok((name, entry.value.off));
        };
        Err(at(entry.referenced.line(), &problem))
    };
    oracles.into_iter().map(reason).collect()
}

fn controllers(entry: &Spanned<Vec<String>>) -> Result<Controllers, String> {
    let names = &entry.value;
    let parsed = check_count("controllers", names.len(), MAX_CONTROLLERS).and_then(|()| {
        if names.is_empty() {
            return Ok(Controllers::none());
        }
        names.join(",").parse().map_err(|error| format!("controllers: {error}"))
    });
    parsed.map_err(|problem| at(entry.referenced.line(), &problem))
}

fn guarantees(entry: &Spanned<String>) -> Result<bool, String> {
    match entry.value.as_str() {
        "on" => Ok(true),
        "none" => Ok(false),
        other => {
            let problem = format!("guarantees: {} is neither on nor none", quoted(other));
            Err(at(entry.referenced.line(), &problem))
        }
    }
}

/// Suggests one of the known names, or lists them.
fn did_you_mean(name: &str, known: &[&str]) -> String {
    suggestion(name, known.iter().copied())
        .map_or_else(|| format!("known are {}", known.join(", ")), |close| format!("did you mean {close}?"))
}

/// Returns a function that prefixes a problem with the file. Names in the file may have line breaks, and messages quote them.
fn in_file(file: &Path) -> impl Fn(String) -> String {
    move |problem| format!("{}: {}", file.display(), text::printable(&problem))
}

fn at(line: u64, problem: &str) -> String {
    format!("line {line}: {problem}")
}
