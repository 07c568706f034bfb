//! Tests of the decisions about Jobs.

use super::*;

const NOW: &str = "2026-01-01T00:10:00Z";

fn job(spec: &Value) -> Value {
    let mut job = json!({
        "metadata": {"name": "j", "namespace": "n", "uid": "u"},
        "spec": {"template": {"metadata": {"labels": {"job-name": "j"}}, "spec": {"containers": [{"name": "c"}]}}},
        "status": {},
    });
    for (name, value) in spec.as_object().into_iter().flatten() {
        job["spec"][name] = value.clone();
    }
    job
}

/// Returns what happens to a Job whose Pods end with these phases, one after the other; "" is a Pod that goes on.
struct World {
    job: Value,
    pods: Vec<Value>,
    now: Timestamp,
    created: usize,
}

impl World {
    fn new(job: Value) -> Self {
        Self { job, pods: Vec::new(), now: NOW.parse().expect("a time"), created: 0 }
    }

    fn step(&mut self) -> Plan {
        let plan = plan(&self.job, &self.pods, 100, self.now);
        for action in &plan.actions {
            match action {
                Action::Create(_, pod) => {
                    let mut pod = pod.clone();
                    pod["metadata"]["name"] = format!("p{}", self.created).into();
                    self.created += 1;
                    pod["status"] = json!({"phase": "Running"});
                    self.pods.push(pod);
                }
                Action::Patch(_, (_, name), patch) => {
                    let pod =
                        self.pods.iter_mut().find(|pod| meta::text(pod, "name") == &**name).expect("a Pod");
                    *pod = crate::patch::merge_patch(pod, patch);
                }
                Action::SetStatus(status) => self.job["status"] = status.clone(),
                Action::Delete { key: (_, name), .. } => {
                    self.pods.retain(|pod| meta::text(pod, "name") != &**name);
                }
                _ => {}
            }
        }
        plan
    }

    /// Ends the oldest running Pod.
    fn end(&mut self, phase: &str) {
        let pod = self.pods.iter_mut().find(|pod| pod::is_active(pod)).expect("a running Pod");
        pod["status"]["phase"] = phase.into();
        let finished = json!([{"state": {"terminated": {"finishedAt": time_text(self.now)}}}]);
        pod["status"]["containerStatuses"] = finished;
    }

    fn running(&self) -> usize {
        self.pods.iter().filter(|pod| pod::is_active(pod)).count()
    }

    fn condition(&self, kind: &str) -> Option<&str> {
        let found = super::super::object::condition(&self.job["status"], kind)?;
        found["reason"].as_str().filter(|_| found["status"] == "True")
    }
}

#[test]
fn job_completes_when_enough_pods_have_succeeded() {
    let mut world = World::new(job(&json!({"completions": 3, "parallelism": 2})));
    world.step();
    assert_eq!(world.running(), 2);
    assert_eq!(world.pods[0]["metadata"]["finalizers"], json!([TRACKING]));
    for succeeded in 1..=3 {
        world.end("Succeeded");
        world.step();
        assert_eq!(world.job["status"]["succeeded"], succeeded);
    }
    assert_eq!((world.condition("Complete"), world.running()), (Some("CompletionsReached"), 0));
    assert!(world.job["status"]["completionTime"].is_string());
    assert!(world.pods.iter().all(|pod| meta::finalizers(pod).is_empty()));
    assert_eq!(world.step(), Plan::default(), "a finished Job is left alone");
}

#[test]
fn succeeded_pods_count_after_they_are_deleted() {
    let mut world = World::new(job(&json!({"completions": 2, "parallelism": 1})));
    world.step();
    world.end("Succeeded");
    world.step();
    world.pods.retain(pod::is_active);
    world.end("Succeeded");
    world.step();
    assert_eq!(world.condition("Complete"), Some("CompletionsReached"));
}

