//! The annotations of Pods that have a meaning.

use serde_json::Value;

use super::{entries, has, items, text, volume_source};
use crate::go;
use crate::schema::field;
use crate::status::Causes;

/// The annotation of Pods that a kubelet created from a file.
const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Checks the annotations at `path` of a Pod or a template with this specification.
pub(super) fn validate(annotations: &Value, spec: &Value, path: &str, causes: &mut Causes) {
    if let Some(value) = annotations.get(MIRROR)
        && text(spec, "nodeName").is_empty()
    {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        causes.push(field::invalid(&field::key(path, MIRROR), value, detail));
    }
    if let Some(cost) = annotations.get(DELETION_COST)
        && !cost.as_str().is_some_and(is_deletion_cost)
    {
        causes.push(field::invalid(&field::key(path, DELETION_COST), cost, "must be a 32bit integer"));
    }
    for (name, value) in entries(Some(annotations)) {
        if name == SECCOMP_OF_POD || name.starts_with(SECCOMP_OF_CONTAINER) {
            // As in Kubernetes, the path is that of a field.
            validate_seccomp(value, &field::child(path, name), causes);
        }
    }
    for (name, value) in entries(Some(annotations)) {
        let Some(container) = name.strip_prefix(APP_ARMOR) else { continue };
        let at = field::key(path, name);
        if !containers(spec).any(|(_, _, found)| text(found, "name") == container) {
            causes.push(field::invalid(&at, &container.into(), "container not found"));
        }
        let profile = value.as_str().unwrap_or_default();
        if !matches!(profile, "" | "runtime/default" | "unconfined") && !profile.starts_with("localhost/") {
            let detail = format!("invalid AppArmor profile name: {}", go::quoted(profile));
            causes.push(field::invalid(&at, value, &detail));
        }
    }
}

/// Checks that the annotations of a new Pod or of a template agree with the fields of the specification at `path`.
pub(super) fn validate_profiles(annotations: &Value, spec: &Value, path: &str, causes: &mut Causes) {
    const CONTEXT: &str = "securityContext";
    let of_pod = &spec[CONTEXT];
    if let Some(annotation) = annotations[SECCOMP_OF_POD].as_str() {
        let at = field::child(path, CONTEXT);
        compare(
            "seccomp",
            annotation,
            &of_pod["seccompProfile"],
            &field::child(&at, "seccompProfile"),
            causes,
        );
    }
    for (list, index, container) in containers(spec) {
        let key = format!("{SECCOMP_OF_CONTAINER}{}", text(container, "name"));
        let at = field::child(&field::index(&field::child(path, list), index), CONTEXT);
        if let Some(annotation) = annotations[&key].as_str() {
            let profile = &container[CONTEXT]["seccompProfile"];
            compare("seccomp", annotation, profile, &field::child(&at, "seccompProfile"), causes);
        }
    }
    if spec["os"]["name"] == "windows" {
        return;
    }
    for (list, index, container) in containers(spec) {
        let key = format!("{APP_ARMOR}{}", text(container, "name"));
        let at = field::child(&field::index(&field::child(path, list), index), CONTEXT);
        if let Some(annotation) = annotations[&key].as_str() {
            let own = &container[CONTEXT];
            let context = if has(own, "appArmorProfile") { own } else { of_pod };
            let at = field::child(&at, "appArmorProfile");
            compare("apparmor", annotation, &context["appArmorProfile"], &at, causes);
        }
    }
}

/// Checks that an annotation and a field name the same profile. An absent field is not checked.
fn compare(kind: &str, annotation: &str, profile: &Value, at: &str, causes: &mut Causes) {
    let mut refuse = |name: &str, subject: &str| {
        let detail = format!("{kind} {subject} in annotation and field must match");
        causes.push(field::forbidden(&field::child(at, name), &detail));
    };
    let is_default = annotation == "runtime/default" || (kind == "seccomp" && annotation == "docker/default");
    match (text(profile, "type"), annotation.strip_prefix("localhost/")) {
        ("Unconfined", _) if annotation != "unconfined" => refuse("type", "type"),
        ("RuntimeDefault", _) if !is_default => refuse("type", "type"),
        ("Localhost", None) => refuse("type", "type"),
        ("Localhost", Some(file)) if profile["localhostProfile"] != file => {
            refuse("localhostProfile", "profile");
        }
        _ => {}
    }
}

/// Whether a text is a cost of deletion: a number without a plus sign or zeros before it.
fn is_deletion_cost(text: &str) -> bool {
    let has_leading_zero = text.len() > 1 && text.starts_with('0');
    !text.starts_with('+') && !has_leading_zero && text.parse::<i32>().is_ok()
}

fn validate_seccomp(profile: &Value, path: &str, causes: &mut Causes) {
    match profile.as_str().unwrap_or_default() {
        "runtime/default" | "docker/default" | "unconfined" => {}
        other => match other.strip_prefix("localhost/") {
            Some(file) => volume_source::validate_descending_path(file, path, causes),
            None => causes.push(field::invalid(path, profile, "must be a valid seccomp profile")),
        },
    }
}

/// Returns all containers of a specification, each with its list and index.
fn containers(spec: &Value) -> impl Iterator<Item = (&'static str, usize, &Value)> {
    CONTAINERS.into_iter().flat_map(|list| {
        items(&spec[list]).iter().enumerate().map(move |(index, container)| (list, index, container))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn deletion_cost_is_a_number() {
        for text in ["0", "-5", "2147483647"] {
            assert!(is_deletion_cost(text), "{text}");
        }
        for text in ["", "+1", "007", "2147483648", "x"] {
            assert!(!is_deletion_cost(text), "{text}");
        }
    }

    #[test]
    fn annotation_and_field_name_the_same_profile() {
        let spec = json!({
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "c", "securityContext": {
                "appArmorProfile": {"type": "Localhost", "localhostProfile": "a"},
            }}],
        });
        let fields = |seccomp: &str, app_armor: &str| -> Vec<String> {
            let annotations = json!({SECCOMP_OF_POD: seccomp, "container.apparmor.security.beta.kubernetes.io/c": app_armor});
            let mut causes = Causes::default();
            validate_profiles(&annotations, &spec, "spec", &mut causes);
            causes.iter().map(|cause| cause.field.clone()).collect()
        };
        assert_eq!(fields("docker/default", "localhost/a"), [""; 0]);
        assert_eq!(
            fields("unconfined", "localhost/b"),
            [
                "spec.securityContext.seccompProfile.type",
                "spec.containers[0].securityContext.appArmorProfile.localhostProfile",
            ]
        );
    }
}
