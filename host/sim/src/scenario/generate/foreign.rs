//! Metadata of other clients on generated objects: a label, an annotation, a finalizer and an owner that no plugin knows. A plugin that
//! overwrites the metadata of an object, instead of changing what is its own, removes them.

use std::sync::Arc;

use pilothouse_model::ResourceType;
use serde_json::{Value, json};

use crate::scenario::actor::{ActorDefinition, Behaviour, FinalizerRemoval};

/// The JSON pointers of the label and the annotation.
pub const FOREIGN_METADATA: [&str; 2] = [
    "/metadata/labels/simulation.pilothouse.dev~1team",
    "/metadata/annotations/simulation.pilothouse.dev~1contact",
];
/// The finalizer.
pub const FOREIGN_FINALIZER: &str = "simulation.pilothouse.dev/backup";
/// The name of the actor that removes the finalizer.
const BACKUP: &str = "backup";
/// The time between the deletion of an object and the removal of the finalizer, in virtual milliseconds. It is shorter than a rest, and than the
/// attempts of a user to create the object again.
const BACKUP_MS: u64 = 5000;

/// Gives an object a label, an annotation and a finalizer.
pub(super) fn mark(object: &mut Value) {
    let metadata = &mut object["metadata"];
    metadata["labels"]["simulation.pilothouse.dev/team"] = "blue".into();
    metadata["annotations"]["simulation.pilothouse.dev/contact"] = "blue@example.com".into();
    metadata["finalizers"] = json!([FOREIGN_FINALIZER]);
}

/// Returns the actor that removes the finalizer from objects of these resources once they are deleted; `None` without resources.
pub(super) fn backup(mut resources: Vec<ResourceType>) -> Option<Arc<ActorDefinition>> {
    resources.sort();
    resources.dedup();
    if resources.is_empty() {
        return None;
    }
    let removal = FinalizerRemoval { resources, finalizer: FOREIGN_FINALIZER.to_owned(), after_ms: BACKUP_MS };
    Some(Arc::new(ActorDefinition {
        name: BACKUP.to_owned(),
        behaviour: Behaviour::RemoveFinalizer(removal),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_gets_the_metadata_and_keeps_its_own() {
        let mut object = json!({"metadata": {"name": "a", "labels": {"app": "web"}}});
        mark(&mut object);
        assert!(FOREIGN_METADATA.iter().all(|pointer| object.pointer(pointer).is_some()), "{object}");
        assert_eq!(object["metadata"]["labels"]["app"], "web");
        assert_eq!(object["metadata"]["finalizers"], json!([FOREIGN_FINALIZER]));
    }
}
