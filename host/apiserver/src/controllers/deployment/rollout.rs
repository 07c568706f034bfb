//! Decides the next step of a rollout.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::action::{Action, Plan};
use super::super::kind::Kind;
use super::super::object::{after_seconds, condition, is_deleting, key, number, time, until};
use super::replica_sets::{REVISION, ReplicaSets, set_name};
use super::{Settings, scaling, status};
use crate::meta;

/// How often it is checked whether the Pods of the old template have ended.
const RECREATE_INTERVAL: Duration = Duration::from_millis(100);

/// What the decision depends on besides the Deployment.
pub(super) struct Situation<'a> {
    pub(super) sets: ReplicaSets,
    /// Whether a ReplicaSet of this name exists, owned by the Deployment or not.
    pub(super) is_name_taken: &'a dyn Fn(&str) -> bool,
    /// The UIDs of ReplicaSets with Pods whose containers have not ended. Only for the strategy `Recreate`.
    pub(super) with_pods: BTreeSet<Box<str>>,
    pub(super) now: Timestamp,
}

/// What was found out while planning, for the status.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The name of the ReplicaSet that is created in this step.
    pub(super) created: Option<String>,
    /// Whether the name of the ReplicaSet to create belongs to another one.
    pub(super) collision: bool,
}

/// Decides which ReplicaSets to create, scale and delete, and the status.
pub(super) fn plan(deployment: &Value, settings: &Settings, situation: Situation<'_>) -> Plan {
    let Situation { mut sets, is_name_taken, with_pods, now } = situation;
    let mut plan = Plan::default();
    let mut progress = Progress::default();
    if !is_deleting(deployment) {
        sets.synchronize_current(deployment);
        if settings.paused || scaling::is_scaling_event(&sets, settings) {
            scaling::scale(&mut sets, settings, number(&deployment["status"]["replicas"], 0));
        } else if sets.new.is_none() {
            create_current(
                deployment,
                settings,
                &mut sets,
                (is_name_taken, &with_pods),
                &mut progress,
                &mut plan,
            );
        } else if settings.recreate {
            recreate(settings, &mut sets);
        } else {
            rolling_update(settings, &mut sets);
        }
        if settings.recreate && waits_for_old_pods(&sets, &with_pods) {
            plan.retry_after(RECREATE_INTERVAL);
        }
    }
    plan.actions.extend(sets.changes());
    let new_status = status::status(deployment, settings, &sets, &progress, now);
    let is_complete = status::is_complete(deployment, settings, &new_status);
    if let Some(deadline) = settings.progress_deadline.filter(|_| !is_complete && !settings.paused)
        && let Some(since) =
            condition(&new_status, "Progressing").and_then(|progressing| time(&progressing["lastUpdateTime"]))
        && let Some(delay) = until(after_seconds(since, deadline.saturating_add(1)), now)
    {
        plan.retry_after(delay);
    }
    if is_complete && !is_deleting(deployment) {
        plan.actions.extend(sets.clean_up(settings.history_limit));
    }
    if new_status != deployment["status"] {
        plan.actions.push(Action::SetStatus(new_status));
    }
    // After the status, which is written only if the Deployment is as it was read.
    let revision = sets.new_revision().to_string();
    let has_current = sets.new.is_some() || progress.created.is_some();
    if has_current && deployment["metadata"]["annotations"][REVISION] != revision.as_str() {
        let patch = json!({"metadata": {"annotations": {REVISION: revision}}});
        plan.actions.push(Action::Patch(Kind::Deployment, key(deployment), patch));
    }
    plan
}

/// Returns whether a ReplicaSet has this name.
type IsNameTaken<'a> = dyn Fn(&str) -> bool + 'a;

