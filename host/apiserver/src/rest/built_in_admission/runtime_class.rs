//! What a new Pod gets from its RuntimeClass: the overhead and the place where it may run, after
//! `k8s.io/kubernetes/plugin/pkg/admission/runtimeclass`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::schema::quantity;
use crate::state::State;

/// Sets the overhead, the node selector and the tolerations of the Pod's RuntimeClass.
///
/// # Errors
/// Errors with the reason if there is no such class, or the Pod contradicts it.
pub(super) fn apply(state: &State, spec: &mut Value) -> Result<(), String> {
    class_of(state, spec)?.map_or(Ok(()), |class| add_class(&class, spec))
}

/// Checks the overhead of a Pod that admission may have changed.
///
/// # Errors
/// Errors with the reason if it is not that of the Pod's RuntimeClass.
pub(super) fn check(state: &State, spec: &Value) -> Result<(), String> {
    let class = class_of(state, spec)?;
    let overhead = class.as_ref().filter(|class| !class["overhead"].is_null());
    check_overhead(overhead.map(|class| &class["overhead"]["podFixed"]), spec)
}

/// Returns the Pod's RuntimeClass; `None` if it names none.
fn class_of(state: &State, spec: &Value) -> Result<Option<Value>, String> {
    let Some(name) = spec["runtimeClassName"].as_str() else { return Ok(None) };
    let registry = state.registry();
    let classes = registry.endpoint("node.k8s.io", "v1", "runtimeclasses");
    let class = classes.and_then(|classes| classes.resource.table.get("", name));
    let class = class.ok_or_else(|| format!("pod rejected: RuntimeClass {name:?} not found"))?;
    Ok(Some(class.value()))
}

fn add_class(class: &Value, spec: &mut Value) -> Result<(), String> {
    let overhead = &class["overhead"]["podFixed"];
    let is_given = spec["overhead"].as_object().is_some_and(|given| !given.is_empty());
    if is_given && !class["overhead"].is_null() {
        check_overhead(Some(overhead), spec)?;
    }
    if !overhead.is_null() {
        spec["overhead"] = overhead.clone();
    }
    let scheduling = &class["scheduling"];
    for (key, wanted) in scheduling["nodeSelector"].as_object().into_iter().flatten() {
        let given = &spec["nodeSelector"][key];
        if !given.is_null() && given != wanted {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                text(wanted),
                text(given)
            ));
        }
        spec["nodeSelector"][key] = wanted.clone();
    }
    if !scheduling.is_null() {
        let own = spec["tolerations"].as_array().cloned().unwrap_or_default();
        let added = scheduling["tolerations"].as_array().cloned().unwrap_or_default();
        let merged = merge(own, added);
        if !merged.is_empty() {
            spec["tolerations"] = merged.into();
        }
    }
    Ok(())
}

/// Checks the overhead of a Pod.
fn check_overhead(of_class: Option<&Value>, spec: &Value) -> Result<(), String> {
    let given = &spec["overhead"];
    match of_class {
        None if given.is_null() => Ok(()),
        None => {
            Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
                .to_owned())
        }
        Some(overhead) if is_same(overhead, given) => Ok(()),
        Some(_) => {
            Err("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned())
        }
    }
}

/// Whether both have the same amounts.
fn is_same(left: &Value, right: &Value) -> bool {
    let nanos = |value: &Value| {
        let amounts = value.as_object().into_iter().flatten();
        amounts.map(|(name, amount)| (name.clone(), quantity::nanos(amount))).collect::<BTreeMap<_, _>>()
    };
    nanos(left) == nanos(right)
}

/// The most tolerations that are compared with each other. Of more, all stay.
const MAX_COMPARED: usize = 1000;

/// Joins two lists of tolerations, without those that another one covers. Of equal ones, the first stays.
fn merge(mut all: Vec<Value>, second: Vec<Value>) -> Vec<Value> {
    all.extend(second);
    if all.len() > MAX_COMPARED {
        return all;
    }
    let mut merged: Vec<Value> = Vec::new();
    for (index, toleration) in all.iter().enumerate() {
        let is_covered = merged.iter().any(|other| covers(other, toleration))
            || all[index + 1..].iter().any(|other| other != toleration && covers(other, toleration));
        if !is_covered {
            merged.push(toleration.clone());
        }
    }
    merged
}

