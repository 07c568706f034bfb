//! The phase of a PersistentVolume.

use serde_json::Value;

use super::super::action::{Action, Plan};
use super::super::cluster::Cluster;
use super::super::kind::Kind;
use super::super::object::is_deleting;
use crate::meta;

pub(super) fn reconcile(cluster: &Cluster<'_>, volume: &Value) -> Plan {
    let reference = &volume["spec"]["claimRef"];
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let claim = cluster.get(Kind::PersistentVolumeClaim, text("namespace"), text("name"));
    plan(volume, claim.as_ref())
}

/// Decides the phase of a volume. `claim` has the name that the volume refers to.
fn plan(volume: &Value, claim: Option<&Value>) -> Plan {
    let mut plan = Plan::default();
    if is_deleting(volume) {
        return plan;
    }
    let uid = volume["spec"]["claimRef"]["uid"].as_str().unwrap_or_default();
    let phase = volume["status"]["phase"].as_str().unwrap_or_default();
    let next = if uid.is_empty() {
        // A volume that a client has given another phase stays as it is.
        if matches!(phase, "" | "Pending") { "Available" } else { phase }
    } else {
        match claim.filter(|claim| meta::text(claim, "uid") == uid) {
            None if phase == "Failed" => phase,
            None => "Released",
            Some(claim) if claim["spec"]["volumeName"] == meta::text(volume, "name") => "Bound",
            Some(_) => phase,
        }
    };
    if next != phase {
        let mut status = volume["status"].clone();
        status["phase"] = next.into();
        plan.actions.push(Action::SetStatus(status));
    }
    plan
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn phase_follows_the_claim() {
        let volume = |phase: &str, uid: &str| json!({"metadata": {"name": "v"}, "spec": {"claimRef": {"uid": uid}}, "status": {"phase": phase}});
        let claim =
            |uid: &str, volume: &str| json!({"metadata": {"uid": uid}, "spec": {"volumeName": volume}});
        let next = |volume: &Value, claim: Option<&Value>| {
            let plan = plan(volume, claim);
            let [Action::SetStatus(status)] = plan.actions.as_slice() else { return String::new() };
            status["phase"].as_str().unwrap_or_default().to_owned()
        };
        assert_eq!(next(&volume("Pending", ""), None), "Available");
        assert_eq!(next(&volume("Available", "u"), Some(&claim("u", ""))), "", "the claim is not bound yet");
        assert_eq!(next(&volume("Available", "u"), Some(&claim("u", "v"))), "Bound");
        assert_eq!(next(&volume("Bound", "u"), Some(&claim("other", "v"))), "Released");
        assert_eq!(next(&volume("Bound", "u"), None), "Released");
        assert_eq!(next(&volume("Released", "u"), None), "");
        assert_eq!(next(&volume("Failed", ""), None), "", "what a client wrote");
    }
}
