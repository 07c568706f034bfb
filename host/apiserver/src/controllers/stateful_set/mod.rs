//! StatefulSets, after `k8s.io/kubernetes/pkg/controller/statefulset`.

mod claims;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;

use super::action::{Action, Plan};
use super::claim::claim;
use super::cluster::{Cluster, MAX_PODS};
use super::kind::Kind;
use super::kind_controller::{KindController, Trigger};
use super::object::{is_deleting, items, key, number, selector, set_counter};
use super::{STEP, pod, revision};
use crate::meta;

const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// The maximum number of Pods created in one step.
const BURST: usize = 500;

/// Returns the controller of StatefulSets.
pub(super) fn controller() -> KindController {
    KindController::new(Kind::StatefulSet, reconcile).triggers(&[(Kind::Pod, Trigger::Owners)])
}

fn reconcile(cluster: &Cluster<'_>, set: &Value) -> Plan {
    let Some(parsed) = selector(&set["spec"]["selector"], &set["spec"]["template"]) else {
        return Plan::default();
    };
    let namespace = meta::text(set, "namespace");
    let claimed = claim(cluster, Kind::Pod, (Kind::StatefulSet, set), &parsed);
    let situation = Situation {
        pods: claimed.objects,
        revisions: cluster.controlled_by(Kind::ControllerRevision, namespace, meta::text(set, "uid")),
        claim: &|name| cluster.get(Kind::PersistentVolumeClaim, namespace, name),
        pod_allowance: cluster.pod_allowance(),
        now: cluster.now,
    };
    let mut plan = plan(set, situation);
    plan.actions.splice(0..0, claimed.actions);
    plan
}

type ClaimOf<'a> = dyn Fn(&str) -> Option<Value> + 'a;

/// What the decision depends on besides the StatefulSet.
struct Situation<'a> {
    pods: Vec<Value>,
    revisions: Vec<Value>,
    /// Returns the PersistentVolumeClaim of a name.
    claim: &'a ClaimOf<'a>,
    pod_allowance: usize,
    now: Timestamp,
}

/// Decides which Pods and claims to create, which Pods to delete, and the status.
fn plan(set: &Value, situation: Situation<'_>) -> Plan {
    let Situation { pods, revisions, claim, pod_allowance, now } = situation;
    let mut plan = Plan::default();
    let update = revision::current(Kind::StatefulSet, set, &revisions);
    let stored_revision = set["status"]["currentRevision"].as_str();
    let current = stored_revision.filter(|name| revisions.iter().any(|one| meta::text(one, "name") == *name));
    let current = current.unwrap_or(&update.name).to_owned();
    let update_name = update.name.clone();
    if !is_deleting(set) {
        plan.actions.extend(update.actions);
        let template =
            revisions.iter().find(|one| meta::text(one, "name") == current).map(revision::template);
        let replicas = Replicas::new((set, &pods), (&current, &update_name), template, now);
        replicas.next_actions(claim, pod_allowance, &mut plan);
        let min_ready = number(&set["spec"]["minReadySeconds"], 0);
        for delay in pods.iter().filter_map(|pod| pod::available_in(pod, min_ready, now)) {
            plan.retry_after(delay);
        }
    }
    let status = status(set, &pods, (&current, &update_name), now);
    let mut in_use: BTreeSet<String> = pods.iter().map(|pod| pod_revision(pod).to_owned()).collect();
    in_use.extend([current, update_name]);
    let in_use = revisions.iter().filter(|one| in_use.contains(meta::text(one, "name"))).map(key).collect();
    plan.actions.extend(revision::clean_up(set, &revisions, &in_use));
    if status != set["status"] {
        plan.actions.push(Action::SetStatus(status));
    }
    plan
}

/// The Pods of a StatefulSet by ordinal.
struct Replicas<'a> {
    set: &'a Value,
    by_ordinal: BTreeMap<i64, &'a Value>,
    /// The first ordinal, and the first one beyond the replicas.
    range: (i64, i64),
    current: &'a str,
    /// The template of the current revision, if it is stored.
    current_template: Option<Value>,
    update: &'a str,
    now: Timestamp,
}

