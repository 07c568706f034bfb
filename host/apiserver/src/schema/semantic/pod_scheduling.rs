//! Where Pods run: scheduling gates, affinities and topology spread constraints.

use std::collections::BTreeSet;

use pilothouse_model::hash::HashMap;
use serde_json::Value;

use super::{entries, has, items, names, push_invalid, text, validate_label_selector, validate_one_of};
use crate::schema::field;
use crate::status::Causes;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Checks the affinities of the specification at `path`.
pub(super) fn validate_affinity(spec: &Value, path: &str, causes: &mut Causes) {
    let (affinity, at) = (&spec["affinity"], field::child(path, "affinity"));
    validate_node_affinity(&affinity["nodeAffinity"], &field::child(&at, "nodeAffinity"), causes);
    for name in ["podAffinity", "podAntiAffinity"] {
        validate_pod_affinity(&affinity[name], &field::child(&at, name), causes);
    }
}

fn validate_node_affinity(affinity: &Value, path: &str, causes: &mut Causes) {
    if has(affinity, REQUIRED) {
        validate_node_selector(&affinity[REQUIRED], &field::child(path, REQUIRED), causes);
    }
    for (index, preferred) in items(&affinity[PREFERRED]).iter().enumerate() {
        let at = field::index(&field::child(path, PREFERRED), index);
        validate_weight(preferred, &at, causes);
        // A preference that no Node can fulfil does no harm.
        validate_term(&preferred["preference"], &field::child(&at, "preference"), false, causes);
    }
}

/// Checks a selector of Nodes at `path`.
pub(super) fn validate_node_selector(selector: &Value, path: &str, causes: &mut Causes) {
    let (terms, at) = (items(&selector["nodeSelectorTerms"]), field::child(path, "nodeSelectorTerms"));
    if terms.is_empty() {
        causes.push(field::required(&at, "must have at least one node selector term"));
    }
    for (index, term) in terms.iter().enumerate() {
        validate_term(term, &field::index(&at, index), true, causes);
    }
}

fn validate_weight(preferred: &Value, at: &str, causes: &mut Causes) {
    if !(1..=100).contains(&preferred["weight"].as_i64().unwrap_or(0)) {
        let path = field::child(at, "weight");
        causes.push(field::invalid(&path, &preferred["weight"], "must be in the range 1-100"));
    }
}

