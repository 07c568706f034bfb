//! ResourceQuotas.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{NOT_NEGATIVE, entries, items, push_invalid, quantity, text};
use crate::schema::{field, names};
use crate::status::{Cause, Causes};

/// The resources without a domain that a quota can limit.
const QUOTA_RESOURCES: [&str; 19] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];

/// The resources whose amounts are whole numbers, like those with a domain.
const INTEGER_RESOURCES: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// The scopes of Pods for which a selector has no values.
const SCOPES_OF_PODS: [&str; 5] =
    ["BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"];
/// The other scopes.
const SCOPES_WITH_VALUES: [&str; 2] = ["PriorityClass", "VolumeAttributesClass"];
/// The scopes that no object has both.
const CONFLICTING_SCOPES: [[&str; 2]; 2] =
    [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

/// Checks the specification of a quota. `old` is the stored object on updates.
pub(super) fn validate_quota(spec: &Value, old: Option<&Value>, causes: &mut Causes) {
    validate_amounts(spec, "hard", "spec", causes);
    validate_scopes(spec, causes);
    validate_scope_selector(spec, causes);
    let scopes = |spec: &Value| -> BTreeSet<String> {
        items(&spec["scopes"]).iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    if old.is_some_and(|old| scopes(&old["spec"]) != scopes(spec)) {
        causes.push(field::invalid("spec.scopes", &spec["scopes"], "field is immutable"));
    }
}

/// Checks the status of a quota.
pub(super) fn validate_status(status: &Value, causes: &mut Causes) {
    validate_amounts(status, "hard", "status", causes);
    validate_amounts(status, "used", "status", causes);
}

fn validate_amounts(object: &Value, list: &str, path: &str, causes: &mut Causes) {
    for (name, amount) in entries(object.get(list)) {
        let at = field::key(&field::child(path, list), name);
        validate_resource(name, &at, causes);
        if !name.contains('/') && !is_standard(name) {
            let detail = "must be a standard resource for quota";
            causes.push(field::invalid(&at, &Value::from(name.as_str()), detail));
        }
        if quantity::nanos(amount).is_some_and(|nanos| nanos < 0) {
            causes.push(field::invalid(&at, amount, NOT_NEGATIVE));
        }
        if is_integer(name) && quantity::nanos(amount).is_some_and(|nanos| nanos % 1_000_000_000 != 0) {
            causes.push(field::invalid(&at, amount, "must be an integer"));
        }
    }
}

/// Checks the name of a resource, which is known or has a domain.
pub(super) fn validate_resource(name: &str, path: &str, causes: &mut Causes) {
    let errors = names::qualified_name_errors(name);
    if errors.is_empty() && !name.contains('/') && !is_known(name) {
        let detail = "must be a standard resource type or fully qualified";
        causes.push(field::invalid(path, &name.into(), detail));
    }
    push_invalid(causes, path, name, errors);
}

/// Checks the name of a resource of a container.
pub(super) fn validate_container_resource(name: &str, path: &str, causes: &mut Causes) {
    validate_resource(name, path, causes);
    let is_native = name.contains("kubernetes.io/");
    let detail = if !name.contains('/') {
        let is_standard =
            ["cpu", "memory", "ephemeral-storage"].contains(&name) || name.starts_with("hugepages-");
        (!is_standard).then_some("must be a standard resource for containers")
    } else {
        let is_extended = !name.starts_with("requests.")
            && names::qualified_name_errors(&format!("requests.{name}")).is_empty();
        (!is_native && !is_extended).then_some("doesn't follow extended resource name standard")
    };
    if let Some(detail) = detail {
        causes.push(field::invalid(path, &name.into(), detail));
    }
}

/// Whether an unqualified name is a standard resource of any kind of object.
fn is_known(resource: &str) -> bool {
    resource == "storage" || is_standard(resource)
}

fn is_standard(resource: &str) -> bool {
    let is_huge_page = resource.starts_with("hugepages-") || resource.starts_with("requests.hugepages-");
    is_huge_page || QUOTA_RESOURCES.contains(&resource)
}

/// Whether amounts of a resource are whole numbers.
pub(super) fn is_integer(resource: &str) -> bool {
    let is_extended = resource.contains('/')
        && !resource.contains("kubernetes.io/")
        && !resource.starts_with("requests.")
        && names::qualified_name_errors(&format!("requests.{resource}")).is_empty();
    is_extended || INTEGER_RESOURCES.contains(&resource)
}

fn is_known_scope(scope: &str) -> bool {
    SCOPES_OF_PODS.contains(&scope) || SCOPES_WITH_VALUES.contains(&scope)
}

/// Whether a quota for objects of this scope can limit the resource. Unknown scopes can.
fn is_valid_for(scope: &str, resource: &str) -> bool {
    let of_pods = ["pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
    match scope {
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => ["persistentvolumeclaims", "requests.storage"].contains(&resource),
        scope if is_known_scope(scope) => of_pods.contains(&resource),
        _ => true,
    }
}

/// Returns for each scope how many resources of the quota it cannot limit.
fn unsupported_resources(spec: &Value) -> BTreeMap<&'static str, usize> {
    let count = |scope: &str| {
        let resources = entries(spec.get("hard")).map(|(name, _)| name);
        resources.filter(|name| is_standard(name) && !is_valid_for(scope, name)).count()
    };
    SCOPES_OF_PODS.into_iter().chain(SCOPES_WITH_VALUES).map(|scope| (scope, count(scope))).collect()
}

fn conflicts(scopes: &BTreeSet<&str>) -> usize {
    CONFLICTING_SCOPES.iter().filter(|pair| pair.iter().all(|scope| scopes.contains(scope))).count()
}

fn validate_scopes(spec: &Value, causes: &mut Causes) {
    const PATH: &str = "spec.scopes";
    let (mut found, unsupported) = (BTreeSet::new(), unsupported_resources(spec));
    for scope in items(&spec["scopes"]).iter().filter_map(Value::as_str) {
        if causes.is_full() {
            causes.leave_out();
            return;
        }
        if !is_known_scope(scope) {
            causes.push(field::invalid(PATH, &spec["scopes"], "unsupported scope"));
        }
        for _ in 0..unsupported.get(scope).copied().unwrap_or(0) {
            push_bounded(causes, || {
                field::invalid(PATH, &spec["scopes"], "unsupported scope applied to resource")
            });
        }
        found.insert(scope);
    }
    for _ in 0..conflicts(&found) {
        causes.push(field::invalid(PATH, &spec["scopes"], "conflicting scopes"));
    }
}

fn validate_scope_selector(spec: &Value, causes: &mut Causes) {
    const PATH: &str = "spec.scopeSelector.matchExpressions";
    let (mut found, unsupported) = (BTreeSet::new(), unsupported_resources(spec));
    for requirement in items(&spec["scopeSelector"]["matchExpressions"]) {
        if causes.is_full() {
            causes.leave_out();
            return;
        }
        let (scope, operator) = (text(requirement, "scopeName"), text(requirement, "operator"));
        if !is_known_scope(scope) {
            causes.push(field::invalid(&field::child(PATH, "scopeName"), &scope.into(), "unsupported scope"));
        }
        for _ in 0..unsupported.get(scope).copied().unwrap_or(0) {
            push_bounded(causes, || {
                field::invalid_shown(PATH, &selector_as_go(spec), "unsupported scope applied to resource")
            });
        }
        let at_operator = field::child(PATH, "operator");
        if SCOPES_OF_PODS.contains(&scope) && operator != "Exists" {
            let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                          ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort \
                          or ResourceQuotaScopeCrossNamespacePodAffinity";
            causes.push(field::invalid(&at_operator, &operator.into(), detail));
        }
        let (values, at_values) = (items(&requirement["values"]), field::child(PATH, "values"));
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let detail =
                    "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                causes.push(field::required(&at_values, detail));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail =
                    "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                causes.push(field::invalid(&at_values, &requirement["values"], detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                causes.push(field::invalid(&at_operator, &other.into(), "not a valid selector operator"));
            }
        }
        found.insert(scope);
    }
    for _ in 0..conflicts(&found) {
        // As in Kubernetes, the value is that of the other field.
        causes.push(field::invalid(PATH, &spec["scopes"], "conflicting scopes"));
    }
}

