//! `spec.podFailurePolicy` of a Job, after `pod_failure_policy.go` in `k8s.io/kubernetes/pkg/controller/job`.

use serde_json::Value;

use super::super::object::items;
use crate::meta;

/// What the policy of a Job says about a failed Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The failure counts, by a rule or because no rule matches.
    Count,
    /// The failure does not count.
    Ignore,
    /// The failure counts, and the index of the Pod is not tried again.
    FailIndex,
    /// The Job fails, with this message.
    FailJob(String),
}

/// Returns what the first rule that matches says about a failed Pod. `policy` is null for a Job without one.
pub(super) fn verdict(policy: &Value, pod: &Value) -> Verdict {
    let rules = items(&policy["rules"]).iter().enumerate();
    let matches = rules.filter_map(|(index, rule)| Some((index, rule, cause(rule, pod)?)));
    for (index, rule, cause) in matches {
        let name = format!("{}/{}", meta::text(pod, "namespace"), meta::text(pod, "name"));
        return match rule["action"].as_str() {
            Some("Ignore") => Verdict::Ignore,
            Some("FailIndex") => Verdict::FailIndex,
            Some("FailJob") => Verdict::FailJob(cause.message(&name, index)),
            Some("Count") => Verdict::Count,
            _ => continue,
        };
    }
    Verdict::Count
}

/// Why a rule matches a Pod.
enum Cause<'a> {
    ExitCode { container: &'a str, code: i64 },
    Condition { kind: &'a str },
}

impl Cause<'_> {
    fn message(&self, pod: &str, rule: usize) -> String {
        match self {
            Self::ExitCode { container, code } => format!(
                "Container {container} for pod {pod} failed with exit code {code} matching FailJob rule at index {rule}"
            ),
            Self::Condition { kind } => {
                format!("Pod {pod} has condition {kind} matching FailJob rule at index {rule}")
            }
        }
    }
}

fn cause<'a>(rule: &Value, pod: &'a Value) -> Option<Cause<'a>> {
    let status = &pod["status"];
    if rule["onExitCodes"].is_object() {
        let requirement = &rule["onExitCodes"];
        let lists = ["containerStatuses", "initContainerStatuses"];
        let mut containers = lists.into_iter().flat_map(|list| items(&status[list]));
        return containers.find_map(|container| {
            let code = container["state"]["terminated"]["exitCode"].as_i64()?;
            let name = container["name"].as_str().unwrap_or_default();
            let is_named = requirement["containerName"].as_str().is_none_or(|wanted| wanted == name);
            (is_named && code != 0 && has_code(requirement, code))
                .then_some(Cause::ExitCode { container: name, code })
        });
    }
    let patterns = items(&rule["onPodConditions"]);
    items(&status["conditions"]).iter().find_map(|condition| {
        let kind = condition["type"].as_str()?;
        let is_pattern =
            |pattern: &Value| pattern["type"] == kind && pattern["status"] == condition["status"];
        patterns.iter().any(is_pattern).then_some(Cause::Condition { kind })
    })
}

fn has_code(requirement: &Value, code: i64) -> bool {
    let is_listed = items(&requirement["values"]).iter().any(|value| value.as_i64() == Some(code));
    match requirement["operator"].as_str() {
        Some("In") => is_listed,
        Some("NotIn") => !is_listed,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn failed(code: i64) -> Value {
        json!({
            "metadata": {"name": "p", "namespace": "n"},
            "status": {
                "phase": "Failed",
                "containerStatuses": [
                    {"name": "sidecar", "state": {"terminated": {"exitCode": 0}}},
                    {"name": "main", "state": {"terminated": {"exitCode": code}}},
                ],
                "conditions": [{"type": "DisruptionTarget", "status": "True"}],
            },
        })
    }

    #[test]
    fn first_rule_that_matches_decides() {
        let exit_codes = |operator: &str, values: Value, action: &str| json!({"action": action, "onExitCodes": {"operator": operator, "values": values}});
        let policy = json!({"rules": [
            exit_codes("In", json!([1, 2]), "Ignore"),
            exit_codes("In", json!([2, 3]), "FailIndex"),
            {"action": "Count", "onExitCodes": {"containerName": "sidecar", "operator": "NotIn", "values": [9]}},
            exit_codes("NotIn", json!([5]), "FailJob"),
        ]});
        assert_eq!(verdict(&policy, &failed(2)), Verdict::Ignore);
        assert_eq!(verdict(&policy, &failed(3)), Verdict::FailIndex);
        assert_eq!(verdict(&policy, &failed(5)), Verdict::Count, "no rule matches");
        let message = "Container main for pod n/p failed with exit code 4 matching FailJob rule at index 3";
        assert_eq!(verdict(&policy, &failed(4)), Verdict::FailJob(message.to_owned()));
        assert_eq!(verdict(&policy, &failed(0)), Verdict::Count, "an exit code of 0 is no failure");
        assert_eq!(verdict(&Value::Null, &failed(2)), Verdict::Count);
    }

    #[test]
    fn condition_matches_by_type_and_status() {
        let policy = |status: &str, action: &str| json!({"rules": [{"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": status}]}]});
        assert_eq!(verdict(&policy("True", "Ignore"), &failed(1)), Verdict::Ignore);
        assert_eq!(verdict(&policy("False", "Ignore"), &failed(1)), Verdict::Count);
        let message = "Pod n/p has condition DisruptionTarget matching FailJob rule at index 0";
        assert_eq!(verdict(&policy("True", "FailJob"), &failed(1)), Verdict::FailJob(message.to_owned()));
    }
}
