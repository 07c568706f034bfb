//! The binding of a PersistentVolumeClaim.

use serde_json::{Value, json};

use super::super::action::{Action, Plan};
use super::super::cluster::Cluster;
use super::super::kind::Kind;
use super::super::object::{is_deleting, key};
use super::{
    BIND_COMPLETED, BOUND_BY_CONTROLLER, PROVISIONER, SELECTED_NODE, annotation, matching, refers_to,
};
use crate::meta;

pub(super) fn reconcile(cluster: &Cluster<'_>, claim: &Value) -> Plan {
    let class = cluster.get(Kind::StorageClass, "", matching::class(claim));
    let named = claim["spec"]["volumeName"].as_str().filter(|name| !name.is_empty());
    let volumes: Vec<Value> = match named {
        Some(name) => cluster.get(Kind::PersistentVolume, "", name).into_iter().collect(),
        None => cluster.list(Kind::PersistentVolume, None).iter().map(|volume| volume.value()).collect(),
    };
    plan(claim, &volumes, class.as_ref())
}

/// Decides the next step of the binding. `volumes` are those that the claim can get: the named one, or all.
fn plan(claim: &Value, volumes: &[Value], class: Option<&Value>) -> Plan {
    let mut plan = Plan::default();
    if is_deleting(claim) {
        return plan;
    }
    let named = claim["spec"]["volumeName"].as_str().filter(|name| !name.is_empty());
    if annotation(claim, BIND_COMPLETED).is_some() {
        plan.actions.extend(report(claim, volumes.first()));
    } else if named.is_some() {
        let Some(volume) = volumes.first() else { return plan };
        if refers_to(volume, claim) {
            bind(claim, volume, &mut plan);
        } else if volume["spec"]["claimRef"].is_null() {
            match matching::mismatch(volume, claim) {
                None => bind(claim, volume, &mut plan),
                Some(problem) => plan.actions.push(mismatch_event(volume, problem)),
            }
        }
    } else if let Some(volume) = matching::find(claim, volumes, waits_for_consumer(claim, class)) {
        bind(claim, volume, &mut plan);
    } else if let Some(class) = class {
        ask_provisioner(claim, class, &mut plan);
    }
    plan
}

/// Whether the volume is selected or created only when a Pod that uses the claim has a Node.
pub(in super::super) fn waits_for_consumer(claim: &Value, class: Option<&Value>) -> bool {
    class.is_some_and(|class| class["volumeBindingMode"] == "WaitForFirstConsumer")
        && annotation(claim, SELECTED_NODE).is_none()
}

/// Lets a volume and a claim refer to each other.
fn bind(claim: &Value, volume: &Value, plan: &mut Plan) {
    let (volume_name, uid) = (meta::text(volume, "name"), meta::text(claim, "uid"));
    let reference = &volume["spec"]["claimRef"];
    if reference["uid"] != uid {
        let mut patch = json!({"spec": {"claimRef": {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta::text(claim, "namespace"),
            "name": meta::text(claim, "name"), "uid": uid, "resourceVersion": meta::text(claim, "resourceVersion"),
        }}});
        if reference.is_null() {
            patch["metadata"]["annotations"][BOUND_BY_CONTROLLER] = "yes".into();
        }
        plan.actions.push(Action::Patch(Kind::PersistentVolume, key(volume), patch));
    }
    let mut patch = json!({"metadata": {"annotations": {BIND_COMPLETED: "yes"}}});
    if claim["spec"]["volumeName"] != volume_name {
        patch["spec"] = json!({"volumeName": volume_name});
        patch["metadata"]["annotations"][BOUND_BY_CONTROLLER] = "yes".into();
    }
    plan.actions.push(Action::Patch(Kind::PersistentVolumeClaim, key(claim), patch));
}

/// Reports the volume of a claim that is bound, or that it is lost.
fn report(claim: &Value, volume: Option<&Value>) -> Option<Action> {
    let mut status = claim["status"].clone();
    match volume.filter(|volume| refers_to(volume, claim)) {
        Some(volume) => {
            status["phase"] = "Bound".into();
            status["accessModes"] = volume["spec"]["accessModes"].clone();
            // A larger volume is reported when its file system has grown, which a test does.
            if status["capacity"].is_null() {
                status["capacity"] = volume["spec"]["capacity"].clone();
            }
        }
        None if status["phase"] == "Lost" => {}
        None => {
            status["phase"] = "Lost".into();
            for field in ["accessModes", "capacity"] {
                status.as_object_mut().and_then(|status| status.remove(field));
            }
        }
    }
    (status != claim["status"]).then_some(Action::SetStatus(status))
}

