//! The world of a scenario.

use std::sync::Arc;

use pilothouse_apiserver::Controllers;

use super::WorldOptions;
use crate::WorldError;
use crate::scenario::Scenario;

impl WorldOptions {
    /// Returns the options of a scenario's world.
    ///
    /// # Errors
    /// If the scenario names a controller that the server does not have.
    pub fn of_scenario(scenario: &Arc<Scenario>) -> Result<Self, WorldError> {
        let controllers = scenario.controllers.as_ref().map(|names| match names.as_slice() {
            [] => Ok(Controllers::none()),
            names => names.join(",").parse().map_err(|error| {
                WorldError(format!("the controllers of the scenario {}: {error}", scenario.name))
            }),
        });
        let (for_actors, for_http) = (Arc::clone(scenario), Arc::clone(scenario));
        let objects = scenario.objects.iter();
        Ok(Self {
            crds: scenario.crds.clone(),
            objects: objects.map(|manifest| (manifest.resource.clone(), manifest.object.clone())).collect(),
            actors: Box::new(move |seed| for_actors.actors(seed)),
            http: Box::new(move || for_http.http_services()),
            controllers: controllers.transpose()?,
            guarantees: scenario.guarantees,
            ..Self::default()
        })
    }
}
