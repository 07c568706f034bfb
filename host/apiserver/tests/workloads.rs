//! Workloads under the built-in controllers, in tokio's paused time.

mod api;

use std::time::Duration;

use api::{Answer, Api, apps, core, names};
use pilothouse_apiserver::{ApiServer, ControllerOptions, TokioClock};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

fn start_with(options: ControllerOptions) -> (Api, DropGuard) {
    let clock = TokioClock::starting_at("2026-01-01T00:00:30Z".parse().expect("a time"));
    let server = ApiServer::builder().clock(clock).build();
    let shutdown = CancellationToken::new();
    let _controllers = server.run_controllers_with(options, shutdown.clone());
    (Api { server }, shutdown.drop_guard())
}

fn start() -> (Api, DropGuard) {
    start_with(ControllerOptions::default())
}

fn batch(rest: &str) -> String {
    format!("/apis/batch/v1/namespaces/default/{rest}")
}

/// Returns a workload whose Pods have the label `app: NAME`.
fn workload(name: &str, spec: &Value) -> Value {
    let mut workload = json!({
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template(&json!({"app": name}))},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        workload["spec"][field] = value.clone();
    }
    workload
}

fn template(labels: &Value) -> Value {
    let container = json!({"name": "c", "image": "i:1", "ports": [{"name": "http", "containerPort": 8080}]});
    json!({"metadata": {"labels": labels}, "spec": {"containers": [container]}})
}

fn has(pointer: &'static str, value: impl Into<Value>) -> impl Fn(&Answer) -> bool {
    let value = value.into();
    move |answer| answer.body.pointer(pointer) == Some(&value)
}

fn is_true(condition: &'static str) -> impl Fn(&Answer) -> bool {
    move |answer| {
        let conditions = answer.body["status"]["conditions"].as_array();
        conditions.into_iter().flatten().any(|one| one["type"] == condition && one["status"] == "True")
    }
}

async fn delete_now(api: &Api, path: &str) {
    api.delete(path, &json!({"propagationPolicy": "Background"})).await.ok();
}

#[tokio::test(start_paused = true)]
async fn deployment_rolls_out_by_replica_sets_and_pods() {
    let (api, _running) = start();
    api.post(&apps("deployments"), &workload("web", &json!({"replicas": 3}))).await.ok();
    api.until(&apps("deployments/web"), has("/status/availableReplicas", 3)).await;
    let pods = api.get(&core("pods?labelSelector=app=web")).await.ok();
    assert_eq!(names(&pods).len(), 3);
    assert!(pods["items"][0]["metadata"]["labels"]["pod-template-hash"].is_string());
    assert_eq!(pods["items"][0]["metadata"]["ownerReferences"][0]["kind"], "ReplicaSet");
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}}});
    api.patch("strategic-merge-patch+json", &apps("deployments/web"), &image).await.ok();
    let second = has("/metadata/annotations/deployment.kubernetes.io~1revision", "2");
    let is_complete = |answer: &Answer| {
        let status = &answer.body["status"];
        second(answer)
            && status["updatedReplicas"] == 3
            && status["replicas"] == 3
            && status["availableReplicas"] == 3
    };
    let complete = api.until(&apps("deployments/web"), is_complete).await.ok();
    assert_eq!(complete["status"]["conditions"].as_array().map(Vec::len), Some(2));
    let sets = api.get(&apps("replicasets")).await.ok();
    assert_eq!(names(&sets).len(), 2);
    let pods = api.get(&core("pods")).await.ok();
    let is_new = |pod: &Value| pod["spec"]["containers"][0]["image"] == "i:2";
    assert!(pods["items"].as_array().expect("a list").iter().all(is_new));
    delete_now(&api, &apps("deployments/web")).await;
    let no_pods = |answer: &Answer| names(&answer.body).is_empty();
    api.until(&core("pods"), no_pods).await;
    api.until(&apps("replicasets"), no_pods).await;
}