#[test]
fn failed_pods_are_replaced_with_a_growing_delay_up_to_the_limit() {
    let mut world = World::new(job(&json!({"completions": 1, "backoffLimit": 1})));
    world.step();
    world.end("Failed");
    world.step();
    assert_eq!(world.running(), 0);
    assert_eq!(world.step().retry_after, Some(Duration::from_secs(10)));
    world.now = after_seconds(world.now, 10);
    world.step();
    assert_eq!(world.running(), 1);
    world.end("Failed");
    world.step();
    assert_eq!(world.condition("Failed"), Some("BackoffLimitExceeded"));
    assert_eq!(world.condition("FailureTarget"), Some("BackoffLimitExceeded"));
}

#[test]
fn deadline_ends_a_job_and_its_pods() {
    let mut world = World::new(job(&json!({"completions": 1, "activeDeadlineSeconds": 30})));
    assert_eq!(world.step().retry_after, Some(Duration::from_secs(30)));
    world.now = after_seconds(world.now, 30);
    world.step();
    assert_eq!((world.condition("Failed"), world.running()), (Some("DeadlineExceeded"), 0));
}

#[test]
fn job_that_is_being_deleted_leaves_its_running_pods_to_the_garbage_collector() {
    let mut world = World::new(job(&json!({"completions": 2, "parallelism": 2})));
    world.step();
    world.job["metadata"]["deletionTimestamp"] = NOW.into();
    world.job["metadata"]["finalizers"] = json!(["orphan"]);
    world.step();
    assert_eq!(world.running(), 2);
    world.end("Succeeded");
    world.step();
    assert_eq!((world.running(), world.created), (1, 2), "no Pod is deleted or replaced");
}

#[test]
fn suspended_job_has_no_pods_until_it_is_resumed() {
    let mut world = World::new(job(&json!({"completions": 1})));
    world.step();
    world.job["spec"]["suspend"] = true.into();
    world.step();
    assert_eq!((world.running(), world.condition("Suspended")), (0, Some("JobSuspended")));
    assert_eq!(world.job["status"].get("startTime"), None);
    world.job["spec"]["suspend"] = false.into();
    world.step();
    assert_eq!((world.running(), world.condition("Suspended")), (1, None));
}

#[test]
fn indexed_job_runs_each_index_until_it_succeeds() {
    let mut world =
        World::new(job(&json!({"completions": 3, "parallelism": 2, "completionMode": "Indexed"})));
    world.step();
    let index = |pod: &Value| pod["metadata"]["annotations"][INDEX_ANNOTATION].as_str().map(str::to_owned);
    assert_eq!(world.pods.iter().map(index).collect::<Vec<_>>(), [Some("0".into()), Some("1".into())]);
    assert_eq!(world.pods[1]["spec"]["containers"][0]["env"][0]["name"], INDEX_VARIABLE);
    assert_eq!(world.pods[1]["metadata"]["generateName"], "j-1-");
    world.end("Succeeded");
    world.step();
    assert_eq!(
        (index(&world.pods[2]), &world.job["status"]["completedIndexes"]),
        (Some("2".into()), &json!("0"))
    );
    world.end("Succeeded");
    world.step();
    world.end("Succeeded");
    world.step();
    assert_eq!(world.job["status"]["completedIndexes"], "0-2");
    assert_eq!(world.condition("Complete"), Some("CompletionsReached"));
}

#[test]
fn work_queue_is_complete_when_all_pods_ended_and_one_succeeded() {
    let mut world = World::new(job(&json!({"parallelism": 2})));
    world.step();
    world.end("Succeeded");
    world.step();
    assert_eq!((world.running(), world.condition("Complete")), (1, None), "no new Pod starts");
    world.end("Succeeded");
    world.step();
    assert_eq!(world.condition("Complete"), Some("CompletionsReached"));
}

#[test]
fn number_of_pods_is_capped() {
    let huge = job(&json!({"completions": 1_i64 << 31, "parallelism": 1_i64 << 31}));
    let plan = plan(&huge, &[], 3, NOW.parse().expect("a time"));
    let created = plan.actions.iter().filter(|action| matches!(action, Action::Create(..))).count();
    assert_eq!(created, 3);
    assert!(plan.actions.iter().any(|action| matches!(action, Action::Event { reason: "FailedCreate", .. })));
}
