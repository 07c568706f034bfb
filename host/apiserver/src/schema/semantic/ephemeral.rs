//! The ephemeral containers of Pods.

use pilothouse_model::hash::HashSet;
use serde_json::Value;

use super::container_volumes::Volumes;
use super::{container, items, text};
use crate::schema::field;
use crate::status::Causes;

/// The fields that ephemeral containers cannot have.
const FORBIDDEN: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// Checks the ephemeral containers of the specification at `path`, whose volumes and other containers have the given names.
pub(super) fn validate_all(
    spec: &Value,
    path: &str,
    (volumes, containers): (&Volumes<'_>, HashSet<&str>),
    causes: &mut Causes,
) {
    let at = field::child(path, "ephemeralContainers");
    let mut names = containers.clone();
    for (index, ephemeral) in items(&spec["ephemeralContainers"]).iter().enumerate() {
        let at = field::index(&at, index);
        container::validate(ephemeral, &at, (volumes, container::has_host_users(spec)), causes);
        let image = text(ephemeral, "image");
        if image.trim() != image {
            let detail = "must not have leading or trailing whitespace";
            causes.push(field::invalid(&field::child(&at, "image"), &image.into(), detail));
        }
        let name = text(ephemeral, "name");
        if !names.insert(name) {
            causes.push(field::duplicate(&field::child(&at, "name"), &name.into()));
        }
        let target = text(ephemeral, "targetContainerName");
        if !target.is_empty() && !containers.contains(target) {
            causes.push(field::not_found(&field::child(&at, "targetContainerName"), &target.into()));
        }
        validate_fields(ephemeral, &at, causes);
    }
}

fn validate_fields(ephemeral: &Value, at: &str, causes: &mut Causes) {
    const DETAIL: &str = "cannot be set for an Ephemeral Container";
    let is_set = |value: &Value| match value {
        Value::Null => false,
        Value::Array(list) => !list.is_empty(),
        _ => true,
    };
    for name in FORBIDDEN {
        let value = &ephemeral[name];
        // Without amounts and claims, the resources are as good as absent.
        let has_value = match (name, value.as_object()) {
            ("resources", Some(resources)) => !resources.is_empty(),
            _ => is_set(value),
        };
        if has_value {
            causes.push(field::forbidden(&field::child(at, name), DETAIL));
        }
    }
    for (index, mount) in items(&ephemeral["volumeMounts"]).iter().enumerate() {
        let at = field::index(&field::child(at, "volumeMounts"), index);
        for name in ["subPath", "subPathExpr"] {
            if !text(mount, name).is_empty() {
                causes.push(field::forbidden(&field::child(&at, name), DETAIL));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(ephemeral: &Value) -> Vec<String> {
        let spec = json!({"ephemeralContainers": ephemeral});
        let mut causes = Causes::default();
        let (volumes, containers) = (Volumes::from_iter([("v", false)]), HashSet::from_iter(["c"]));
        validate_all(&spec, "spec", (&volumes, containers), &mut causes);
        let path = "spec.ephemeralContainers";
        causes
            .iter()
            .map(|cause| format!("{}: {}", cause.field.strip_prefix(path).unwrap_or_default(), cause.message))
            .collect()
    }

    #[test]
    fn ephemeral_containers_have_an_image_and_a_known_target() {
        let valid = json!([{"name": "a", "image": "i", "targetContainerName": "c", "resources": {}}]);
        assert_eq!(problems(&valid), [""; 0]);
        assert_eq!(
            problems(&json!([{"name": "a", "targetContainerName": "x"}])),
            ["[0].image: Required value", "[0].targetContainerName: Not found: \"x\""]
        );
        let same =
            json!([{"name": "c", "image": "i"}, {"name": "a", "image": "i"}, {"name": "a", "image": "i"}]);
        assert_eq!(problems(&same), ["[0].name: Duplicate value: \"c\"", "[2].name: Duplicate value: \"a\""]);
    }

    #[test]
    fn ephemeral_containers_are_no_services() {
        let detail = "Forbidden: cannot be set for an Ephemeral Container";
        let container = json!([{
            "name": "a", "image": "i", "ports": [{"containerPort": 1}], "livenessProbe": {}, "lifecycle": {},
            "resources": {"limits": {"cpu": "1"}},
            "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "x"}],
        }]);
        let fields = ["ports", "resources", "livenessProbe", "lifecycle", "volumeMounts[0].subPath"];
        assert_eq!(problems(&container), fields.map(|name| format!("[0].{name}: {detail}")));
    }
}
