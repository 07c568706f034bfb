//! The admission plugin `PodTopologyLabels`: a Pod gets the zone and the region of its Node, after
//! `k8s.io/kubernetes/plugin/pkg/admission/podtopologylabels`.

use serde_json::Value;

use crate::admission_plugins::AdmissionPlugin;
use crate::meta;
use crate::state::State;

/// The labels that are copied.
const LABELS: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

/// Copies the labels of a Node to a Pod or a Binding. A Node that does not exist has none.
pub(crate) fn copy(state: &State, node: &str, object: &mut Value) {
    if node.is_empty() || !state.plugins.acts(AdmissionPlugin::PodTopologyLabels) {
        return;
    }
    let registry = state.registry();
    let nodes = registry.endpoint("", "v1", "nodes");
    let Some(node) = nodes.and_then(|nodes| nodes.resource.table.get("", node)) else { return };
    let node = node.value();
    let found = LABELS.iter().filter_map(|label| Some((*label, node["metadata"]["labels"].get(label)?)));
    for (label, value) in found {
        set_label(object, label, value);
    }
}

/// Sets a label of an object.
pub(in crate::rest) fn set_label(object: &mut Value, label: &str, value: &Value) {
    let labels = meta::metadata_mut(object).entry("labels").or_insert(Value::Null);
    labels[label] = value.clone();
}
