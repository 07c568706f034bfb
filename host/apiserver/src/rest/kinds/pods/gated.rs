//! Pods that are not scheduled before their scheduling gates are removed.

use pilothouse_model::hash::{HashMap, HashSet};
use serde_json::{Value, json};

use super::{is_same, items};
use crate::schema::field;
use crate::status::Cause;

/// The path of the required node affinity terms.
const TERMS: &str =
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";

/// Whether a Pod with this specification has scheduling gates.
pub(super) fn is_gated(spec: &Value) -> bool {
    !items(&spec["schedulingGates"]).is_empty()
}

/// Returns the conditions of a new Pod, null if it has none.
pub(in crate::rest) fn initial_conditions(spec: &Value, now: &str) -> Value {
    if !is_gated(spec) {
        return Value::Null;
    }
    json!([{
        "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
        "lastProbeTime": null, "lastTransitionTime": now,
    }])
}

/// Checks that scheduling gates are only removed.
pub(super) fn check_scheduling_gates(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let name = |gate: &Value| gate["name"].as_str().unwrap_or_default().to_owned();
    let before: HashSet<String> = items(&old["schedulingGates"]).iter().map(name).collect();
    // The last position of each name, as in Kubernetes.
    let gates = items(&new["schedulingGates"]).iter().enumerate();
    let positions: HashMap<String, usize> = gates.map(|(index, gate)| (name(gate), index)).collect();
    let mut added: Vec<(usize, String)> = positions
        .into_iter()
        .filter(|(name, _)| !before.contains(name))
        .map(|(name, index)| (index, name))
        .collect();
    added.sort_unstable();
    for (index, name) in added {
        let path = field::child(&field::index("spec.schedulingGates", index), "name");
        let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
        causes.push(field::forbidden(&path, &detail));
    }
}

/// Checks that the labels which the Node must have are only added to.
pub(super) fn check_node_selector(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let before = old["nodeSelector"].as_object();
    if before.into_iter().flatten().any(|(key, value)| new["nodeSelector"].get(key) != Some(value)) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        causes.push(field::invalid("spec.nodeSelector", &new["nodeSelector"], detail));
    }
}

/// Checks that the required terms of the node affinity are only added to.
pub(super) fn check_node_affinity(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = |spec: &Value| spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"].clone();
    let (old_terms, new_terms) = (terms(old), terms(new));
    let (before, after) = (items(&old_terms), items(&new_terms));
    if before.is_empty() {
        return;
    }
    if before.len() != after.len() {
        let shown = match &new_terms {
            Value::Array(terms) => terms.iter().map(as_go).collect(),
            _ => Value::Null,
        };
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        causes.push(field::invalid(TERMS, &shown, detail));
        return;
    }
    for (index, (before, after)) in before.iter().zip(after).enumerate() {
        if !has_only_additions(before, after) {
            let detail = "only additions are allowed (no mutations or deletions)";
            causes.push(field::invalid(&field::index(TERMS, index), &as_go(after), detail));
        }
    }
}

fn has_only_additions(before: &Value, after: &Value) -> bool {
    let lists = ["matchExpressions", "matchFields"].map(|list| (items(&before[list]), items(&after[list])));
    // A term without requirements matches nothing, with some it would match more.
    if lists.iter().all(|(before, _)| before.is_empty()) {
        return lists.iter().all(|(_, after)| after.is_empty());
    }
    lists.iter().all(|(before, after)| after.starts_with(before))
}

/// Returns a term as messages show it: with the names of Go's fields.
fn as_go(term: &Value) -> Value {
    let requirements = |list: &Value| match list.as_array() {
        Some(list) => list
            .iter()
            .map(|one| json!({"Key": one["key"], "Operator": one["operator"], "Values": one["values"]}))
            .collect(),
        None => Value::Null,
    };
    json!({
        "MatchExpressions": requirements(&term["matchExpressions"]),
        "MatchFields": requirements(&term["matchFields"]),
    })
}

/// Whether an affinity differs in something besides the affinity to Nodes.
pub(super) fn changes_other_affinity(old: &Value, new: &Value) -> bool {
    let (before, after) = (&old["nodeAffinity"], &new["nodeAffinity"]);
    if before == after {
        return old != new;
    }
    ["podAffinity", "podAntiAffinity"].iter().any(|name| !is_same(&old[*name], &new[*name]))
}

#[cfg(test)]
mod tests {
    use super::super::validate_update;
    use super::*;

    fn pod() -> Value {
        let terms = json!([{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]);
        let required =
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        json!({"spec": {
            "containers": [{"name": "c"}], "schedulingGates": [{"name": "g"}, {"name": "h"}],
            "nodeSelector": {"disk": "ssd"}, "affinity": {"nodeAffinity": required},
        }})
    }

    /// Returns what is refused when the field at `pointer` is set to `value`.
    fn refused(pointer: &str, value: Value) -> Vec<String> {
        let (old, mut new) = (pod(), pod());
        let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
        new["spec"].pointer_mut(parent).expect("a parent")[name] = value;
        let causes = validate_update(&old, &new);
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn gates_are_only_removed() {
        assert_eq!(refused("/schedulingGates", json!([])), [""; 0]);
        assert_eq!(refused("/schedulingGates", json!([{"name": "h"}])), [""; 0]);
        let detail = "Forbidden: only deletion is allowed, but found new scheduling gate 'new'";
        let found = refused("/schedulingGates", json!([{"name": "h"}, {"name": "new"}]));
        assert_eq!(found, [format!("spec.schedulingGates[1].name: {detail}")]);
    }

    #[test]
    fn node_selector_is_only_added_to() {
        assert_eq!(refused("/nodeSelector", json!({"disk": "ssd", "zone": "a"})), [""; 0]);
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        assert_eq!(
            refused("/nodeSelector", json!({"disk": "hdd"})),
            [format!("spec.nodeSelector: Invalid value: {{\"disk\":\"hdd\"}}: {detail}")]
        );
        assert_eq!(
            refused("/nodeSelector", Value::Null),
            [format!("spec.nodeSelector: Invalid value: null: {detail}")]
        );
    }

    #[test]
    fn terms_of_the_node_affinity_are_only_added_to() {
        let terms = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
        let old = json!({"key": "a", "operator": "In", "values": ["b"]});
        let other = json!({"key": "c", "operator": "Exists"});
        let more = json!([{"matchExpressions": [old, other]}]);
        assert_eq!(refused(terms, more), [""; 0]);
        assert_eq!(
            refused(terms, json!([{"matchExpressions": [other]}])),
            [format!(
                "{TERMS}[0]: Invalid value: {{\"MatchExpressions\":[{{\"Key\":\"c\",\"Operator\":\"Exists\",\"Values\":null}}],\
                 \"MatchFields\":null}}: only additions are allowed (no mutations or deletions)"
            )]
        );
        let none = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        assert_eq!(
            refused("/affinity/nodeAffinity", Value::Null),
            [format!("{TERMS}: Invalid value: null: {none}")]
        );
    }

    #[test]
    fn affinity_to_pods_cannot_change() {
        let affinity = json!({"preferredDuringSchedulingIgnoredDuringExecution": []});
        let found = refused("/affinity/podAffinity", affinity);
        assert!(
            found[0].starts_with("spec: Forbidden: pod updates may not change fields other than"),
            "{found:?}"
        );
    }

    #[test]
    fn pod_without_gates_has_no_conditions_at_first() {
        assert_eq!(initial_conditions(&json!({}), "t"), Value::Null);
        assert_eq!(initial_conditions(&pod()["spec"], "t")[0]["reason"], "SchedulingGated");
    }
}
