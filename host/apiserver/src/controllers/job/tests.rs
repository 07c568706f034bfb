//! Tests of the decisions about Jobs.

use std::time::Duration;

use super::super::object::after_seconds;
use super::pods::{INDEX_VARIABLE, index};
use super::*;
use crate::meta;

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

    /// Steps until nothing happens any more, and returns when the Job is looked at again.
    fn settle(&mut self) -> Option<Duration> {
        for _ in 0..10 {
            let plan = self.step();
            if plan.actions.is_empty() {
                return plan.retry_after;
            }
        }
        panic!("the Job does not settle: {}", self.job["status"]);
    }

    /// Ends the oldest running Pod.
    fn end(&mut self, phase: &str) {
        self.exit(phase, i64::from(phase == "Failed"));
    }

    fn exit(&mut self, phase: &str, code: i64) {
        let now = time_text(self.now);
        let pod = self.pods.iter_mut().find(|pod| pod::is_active(pod)).expect("a running Pod");
        pod["status"]["phase"] = phase.into();
        let terminated = json!({"exitCode": code, "finishedAt": now});
        pod["status"]["containerStatuses"] = json!([{"name": "c", "state": {"terminated": terminated}}]);
    }

    /// Fails the oldest running Pod with an exit code, and waits until a replacement is due.
    fn fail_and_wait(&mut self, code: i64) {
        self.exit("Failed", code);
        if let Some(delay) = self.settle() {
            self.now = self.now.checked_add(delay).expect("a time");
            self.settle();
        }
    }

    /// Returns the completion indexes of the Pods that run.
    fn running_indexes(&self) -> Vec<i64> {
        self.pods.iter().filter(|pod| pod::is_active(pod)).filter_map(index).collect()
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
        world.settle();
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
    world.settle();
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
    world.settle();
    assert_eq!(world.condition("Failed"), Some("BackoffLimitExceeded"));
    assert_eq!(world.condition("FailureTarget"), Some("BackoffLimitExceeded"));
}

