//! LimitRanges.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{entries, items, push_invalid, quantity, text};
use crate::schema::{field, names};
use crate::status::Causes;

pub(super) fn validate_limit_range(spec: &Value, causes: &mut Causes) {
    let mut types = BTreeSet::new();
    for (index, limit) in items(&spec["limits"]).iter().enumerate() {
        let at = field::index("spec.limits", index);
        let kind = text(limit, "type");
        push_invalid(causes, &field::child(&at, "type"), kind, names::qualified_name_errors(kind));
        if !types.insert(kind) {
            causes.push(field::duplicate(&field::child(&at, "type"), &Value::from(kind)));
        }
        if kind == "Pod" {
            for name in ["default", "defaultRequest"] {
                if entries(limit.get(name)).next().is_some() {
                    let detail = "may not be specified when `type` is 'Pod'";
                    causes.push(field::forbidden(&field::child(&at, name), detail));
                }
            }
        }
        let lists = ["min", "max", "default", "defaultRequest"];
        let resources: BTreeSet<&str> =
            lists.iter().flat_map(|list| entries(limit.get(*list))).map(|(name, _)| name.as_str()).collect();
        for resource in resources {
            validate_bounds(limit, resource, &at, causes);
        }
    }
}

/// Checks that the minimum, the defaults and the maximum of a resource are in this order.
fn validate_bounds(limit: &Value, resource: &str, at: &str, causes: &mut Causes) {
    let amount = |list: &str| limit[list].get(resource).filter(|amount| !amount.is_null());
    // The smaller and the greater amount, whose field has the cause, and the texts of both.
    let rules = [
        ("min", "max", "min", "min", "max"),
        ("min", "defaultRequest", "defaultRequest", "min", "default request"),
        ("defaultRequest", "max", "defaultRequest", "default request", "max"),
        ("defaultRequest", "default", "defaultRequest", "default request", "default limit"),
        ("min", "default", "default", "min", "default"),
        ("default", "max", "default", "default", "max"),
    ];
    for (smaller, greater, list, smaller_text, greater_text) in rules {
        let (Some(less), Some(more)) = (amount(smaller), amount(greater)) else { continue };
        if quantity::nanos(less) <= quantity::nanos(more) {
            continue;
        }
        let show = |amount: &Value| quantity::canonical(amount).unwrap_or_default();
        let detail = format!(
            "{smaller_text} value {} is greater than {greater_text} value {}",
            show(less),
            show(more)
        );
        // kube-apiserver shows the other amount of a default limit.
        let shown = match (list, smaller) {
            ("default", "min") => less,
            ("default", _) => more,
            _ => amount(list).unwrap_or(&Value::Null),
        };
        let path = field::key(&field::child(at, list), resource);
        causes.push(field::invalid(&path, &Value::from(show(shown)), &detail));
    }
}