impl<'a> Replicas<'a> {
    fn new(
        (set, pods): (&'a Value, &'a [Value]),
        (current, update): (&'a str, &'a str),
        current_template: Option<Value>,
        now: Timestamp,
    ) -> Self {
        let start = number(&set["spec"]["ordinals"]["start"], 0).max(0);
        let replicas = number(&set["spec"]["replicas"], 1).max(0);
        let by_ordinal = pods.iter().filter_map(|pod| Some((ordinal(set, pod)?, pod))).collect();
        let range = (start, start.saturating_add(replicas));
        Self { set, by_ordinal, range, current, current_template, update, now }
    }

    fn is_parallel(&self) -> bool {
        self.set["spec"]["podManagementPolicy"] == "Parallel"
    }

    fn is_available(&self, pod: &Value) -> bool {
        let min_ready = number(&self.set["spec"]["minReadySeconds"], 0);
        pod::phase(pod) == "Running" && pod::is_available(pod, min_ready, self.now) && !is_deleting(pod)
    }

    fn next_actions(&self, claim: &ClaimOf<'_>, pod_allowance: usize, plan: &mut Plan) {
        let (start, end) = self.range;
        let mut created = 0;
        for ordinal in start..end {
            match self.by_ordinal.get(&ordinal) {
                None if created >= pod_allowance => {
                    let message =
                        format!("Error creating: the embedded API server simulates at most {MAX_PODS} Pods");
                    plan.actions.push(Action::Event { warning: true, reason: "FailedCreate", message });
                    plan.retry_after(std::time::Duration::from_secs(5));
                    return;
                }
                // The deletion of a claim does not trigger this controller, so it looks again.
                None if self.has_stale_claim(ordinal, claim) => {
                    plan.retry_after(STEP);
                    if !self.is_parallel() {
                        return;
                    }
                }
                None => {
                    self.create(ordinal, claim, plan);
                    created += 1;
                    if !self.is_parallel() {
                        return;
                    }
                    if created >= BURST {
                        plan.retry_after(STEP);
                        return;
                    }
                }
                // An ended Pod is replaced once it is gone.
                Some(pod) if pod::is_ended(pod) && !is_deleting(pod) => {
                    plan.actions.push(Action::delete(Kind::Pod, pod));
                    if !self.is_parallel() {
                        return;
                    }
                }
                Some(pod) if !self.is_available(pod) && !self.is_parallel() => return,
                Some(pod) => self.own_claims(pod, false, claim, plan),
            }
        }
        let condemned: Vec<_> =
            self.by_ordinal.iter().rev().filter(|(ordinal, _)| !(start..end).contains(*ordinal)).collect();
        for (_, pod) in &condemned {
            self.own_claims(pod, true, claim, plan);
        }
        for (_, pod) in condemned {
            if is_deleting(pod) {
                if self.is_parallel() {
                    continue;
                }
                return;
            }
            plan.actions.push(Action::delete(Kind::Pod, pod));
            if !self.is_parallel() {
                return;
            }
        }
        self.update(plan);
    }

    /// Deletes the Pod with the highest ordinal that is not of the updated template, once all others are available.
    fn update(&self, plan: &mut Plan) {
        let strategy = &self.set["spec"]["updateStrategy"];
        if strategy["type"] == "OnDelete" {
            return;
        }
        let partition = number(&strategy["rollingUpdate"]["partition"], 0);
        let (start, end) = self.range;
        let first = start.max(partition);
        for (_, pod) in self.by_ordinal.range(first..end.max(first)).rev() {
            if pod_revision(pod) != self.update && !is_deleting(pod) {
                plan.actions.push(Action::delete(Kind::Pod, pod));
                return;
            }
            if !self.is_available(pod) {
                return;
            }
        }
    }

    fn pod_name(&self, ordinal: i64) -> String {
        format!("{}-{ordinal}", meta::text(self.set, "name"))
    }

    fn has_stale_claim(&self, ordinal: i64, claim: &ClaimOf<'_>) -> bool {
        let pod_name = self.pod_name(ordinal);
        claims::names(self.set, &pod_name)
            .filter_map(|name| claim(&name))
            .any(|claim| claims::is_stale(self.set, &pod_name, &claim))
    }

