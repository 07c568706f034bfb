//! DaemonSets: the number of changes of their template, a field in Kubernetes that `apps/v1` has as an annotation. Every DaemonSet has it.

use serde_json::{Map, Value};

use crate::meta;
use crate::registry::Endpoint;

const ANNOTATION: &str = "deprecated.daemonset.template.generation";

/// Whether the endpoint serves DaemonSets.
pub(in crate::rest) fn is_daemon_set(endpoint: &Endpoint) -> bool {
    endpoint.resource.group == "apps" && endpoint.resource.names.plural == "daemonsets"
}

/// Sets the annotation that a client left out, as the conversion from Go's internal type does.
pub(in crate::rest) fn complete(set: &mut Value) {
    if generation(set).is_none() {
        set_generation(set, 0);
    }
}

/// Sets the annotation of a new DaemonSet.
pub(super) fn prepare_create(set: &mut Value) {
    let first = generation(set).unwrap_or(0).max(1);
    set_generation(set, first);
}

/// Sets the annotation of an updated DaemonSet. A client cannot change it.
pub(super) fn finish_update(old: &Value, new: &mut Value) {
    let before = generation(old).unwrap_or(1);
    let is_changed = old["spec"]["template"] != new["spec"]["template"];
    set_generation(new, before.saturating_add(i64::from(is_changed)));
}

fn generation(set: &Value) -> Option<i64> {
    set["metadata"]["annotations"][ANNOTATION].as_str()?.parse().ok()
}

fn set_generation(set: &mut Value, generation: i64) {
    let annotations =
        meta::metadata_mut(set).entry("annotations").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(annotations) = annotations {
        annotations.insert(ANNOTATION.into(), generation.to_string().into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_of_the_template_are_counted() {
        let mut set = json!({"metadata": {}, "spec": {"template": {"a": 1}}});
        complete(&mut set);
        assert_eq!(generation(&set), Some(0));
        prepare_create(&mut set);
        assert_eq!(generation(&set), Some(1));
        let mut new = json!({"metadata": {"annotations": {ANNOTATION: "9"}}, "spec": {"template": {"a": 1}}});
        finish_update(&set, &mut new);
        assert_eq!(generation(&new), Some(1));
        new["spec"]["template"]["a"] = json!(2);
        finish_update(&set, &mut new);
        assert_eq!(generation(&new), Some(2));
    }
}
