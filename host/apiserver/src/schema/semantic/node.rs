//! Nodes.

use pilothouse_model::hash::HashSet;
use serde_json::Value;

use super::ip::CIDR;
use super::network::parse_cidr;
use super::pod::TAINT_EFFECTS;
use super::{NOT_NEGATIVE, entries, has, items, names, push_invalid, quantity, text, validate_one_of};
use crate::schema::field;
use crate::status::Causes;

pub(super) fn validate(new: &Value, old: Option<&Value>, causes: &mut Causes) {
    let spec = &new["spec"];
    validate_taints(spec, causes);
    validate_amounts(&new["status"], causes);
    if old.is_none() {
        validate_ranges(spec, causes);
    }
}

/// Checks what a Node has. What it can allocate is by default the same.
fn validate_amounts(status: &Value, causes: &mut Causes) {
    for name in ["capacity", "allocatable"] {
        let source = if has(status, name) { name } else { "capacity" };
        for (resource, amount) in entries(status.get(source)) {
            if quantity::nanos(amount).is_some_and(|nanos| nanos < 0) {
                let path = field::child(&field::child("status", name), resource);
                causes.push(field::invalid(&path, &quantity::canonical(amount).into(), NOT_NEGATIVE));
            }
        }
    }
}

/// Checks the ranges of the addresses of a Node's Pods: at most one for each IP family.
fn validate_ranges(spec: &Value, causes: &mut Causes) {
    const PATH: &str = "spec.podCIDRs";
    let (single, listed) = (text(spec, "podCIDR"), items(&spec["podCIDRs"]));
    let listed: Vec<&str> = listed.iter().filter_map(Value::as_str).collect();
    // A single range that is not the first of the list replaces the list.
    let ranges = if single.is_empty() || listed.first() == Some(&single) { listed } else { vec![single] };
    let parsed: Vec<_> = ranges.iter().map(|range| parse_cidr(range)).collect();
    for (index, range) in ranges.iter().enumerate().filter(|(index, _)| parsed[*index].is_none()) {
        causes.push(field::invalid(&field::index(PATH, index), &Value::from(*range), CIDR));
    }
    let families: Option<Vec<bool>> =
        parsed.iter().map(|range| range.map(|(address, _)| address.is_ipv4())).collect();
    if families
        .is_some_and(|families| families.len() > 2 || (families.len() == 2 && families[0] == families[1]))
    {
        let detail = "may specify no more than one CIDR for each IP family";
        causes.push(field::invalid(PATH, &ranges.into(), detail));
    }
}

/// Checks the taints in the specification of a Node. Their path is that of kube-apiserver.
fn validate_taints(spec: &Value, causes: &mut Causes) {
    let mut found = HashSet::default();
    for (index, taint) in items(&spec["taints"]).iter().enumerate() {
        let at = field::index("metadata.taints", index);
        let [key, value, effect] = ["key", "value", "effect"].map(|name| text(taint, name));
        push_invalid(causes, &field::child(&at, "key"), key, names::qualified_name_errors(key));
        let errors = names::label_value_errors(value);
        if !errors.is_empty() {
            causes.push(field::invalid(&field::child(&at, "value"), &value.into(), &errors.join(";")));
        }
        if effect.is_empty() {
            causes.push(field::required(&field::child(&at, "effect"), ""));
        } else {
            validate_one_of(taint, "effect", &at, &TAINT_EFFECTS, causes);
        }
        if !found.insert((key, effect)) {
            let shown =
                format!("{{\"Key\":{key:?},\"Value\":{value:?},\"Effect\":{effect:?},\"TimeAdded\":null}}");
            let mut cause = field::duplicate_shown(&at, &shown);
            cause.message += ": taints must be unique by key and effect pair";
            causes.push(cause);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn taints_are_unique_by_key_and_effect() {
        // 10^10 pairs would take minutes.
        let mut taints: Vec<Value> =
            (0..100_000).map(|index| json!({"key": format!("k{index}"), "effect": "NoSchedule"})).collect();
        taints.push(json!({"key": "k1", "effect": "NoExecute"}));
        taints.push(json!({"key": "k1", "effect": "NoSchedule"}));
        let mut causes = Causes::default();
        validate_taints(&json!({"taints": taints}), &mut causes);
        let found: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(found, ["metadata.taints[100001]"]);
    }
}
