//! The world of a scenario.

use std::sync::Arc;

use super::WorldOptions;
use crate::scenario::Scenario;

impl WorldOptions {
    /// Returns the options of a scenario's world.
    #[must_use]
    pub fn of_scenario(scenario: &Arc<Scenario>) -> Self {
        let (for_actors, for_http) = (Arc::clone(scenario), Arc::clone(scenario));
        let objects = scenario.objects.iter();
        Self {
            crds: scenario.crds.clone(),
            objects: objects.map(|manifest| (manifest.resource.clone(), manifest.object.clone())).collect(),
            actors: Box::new(move |seed| for_actors.actors(seed)),
            histories: scenario.histories(),
            http: Box::new(move || for_http.http_services()),
            controllers: scenario.controllers.clone(),
            guarantees: scenario.guarantees,
            ..Self::default()
        }
    }
}
