//! The ephemeral containers of Pods, which can only be added, by `/ephemeralcontainers`.

use pilothouse_model::hash::HashMap;
use serde_json::Value;

use super::items;
use crate::schema::field;
use crate::status::Cause;

/// The field of the ephemeral containers.
const EPHEMERAL: &str = "ephemeralContainers";

/// Copies the ephemeral containers, which `/ephemeralcontainers` changes and nothing else.
pub(in crate::rest) fn copy_ephemeral_containers(from: &Value, to: &mut Value) {
    let Some(spec) = to["spec"].as_object_mut() else { return };
    match from["spec"].get(EPHEMERAL) {
        Some(list) => drop(spec.insert(EPHEMERAL.to_owned(), list.clone())),
        None => drop(spec.remove(EPHEMERAL)),
    }
}

/// Returns what is invalid in an update of a pod's ephemeral containers: they can only be added.
pub(in crate::rest) fn validate_ephemeral_containers(old: &Value, new: &Value) -> Vec<Cause> {
    const PATH: &str = "spec.ephemeralContainers";
    let (before, after) = (items(&old["spec"][EPHEMERAL]), items(&new["spec"][EPHEMERAL]));
    let mut causes = Vec::new();
    // As in Kubernetes, the last one of equal names counts.
    let by_name: HashMap<&str, &Value> =
        after.iter().filter_map(|other| Some((other["name"].as_str()?, other))).collect();
    for container in before {
        let name = container["name"].as_str().unwrap_or_default();
        let problem = match by_name.get(name) {
            None => "removed",
            Some(other) if *other != container => "changed",
            Some(_) => continue,
        };
        let detail = format!("existing ephemeral containers {name:?} may not be {problem}\n");
        causes.push(field::forbidden(PATH, &detail));
    }
    causes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with(list: &Value) -> Value {
        let mut pod = json!({"spec": {"containers": [{"name": "c"}], "nodeName": "n"}});
        copy_ephemeral_containers(&json!({"spec": {"ephemeralContainers": list, "nodeName": "m"}}), &mut pod);
        pod
    }

    #[test]
    fn ephemeral_containers_can_only_be_added() {
        let one = with(&json!([{"name": "debug", "image": "i"}]));
        assert_eq!(one["spec"]["nodeName"], "n");
        let messages = |old: &Value, new: &Value| -> Vec<String> {
            validate_ephemeral_containers(old, new).into_iter().map(|cause| cause.message).collect()
        };
        assert_eq!(messages(&with(&json!([])), &one), [""; 0]);
        let removed = "Forbidden: existing ephemeral containers \"debug\" may not be removed\n";
        assert_eq!(messages(&one, &with(&json!([]))), [removed]);
        let changed = with(&json!([{"name": "debug", "image": "j"}]));
        assert!(messages(&one, &changed)[0].contains("may not be changed"));
        let again = with(&json!([{"name": "debug", "image": "j"}, {"name": "debug", "image": "i"}]));
        assert_eq!(messages(&one, &again), [""; 0], "the last one counts");
    }
}
