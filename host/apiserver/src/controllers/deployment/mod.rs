//! Deployments, after `k8s.io/kubernetes/pkg/controller/deployment`.
//!
//! [`rollout`] decides, [`replica_sets`] has the ReplicaSets of a Deployment with their revisions, [`scaling`] distributes
//! replicas over several ReplicaSets, and [`status`] computes the status.

mod replica_sets;
mod rollout;
mod scaling;
mod status;

use std::collections::BTreeSet;

use serde_json::Value;

use super::action::Plan;
use super::claim::claim;
use super::cluster::Cluster;
use super::kind::Kind;
use super::kind_controller::{KindController, Trigger};
use super::object::{int_or_percent, number, selector};
use super::pod;
use crate::meta;
use replica_sets::ReplicaSets;
use rollout::Situation;

/// Returns the controller of Deployments.
pub(super) fn controller() -> KindController {
    KindController::new(Kind::Deployment, reconcile).triggers(&[(Kind::ReplicaSet, Trigger::Owners)])
}

fn reconcile(cluster: &Cluster<'_>, deployment: &Value) -> Plan {
    let Some(selector) = selector(&deployment["spec"]["selector"], &deployment["spec"]["template"]) else {
        return Plan::default();
    };
    let claimed = claim(cluster, Kind::ReplicaSet, (Kind::Deployment, deployment), &selector);
    let settings = Settings::of(deployment);
    let namespace = meta::text(deployment, "namespace");
    let with_pods = if settings.recreate { sets_with_pods(cluster, namespace) } else { BTreeSet::new() };
    let situation = Situation {
        sets: ReplicaSets::new(deployment, claimed.objects),
        is_name_taken: &|name| cluster.get(Kind::ReplicaSet, namespace, name).is_some(),
        with_pods,
        now: cluster.now,
    };
    let mut plan = rollout::plan(deployment, &settings, situation);
    plan.actions.splice(0..0, claimed.actions);
    plan
}

/// Returns the UIDs of the controllers in a namespace that have Pods whose containers have not ended.
fn sets_with_pods(cluster: &Cluster<'_>, namespace: &str) -> BTreeSet<Box<str>> {
    let pods = cluster.list(Kind::Pod, Some(namespace));
    let running = pods.iter().filter(|pod| !pod::is_ended(&pod.value()));
    running
        .flat_map(|pod| &pod.owners)
        .filter(|owner| owner.controller)
        .map(|owner| owner.uid.clone())
        .collect()
}

/// The numbers of a Deployment's specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Settings {
    replicas: i64,
    recreate: bool,
    paused: bool,
    /// How many Pods more than `replicas` may exist during a rolling update.
    max_surge: i64,
    /// How many of the replicas may be unavailable.
    max_unavailable: i64,
    /// Seconds; `None` for no deadline.
    progress_deadline: Option<i64>,
    history_limit: usize,
}

impl Settings {
    fn of(deployment: &Value) -> Self {
        let spec = &deployment["spec"];
        let replicas = number(&spec["replicas"], 1).max(0);
        let recreate = spec["strategy"]["type"] == "Recreate";
        let rolling = &spec["strategy"]["rollingUpdate"];
        let (mut max_surge, mut max_unavailable) = (0, 0);
        if !recreate {
            let limit = |name: &str, round_up| match &rolling[name] {
                Value::Null => int_or_percent(&Value::from("25%"), replicas, round_up),
                value => int_or_percent(value, replicas, round_up),
            };
            max_surge = limit("maxSurge", true).max(0);
            max_unavailable = limit("maxUnavailable", false).clamp(0, replicas);
            if max_surge == 0 && max_unavailable == 0 {
                // Nothing could be replaced otherwise.
                max_unavailable = replicas.min(1);
            }
        }
        let deadline = number(&spec["progressDeadlineSeconds"], 600);
        Self {
            replicas,
            recreate,
            paused: spec["paused"] == true,
            max_surge,
            max_unavailable,
            progress_deadline: (deadline < i64::from(i32::MAX)).then_some(deadline),
            history_limit: usize::try_from(number(&spec["revisionHistoryLimit"], 10)).unwrap_or(usize::MAX),
        }
    }

    /// Returns the most Pods that may exist.
    fn max_pods(&self) -> i64 {
        self.replicas.saturating_add(self.max_surge)
    }

    /// Returns the fewest Pods that have to be available.
    fn min_available(&self) -> i64 {
        self.replicas - self.max_unavailable
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn percentages_of_the_strategy_are_resolved() {
        let settings =
            |strategy: Value| Settings::of(&json!({"spec": {"replicas": 10, "strategy": strategy}}));
        let default = settings(json!({}));
        assert_eq!((default.max_surge, default.max_unavailable), (3, 2));
        let none = settings(json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "1%"}}));
        assert_eq!((none.max_surge, none.max_unavailable), (0, 1));
        let recreate = settings(json!({"type": "Recreate"}));
        assert_eq!((recreate.max_pods(), recreate.min_available()), (10, 10));
    }
}
