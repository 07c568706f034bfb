//! The warnings about claims, volumes, StorageClasses and Nodes, after `k8s.io/kubernetes/pkg/api`.

use serde_json::Value;

use super::pods::warnings::{VOLUMES, node_label_message};
use crate::registry::Endpoint;
use crate::schema::{field, quantity};

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const OPTIONS_ANNOTATION: &str = "volume.beta.kubernetes.io/mount-options";
const INSTEAD: &str = "attribute instead";

/// Returns the warnings about a new or changed object of one of these kinds.
pub(in crate::rest) fn of_object(endpoint: &Endpoint, value: &Value, is_new: bool) -> Vec<String> {
    match (endpoint.resource.group.as_str(), endpoint.resource.names.plural.as_str()) {
        ("", "persistentvolumeclaims") => of_claim(value),
        ("", "persistentvolumes") => of_volume(value),
        ("", "nodes") => of_node(&value["spec"]),
        ("storage.k8s.io", "storageclasses") => of_class(&value["allowedTopologies"]),
        ("apps", "statefulsets") => of_stateful_set(&value["spec"], is_new),
        _ => Vec::new(),
    }
}

fn of_stateful_set(spec: &Value, is_new: bool) -> Vec<String> {
    // As in Kubernetes, the paths in warnings about updates are others.
    let suffix = if is_new { "" } else { ".Spec" };
    let templates = items(&spec["volumeClaimTemplates"]).iter().enumerate();
    let mut warnings: Vec<String> = templates
        .flat_map(|(index, claim)| {
            let at = field::index("spec.volumeClaimTemplates", index);
            of_claim_spec(&claim["spec"], &format!("{at}{suffix}"))
        })
        .collect();
    if spec["revisionHistoryLimit"].as_i64().is_some_and(|limit| limit < 0) {
        warnings.push(
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended".to_owned(),
        );
    }
    warnings
}

fn of_claim(claim: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if !claim["metadata"]["annotations"][CLASS_ANNOTATION].is_null() {
        warnings.push(format!(
            "metadata.annotations[{CLASS_ANNOTATION}]: deprecated since v1.8; use \"storageClassName\" {INSTEAD}"
        ));
    }
    warnings.extend(of_claim_spec(&claim["spec"], "spec"));
    warnings
}

/// Returns the warnings about the specification of a claim: its sizes are whole numbers of bytes.
pub(super) fn of_claim_spec(spec: &Value, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    for list in ["requests", "limits"] {
        let amount = &spec["resources"][list]["storage"];
        if quantity::nanos(amount).is_some_and(|nanos| nanos % 1_000_000_000 != 0) {
            let shown = quantity::canonical(amount).unwrap_or_default();
            let at = field::key(&field::child(&field::child(path, "resources"), list), "storage");
            warnings.push(format!("{at}: fractional byte value {shown:?} is invalid, must be an integer"));
        }
    }
    warnings
}

fn of_volume(volume: &Value) -> Vec<String> {
    let (mut warnings, spec) = (Vec::new(), &volume["spec"]);
    for (annotation, since, attribute) in
        [(CLASS_ANNOTATION, "v1.8", "storageClassName"), (OPTIONS_ANNOTATION, "v1.31", "mountOptions")]
    {
        if !volume["metadata"]["annotations"][annotation].is_null() {
            warnings.push(format!(
                "metadata.annotations[{annotation}]: deprecated since {since}; use \"{attribute}\" {INSTEAD}"
            ));
        }
    }
    if spec["persistentVolumeReclaimPolicy"] == "Recycle" {
        warnings.push(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to \
             use dynamic provisioning."
                .to_owned(),
        );
    }
    let terms = &spec["nodeAffinity"]["required"]["nodeSelectorTerms"];
    for (index, term) in items(terms).iter().enumerate() {
        let at = field::index("spec.nodeAffinity.required.nodeSelectorTerms", index);
        for (index, expression) in items(&term["matchExpressions"]).iter().enumerate() {
            let key = expression["key"].as_str().unwrap_or_default();
            if let Some(message) = node_label_message(key) {
                let at = field::index(&field::child(&at, "matchExpressions"), index);
                warnings.push(format!("{at}.key: {key} is {message}"));
            }
        }
    }
    // Kubernetes has no such warnings about volumes of Flocker and Quobyte.
    let sources = VOLUMES.iter().filter(|(source, ..)| !["gitRepo", "flocker", "quobyte"].contains(source));
    for (_, shown, message) in sources.filter(|(source, ..)| !spec[*source].is_null()) {
        warnings.push(format!("spec.{shown}: {message}"));
    }
    warnings
}

fn of_class(topologies: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, term) in items(topologies).iter().enumerate() {
        let at = field::index("allowedTopologies", index);
        for (index, expression) in items(&term["matchLabelExpressions"]).iter().enumerate() {
            if let Some(message) = node_label_message(expression["key"].as_str().unwrap_or_default()) {
                let at = field::index(&field::child(&at, "matchLabelExpressions"), index);
                warnings.push(format!("{at}.key: {message}"));
            }
        }
    }
    warnings
}

fn of_node(spec: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if !spec["configSource"].is_null() {
        warnings.push("spec.configSource: the feature is removed".to_owned());
    }
    if spec["externalID"].as_str().is_some_and(|id| !id.is_empty()) {
        warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
    warnings
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn old_annotations_and_fractions_of_bytes_are_reported() {
        let claim = json!({
            "metadata": {"annotations": {CLASS_ANNOTATION: "c"}},
            "spec": {"resources": {"requests": {"storage": "1500m"}, "limits": {"storage": "1Gi"}}},
        });
        assert_eq!(
            of_claim(&claim),
            [
                "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use \"storageClassName\" \
                 attribute instead",
                "spec.resources.requests[storage]: fractional byte value \"1500m\" is invalid, must be an integer",
            ]
        );
    }

    #[test]
    fn sources_and_labels_that_others_replaced_are_reported() {
        let term = json!({"matchExpressions": [{"key": "beta.kubernetes.io/os"}]});
        let volume = json!({"spec": {
            "persistentVolumeReclaimPolicy": "Recycle", "rbd": {}, "quobyte": {},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        }});
        let warnings = of_volume(&volume);
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        assert!(
            warnings[1].contains("matchExpressions[0].key: beta.kubernetes.io/os is deprecated since v1.14")
        );
        assert_eq!(warnings[2], "spec.rbd: deprecated in v1.28, non-functional in v1.31+");
        let class = json!([{"matchLabelExpressions": [{"key": "beta.kubernetes.io/arch"}]}]);
        assert_eq!(of_class(&class).len(), 1);
    }
}
