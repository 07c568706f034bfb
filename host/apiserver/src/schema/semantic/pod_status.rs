//! What an update of a Pod's status may change.

use pilothouse_model::hash::{HashMap, HashSet};
use serde_json::Value;

use super::{items, names, push_invalid, text};
use crate::schema::field;
use crate::status::Causes;

/// Checks the status of a Pod that differs from that of `old`.
pub(super) fn validate(status: &Value, old: &Value, causes: &mut Causes) {
    let (before, spec) = (&old["status"], &old["spec"]);
    validate_conditions(&status["conditions"], causes);
    let node = text(status, "nominatedNodeName");
    if !node.is_empty() && node != text(before, "nominatedNodeName") {
        push_invalid(causes, "status.nominatedNodeName", node, names::subdomain_errors(node));
    }
    validate_generation(status, "status", causes);
    if text(status, "qosClass") != text(before, "qosClass") {
        let class = Value::from(text(status, "qosClass"));
        causes.push(field::invalid("status.qosClass", &class, "field is immutable"));
    }
    let all_may_restart =
        ["initContainers", "containers"].iter().flat_map(|list| items(&spec[*list])).any(|one| {
            items(&one["restartPolicyRules"]).iter().any(|rule| rule["action"] == "RestartAllContainers")
        });
    for (list, containers) in [
        ("containerStatuses", Some("containers")),
        ("initContainerStatuses", Some("initContainers")),
        ("ephemeralContainerStatuses", None),
    ] {
        if containers.is_some() && all_may_restart {
            continue;
        }
        let containers = containers.map_or(&[][..], |name| items(&spec[name]));
        // In reverse, so that the first one of equal names counts.
        let containers: HashMap<&str, &Value> =
            containers.iter().rev().map(|container| (text(container, "name"), container)).collect();
        let restarted: HashSet<&str> = items(&status[list])
            .iter()
            .filter(|status| !status["state"]["terminated"].is_object())
            .map(|status| text(status, "name"))
            .collect();
        for (index, before) in items(&before[list]).iter().enumerate() {
            let (name, terminated) = (text(before, "name"), &before["state"]["terminated"]);
            if !terminated.is_object() || !restarted.contains(name) {
                continue;
            }
            let exit_code = terminated["exitCode"].as_i64().unwrap_or(0);
            if !containers.get(name).is_some_and(|container| may_restart(container, spec, exit_code)) {
                let path = field::child(&field::index(&field::child("status", list), index), "state");
                causes.push(field::forbidden(&path, "may not be transitioned to non-terminated state"));
            }
        }
    }
    validate_claims(status, spec, causes);
}

/// Checks conditions. Only those that Kubernetes sets may have names without a domain that are not qualified.
fn validate_conditions(conditions: &Value, causes: &mut Causes) {
    for (index, condition) in items(conditions).iter().enumerate() {
        let at = field::index("status.conditions", index);
        validate_generation(condition, &at, causes);
        let kind = text(condition, "type");
        push_invalid(causes, &field::child(&at, "Type"), kind, names::qualified_name_errors(kind));
    }
}

fn validate_generation(object: &Value, at: &str, causes: &mut Causes) {
    let generation = &object["observedGeneration"];
    if generation.as_i64().is_some_and(|number| number < 0) {
        let path = field::child(at, "observedGeneration");
        causes.push(field::invalid(&path, generation, "must be a non-negative integer"));
    }
}

/// Checks that the claims whose names the status reports are those of the specification.
fn validate_claims(status: &Value, spec: &Value, causes: &mut Causes) {
    let known: HashSet<&str> =
        items(&spec["resourceClaims"]).iter().map(|claim| text(claim, "name")).collect();
    let mut found = HashSet::default();
    for (index, claim) in items(&status["resourceClaimStatuses"]).iter().enumerate() {
        let at = field::index("status.resourceClaimStatuses", index);
        let (path, name) = (field::child(&at, "name"), text(claim, "name"));
        if !known.contains(name) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            causes.push(field::invalid(&path, &name.into(), detail));
        }
        if !found.insert(name) {
            causes.push(field::duplicate(&path, &name.into()));
        }
    }
}