#[test]
fn deadline_ends_a_job_and_its_pods() {
    let mut world = World::new(job(&json!({"completions": 1, "activeDeadlineSeconds": 30})));
    assert_eq!(world.step().retry_after, Some(Duration::from_secs(30)));
    world.now = after_seconds(world.now, 30);
    world.settle();
    assert_eq!((world.condition("Failed"), world.running()), (Some("DeadlineExceeded"), 0));
    assert_eq!(world.job["status"]["failed"], 1, "a Pod that the end stops counts as failed");
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
fn end_is_reported_when_the_last_pod_has_stopped() {
    let mut world = World::new(job(&json!({"completions": 3, "parallelism": 2, "backoffLimit": 0})));
    world.step();
    world.end("Failed");
    let deleted = world.pods[1].clone();
    world.step();
    assert_eq!((world.condition("FailureTarget"), world.running()), (Some("BackoffLimitExceeded"), 0));
    // The kubelet has not stopped the containers yet.
    world.pods.push(deleted);
    world.pods[1]["metadata"]["deletionTimestamp"] = NOW.into();
    world.pods[1]["metadata"]["finalizers"] = json!([]);
    world.settle();
    assert_eq!((world.condition("Failed"), &world.job["status"]["terminating"]), (None, &json!(1)));
    world.pods.pop();
    world.settle();
    assert_eq!(world.condition("Failed"), Some("BackoffLimitExceeded"));
    assert_eq!(world.job["status"]["failed"], 2, "with the Pod that the end stopped");
}

#[test]
fn pods_that_the_job_deletes_itself_do_not_count_as_failed() {
    let mut world = World::new(job(&json!({"completions": 5, "parallelism": 4})));
    world.settle();
    world.job["spec"]["parallelism"] = 1.into();
    world.settle();
    assert_eq!((world.running(), &world.job["status"]["active"]), (1, &json!(1)));
    world.job["spec"]["suspend"] = true.into();
    world.settle();
    assert_eq!((world.running(), &world.job["status"]["failed"]), (0, &Value::Null));
}

#[test]
fn restarts_in_a_pod_count_towards_the_limit() {
    let mut world = World::new(job(&json!({"completions": 1, "backoffLimit": 2})));
    world.job["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure".into();
    world.settle();
    world.pods[0]["status"]["containerStatuses"] = json!([{"restartCount": 1}]);
    world.settle();
    assert_eq!(world.condition("Failed"), None);
    world.pods[0]["status"]["containerStatuses"] = json!([{"restartCount": 2}]);
    world.settle();
    assert_eq!(world.condition("Failed"), Some("BackoffLimitExceeded"));
}

#[test]
fn failure_policy_ignores_failures_or_ends_the_job() {
    let rule = |action: &str, code: i64| json!({"action": action, "onExitCodes": {"operator": "In", "values": [code]}});
    let policy = json!({"rules": [rule("Ignore", 42), rule("FailJob", 43)]});
    let mut world =
        World::new(job(&json!({"completions": 1, "backoffLimit": 0, "podFailurePolicy": policy})));
    world.settle();
    world.exit("Failed", 42);
    assert_eq!(world.settle(), Some(Duration::from_secs(10)), "a failure that does not count delays, too");
    world.now = after_seconds(world.now, 10);
    world.settle();
    assert_eq!((world.running(), &world.job["status"]["failed"]), (1, &Value::Null));
    world.exit("Failed", 43);
    world.settle();
    assert_eq!(world.condition("Failed"), Some("PodFailurePolicy"));
    let failed = condition(&world.job["status"], "Failed").expect("the condition");
    assert_eq!(
        failed["message"],
        "Container c for pod n/p1 failed with exit code 43 matching FailJob rule at index 1"
    );
}

#[test]
fn each_index_fails_on_its_own_when_the_failures_of_an_index_are_limited() {
    let spec = json!({
        "completions": 2, "parallelism": 1, "completionMode": "Indexed", "backoffLimit": i32::MAX,
        "backoffLimitPerIndex": 1,
    });
    let mut world = World::new(job(&spec));
    world.settle();
    world.exit("Failed", 1);
    assert_eq!(world.settle(), Some(Duration::from_secs(10)), "the first failure of index 0");
    assert_eq!(world.job["status"]["failed"], Value::Null, "it counts when its replacement exists");
    world.now = after_seconds(world.now, 10);
    world.settle();
    assert_eq!((world.running_indexes(), &world.job["status"]["failed"]), (vec![0], &json!(1)));
    world.fail_and_wait(1);
    assert_eq!(world.job["status"]["failedIndexes"], "0");
    assert_eq!(world.running_indexes(), [1], "index 0 is not tried again");
    world.end("Succeeded");
    world.settle();
    assert_eq!(world.condition("Failed"), Some("FailedIndexes"));
    assert_eq!(world.job["status"]["completedIndexes"], "1");
}

#[test]
fn number_of_failed_indexes_is_limited() {
    let spec = json!({
        "completions": 9, "parallelism": 2, "completionMode": "Indexed", "backoffLimit": i32::MAX,
        "backoffLimitPerIndex": 0, "maxFailedIndexes": 1,
    });
    let mut world = World::new(job(&spec));
    world.settle();
    world.fail_and_wait(1);
    assert_eq!((world.running_indexes(), &world.job["status"]["failedIndexes"]), (vec![1, 2], &json!("0")));
    world.fail_and_wait(1);
    assert_eq!(world.condition("Failed"), Some("MaxFailedIndexesExceeded"));
}

#[test]
fn success_policy_ends_a_job_before_all_indexes_have_succeeded() {
    let policy = json!({"rules": [{"succeededIndexes": "0"}]});
    let spec =
        json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed", "successPolicy": policy});
    let mut world = World::new(job(&spec));
    world.settle();
    world.end("Succeeded");
    world.settle();
    assert_eq!(world.condition("SuccessCriteriaMet"), Some("SuccessPolicy"));
    assert_eq!((world.condition("Complete"), world.running()), (Some("SuccessPolicy"), 0));
    assert_eq!(world.job["status"]["failed"], Value::Null, "the other Pods do not count as failed");
}

#[test]
fn indexed_job_keeps_one_pod_of_each_index_below_its_completions() {
    let mut world =
        World::new(job(&json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"})));
    world.settle();
    let mut double = world.pods[0].clone();
    double["metadata"]["name"] = "double".into();
    world.pods.push(double);
    world.job["spec"]["completions"] = 2.into();
    world.job["spec"]["parallelism"] = 2.into();
    world.settle();
    let mut indexes = world.running_indexes();
    indexes.sort_unstable();
    assert_eq!(indexes, [0, 1]);
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
    assert_eq!(world.running_indexes(), [0, 1]);
    assert_eq!(world.pods[1]["spec"]["containers"][0]["env"][0]["name"], INDEX_VARIABLE);
    assert_eq!(world.pods[1]["metadata"]["generateName"], "j-1-");
    world.end("Succeeded");
    world.step();
    assert_eq!((index(&world.pods[2]), &world.job["status"]["completedIndexes"]), (Some(2), &json!("0")));
    world.end("Succeeded");
    world.step();
    world.end("Succeeded");
    world.settle();
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
    world.settle();
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