fn validate_term(term: &Value, path: &str, checks_values: bool, causes: &mut Causes) {
    for (index, requirement) in items(&term["matchExpressions"]).iter().enumerate() {
        let at = field::index(&field::child(path, "matchExpressions"), index);
        let (operator, values) = (text(requirement, "operator"), items(&requirement["values"]));
        let at_values = field::child(&at, "values");
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                causes.push(field::required(&at_values, detail));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                causes.push(field::forbidden(&at_values, detail));
            }
            "Gt" | "Lt" if values.len() != 1 => {
                let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                causes.push(field::required(&at_values, detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => {
                let path = field::child(&at, "operator");
                causes.push(field::invalid(&path, &other.into(), "not a valid selector operator"));
            }
        }
        let key = text(requirement, "key");
        push_invalid(causes, &field::child(&at, "key"), key, names::qualified_name_errors(key));
        for (index, value) in values.iter().enumerate().filter(|_| checks_values) {
            let value = value.as_str().unwrap_or_default();
            push_invalid(causes, &field::index(&at_values, index), value, names::label_value_errors(value));
        }
    }
    validate_field_requirements(term, path, causes);
}

/// Checks the requirements on the fields of Nodes, of which there is one.
fn validate_field_requirements(term: &Value, path: &str, causes: &mut Causes) {
    for (index, requirement) in items(&term["matchFields"]).iter().enumerate() {
        let at = field::index(&field::child(path, "matchFields"), index);
        let (key, operator) = (text(requirement, "key"), text(requirement, "operator"));
        let (values, at_values) = (items(&requirement["values"]), field::child(&at, "values"));
        if !["In", "NotIn"].contains(&operator) {
            let path = field::child(&at, "operator");
            causes.push(field::invalid(&path, &operator.into(), "not a valid selector operator"));
        } else if values.len() != 1 {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            causes.push(field::required(&at_values, detail));
        }
        if key != "metadata.name" {
            let path = field::child(&at, "key");
            causes.push(field::invalid(&path, &key.into(), "not a valid field selector key"));
            continue;
        }
        for (index, value) in values.iter().filter_map(Value::as_str).enumerate() {
            push_invalid(causes, &field::index(&at_values, index), value, names::subdomain_errors(value));
        }
    }
}

/// Checks the label keys whose values of the Pod a selector gets.
fn validate_label_keys(object: &Value, name: &str, path: &str, causes: &mut Causes) {
    let (keys, at) = (items(&object[name]), field::child(path, name));
    if keys.is_empty() {
        return;
    }
    if !object["labelSelector"].is_object() {
        causes.push(field::forbidden(&at, "must not be specified when labelSelector is not set"));
        return;
    }
    for (index, key) in keys.iter().filter_map(Value::as_str).enumerate() {
        push_invalid(causes, &field::index(&at, index), key, names::qualified_name_errors(key));
    }
}

fn validate_pod_affinity(affinity: &Value, path: &str, causes: &mut Causes) {
    for (index, term) in items(&affinity[REQUIRED]).iter().enumerate() {
        validate_pod_term(term, &field::index(&field::child(path, REQUIRED), index), causes);
    }
    for (index, preferred) in items(&affinity[PREFERRED]).iter().enumerate() {
        let at = field::index(&field::child(path, PREFERRED), index);
        validate_weight(preferred, &at, causes);
        validate_pod_term(&preferred["podAffinityTerm"], &field::child(&at, "podAffinityTerm"), causes);
    }
}

fn validate_pod_term(term: &Value, path: &str, causes: &mut Causes) {
    for name in ["labelSelector", "namespaceSelector"] {
        if has(term, name) {
            validate_label_selector(&term[name], &field::child(path, name), causes);
        }
    }
    for namespace in items(&term["namespaces"]).iter().filter_map(Value::as_str) {
        push_invalid(causes, &field::child(path, "namespace"), namespace, names::label_errors(namespace));
    }
    for name in ["matchLabelKeys", "mismatchLabelKeys"] {
        validate_label_keys(term, name, path, causes);
    }
    validate_selected_keys(term, path, causes);
    let others: BTreeSet<&str> = items(&term["mismatchLabelKeys"]).iter().filter_map(Value::as_str).collect();
    for (index, key) in items(&term["matchLabelKeys"]).iter().filter_map(Value::as_str).enumerate() {
        if others.contains(key) {
            let at = field::index(&field::child(path, "matchLabelKeys"), index);
            causes.push(field::invalid(
                &at,
                &key.into(),
                "exists in both matchLabelKeys and mismatchLabelKeys",
            ));
        }
    }
    let (at, key) = (field::child(path, "topologyKey"), text(term, "topologyKey"));
    if key.is_empty() {
        causes.push(field::required(&at, "can not be empty"));
    }
    push_invalid(causes, &at, key, names::qualified_name_errors(key));
}

/// Checks that the label selector has no key of `matchLabelKeys`, except for the requirement that a new Pod gets for it.
fn validate_selected_keys(term: &Value, path: &str, causes: &mut Causes) {
    let selector = &term["labelSelector"];
    let keys = items(&term["matchLabelKeys"]).iter().filter_map(Value::as_str).enumerate();
    let keys: HashMap<&str, usize> = keys.map(|(index, key)| (key, index)).collect();
    if keys.is_empty() || !selector.is_object() {
        return;
    }
    let mut found: BTreeSet<&str> =
        entries(selector.get("matchLabels")).map(|(key, _)| key.as_str()).collect();
    for requirement in items(&selector["matchExpressions"]) {
        let key = text(requirement, "key");
        if let Some(index) = keys.get(key).filter(|_| found.contains(key)) {
            // As in Kubernetes, the path does not name the list.
            let detail = "exists in both matchLabelKeys and labelSelector";
            causes.push(field::invalid(&field::index(path, *index), &key.into(), detail));
        }
        found.insert(key);
    }
}

/// Checks the scheduling gates of the specification at `path`.
pub(super) fn validate_gates(spec: &Value, path: &str, causes: &mut Causes) {
    let mut found = BTreeSet::new();
    for (index, gate) in items(&spec["schedulingGates"]).iter().enumerate() {
        let at = field::index(&field::child(path, "schedulingGates"), index);
        let name = text(gate, "name");
        push_invalid(causes, &at, name, names::qualified_name_errors(name));
        if !found.insert(name) {
            causes.push(field::duplicate(&at, &name.into()));
        }
    }
}

/// Checks the topology spread constraints of the specification at `path`.
pub(super) fn validate_spread(spec: &Value, path: &str, causes: &mut Causes) {
    let constraints = items(&spec["topologySpreadConstraints"]);
    let key = |constraint| (text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable"));
    let last: HashMap<(&str, &str), usize> =
        constraints.iter().enumerate().map(|(index, constraint)| (key(constraint), index)).collect();
    for (index, constraint) in constraints.iter().enumerate() {
        let at = field::index(&field::child(path, "topologySpreadConstraints"), index);
        let skew = &constraint["maxSkew"];
        if skew.as_i64().unwrap_or(0) <= 0 {
            causes.push(field::invalid(&field::child(&at, "maxSkew"), skew, "must be greater than zero"));
        }
        if text(constraint, "topologyKey").is_empty() {
            causes.push(field::required(&field::child(&at, "topologyKey"), "can not be empty"));
        }
        let kind = text(constraint, "whenUnsatisfiable");
        let kinds = ["DoNotSchedule", "ScheduleAnyway"];
        if !kinds.contains(&kind) {
            let path = field::child(&at, "whenUnsatisfiable");
            causes.push(field::not_supported(&path, &kind.into(), &kinds));
        }
        if last.get(&key(constraint)).is_some_and(|last| *last > index) {
            let shown = format!("{{{}, {kind}}}", text(constraint, "topologyKey"));
            let path = field::child(&at, "{topologyKey, whenUnsatisfiable}");
            causes.push(field::duplicate(&path, &shown.into()));
        }
        validate_spread_options(constraint, &at, causes);
    }
}

fn validate_spread_options(constraint: &Value, at: &str, causes: &mut Causes) {
    let (domains, at_domains) = (&constraint["minDomains"], field::child(at, "minDomains"));
    if let Some(count) = domains.as_i64() {
        if count <= 0 {
            causes.push(field::invalid(&at_domains, domains, "must be greater than zero"));
        }
        let kind = text(constraint, "whenUnsatisfiable");
        if kind != "DoNotSchedule" {
            let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {kind}");
            causes.push(field::invalid(&at_domains, domains, &detail));
        }
    }
    for name in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        validate_one_of(constraint, name, at, &["Honor", "Ignore"], causes);
    }
    let selector = &constraint["labelSelector"];
    validate_label_keys(constraint, "matchLabelKeys", at, causes);
    validate_selected_keys(constraint, at, causes);
    if selector.is_object() {
        validate_label_selector(selector, &field::child(at, "labelSelector"), causes);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_of_nodes_and_label_keys_are_checked() {
        let fields = |requirement: Value| json!({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [requirement]}]}}});
        let term = |term: Value| json!({"podAffinity": {REQUIRED: [term]}});
        for (affinity, expected) in [
            (fields(json!({"key": "metadata.name", "operator": "In", "values": ["a"]})), None),
            (fields(json!({"key": "x", "operator": "In", "values": ["a"]})), Some("key")),
            (fields(json!({"key": "metadata.name", "operator": "Gt", "values": ["a"]})), Some("operator")),
            (fields(json!({"key": "metadata.name", "operator": "In", "values": ["a", "b"]})), Some("values")),
            (fields(json!({"key": "metadata.name", "operator": "In", "values": ["A b"]})), Some("values[0]")),
            (term(json!({"topologyKey": "t", "matchLabelKeys": ["a"], "labelSelector": {}})), None),
            (term(json!({"topologyKey": "t", "matchLabelKeys": ["a"]})), Some("matchLabelKeys")),
            (
                term(json!({"topologyKey": "t", "matchLabelKeys": ["a b"], "labelSelector": {}})),
                Some("matchLabelKeys[0]"),
            ),
            (
                term(
                    json!({"topologyKey": "t", "matchLabelKeys": ["a"], "mismatchLabelKeys": ["a"], "labelSelector": {}}),
                ),
                Some("matchLabelKeys[0]"),
            ),
        ] {
            let mut causes = Causes::default();
            validate_affinity(&json!({"affinity": affinity}), "spec", &mut causes);
            let found: Vec<&str> = causes.iter().filter_map(|cause| cause.field.rsplit('.').next()).collect();
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{affinity}");
        }
    }

    #[test]
    fn constraints_are_duplicates_of_later_ones() {
        let constraint =
            |key: String| json!({"topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1});
        // 10^10 pairs would take minutes.
        let mut constraints: Vec<Value> = (0..100_000).map(|index| constraint(index.to_string())).collect();
        constraints.push(constraint("1".to_owned()));
        let mut causes = Causes::default();
        validate_spread(&json!({"topologySpreadConstraints": constraints}), "spec", &mut causes);
        let found: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(found, ["spec.topologySpreadConstraints[1].{topologyKey, whenUnsatisfiable}"]);
    }
}