/// Creates the ReplicaSet of the current template.
fn create_current(
    deployment: &Value,
    settings: &Settings,
    sets: &mut ReplicaSets,
    (is_name_taken, with_pods): (&IsNameTaken<'_>, &BTreeSet<Box<str>>),
    progress: &mut Progress,
    plan: &mut Plan,
) {
    if settings.recreate {
        for set in sets.old_mut().filter(|set| set.replicas > 0) {
            set.scale(0, settings);
        }
        if waits_for_old_pods(sets, with_pods) {
            return;
        }
    }
    let name = set_name(deployment);
    if is_name_taken(&name) {
        progress.collision = true;
        return;
    }
    let replicas = new_replicas(settings, sets.total_replicas(), 0);
    plan.actions.push(Action::Create(Kind::ReplicaSet, sets.create(deployment, settings, replicas)));
    if replicas > 0 {
        let message = format!("Scaled up replica set {name} from 0 to {replicas}");
        plan.actions.push(Action::Event { warning: false, reason: "ScalingReplicaSet", message });
    }
    progress.created = Some(name);
}

/// Whether Pods of old templates have to end before the current set is scaled up.
fn waits_for_old_pods(sets: &ReplicaSets, with_pods: &BTreeSet<Box<str>>) -> bool {
    sets.old().any(|set| set.count("replicas") > 0 || with_pods.contains(meta::text(&set.value, "uid")))
}

/// Returns the replicas of the current set after it was scaled up as far as the limit of Pods allows.
fn new_replicas(settings: &Settings, total: i64, current: i64) -> i64 {
    if settings.recreate {
        return settings.replicas;
    }
    let allowed = settings.max_pods() - total;
    if allowed <= 0 { current } else { current + allowed.min(settings.replicas - current) }
}

fn recreate(settings: &Settings, sets: &mut ReplicaSets) {
    let mut scaled_down = false;
    for set in sets.old_mut().filter(|set| set.replicas > 0) {
        set.scale(0, settings);
        scaled_down = true;
    }
    if !scaled_down && let Some(set) = sets.current_mut().filter(|set| set.replicas != settings.replicas) {
        set.scale(settings.replicas, settings);
    }
}

/// Scales the current set up, or, if that is not possible, old sets down.
fn rolling_update(settings: &Settings, sets: &mut ReplicaSets) {
    let total = sets.total_replicas();
    let Some(set) = sets.current_mut() else { return };
    let wanted = if set.replicas > settings.replicas {
        settings.replicas
    } else {
        new_replicas(settings, total, set.replicas)
    };
    if wanted != set.replicas {
        set.scale(wanted, settings);
        return;
    }
    let unavailable = set.replicas - set.count("availableReplicas");
    scale_down_old(settings, sets, unavailable);
}

/// Scales old sets down as far as enough Pods stay available, those with Pods that are not available first.
fn scale_down_old(settings: &Settings, sets: &mut ReplicaSets, new_unavailable: i64) {
    let max_scaled_down = sets.total_replicas() - settings.min_available() - new_unavailable;
    if max_scaled_down <= 0 {
        return;
    }
    let mut cleaned_up = 0;
    for set in sets.old_mut().filter(|set| set.replicas > 0) {
        let unhealthy = set.replicas - set.count("availableReplicas");
        let count = unhealthy.min(max_scaled_down - cleaned_up);
        if count > 0 {
            cleaned_up += count;
            set.scale(set.replicas - count, settings);
        }
    }
    let mut remaining = sets.total("availableReplicas") - settings.min_available();
    for set in sets.old_mut().filter(|set| set.replicas > 0) {
        let count = set.replicas.min(remaining);
        if count > 0 {
            remaining -= count;
            set.scale(set.replicas - count, settings);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T00:01:00Z";

    fn deployment(replicas: i64, image: &str) -> Value {
        json!({
            "metadata": {
                "name": "web", "namespace": "default", "uid": "d", "generation": 1,
                "annotations": {"note": "hello", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
            },
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"image": image}]}},
            },
        })
    }

    fn plan_with(deployment: &Value, sets: &[Value]) -> Plan {
        let situation = Situation {
            sets: ReplicaSets::new(deployment, sets.to_vec()),
            is_name_taken: &|_| false,
            with_pods: BTreeSet::new(),
            now: NOW.parse().expect("a time"),
        };
        plan(deployment, &Settings::of(deployment), situation)
    }

    /// Plays a rollout: executes the plan on the sets and lets all their Pods become available.
    fn play(deployment: &mut Value, sets: &mut Vec<Value>, rounds: usize) {
        for _ in 0..rounds {
            for action in plan_with(deployment, sets).actions {
                match action {
                    Action::Create(_, mut set) | Action::CreateOrStop(_, mut set) => {
                        set["metadata"]["uid"] = set["metadata"]["name"].clone();
                        set["metadata"]["creationTimestamp"] =
                            format!("2026-01-01T00:00:{:02}Z", sets.len()).into();
                        sets.push(set);
                    }
                    Action::Patch(Kind::ReplicaSet, (_, name), patch) => {
                        let set = sets.iter_mut().find(|set| set["metadata"]["name"] == *name);
                        let set = set.expect("a known set");
                        *set = crate::patch::merge_patch(set, &patch);
                    }
                    Action::Patch(_, _, patch) => *deployment = crate::patch::merge_patch(deployment, &patch),
                    Action::SetStatus(status) => deployment["status"] = status,
                    Action::Delete { key: (_, name), .. } => {
                        sets.retain(|set| set["metadata"]["name"] != *name);
                    }
                    Action::Event { .. }
                    | Action::Bind { .. }
                    | Action::Remove
                    | Action::Scale(..)
                    | Action::SetApproval(_) => {}
                }
            }
            for set in sets.iter_mut() {
                let replicas = set["spec"]["replicas"].clone();
                set["status"] =
                    json!({"replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas});
            }
        }
    }

    fn sizes(sets: &[Value]) -> Vec<i64> {
        sets.iter().map(|set| number(&set["spec"]["replicas"], -1)).collect()
    }

    fn progressing(deployment: &Value) -> &Value {
        &condition(&deployment["status"], "Progressing").expect("a condition")["reason"]
    }

    #[test]
    fn first_set_has_the_template_revision_and_annotations() {
        let plan = plan_with(&deployment(3, "a"), &[]);
        let Action::Create(Kind::ReplicaSet, set) = &plan.actions[0] else { panic!("{plan:?}") };
        let hash = &set["metadata"]["labels"]["pod-template-hash"];
        assert_eq!(set["metadata"]["name"], format!("web-{}", hash.as_str().expect("a hash")));
        assert_eq!(
            (&set["spec"]["selector"]["matchLabels"]["pod-template-hash"], &set["spec"]["replicas"]),
            (hash, &json!(3))
        );
        assert_eq!(
            set["metadata"]["annotations"],
            json!({
                "note": "hello", "deployment.kubernetes.io/revision": "1",
                "deployment.kubernetes.io/desired-replicas": "3", "deployment.kubernetes.io/max-replicas": "4",
            })
        );
        let Some(Action::Patch(Kind::Deployment, _, patch)) = plan.actions.last() else { panic!("{plan:?}") };
        assert_eq!(patch["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    }

    #[test]
    fn rolling_update_never_exceeds_its_limits_and_completes() {
        let (mut deployment, mut sets) = (deployment(10, "a"), Vec::new());
        play(&mut deployment, &mut sets, 3);
        assert_eq!((sizes(&sets), progressing(&deployment)), (vec![10], &json!("NewReplicaSetAvailable")));
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "b".into();
        for _ in 0..20 {
            play(&mut deployment, &mut sets, 1);
            let total: i64 = sizes(&sets).iter().sum();
            assert!((8..=13).contains(&total), "{:?}", sizes(&sets));
        }
        assert_eq!((sizes(&sets), progressing(&deployment)), (vec![0, 10], &json!("NewReplicaSetAvailable")));
        assert_eq!(deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
        assert_eq!(deployment["status"]["updatedReplicas"], 10);
    }

    #[test]
    fn undo_reuses_the_old_set_with_a_new_revision() {
        let (mut deployment, mut sets) = (deployment(2, "a"), Vec::new());
        play(&mut deployment, &mut sets, 3);
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "b".into();
        play(&mut deployment, &mut sets, 10);
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "a".into();
        play(&mut deployment, &mut sets, 10);
        assert_eq!(sizes(&sets), [2, 0]);
        let annotations = &sets[0]["metadata"]["annotations"];
        assert_eq!(annotations["deployment.kubernetes.io/revision"], "3");
        assert_eq!(annotations["deployment.kubernetes.io/revision-history"], "1");
        assert_eq!(deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");
    }

    #[test]
    fn recreate_scales_the_old_set_to_zero_first() {
        let mut deployment = deployment(2, "a");
        deployment["spec"]["strategy"] = json!({"type": "Recreate"});
        let mut sets = Vec::new();
        play(&mut deployment, &mut sets, 3);
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "b".into();
        play(&mut deployment, &mut sets, 1);
        assert_eq!(sizes(&sets), [0]);
        play(&mut deployment, &mut sets, 3);
        assert_eq!(sizes(&sets), [0, 2]);
    }

    #[test]
    fn paused_deployment_scales_but_does_not_roll_out() {
        let (mut deployment, mut sets) = (deployment(2, "a"), Vec::new());
        play(&mut deployment, &mut sets, 3);
        deployment["spec"]["paused"] = true.into();
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "b".into();
        deployment["spec"]["replicas"] = 4.into();
        play(&mut deployment, &mut sets, 3);
        assert_eq!((sizes(&sets), progressing(&deployment)), (vec![4], &json!("DeploymentPaused")));
    }

    #[test]
    fn scaling_during_a_rollout_keeps_the_proportion() {
        let (mut deployment, mut sets) = (deployment(10, "a"), Vec::new());
        play(&mut deployment, &mut sets, 3);
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "b".into();
        play(&mut deployment, &mut sets, 2);
        let before = sizes(&sets);
        assert!(before.iter().all(|size| *size > 0), "{before:?}");
        deployment["spec"]["replicas"] = 20.into();
        play(&mut deployment, &mut sets, 1);
        let after = sizes(&sets);
        assert_eq!(after.iter().sum::<i64>(), 25);
        assert!(after.iter().zip(&before).all(|(after, before)| after >= before), "{before:?} {after:?}");
        play(&mut deployment, &mut sets, 20);
        assert_eq!(sizes(&sets), [0, 20]);
    }

    #[test]
    fn old_sets_beyond_the_history_limit_are_deleted() {
        let mut deployment = deployment(1, "0");
        deployment["spec"]["revisionHistoryLimit"] = 2.into();
        let mut sets = Vec::new();
        for image in ["1", "2", "3", "4"] {
            deployment["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
            play(&mut deployment, &mut sets, 10);
        }
        assert_eq!(sizes(&sets), [0, 0, 1]);
    }

    #[test]
    fn taken_name_is_avoided_by_a_collision_count() {
        let deployment = deployment(1, "a");
        let situation = Situation {
            sets: ReplicaSets::new(&deployment, Vec::new()),
            is_name_taken: &|_| true,
            with_pods: BTreeSet::new(),
            now: NOW.parse().expect("a time"),
        };
        let plan = plan(&deployment, &Settings::of(&deployment), situation);
        let [Action::SetStatus(status)] = plan.actions.as_slice() else { panic!("{plan:?}") };
        assert_eq!(status["collisionCount"], 1);
    }
}
