//! Metadata of other clients on generated objects: a label, an annotation, a finalizer and an owner that no plugin knows. A plugin that
//! overwrites the metadata of an object, instead of changing what is its own, removes them.

use serde_json::{Value, json};

use crate::scenario::merge::merged;

/// The JSON pointers of the label and the annotation.
pub const FOREIGN_METADATA: [&str; 2] = [
    "/metadata/labels/simulation.pilothouse.dev~1team",
    "/metadata/annotations/simulation.pilothouse.dev~1contact",
];
/// The finalizer.
pub const FOREIGN_FINALIZER: &str = "simulation.pilothouse.dev/backup";

/// Gives an object a label, an annotation and a finalizer.
pub(super) fn mark(object: &mut Value) {
    *object = merged(object, &metadata_patch());
    object["metadata"]["finalizers"] = json!([FOREIGN_FINALIZER]);
}

/// Returns the merge patch that sets the label and the annotation.
pub(super) fn metadata_patch() -> Value {
    json!({"metadata": {
        "labels": {"simulation.pilothouse.dev/team": "blue"},
        "annotations": {"simulation.pilothouse.dev/contact": "blue@example.com"},
    }})
}

/// Whether an object of a user was marked. Objects of the plugin have no finalizer of another client.
pub(super) fn is_marked(object: &Value) -> bool {
    let mut finalizers = object["metadata"]["finalizers"].as_array().into_iter().flatten();
    finalizers.any(|name| *name == *FOREIGN_FINALIZER)
        && FOREIGN_METADATA.iter().all(|pointer| object.pointer(pointer).is_some())
}

/// Returns the patch with which the controller that has set the finalizer removes it; `None` as long as the object is not being deleted.
pub(super) fn without_finalizer(object: &Value) -> Option<Value> {
    object["metadata"].get("deletionTimestamp")?;
    let finalizers = object["metadata"]["finalizers"].as_array()?;
    let others: Vec<&Value> = finalizers.iter().filter(|name| **name != *FOREIGN_FINALIZER).collect();
    (others.len() < finalizers.len()).then(|| json!({"metadata": {"finalizers": others}}))
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

    #[test]
    fn the_finalizer_is_removed_from_an_object_that_is_being_deleted_and_others_stay() {
        let mut object = json!({"metadata": {"name": "a", "finalizers": ["own/one", FOREIGN_FINALIZER]}});
        assert_eq!(without_finalizer(&object), None);
        object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(without_finalizer(&object), Some(json!({"metadata": {"finalizers": ["own/one"]}})));
        object["metadata"]["finalizers"] = json!(["own/one"]);
        assert_eq!(without_finalizer(&object), None);
    }
}
