//! LimitRanges.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{container_resources, entries, items, push_invalid, quantity, quota, text};
use crate::schema::{field, names};
use crate::status::Causes;

/// The types without a domain.
const TYPES: [&str; 3] = ["Pod", "Container", "PersistentVolumeClaim"];

pub(super) fn validate_limit_range(spec: &Value, causes: &mut Causes) {
    let mut types = BTreeSet::new();
    for (index, limit) in items(&spec["limits"]).iter().enumerate() {
        let at = field::index("spec.limits", index);
        let kind = text(limit, "type");
        validate_type(kind, &field::child(&at, "type"), causes);
        if !types.insert(kind) {
            causes.push(field::duplicate(&field::child(&at, "type"), &Value::from(kind)));
        }
        for list in ["max", "min"] {
            validate_names(limit, kind, list, &at, causes);
        }
        if kind == "Pod" {
            for name in ["default", "defaultRequest"] {
                if entries(limit.get(name)).next().is_some() {
                    let detail = "may not be specified when `type` is 'Pod'";
                    causes.push(field::forbidden(&field::child(&at, name), detail));
                }
            }
        } else {
            for list in ["default", "defaultRequest"] {
                validate_names(limit, kind, list, &at, causes);
            }
        }
        if kind == "PersistentVolumeClaim"
            && ["min", "max"].iter().all(|list| limit[*list]["storage"].is_null())
        {
            let detail = "either minimum or maximum storage value is required, but neither was provided";
            causes.push(field::required(&field::child(&at, "limits"), detail));
        }
        validate_names(limit, kind, "maxLimitRequestRatio", &at, causes);
        let lists = ["min", "max", "default", "defaultRequest", "maxLimitRequestRatio"];
        let resources: BTreeSet<&str> =
            lists.iter().flat_map(|list| entries(limit.get(*list))).map(|(name, _)| name.as_str()).collect();
        for resource in resources {
            validate_bounds(limit, resource, &at, causes);
            validate_ratio(limit, resource, &at, causes);
        }
    }
}

fn validate_type(kind: &str, path: &str, causes: &mut Causes) {
    let errors = names::qualified_name_errors(kind);
    if errors.is_empty() && !kind.contains('/') && !TYPES.contains(&kind) {
        let detail = "must be a standard limit type or fully qualified";
        causes.push(field::invalid(path, &kind.into(), detail));
    }
    push_invalid(causes, path, kind, errors);
}

/// Checks the names of the resources of a list.
fn validate_names(limit: &Value, kind: &str, list: &str, at: &str, causes: &mut Causes) {
    for (name, _) in entries(limit.get(list)) {
        let path = field::key(&field::child(at, list), name);
        if kind == "Pod" || kind == "Container" {
            quota::validate_container_resource(name, &path, causes);
        } else {
            quota::validate_resource(name, &path, causes);
        }
    }
}

/// Checks that the ratio of a limit to its request is at least 1 and can be reached.
fn validate_ratio(limit: &Value, resource: &str, at: &str, causes: &mut Causes) {
    let nanos = |list: &str| limit[list].get(resource).and_then(quantity::nanos);
    let Some(ratio) = nanos("maxLimitRequestRatio") else { return };
    let shown = quantity::canonical(&limit["maxLimitRequestRatio"][resource]).unwrap_or_default();
    let path = field::key(&field::child(at, "maxLimitRequestRatio"), resource);
    let mut refuse = |detail: String| causes.push(field::invalid(&path, &Value::from(&*shown), &detail));
    if ratio < 1_000_000_000 {
        refuse(format!("ratio {shown} is less than 1"));
    }
    if let (Some(min), Some(max)) = (nanos("min"), nanos("max")) {
        let most = max as f64 / min as f64;
        if ratio as f64 / 1e9 > most {
            refuse(format!("ratio {shown} is greater than max/min = {most:.6}"));
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
    let (Some(request), Some(default)) = (amount("defaultRequest"), amount("default")) else { return };
    if !container_resources::is_overcommitable(resource)
        && quantity::nanos(request) != quantity::nanos(default)
    {
        let [shown, other] = [default, request].map(|amount| quantity::canonical(amount).unwrap_or_default());
        let detail =
            format!("default value {shown} must equal to defaultRequest value {other} in {resource}");
        let path = field::key(&field::child(at, "defaultRequest"), resource);
        causes.push(field::invalid(&path, &other.into(), &detail));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_of_resources_that_are_not_overcommitted_are_equal() {
        let problems = |request: &str| -> Vec<String> {
            let limit =
                json!({"default": {"example.com/gpu": "2"}, "defaultRequest": {"example.com/gpu": request}});
            let mut causes = Causes::default();
            validate_bounds(&limit, "example.com/gpu", "l", &mut causes);
            causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
        };
        assert_eq!(problems("2"), [""; 0]);
        assert_eq!(
            problems("1"),
            [
                "l.defaultRequest[example.com/gpu]: Invalid value: \"1\": default value 2 must equal to defaultRequest value 1 in example.com/gpu"
            ]
        );
    }
}