/// Adds a cause that quotes a value of any size, unless there are too many already.
fn push_bounded(causes: &mut Causes, cause: impl FnOnce() -> Cause) {
    if causes.is_full() {
        causes.leave_out();
    } else {
        causes.push(cause());
    }
}

/// Returns the scope selector as messages show it: with the names of Go's fields.
fn selector_as_go(spec: &Value) -> String {
    let requirements = items(&spec["scopeSelector"]["matchExpressions"]).iter().map(|one| {
        let (scope, operator, values) = (&one["scopeName"], &one["operator"], &one["values"]);
        format!("{{\"ScopeName\":{scope},\"Operator\":{operator},\"Values\":{values}}}")
    });
    format!("{{\"MatchExpressions\":[{}]}}", requirements.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(spec: &Value, old: Option<&Value>) -> Vec<String> {
        let mut causes = Causes::default();
        validate_quota(spec, old, &mut causes);
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    fn selector(scope: &str, operator: &str, values: &Value) -> Value {
        let requirement = json!({"scopeName": scope, "operator": operator, "values": values});
        json!({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [requirement]}})
    }

    #[test]
    fn scopes_fit_the_resources_and_each_other() {
        let spec = |scopes: Value| json!({"hard": {"cpu": "1", "count/pods": "1"}, "scopes": scopes});
        assert_eq!(problems(&spec(json!(["NotBestEffort", "Terminating"])), None), [""; 0]);
        for (scopes, problem) in [
            (json!(["BestEffort"]), "unsupported scope applied to resource"),
            (json!(["VolumeAttributesClass"]), "unsupported scope applied to resource"),
            (json!(["Other"]), "unsupported scope"),
            (json!(["Terminating", "NotTerminating"]), "conflicting scopes"),
        ] {
            let found = problems(&spec(scopes.clone()), None);
            assert_eq!(found, [format!("spec.scopes: Invalid value: {scopes}: {problem}")]);
        }
    }

    #[test]
    fn scope_selectors_have_the_values_that_their_operators_need() {
        assert_eq!(problems(&selector("PriorityClass", "In", &json!(["high"])), None), [""; 0]);
        assert_eq!(problems(&selector("Terminating", "Exists", &Value::Null), None), [""; 0]);
        let at = "spec.scopeSelector.matchExpressions";
        for (scope, operator, values, problem) in [
            (
                "PriorityClass",
                "In",
                json!([]),
                ".values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            ),
            (
                "PriorityClass",
                "Exists",
                json!(["a"]),
                ".values: Invalid value: [\"a\"]: must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            ),
            (
                "PriorityClass",
                "Is",
                json!([]),
                ".operator: Invalid value: \"Is\": not a valid selector operator",
            ),
            (
                "Terminating",
                "DoesNotExist",
                json!([]),
                ".operator: Invalid value: \"DoesNotExist\": must be 'Exists' when scope",
            ),
            ("Other", "Exists", json!([]), ".scopeName: Invalid value: \"Other\": unsupported scope"),
            (
                "VolumeAttributesClass",
                "Exists",
                Value::Null,
                ": Invalid value: {\"MatchExpressions\":[{\"ScopeName\":\"VolumeAttributesClass\",",
            ),
        ] {
            let found = problems(&selector(scope, operator, &values), None);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with(&format!("{at}{problem}")), "{found:?}");
        }
    }

    #[test]
    fn scopes_cannot_change_and_counts_are_integers() {
        let old = json!({"spec": {"hard": {"pods": "1"}, "scopes": ["Terminating"]}});
        let new = json!({"hard": {"pods": "1500m"}, "scopes": ["Terminating"]});
        assert_eq!(
            problems(&new, Some(&old)),
            ["spec.hard[pods]: Invalid value: \"1500m\": must be an integer"]
        );
        let new = json!({"hard": {"pods": "1"}});
        assert_eq!(problems(&new, Some(&old)), ["spec.scopes: Invalid value: null: field is immutable"]);
        assert_eq!(problems(&json!({"hard": {"requests.cpu": "1500m"}}), None), [""; 0]);
        assert_eq!(problems(&json!({"hard": {"count/pods": "0.5"}}), None).len(), 1);
    }

    #[test]
    fn many_scopes_cost_little() {
        let names: serde_json::Map<String, Value> =
            (0..1000).map(|index| (format!("hugepages-{index}"), json!("1"))).collect();
        let spec = json!({"hard": names, "scopes": vec!["BestEffort"; 1000]});
        assert!(problems(&spec, None).len() < 1000);
    }
}
