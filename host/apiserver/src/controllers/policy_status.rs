//! The status of ValidatingAdmissionPolicies, after `k8s.io/kubernetes/pkg/controller/validatingadmissionpolicystatus`. The types of the objects are not
//! checked, so there are never warnings.

use serde_json::{Value, json};

use super::action::{Action, Plan};
use super::kind::Kind;
use super::kind_controller::KindController;
use crate::meta;

/// The field manager of the status.
const MANAGER: &str = "validatingadmissionpolicy-status";

/// Returns the controller of ValidatingAdmissionPolicies.
pub(super) fn controller() -> KindController {
    KindController::new(Kind::ValidatingAdmissionPolicy, |_, policy| plan(policy)).manager(MANAGER)
}

/// Reports that the last generation of a policy was checked.
fn plan(policy: &Value) -> Plan {
    let mut plan = Plan::default();
    let generation = meta::generation(policy);
    if policy["status"]["observedGeneration"].as_i64().unwrap_or(0) >= generation {
        return plan;
    }
    let mut status = policy["status"].clone();
    status["observedGeneration"] = generation.into();
    status["typeChecking"] = json!({});
    plan.actions.push(Action::SetStatus(status));
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_follows_the_generation() {
        let policy =
            json!({"metadata": {"generation": 2}, "status": {"observedGeneration": 1, "conditions": []}});
        let status = json!({"observedGeneration": 2, "typeChecking": {}, "conditions": []});
        assert_eq!(plan(&policy).actions, [Action::SetStatus(status)]);
        let observed = json!({"metadata": {"generation": 2}, "status": {"observedGeneration": 2}});
        assert_eq!(plan(&observed), Plan::default());
    }
}