/// Checks the numbers of the users of containers.
pub(super) fn validate_users(status: &Value, causes: &mut Causes) {
    for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        for (index, container) in items(&status[list]).iter().enumerate() {
            let at = field::child(&field::index(&field::child("status", list), index), "user.linux");
            let user = &container["user"]["linux"];
            for name in ["uid", "gid"] {
                if user[name].as_i64().is_some_and(|id| !(0..=i64::from(i32::MAX)).contains(&id)) {
                    let detail = "must be between 0 and 2147483647, inclusive";
                    causes.push(field::invalid(&field::child(&at, name), &user[name], detail));
                }
            }
        }
    }
}

/// Whether a container may run again after it ended with an exit code.
fn may_restart(container: &Value, spec: &Value, exit_code: i64) -> bool {
    let policy = text(container, "restartPolicy");
    if !policy.is_empty() {
        let matching = items(&container["restartPolicyRules"]).iter().find(|rule| {
            let codes = &rule["exitCodes"];
            let is_listed = items(&codes["values"]).iter().any(|value| value.as_i64() == Some(exit_code));
            match codes["operator"].as_str() {
                Some("In") => is_listed,
                Some("NotIn") => !is_listed,
                _ => false,
            }
        });
        if matching.is_some_and(|rule| rule["action"] == "Restart") {
            return true;
        }
    }
    let policies = [policy, text(spec, "restartPolicy")];
    match policies.into_iter().find(|policy| !policy.is_empty()) {
        Some("OnFailure") => exit_code != 0,
        Some("Never") => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(old: &Value, status: &Value) -> Vec<String> {
        let mut causes = Causes::default();
        validate(status, old, &mut causes);
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn class_cannot_change() {
        let old = json!({"status": {"qosClass": "Burstable"}});
        assert_eq!(problems(&old, &json!({"qosClass": "Burstable", "phase": "Running"})), [""; 0]);
        let detail = "status.qosClass: Invalid value: \"BestEffort\": field is immutable";
        assert_eq!(problems(&old, &json!({"qosClass": "BestEffort"})), [detail]);
    }

    #[test]
    fn terminated_container_runs_again_only_if_its_policy_says_so() {
        let ended = |code: i64| json!([{"name": "c", "state": {"terminated": {"exitCode": code}}}]);
        let pod = |policy: &str, container: Value, code: i64| {
            json!({
                "spec": {"restartPolicy": policy, "containers": [container]},
                "status": {"containerStatuses": ended(code)},
            })
        };
        let running = json!({"containerStatuses": [{"name": "c", "state": {"running": {}}}]});
        let plain = json!({"name": "c"});
        let refused =
            "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state";
        for (policy, code, is_allowed) in
            [("Always", 0, true), ("OnFailure", 1, true), ("OnFailure", 0, false), ("Never", 1, false)]
        {
            let found = problems(&pod(policy, plain.clone(), code), &running);
            assert_eq!(found.is_empty(), is_allowed, "{policy} {code}: {found:?}");
        }
        assert_eq!(problems(&pod("Never", plain.clone(), 1), &running), [refused]);
        assert_eq!(problems(&pod("Never", plain, 1), &json!({"containerStatuses": ended(1)})), [""; 0]);
        let rules = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]);
        let ruled = json!({"name": "c", "restartPolicy": "Never", "restartPolicyRules": rules});
        assert_eq!(problems(&pod("Never", ruled.clone(), 42), &running), [""; 0]);
        assert_eq!(problems(&pod("Never", ruled, 1), &running), [refused]);
        let rules = json!([{"action": "RestartAllContainers"}]);
        let all = json!({"name": "d", "restartPolicyRules": rules});
        assert_eq!(problems(&pod("Never", all, 1), &running), [""; 0]);
    }
}
