//! PersistentVolumes without a claim become available, after `k8s.io/kubernetes/pkg/controller/volume/persistentvolume`. Nothing is bound or
//! provisioned.

use serde_json::Value;

use super::action::{Action, Plan};
use super::kind::Kind;
use super::kind_controller::KindController;
use super::object::is_deleting;

/// Returns the controller of PersistentVolumes.
pub(super) fn controller() -> KindController {
    KindController::new(Kind::PersistentVolume, |_, volume| plan(volume))
}

/// Decides the phase of a volume. One that a client has given another phase stays as it is.
fn plan(volume: &Value) -> Plan {
    let mut plan = Plan::default();
    let is_claimed = volume["spec"]["claimRef"]["uid"].as_str().is_some_and(|uid| !uid.is_empty());
    if volume["status"]["phase"] == "Pending" && !is_claimed && !is_deleting(volume) {
        let mut status = volume["status"].clone();
        status["phase"] = "Available".into();
        plan.actions.push(Action::SetStatus(status));
    }
    plan
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pending_volume_without_a_claim_becomes_available() {
        let volume =
            |phase: &str, uid: &str| json!({"spec": {"claimRef": {"uid": uid}}, "status": {"phase": phase}});
        let status = json!({"phase": "Available"});
        assert_eq!(plan(&volume("Pending", "")).actions, [Action::SetStatus(status)]);
        assert_eq!(plan(&volume("Pending", "u")), Plan::default());
        assert_eq!(plan(&volume("Released", "")), Plan::default());
    }
}