    /// Lets the claims of a Pod be deleted as the retention policy says.
    fn own_claims(&self, pod: &Value, is_condemned: bool, claim: &ClaimOf<'_>, plan: &mut Plan) {
        let present = claims::names(self.set, meta::text(pod, "name")).filter_map(|name| claim(&name));
        plan.actions
            .extend(present.filter_map(|claim| claims::set_owner(self.set, pod, is_condemned, &claim)));
    }

    fn create(&self, ordinal: i64, claim: &ClaimOf<'_>, plan: &mut Plan) {
        let name = self.pod_name(ordinal);
        // Pods below the partition keep the template of the current revision.
        let partition = number(&self.set["spec"]["updateStrategy"]["rollingUpdate"]["partition"], 0);
        let (template, revision) = match &self.current_template {
            Some(template) if ordinal < partition => (template, self.current),
            _ => (&self.set["spec"]["template"], self.update),
        };
        let mut pod = pod::from_template(template, Kind::StatefulSet, self.set);
        let metadata = meta::metadata_mut(&mut pod);
        metadata.remove("generateName");
        metadata.insert("name".into(), name.as_str().into());
        let labels = &mut pod["metadata"]["labels"];
        labels[revision::HASH_LABEL] = revision.into();
        labels[POD_NAME_LABEL] = name.as_str().into();
        labels[POD_INDEX_LABEL] = ordinal.to_string().into();
        pod["spec"]["hostname"] = name.as_str().into();
        if let Some(service) = self.set["spec"]["serviceName"].as_str().filter(|service| !service.is_empty())
        {
            pod["spec"]["subdomain"] = service.into();
        }
        claims::mount(self.set, &mut pod);
        for template in items(&self.set["spec"]["volumeClaimTemplates"]) {
            if claim(&claims::name(template, &name)).is_none() {
                let claim = claims::new_claim(self.set, template, &name);
                plan.actions.push(Action::Create(Kind::PersistentVolumeClaim, claim));
            }
        }
        plan.actions.push(Action::Create(Kind::Pod, pod));
    }
}

/// Returns the ordinal in the name of a Pod of the set.
fn ordinal(set: &Value, pod: &Value) -> Option<i64> {
    let number = meta::text(pod, "name").strip_prefix(meta::text(set, "name"))?.strip_prefix('-')?;
    number.parse().ok().filter(|ordinal| *ordinal >= 0)
}

fn pod_revision(pod: &Value) -> &str {
    pod["metadata"]["labels"][revision::HASH_LABEL].as_str().unwrap_or_default()
}

/// Returns the status for the Pods that exist.
fn status(set: &Value, pods: &[Value], (current, update): (&str, &str), now: Timestamp) -> Value {
    let mut status = set["status"].clone();
    let min_ready = number(&set["spec"]["minReadySeconds"], 0);
    let count = |keep: &dyn Fn(&Value) -> bool| {
        i64::try_from(pods.iter().filter(|pod| keep(pod)).count()).unwrap_or(i64::MAX)
    };
    let updated = count(&|pod| pod::is_active(pod) && pod_revision(pod) == update);
    let available = count(&|pod| pod::is_active(pod) && pod::is_available(pod, min_ready, now));
    let replicas = number(&set["spec"]["replicas"], 1);
    // The rollout is complete: the updated template is the current one.
    let is_complete =
        updated == replicas && count(&pod::is_ready) == replicas && count(&|_| true) == replicas;
    let current =
        if is_complete && set["spec"]["updateStrategy"]["type"] != "OnDelete" { update } else { current };
    status["replicas"] = count(&|_| true).into();
    status["availableReplicas"] = available.into();
    set_counter(
        &mut status,
        "readyReplicas",
        count(&|pod| pod::phase(pod) == "Running" && pod::is_ready(pod)),
    );
    set_counter(&mut status, "updatedReplicas", updated);
    let of_current = count(&|pod| pod::is_active(pod) && pod_revision(pod) == current);
    set_counter(&mut status, "currentReplicas", of_current);
    status["currentRevision"] = current.into();
    status["updateRevision"] = update.into();
    status["observedGeneration"] = meta::generation(set).into();
    status["collisionCount"] = number(&set["status"]["collisionCount"], 0).into();
    status
}

#[cfg(test)]
mod tests;
