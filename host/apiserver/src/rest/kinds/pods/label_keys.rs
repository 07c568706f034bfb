//! `matchLabelKeys` and `mismatchLabelKeys`, which become requirements of the label selectors of a new Pod, as in
//! `k8s.io/kubernetes/pkg/registry/core/pod/strategy.go`.

use serde_json::{Value, json};

/// Adds the requirements to the terms of pod affinity and to the topology spread constraints of a new Pod.
pub(in crate::rest) fn merge_label_keys(pod: &mut Value) {
    let labels = pod["metadata"]["labels"].clone();
    let Some(spec) = pod.get_mut("spec") else { return };
    for affinity in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.get_mut("affinity").and_then(|all| all.get_mut(affinity)) else { continue };
        for preferred in list(affinity, "preferredDuringSchedulingIgnoredDuringExecution") {
            if let Some(term) = preferred.get_mut("podAffinityTerm") {
                merge(term, &labels);
            }
        }
        for term in list(affinity, "requiredDuringSchedulingIgnoredDuringExecution") {
            merge(term, &labels);
        }
    }
    for constraint in list(spec, "topologySpreadConstraints") {
        merge(constraint, &labels);
    }
}

/// Adds a requirement for each key that the Pod has a label for. A term without a selector matches nothing and stays as it is.
fn merge(term: &mut Value, labels: &Value) {
    if !term["labelSelector"].is_object() {
        return;
    }
    let mut added = Vec::new();
    for (member, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in term[member].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if let Some(value) = labels.get(key) {
                added.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    if added.is_empty() {
        return;
    }
    let expressions = &mut term["labelSelector"]["matchExpressions"];
    match expressions.as_array_mut() {
        Some(expressions) => expressions.extend(added),
        None => *expressions = added.into(),
    }
}

fn list<'a>(object: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_keys_become_requirements() {
        let term = json!({"labelSelector": {}, "matchLabelKeys": ["a", "none"], "mismatchLabelKeys": ["b"]});
        let mut pod = json!({
            "metadata": {"labels": {"a": "x", "b": "y"}},
            "spec": {
                "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": term}]}},
                "topologySpreadConstraints": [{"matchLabelKeys": ["a"]}],
            },
        });
        let unchanged = pod["spec"]["topologySpreadConstraints"].clone();
        merge_label_keys(&mut pod);
        let path = "/spec/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution/0/podAffinityTerm/labelSelector";
        let expected = json!({"matchExpressions": [
            {"key": "a", "operator": "In", "values": ["x"]}, {"key": "b", "operator": "NotIn", "values": ["y"]},
        ]});
        assert_eq!(pod.pointer(path), Some(&expected));
        assert_eq!(pod["spec"]["topologySpreadConstraints"], unchanged, "no selector matches no Pod");
    }
}
