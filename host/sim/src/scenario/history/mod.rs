//! Histories: two ways on which users come to the same objects. A controller acts on the objects that exist, so it ends in the same state on both.

mod at_once;

use std::sync::Arc;

use super::actor::{ActorDefinition, Behaviour, Step};

pub use at_once::changed_at_once;

/// Two ways to the same objects. The actor of either takes the place of the one that has its name.
#[derive(Clone, Debug)]
pub struct History {
    longer: Arc<ActorDefinition>,
    shorter: Arc<ActorDefinition>,
}

impl History {
    /// Returns the history of an actor with these steps. What it writes must be the same in the end.
    #[must_use]
    pub fn new(actor: &str, longer: Vec<Step>, shorter: Vec<Step>) -> Self {
        let definition =
            |steps| Arc::new(ActorDefinition { name: actor.to_owned(), behaviour: Behaviour::Steps(steps) });
        Self { longer: definition(longer), shorter: definition(shorter) }
    }

    /// Returns the actor that takes one of the ways.
    #[must_use]
    pub fn way(&self, is_shorter: bool) -> &Arc<ActorDefinition> {
        if is_shorter { &self.shorter } else { &self.longer }
    }
}
