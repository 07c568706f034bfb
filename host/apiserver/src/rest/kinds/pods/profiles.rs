//! The deprecated annotations that name the AppArmor and seccomp profiles of containers, after `applyAppArmorVersionSkew` in
//! `k8s.io/kubernetes/pkg/registry/core/pod` and the warnings of `k8s.io/kubernetes/pkg/api/pod`.

use serde_json::{Value, json};

use crate::schema::field;

const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP: &str = "container.seccomp.security.alpha.kubernetes.io/";
const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Sets the AppArmor profiles of a new Pod's containers that only annotations name. Returns warnings.
pub(in crate::rest) fn set_app_armor(pod: &mut Value) -> Vec<String> {
    let annotations = pod["metadata"]["annotations"].clone();
    let has_annotation = |name: &String| name.starts_with(APP_ARMOR);
    let is_named = annotations.as_object().is_some_and(|all| all.keys().any(has_annotation));
    if !is_named || pod["spec"]["os"]["name"] == "windows" {
        return Vec::new();
    }
    let of_pod = pod["spec"]["securityContext"]["appArmorProfile"].clone();
    let mut warnings = Vec::new();
    for list in CONTAINERS {
        let containers = pod["spec"].get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let key = format!("{APP_ARMOR}{}", container["name"].as_str().unwrap_or_default());
            let Some(annotation) = annotations[&key].as_str() else { continue };
            if !container["securityContext"]["appArmorProfile"].is_null() {
                continue;
            }
            let named = app_armor(annotation);
            if named.as_ref() == Some(&of_pod) {
                continue;
            }
            warnings.push(app_armor_warning("", &key));
            if let Some(profile) = named {
                container["securityContext"]["appArmorProfile"] = profile;
            }
        }
    }
    warnings
}

/// Returns the warning about the seccomp profile of a Pod or a template at `path`.
pub(super) fn warning_of_pod(object: &Value, path: &str) -> Option<String> {
    let has_field = !object["spec"]["securityContext"]["seccompProfile"].is_null();
    let is_named = !object["metadata"]["annotations"][SECCOMP_OF_POD].is_null();
    (is_named && !has_field).then(|| seccomp_warning(path, SECCOMP_OF_POD))
}

/// Returns the warnings about the profiles of a container of a Pod or a template at `path`, which is empty for a Pod. Those about the AppArmor
/// profiles of a Pod are of [`set_app_armor`].
pub(super) fn warnings_of_container(object: &Value, path: &str, container: &Value) -> Vec<String> {
    let (annotations, context) = (&object["metadata"]["annotations"], &container["securityContext"]);
    let name = container["name"].as_str().unwrap_or_default();
    let mut warnings = Vec::new();
    let key = format!("{SECCOMP}{name}");
    if context["seccompProfile"].is_null() && !annotations[&key].is_null() {
        warnings.push(seccomp_warning(path, &key));
    }
    let key = format!("{APP_ARMOR}{name}");
    if let Some(annotation) = annotations[&key].as_str()
        && !path.is_empty()
        && context["appArmorProfile"].is_null()
    {
        let of_pod = &object["spec"]["securityContext"]["appArmorProfile"];
        if of_pod.is_null() || app_armor(annotation).as_ref() != Some(of_pod) {
            warnings.push(app_armor_warning(path, &key));
        }
    }
    warnings
}

/// Returns the AppArmor profile that an annotation names, or `None` if it is malformed.
fn app_armor(annotation: &str) -> Option<Value> {
    match (annotation, annotation.strip_prefix("localhost/")) {
        ("unconfined", _) => Some(json!({"type": "Unconfined"})),
        ("runtime/default", _) => Some(json!({"type": "RuntimeDefault"})),
        (_, Some(name)) if !name.is_empty() && name.trim() == name => {
            Some(json!({"type": "Localhost", "localhostProfile": name}))
        }
        _ => None,
    }
}

fn app_armor_warning(path: &str, key: &str) -> String {
    let at = field::key(&field::child(path, "metadata.annotations"), key);
    format!("{at}: deprecated since v1.30; use the \"appArmorProfile\" field instead")
}

fn seccomp_warning(path: &str, key: &str) -> String {
    let at = field::key(&field::child(path, "metadata.annotations"), key);
    format!("{at}: non-functional in v1.27+; use the \"seccompProfile\" field instead")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(annotation: &str, of_pod: Value) -> Value {
        let key = format!("{APP_ARMOR}c");
        let mut pod = json!({
            "metadata": {"annotations": {key: annotation}}, "spec": {"containers": [{"name": "c"}], "securityContext": {}},
        });
        if !of_pod.is_null() {
            pod["spec"]["securityContext"]["appArmorProfile"] = of_pod;
        }
        pod
    }

    #[test]
    fn profile_of_an_annotation_becomes_that_of_the_container() {
        let mut named = pod("localhost/a", Value::Null);
        assert_eq!(set_app_armor(&mut named).len(), 1);
        assert_eq!(
            named["spec"]["containers"][0]["securityContext"]["appArmorProfile"],
            json!({"type": "Localhost", "localhostProfile": "a"})
        );
    }

    #[test]
    fn profile_of_the_pod_is_not_repeated() {
        let mut same = pod("unconfined", json!({"type": "Unconfined"}));
        let before = same.clone();
        assert_eq!(set_app_armor(&mut same), [""; 0]);
        assert_eq!(same, before);
    }

    #[test]
    fn malformed_annotation_raises_a_warning() {
        let mut malformed = pod("bad", Value::Null);
        let before = malformed.clone();
        assert_eq!(set_app_armor(&mut malformed).len(), 1);
        assert_eq!(malformed, before);
    }
}
