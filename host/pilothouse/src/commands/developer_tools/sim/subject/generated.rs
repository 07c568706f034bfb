//! Generated objects, in place of a scenario.

use std::sync::Arc;

use pilothouse_sim::actor::Actor;
use pilothouse_sim::scenario::actor::{ActorDefinition, ActorState};
use pilothouse_sim::scenario::generate::{Generated, generate};
use pilothouse_sim::scenario::{Kinds, Manifest};
use pilothouse_sim::world::WorldOptions;

use super::super::inputs::{PluginInput, manifest_files, read_text};
use super::watched_kinds::watched_kinds;
use crate::CommandError;
use crate::cli::simulation::Sim;

/// Generates objects and steps for the kinds that the plugins watch.
pub(super) fn generate_objects(
    flags: &Sim,
    inputs: &[PluginInput],
    kinds: &Kinds,
) -> Result<Generated, CommandError> {
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
    let mut watched = Vec::new();
    for input in inputs {
        watched.extend(watched_kinds(input.file.name.as_str(), &input.descriptor, kinds, &mut problems));
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

/// Returns the options of a world with the generated objects.
pub(super) fn world_options(generated: &Generated) -> WorldOptions {
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
