//! Tests of the decisions about StatefulSets.

use serde_json::json;

use super::*;

fn set(replicas: i64, image: &str) -> Value {
    json!({
        "metadata": {"name": "db", "namespace": "n", "uid": "u", "generation": 1},
        "spec": {
            "replicas": replicas, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"image": image}]}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}],
        },
        "status": {"replicas": 0},
    })
}

/// A cluster of one StatefulSet. Pods become ready in the round after their creation.
struct World {
    set: Value,
    pods: Vec<Value>,
    revisions: Vec<Value>,
    claims: BTreeMap<String, Value>,
}

impl World {
    fn new(set: Value) -> Self {
        Self { set, pods: Vec::new(), revisions: Vec::new(), claims: BTreeMap::new() }
    }

    fn step(&mut self) {
        let situation = Situation {
            pods: self.pods.clone(),
            revisions: self.revisions.clone(),
            claim: &|name| self.claims.get(name).cloned(),
            pod_allowance: 100,
            now: "2026-01-01T00:00:00Z".parse().expect("a time"),
        };
        let plan = plan(&self.set, situation);
        for pod in &mut self.pods {
            pod["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        }
        for action in plan.actions {
            match action {
                Action::Create(Kind::Pod, pod) => self.pods.push(pod),
                Action::Create(Kind::PersistentVolumeClaim, claim) => {
                    self.claims.insert(meta::text(&claim, "name").to_owned(), claim);
                }
                Action::Create(_, revision) => self.revisions.push(revision),
                Action::Delete { kind: Kind::Pod, key: (_, name), .. } => {
                    self.pods.retain(|pod| meta::text(pod, "name") != &*name);
                }
                Action::Patch(Kind::PersistentVolumeClaim, (_, name), patch) => {
                    let claim = self.claims.get_mut(&*name).expect("a claim");
                    *claim = crate::patch::merge_patch(claim, &patch);
                }
                Action::SetStatus(status) => self.set["status"] = status,
                other => panic!("{other:?}"),
            }
        }
    }

    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.pods.iter().map(|pod| meta::text(pod, "name")).collect();
        names.sort_unstable();
        names
    }
}

#[test]
fn pods_start_one_after_the_other_with_their_claims() {
    let mut world = World::new(set(2, "1"));
    world.step();
    assert_eq!(world.names(), ["db-0"]);
    world.step();
    assert_eq!(world.names(), ["db-0"], "the first Pod was not ready");
    world.step();
    assert_eq!(world.names(), ["db-0", "db-1"]);
    assert_eq!(world.claims.keys().collect::<Vec<_>>(), ["data-db-0", "data-db-1"]);
    let pod = &world.pods[1];
    assert_eq!(
        (&pod["spec"]["hostname"], &pod["spec"]["subdomain"], &pod["metadata"]["labels"][POD_INDEX_LABEL]),
        (&json!("db-1"), &json!("db"), &json!("1"))
    );
    assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "data-db-1");
}

#[test]
fn parallel_policy_starts_all_pods_at_once() {
    let mut parallel = set(3, "1");
    parallel["spec"]["podManagementPolicy"] = json!("Parallel");
    let mut world = World::new(parallel);
    world.step();
    assert_eq!(world.names(), ["db-0", "db-1", "db-2"]);
}

#[test]
fn scaling_down_deletes_the_highest_ordinal_and_keeps_claims() {
    let mut world = World::new(set(3, "1"));
    (0..9).for_each(|_| world.step());
    world.set["spec"]["replicas"] = json!(1);
    world.step();
    assert_eq!(world.names(), ["db-0", "db-1"]);
    world.step();
    assert_eq!((world.names(), world.claims.len()), (vec!["db-0"], 3));
}

#[test]
fn claims_are_deleted_with_scaled_down_pods_if_the_policy_says_so() {
    let mut world = World::new(set(2, "1"));
    world.set["spec"]["persistentVolumeClaimRetentionPolicy"] =
        json!({"whenScaled": "Delete", "whenDeleted": "Retain"});
    (0..9).for_each(|_| world.step());
    world.pods.iter_mut().for_each(|pod| pod["metadata"]["uid"] = pod["metadata"]["name"].clone());
    world.set["spec"]["replicas"] = json!(1);
    world.step();
    let owner = |name: &str| world.claims[name]["metadata"]["ownerReferences"][0]["name"].clone();
    assert_eq!((owner("data-db-0"), owner("data-db-1")), (Value::Null, json!("db-1")));
    assert_eq!(world.names(), ["db-0"]);
    // The garbage collector has not deleted the claim yet.
    world.set["spec"]["replicas"] = json!(2);
    world.step();
    assert_eq!(world.names(), ["db-0"]);
    world.claims.remove("data-db-1");
    world.step();
    assert_eq!(world.names(), ["db-0", "db-1"]);
}

#[test]
fn rolling_update_replaces_pods_from_the_highest_ordinal_down_to_the_partition() {
    let mut world = World::new(set(3, "1"));
    (0..9).for_each(|_| world.step());
    let before = world.set["status"]["currentRevision"].clone();
    world.set["spec"]["template"]["spec"]["containers"][0]["image"] = json!("2");
    world.set["spec"]["updateStrategy"] = json!({"rollingUpdate": {"partition": 1}});
    world.step();
    assert_eq!(world.names(), ["db-0", "db-1"], "the highest ordinal goes first");
    (0..20).for_each(|_| world.step());
    let status = &world.set["status"];
    assert_eq!((&status["updatedReplicas"], &status["currentRevision"]), (&json!(2), &before));
    world.set["spec"]["updateStrategy"] = json!({});
    (0..20).for_each(|_| world.step());
    let status = &world.set["status"];
    assert_eq!((&status["updatedReplicas"], &status["readyReplicas"]), (&json!(3), &json!(3)));
    assert_eq!(status["currentRevision"], status["updateRevision"]);
    assert_ne!(status["currentRevision"], before);
}

#[test]
fn number_of_pods_is_capped() {
    let mut huge = set(1 << 31, "1");
    huge["spec"]["podManagementPolicy"] = json!("Parallel");
    let situation = Situation {
        pods: Vec::new(),
        revisions: Vec::new(),
        claim: &|_| Some(Value::Null),
        pod_allowance: 3,
        now: Timestamp::UNIX_EPOCH,
    };
    let plan = plan(&huge, situation);
    let pods = plan.actions.iter().filter(|action| matches!(action, Action::Create(Kind::Pod, _))).count();
    assert_eq!(pods, 3);
    assert!(plan.actions.iter().any(|action| matches!(action, Action::Event { warning: true, .. })));
}