/// Names the provisioner of the class in the annotations of a claim, which it waits for.
fn ask_provisioner(claim: &Value, class: &Value, plan: &mut Plan) {
    let provisioner = class["provisioner"].as_str().unwrap_or_default();
    let is_named = PROVISIONER.iter().all(|name| annotation(claim, name) == Some(provisioner));
    if is_named || provisioner == "kubernetes.io/no-provisioner" || waits_for_consumer(claim, Some(class)) {
        return;
    }
    let [beta, stable] = PROVISIONER;
    let patch = json!({"metadata": {"annotations": {beta: provisioner, stable: provisioner}}});
    plan.actions.push(Action::Patch(Kind::PersistentVolumeClaim, key(claim), patch));
    plan.actions.push(Action::Event {
        warning: false,
        reason: "ExternalProvisioning",
        message: format!(
            "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system \
             administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
        ),
    });
}

fn mismatch_event(volume: &Value, problem: &str) -> Action {
    let message = format!("Cannot bind to requested volume {:?}: {problem}", meta::text(volume, "name"));
    Action::Event { warning: true, reason: "VolumeMismatch", message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(spec: &Value) -> Value {
        let mut claim = json!({
            "metadata": {"name": "c", "namespace": "n", "uid": "u", "resourceVersion": "7"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Pending"},
        });
        for (field, value) in spec.as_object().into_iter().flatten() {
            claim["spec"][field] = value.clone();
        }
        claim
    }

    fn volume() -> Value {
        json!({
            "metadata": {"name": "v"},
            "spec": {"capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"]},
            "status": {"phase": "Available"},
        })
    }

    /// Executes a plan on a claim and a volume, as the server does.
    fn apply(plan: &Plan, claim: &mut Value, volume: &mut Value) {
        for action in &plan.actions {
            match action {
                Action::Patch(Kind::PersistentVolume, _, patch) => {
                    *volume = crate::patch::merge_patch(volume, patch);
                }
                Action::Patch(_, _, patch) => *claim = crate::patch::merge_patch(claim, patch),
                Action::SetStatus(status) => claim["status"] = status.clone(),
                _ => {}
            }
        }
    }

    #[test]
    fn claim_and_volume_refer_to_each_other_before_the_status_says_so() {
        for spec in [json!({}), json!({"volumeName": "v"})] {
            let (mut claim, mut volume) = (claim(&spec), volume());
            let first = plan(&claim, &[volume.clone()], None);
            apply(&first, &mut claim, &mut volume);
            assert_eq!(
                (&claim["spec"]["volumeName"], &claim["status"]["phase"]),
                (&json!("v"), &json!("Pending"))
            );
            assert_eq!(volume["spec"]["claimRef"]["uid"], "u");
            let second = plan(&claim, &[volume.clone()], None);
            apply(&second, &mut claim, &mut volume);
            assert_eq!(
                (&claim["status"]["phase"], &claim["status"]["capacity"]["storage"]),
                (&json!("Bound"), &json!("2Gi"))
            );
            assert_eq!(plan(&claim, &[volume], None), Plan::default());
            let lost = plan(&claim, &[], None);
            let [Action::SetStatus(status)] = lost.actions.as_slice() else { panic!("{lost:?}") };
            assert_eq!(*status, json!({"phase": "Lost"}));
        }
    }

    #[test]
    fn named_volume_that_does_not_match_is_reported() {
        let small = claim(&json!({"volumeName": "v", "resources": {"requests": {"storage": "3Gi"}}}));
        let plan = plan(&small, &[volume()], None);
        let [Action::Event { message, .. }] = plan.actions.as_slice() else { panic!("{plan:?}") };
        assert_eq!(message, "Cannot bind to requested volume \"v\": requested PV is too small");
    }

    #[test]
    fn provisioner_is_named_when_a_volume_has_to_be_created() {
        let mut class = json!({"provisioner": "p", "volumeBindingMode": "Immediate"});
        let mut claim = claim(&json!({"storageClassName": "s"}));
        let asked = plan(&claim, &[], Some(&class));
        apply(&asked, &mut claim, &mut Value::Null);
        assert_eq!(PROVISIONER.map(|name| annotation(&claim, name)), [Some("p"); 2]);
        assert_eq!(plan(&claim, &[], Some(&class)), Plan::default(), "once");
        class["volumeBindingMode"] = json!("WaitForFirstConsumer");
        claim["metadata"]["annotations"] = json!({});
        assert_eq!(plan(&claim, &[], Some(&class)), Plan::default());
        claim["metadata"]["annotations"] = json!({SELECTED_NODE: "node"});
        assert_ne!(plan(&claim, &[], Some(&class)), Plan::default());
    }
}