#[tokio::test(start_paused = true)]
async fn scale_subresource_changes_the_number_of_pods() {
    let (api, _running) = start();
    api.post(&apps("replicasets"), &workload("r", &json!({"replicas": 1}))).await.ok();
    api.until(&apps("replicasets/r"), has("/status/readyReplicas", 1)).await;
    api.merge(&apps("replicasets/r/scale"), &json!({"spec": {"replicas": 4}})).await.ok();
    api.until(&apps("replicasets/r/scale"), has("/status/replicas", 4)).await;
    api.merge(&apps("replicasets/r/scale"), &json!({"spec": {"replicas": 2}})).await.ok();
    api.until(&apps("replicasets/r"), has("/status/replicas", 2)).await;
    assert_eq!(names(&api.get(&core("pods")).await.ok()).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn orphaned_pod_is_adopted_and_released_with_its_labels() {
    let (api, _running) = start();
    let mut pod = template(&json!({"app": "r"}));
    pod["metadata"]["name"] = json!("mine");
    api.post(&core("pods"), &pod).await.ok();
    api.post(&apps("replicasets"), &workload("r", &json!({"replicas": 1}))).await.ok();
    api.until(&core("pods/mine"), has("/metadata/ownerReferences/0/name", "r")).await;
    assert_eq!(names(&api.get(&core("pods")).await.ok()), ["mine"]);
    api.merge(&core("pods/mine"), &json!({"metadata": {"labels": {"app": "other"}}})).await.ok();
    api.until(&core("pods"), |answer| names(&answer.body).len() == 2).await;
    let released = |answer: &Answer| answer.body["metadata"].get("ownerReferences").is_none();
    api.until(&core("pods/mine"), released).await;
}

#[tokio::test(start_paused = true)]
async fn stateful_set_has_pods_with_stable_names_and_claims() {
    let (api, _running) = start();
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let set = workload("db", &json!({"replicas": 2, "serviceName": "db", "volumeClaimTemplates": [claim]}));
    api.post(&apps("statefulsets"), &set).await.ok();
    api.until(&apps("statefulsets/db"), has("/status/availableReplicas", 2)).await;
    assert_eq!(names(&api.get(&core("pods")).await.ok()), ["db-0", "db-1"]);
    let claims = api.get(&core("persistentvolumeclaims")).await.ok();
    assert_eq!(names(&claims), ["data-db-0", "data-db-1"]);
    assert_eq!(names(&api.get(&apps("controllerrevisions")).await.ok()).len(), 1);
    api.delete(&core("pods/db-0"), &json!(null)).await.ok();
    api.until(&apps("statefulsets/db"), has("/status/availableReplicas", 1)).await;
    api.until(&apps("statefulsets/db"), has("/status/availableReplicas", 2)).await;
}

#[tokio::test(start_paused = true)]
async fn daemon_set_has_a_pod_on_each_simulated_node() {
    let (api, _running) = start();
    api.post(&apps("daemonsets"), &workload("agent", &json!({}))).await.ok();
    api.until(&apps("daemonsets/agent"), has("/status/numberAvailable", 1)).await;
    let node = json!({"metadata": {"name": "second", "annotations": {"pilothouse.dev/simulated": "true"}}});
    api.post("/api/v1/nodes", &node).await.ok();
    api.until(&apps("daemonsets/agent"), has("/status/numberAvailable", 2)).await;
    let on_second = api.get(&core("pods?fieldSelector=spec.nodeName=second")).await.ok();
    assert_eq!(names(&on_second).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn job_completes_and_is_deleted_after_its_time_to_live() {
    let (api, _running) = start();
    let mut template = template(&json!({}));
    template["spec"]["restartPolicy"] = json!("Never");
    let spec =
        json!({"completions": 3, "parallelism": 2, "ttlSecondsAfterFinished": 4, "template": template});
    let job = api.post(&batch("jobs"), &json!({"metadata": {"name": "j"}, "spec": spec})).await.ok();
    assert_eq!(
        job["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"],
        job["metadata"]["uid"]
    );
    let complete = api.until(&batch("jobs/j"), is_true("Complete")).await.ok();
    assert_eq!(complete["status"]["succeeded"], 3);
    let pods = api.get(&core("pods?fieldSelector=status.phase=Succeeded")).await.ok();
    assert_eq!(names(&pods).len(), 3);
    api.until(&batch("jobs/j"), |answer| answer.code == 404).await;
    api.until(&core("pods"), |answer| names(&answer.body).is_empty()).await;
}

/// Returns an Indexed Job whose Pods are on a Node of the test, which plays their kubelet.
fn indexed_job(spec: &Value) -> Value {
    let mut template = template(&json!({}));
    template["spec"]["restartPolicy"] = json!("Never");
    template["spec"]["nodeName"] = json!("of-the-test");
    let mut job = json!({
        "metadata": {"name": "j"},
        "spec": {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "template": template},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        job["spec"][field] = value.clone();
    }
    job
}

/// Ends the Pod of an index with an exit code.
async fn exit(api: &Api, index: i64, code: i64) {
    let selector = format!("pods?labelSelector=batch.kubernetes.io/job-completion-index={index}");
    let pods = api.until(&core(&selector), |answer| !names(&answer.body).is_empty()).await.ok();
    let terminated =
        json!({"exitCode": code, "startedAt": "2026-01-01T00:00:30Z", "finishedAt": "2026-01-01T00:00:31Z"});
    let container = json!({
        "name": "c", "image": "i:1", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": terminated},
    });
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    let status = json!({"status": {"phase": phase, "containerStatuses": [container]}});
    api.merge(&core(&format!("pods/{}/status", names(&pods)[0])), &status).await.ok();
}

#[tokio::test(start_paused = true)]
async fn indexes_of_a_job_fail_on_their_own() {
    let (api, _running) = start();
    let exit_code = json!({"operator": "In", "values": [9]});
    let policy = json!({"rules": [{"action": "FailIndex", "onExitCodes": exit_code}]});
    let spec = json!({"backoffLimitPerIndex": 1, "podFailurePolicy": policy});
    api.post(&batch("jobs"), &indexed_job(&spec)).await.ok();
    exit(&api, 1, 9).await;
    api.until(&batch("jobs/j"), has("/status/failedIndexes", "1")).await;
    exit(&api, 0, 0).await;
    exit(&api, 2, 0).await;
    let failed = api.until(&batch("jobs/j"), is_true("Failed")).await.ok();
    let status = &failed["status"];
    assert_eq!((&status["completedIndexes"], &status["failed"]), (&json!("0,2"), &json!(1)));
}

#[tokio::test(start_paused = true)]
async fn success_policy_completes_a_job_and_stops_its_other_pods() {
    let (api, _running) = start();
    let policy = json!({"rules": [{"succeededIndexes": "0"}]});
    api.post(&batch("jobs"), &indexed_job(&json!({"successPolicy": policy}))).await.ok();
    exit(&api, 0, 0).await;
    let complete = api.until(&batch("jobs/j"), is_true("Complete")).await.ok();
    assert_eq!((&complete["status"]["succeeded"], &complete["status"]["failed"]), (&json!(1), &Value::Null));
    assert_eq!(names(&api.get(&core("pods")).await.ok()).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn job_of_another_controller_is_left_alone() {
    let (api, _running) = start();
    let spec = json!({"managedBy": "example.org/controller"});
    api.post(&batch("jobs"), &indexed_job(&spec)).await.ok();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(names(&api.get(&core("pods")).await.ok()), [""; 0]);
    assert_eq!(api.get(&batch("jobs/j")).await.ok()["status"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn cron_job_starts_a_job_at_its_time() {
    let (api, _running) = start();
    let mut template = template(&json!({}));
    template["spec"]["restartPolicy"] = json!("Never");
    let spec = json!({"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}});
    api.post(&batch("cronjobs"), &json!({"metadata": {"name": "c"}, "spec": spec})).await.ok();
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(names(&api.get(&batch("jobs")).await.ok()), [""; 0]);
    tokio::time::sleep(Duration::from_secs(11)).await;
    let jobs = api.until(&batch("jobs"), |answer| names(&answer.body).len() == 1).await.ok();
    assert_eq!(jobs["items"][0]["metadata"]["ownerReferences"][0]["name"], "c");
    let minute = "2026-01-01T00:01:00Z";
    api.until(&batch("cronjobs/c"), has("/status/lastScheduleTime", minute)).await;
    api.until(&batch("cronjobs/c"), |answer| answer.body["status"]["lastSuccessfulTime"].is_string()).await;
}

#[tokio::test(start_paused = true)]
async fn cron_job_starts_a_job_later_that_could_not_be_created_at_its_time() {
    let (api, _running) = start();
    let mut template = template(&json!({}));
    template["spec"]["restartPolicy"] = json!("Never");
    // The name of the Job of 2026-01-01T00:01:00Z.
    let taken = "c-29453761";
    let job = json!({"metadata": {"name": taken}, "spec": {"suspend": true, "template": template}});
    api.post(&batch("jobs"), &job).await.ok();
    let spec = json!({"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}});
    api.post(&batch("cronjobs"), &json!({"metadata": {"name": "c"}, "spec": spec})).await.ok();
    tokio::time::sleep(Duration::from_secs(31)).await;
    let reasons = |answer: &Answer| -> Vec<Value> {
        let events = answer.body["items"].as_array().into_iter().flatten();
        let about = events.filter(|event| event["involvedObject"]["kind"] == "CronJob");
        about.map(|event| event["reason"].clone()).collect()
    };
    let failed = |answer: &Answer| reasons(answer).contains(&json!("FailedCreate"));
    let events = api.until(&core("events"), failed).await;
    assert_eq!(reasons(&events), [json!("FailedCreate")]);
    let status = api.get(&batch("cronjobs/c")).await.ok()["status"].clone();
    assert!(status["lastScheduleTime"].is_null(), "{status}");
    delete_now(&api, &batch(&format!("jobs/{taken}"))).await;
    api.until(&batch("cronjobs/c"), has("/status/lastScheduleTime", "2026-01-01T00:01:00Z")).await;
}

#[tokio::test(start_paused = true)]
async fn service_has_endpoints_of_ready_pods_until_it_is_deleted() {
    let (api, _running) = start();
    let spec = json!({"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]});
    api.post(&core("services"), &json!({"metadata": {"name": "web"}, "spec": spec})).await.ok();
    api.post(&apps("replicasets"), &workload("web", &json!({"replicas": 2}))).await.ok();
    let addresses = |answer: &Answer| answer.body["subsets"][0]["addresses"].as_array().map_or(0, Vec::len);
    let endpoints = api.until(&core("endpoints/web"), |answer| addresses(answer) == 2).await.ok();
    assert_eq!(endpoints["subsets"][0]["ports"][0]["port"], 8080);
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io/service-name=web";
    let ready = |answer: &Answer| {
        let endpoints = answer.body["items"][0]["endpoints"].as_array().cloned().unwrap_or_default();
        endpoints.iter().filter(|endpoint| endpoint["conditions"]["ready"] == true).count()
    };
    api.until(slices, |answer| ready(answer) == 2).await;
    api.delete(&core("services/web"), &json!(null)).await.ok();
    api.until(&core("endpoints/web"), |answer| answer.code == 404).await;
    api.until(slices, |answer| names(&answer.body).is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn disruption_budget_reports_what_may_be_evicted() {
    let (api, _running) = start();
    api.post(&apps("deployments"), &workload("web", &json!({"replicas": 3}))).await.ok();
    let spec = json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    api.post(budgets, &json!({"metadata": {"name": "b"}, "spec": spec})).await.ok();
    let path = format!("{budgets}/b");
    let budget = api.until(&path, has("/status/currentHealthy", 3)).await.ok();
    assert_eq!(
        (
            &budget["status"]["expectedPods"],
            &budget["status"]["desiredHealthy"],
            &budget["status"]["disruptionsAllowed"]
        ),
        (&json!(3), &json!(2), &json!(1))
    );
}

#[tokio::test(start_paused = true)]
async fn stage_decides_what_becomes_of_matching_pods() {
    let stages = "
apiVersion: pilothouse.dev/v1alpha1
kind: Stage
metadata: {name: fail}
spec:
  resourceRef: {kind: Pod}
  selector:
    matchLabels: {app: broken}
    matchExpressions: [{key: .status.phase, operator: In, values: [Pending]}]
  delay: {durationMilliseconds: 3000}
  next: {status: {phase: Failed, reason: Broken}}
";
    let (api, _running) =
        start_with(ControllerOptions::default().with_stages(stages.parse().expect("stages")));
    for app in ["broken", "web"] {
        let mut pod = template(&json!({"app": app}));
        pod["metadata"]["name"] = json!(app);
        api.post(&core("pods"), &pod).await.ok();
    }
    api.until(&core("pods/web"), has("/status/phase", "Running")).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(api.get(&core("pods/broken")).await.ok()["status"]["phase"], "Pending");
    let failed = api.until(&core("pods/broken"), has("/status/phase", "Failed")).await.ok();
    assert_eq!(failed["status"]["reason"], "Broken");
}

/// The stage is the one in the documentation.
#[tokio::test(start_paused = true)]
async fn documented_stage_completes_pods_without_an_owner() {
    let documentation = include_str!("../../../docs/embedded-server.md");
    let mut examples = documentation.split("```yaml\n").filter_map(|text| text.split("```").next());
    let stage = examples.find(|text| text.contains("name: complete")).expect("a stage");
    let (api, _running) =
        start_with(ControllerOptions::default().with_stages(stage.parse().expect("stages")));
    for (name, policy) in [("test", "Never"), ("server", "Always")] {
        let mut pod = template(&json!({}));
        pod["metadata"]["name"] = json!(name);
        pod["spec"]["restartPolicy"] = json!(policy);
        api.post(&core("pods"), &pod).await.ok();
    }
    api.until(&core("pods/test"), has("/status/phase", "Running")).await;
    let done = api.until(&core("pods/test"), has("/status/phase", "Succeeded")).await.ok();
    let conditions = done["status"]["conditions"].as_array().expect("conditions");
    assert!(
        conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "False")
    );
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(api.get(&core("pods/server")).await.ok()["status"]["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn settled_cluster_is_not_written() {
    let (api, _running) = start();
    api.post(&apps("deployments"), &workload("web", &json!({"replicas": 2}))).await.ok();
    api.post(&apps("statefulsets"), &workload("db", &json!({"replicas": 2, "serviceName": "db"}))).await.ok();
    api.post(&apps("daemonsets"), &workload("agent", &json!({}))).await.ok();
    let spec = json!({"selector": {"app": "web"}, "ports": [{"port": 80}]});
    api.post(&core("services"), &json!({"metadata": {"name": "web"}, "spec": spec})).await.ok();
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    api.post(budgets, &json!({"metadata": {"name": "b"}, "spec": spec})).await.ok();
    let mut template = template(&json!({}));
    template["spec"]["restartPolicy"] = json!("Never");
    let spec = json!({"template": template});
    api.post(&batch("jobs"), &json!({"metadata": {"name": "j"}, "spec": spec})).await.ok();
    tokio::time::sleep(Duration::from_secs(30)).await;
    for (path, pointer, count) in [
        ("deployments/web", "/status/availableReplicas", 2),
        ("statefulsets/db", "/status/availableReplicas", 2),
        ("daemonsets/agent", "/status/numberAvailable", 1),
    ] {
        let found = api.get(&apps(path)).await.ok();
        assert_eq!(found.pointer(pointer), Some(&json!(count)), "{found:#}");
    }
    let settled = api.server.revision();
    tokio::time::sleep(Duration::from_secs(1800)).await;
    assert_eq!(api.server.revision(), settled);
    // An hour after the last one, no Event is left.
    tokio::time::sleep(Duration::from_secs(1860)).await;
    assert_eq!(names(&api.get(&core("events")).await.ok()), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn autoscaler_keeps_the_replicas_of_its_target_in_its_range() {
    let (api, _running) = start();
    let path = |rest: &str| format!("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers{rest}");
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let spec = json!({"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 4});
    api.post(&path(""), &json!({"metadata": {"name": "h"}, "spec": spec})).await.ok();
    let missing = has("/status/conditions/0/reason", "FailedGetScale");
    let found = api.until(&path("/h"), missing).await.ok();
    assert_eq!(
        found["status"]["conditions"][0]["message"],
        "the HPA controller was unable to get the target's current scale: deployments.apps \"web\" not found"
    );

    api.post(&apps("deployments"), &workload("web", &json!({"replicas": 1}))).await.ok();
    api.until(&apps("deployments/web"), has("/status/availableReplicas", 2)).await;
    api.merge(&apps("deployments/web/scale"), &json!({"spec": {"replicas": 9}})).await.ok();
    let scaled = api.until(&apps("deployments/web"), has("/spec/replicas", 4)).await.ok();
    let managers = scaled["metadata"]["managedFields"].as_array().expect("managers");
    let scale = managers.iter().find(|entry| entry["subresource"] == "scale");
    assert_eq!(scale.expect("an entry")["manager"], "kube-controller-manager");
    let settled = api.until(&path("/h"), has("/status/currentReplicas", 4)).await.ok();
    assert_eq!(settled["status"]["conditions"][0]["reason"], "SucceededGetScale");
    assert_eq!(settled["status"]["conditions"][1]["reason"], "FailedGetResourceMetric");
    assert_eq!(
        (&settled["status"]["currentReplicas"], &settled["status"]["desiredReplicas"]),
        (&json!(4), &json!(4))
    );
    let events =
        api.get(&core("events?fieldSelector=involvedObject.kind=HorizontalPodAutoscaler")).await.ok();
    let reasons: Vec<&str> = events["items"]
        .as_array()
        .expect("events")
        .iter()
        .filter_map(|event| event["reason"].as_str())
        .collect();
    for reason in
        ["FailedGetScale", "SuccessfulRescale", "FailedGetResourceMetric", "FailedComputeMetricsReplicas"]
    {
        assert!(reasons.contains(&reason), "{reason}: {reasons:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn volume_without_a_claim_becomes_available() {
    let (api, _running) = start();
    let spec = json!({
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"},
    });
    let created =
        api.post("/api/v1/persistentvolumes", &json!({"metadata": {"name": "v"}, "spec": spec})).await.ok();
    assert_eq!(created["status"]["phase"], "Pending");
    api.until("/api/v1/persistentvolumes/v", has("/status/phase", "Available")).await;
}

fn claim(name: &str, spec: &Value) -> Value {
    let mut claim = json!({
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        claim["spec"][field] = value.clone();
    }
    claim
}

#[tokio::test(start_paused = true)]
async fn claim_gets_a_simulated_volume_that_is_deleted_with_it() {
    let (api, _running) = start();
    api.post(&core("persistentvolumeclaims"), &claim("c", &json!({}))).await.ok();
    let bound = api.until(&core("persistentvolumeclaims/c"), has("/status/phase", "Bound")).await.ok();
    assert_eq!(
        (&bound["spec"]["storageClassName"], &bound["status"]["capacity"]["storage"]),
        (&json!("standard"), &json!("1Gi"))
    );
    let path =
        format!("/api/v1/persistentvolumes/{}", bound["spec"]["volumeName"].as_str().expect("a volume"));
    api.until(&path, has("/status/phase", "Bound")).await;
    api.delete(&core("persistentvolumeclaims/c"), &json!({})).await.ok();
    api.until(&path, |answer| answer.code == 404).await;
}

#[tokio::test(start_paused = true)]
async fn claim_without_a_class_gets_a_volume_that_fits() {
    let (api, _running) = start();
    let spec = json!({
        "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"},
        "persistentVolumeReclaimPolicy": "Retain",
    });
    api.post(&core("persistentvolumeclaims"), &claim("c", &json!({"storageClassName": ""}))).await.ok();
    api.post("/api/v1/persistentvolumes", &json!({"metadata": {"name": "v"}, "spec": spec})).await.ok();
    let bound = api.until(&core("persistentvolumeclaims/c"), has("/status/phase", "Bound")).await.ok();
    assert_eq!(
        (&bound["spec"]["volumeName"], &bound["status"]["capacity"]["storage"]),
        (&json!("v"), &json!("2Gi"))
    );
    api.delete(&core("persistentvolumeclaims/c"), &json!({})).await.ok();
    api.until("/api/v1/persistentvolumes/v", has("/status/phase", "Released")).await;
}

#[tokio::test(start_paused = true)]
async fn claim_waits_for_its_first_consumer_if_the_class_says_so() {
    let (api, _running) = start();
    let class = json!({
        "metadata": {"name": "late"}, "provisioner": "pilothouse.dev/simulated", "volumeBindingMode": "WaitForFirstConsumer",
    });
    api.post("/apis/storage.k8s.io/v1/storageclasses", &class).await.ok();
    api.post(&core("persistentvolumeclaims"), &claim("c", &json!({"storageClassName": "late"}))).await.ok();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(api.get(&core("persistentvolumeclaims/c")).await.ok()["status"]["phase"], "Pending");
    let mut pod = template(&json!({}));
    pod["metadata"]["name"] = json!("p");
    pod["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]);
    api.post(&core("pods"), &pod).await.ok();
    let bound = api.until(&core("persistentvolumeclaims/c"), has("/status/phase", "Bound")).await.ok();
    assert_eq!(bound["metadata"]["annotations"]["volume.kubernetes.io/selected-node"], "simulated-node");
}

#[tokio::test(start_paused = true)]
async fn deleted_claim_stays_while_a_pod_uses_it() {
    let (api, _running) = start();
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let claim = api
        .post(&core("persistentvolumeclaims"), &json!({"metadata": {"name": "c"}, "spec": spec}))
        .await
        .ok();
    assert_eq!(claim["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}});
    let pod = json!({"metadata": {"name": "p"}, "spec": {"volumes": [volume], "containers": [{"name": "c", "image": "i:1"}]}});
    api.post(&core("pods"), &pod).await.ok();
    api.until(&core("pods/p"), has("/status/phase", "Running")).await;
    delete_now(&api, &core("persistentvolumeclaims/c")).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let waiting = api.get(&core("persistentvolumeclaims/c")).await.ok();
    assert!(waiting["metadata"]["deletionTimestamp"].is_string());
    delete_now(&api, &core("pods/p")).await;
    api.until(&core("persistentvolumeclaims/c"), |answer| answer.code == 404).await;
}
