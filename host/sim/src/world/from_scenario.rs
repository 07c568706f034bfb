//! The world of a scenario.

use std::sync::Arc;

use super::{WorldLimits, WorldOptions};
use crate::scenario::Scenario;

impl WorldOptions {
    /// Returns the options of a scenario's world.
    #[must_use]
    pub fn of_scenario(scenario: &Arc<Scenario>) -> Self {
        let (for_actors, for_http) = (Arc::clone(scenario), Arc::clone(scenario));
        let objects = scenario.objects.iter();
        let mut limits = WorldLimits::default();
        // What the actors do after a long sleep has as much time as without it.
        limits.virtual_ms = limits.virtual_ms.saturating_add(scenario.sleep_ms());
        Self {
            crds: scenario.crds.clone(),
            objects: objects.map(|manifest| (manifest.resource.clone(), manifest.object.clone())).collect(),
            actors: Box::new(move |seed| for_actors.actors(seed)),
            histories: scenario.histories(),
            http: Box::new(move || for_http.http_services()),
            controllers: scenario.controllers.clone(),
            guarantees: scenario.guarantees,
            limits,
            ..Self::default()
        }
    }
}
