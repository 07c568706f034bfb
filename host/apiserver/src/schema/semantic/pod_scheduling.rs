//! Where Pods run: scheduling gates, affinities and topology spread constraints.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{has, items, names, push_invalid, text, validate_label_selector, validate_one_of};
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
        let at = field::child(&field::child(path, REQUIRED), "nodeSelectorTerms");
        let terms = items(&affinity[REQUIRED]["nodeSelectorTerms"]);
        if terms.is_empty() {
            causes.push(field::required(&at, "must have at least one node selector term"));
        }
        for (index, term) in terms.iter().enumerate() {
            validate_term(term, &field::index(&at, index), true, causes);
        }
    }
    for (index, preferred) in items(&affinity[PREFERRED]).iter().enumerate() {
        let at = field::index(&field::child(path, PREFERRED), index);
        validate_weight(preferred, &at, causes);
        // A preference that no Node can fulfil does no harm.
        validate_term(&preferred["preference"], &field::child(&at, "preference"), false, causes);
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
    let (at, key) = (field::child(path, "topologyKey"), text(term, "topologyKey"));
    if key.is_empty() {
        causes.push(field::required(&at, "can not be empty"));
    }
    push_invalid(causes, &at, key, names::qualified_name_errors(key));
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
        let is_same = |other: &&Value| {
            ["topologyKey", "whenUnsatisfiable"]
                .iter()
                .all(|name| text(other, name) == text(constraint, name))
        };
        if constraints[index + 1..].iter().any(|other| is_same(&other)) {
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
    if !items(&constraint["matchLabelKeys"]).is_empty() && !selector.is_object() {
        let path = field::child(at, "matchLabelKeys");
        causes.push(field::forbidden(&path, "must not be specified when labelSelector is not set"));
    }
    if selector.is_object() {
        validate_label_selector(selector, &field::child(at, "labelSelector"), causes);
    }
}