/// Whether what `narrow` tolerates is tolerated by `wide`, too.
fn covers(wide: &Value, narrow: &Value) -> bool {
    if wide == narrow {
        return true;
    }
    let text = |toleration: &Value, field: &str| toleration[field].as_str().unwrap_or_default().to_owned();
    let (operator, key) = (text(wide, "operator"), text(wide, "key"));
    if key != text(narrow, "key") && !(key.is_empty() && operator == "Exists") {
        return false;
    }
    let effect = text(wide, "effect");
    if !effect.is_empty() && effect != text(narrow, "effect") {
        return false;
    }
    if effect == "NoExecute"
        && let Some(seconds) = wide["tolerationSeconds"].as_i64()
        && narrow["tolerationSeconds"].as_i64().is_none_or(|other| other > seconds)
    {
        return false;
    }
    match operator.as_str() {
        "" | "Equal" => text(narrow, "operator") == "Equal" && wide["value"] == narrow["value"],
        "Exists" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn many_tolerations_are_not_compared_with_each_other() {
        // 10^9 comparisons would take minutes.
        let many: Vec<Value> = (0..50_000).map(|index| json!({"key": index.to_string()})).collect();
        assert_eq!(merge(many, vec![json!({"key": "a"})]).len(), 50_001);
    }

    fn class() -> Value {
        json!({
            "overhead": {"podFixed": {"cpu": "250m"}},
            "scheduling": {
                "nodeSelector": {"runtime": "sandbox"},
                "tolerations": [{"key": "sandbox", "operator": "Exists", "effect": "NoSchedule"}],
            },
        })
    }

    #[test]
    fn a_pod_gets_the_overhead_and_the_place_of_its_class() {
        let mut spec = json!({
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "sandbox", "operator": "Equal", "value": "x", "effect": "NoSchedule"}],
        });
        add_class(&class(), &mut spec).expect("it fits");
        assert_eq!(spec["overhead"], json!({"cpu": "250m"}));
        assert_eq!(spec["nodeSelector"], json!({"disk": "ssd", "runtime": "sandbox"}));
        assert_eq!(spec["tolerations"], class()["scheduling"]["tolerations"]);
        let before = spec.clone();
        add_class(&class(), &mut spec).expect("the same overhead");
        assert_eq!(spec, before);
    }

    #[test]
    fn a_pod_that_contradicts_its_class_is_refused() {
        let refused = |mut spec: Value| add_class(&class(), &mut spec).expect_err("a contradiction");
        assert_eq!(
            refused(json!({"overhead": {"cpu": "1"}})),
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        );
        assert_eq!(
            refused(json!({"nodeSelector": {"runtime": "runc"}})),
            "conflict: runtimeClass.scheduling.nodeSelector[runtime] = sandbox; pod.spec.nodeSelector[runtime] = runc"
        );
        assert!(check_overhead(None, &json!({"overhead": {"cpu": "1"}})).is_err());
        assert!(check_overhead(None, &json!({})).is_ok());
        assert!(check_overhead(Some(&json!({"cpu": "0.25"})), &json!({"overhead": {"cpu": "250m"}})).is_ok());
    }

    #[test]
    fn a_toleration_that_another_one_covers_is_left_out() {
        let exists = json!({"operator": "Exists"});
        let a = json!({"key": "a", "operator": "Equal", "value": "1", "effect": "NoExecute", "tolerationSeconds": 300});
        assert_eq!(merge(vec![a.clone()], vec![exists.clone()]), std::slice::from_ref(&exists));
        assert_eq!(merge(vec![exists.clone()], vec![a.clone()]), [exists]);
        let mut shorter = a.clone();
        shorter["tolerationSeconds"] = 60.into();
        assert_eq!(merge(vec![shorter.clone()], vec![a.clone()]), std::slice::from_ref(&a));
        assert_eq!(merge(vec![a.clone(), a.clone()], vec![]), [a]);
    }
}
