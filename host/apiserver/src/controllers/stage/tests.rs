//! Tests of stages.

use serde_json::json;

use super::*;

const FAILING: &str = "
apiVersion: pilothouse.dev/v1alpha1
kind: Stage
metadata: {name: fail}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchLabels: {app: broken}
    matchExpressions:
    - {key: .status.phase, operator: In, values: [Pending, Running]}
    - {key: '.metadata.ownerReferences.[].kind', operator: NotIn, values: [Job]}
  delay: {durationMilliseconds: 5000}
  next:
    status:
      phase: Failed
      conditions: [{type: Ready, status: 'False'}]
";

fn pod(phase: &str) -> Value {
    json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"app": "broken"}},
        "status": {"phase": phase, "podIP": "1", "conditions": [{"type": "Initialized"}]},
    })
}

fn stages(text: &str) -> Stages {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// With `PILOTHOUSE_UPDATE_SCHEMA=1`, the schema is written instead of compared.
#[test]
fn the_published_schema_of_stages_matches_the_types() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/stage.schema.json");
    let mut schema = schemars::schema_for!(Document).to_value();
    schema["title"] = "Pilothouse stage (pilothouse.dev/v1alpha1)".into();
    let text = format!("{schema:#}\n");
    if std::env::var_os("PILOTHOUSE_UPDATE_SCHEMA").is_some() {
        std::fs::write(path, &text).expect("written");
    }
    let published = std::fs::read_to_string(path).expect("docs/stage.schema.json");
    assert!(
        published == text,
        "docs/stage.schema.json is not up to date: run PILOTHOUSE_UPDATE_SCHEMA=1 cargo test -p pilothouse-apiserver --lib schema"
    );
}

#[test]
fn stage_applies_once_its_delay_is_over() {
    let stages = stages(FAILING);
    let mut waiting = Waiting::new();
    let mut at = |second: i64, pod: &Value| {
        let now = Timestamp::from_second(second).expect("a time");
        plan(&stages, Kind::Pod, pod, &mut waiting, (now, "now"))
    };
    assert_eq!(at(0, &pod("Pending")).retry_after, Some(Duration::from_secs(5)));
    assert_eq!(at(2, &pod("Running")).retry_after, Some(Duration::from_secs(3)));
    let due = at(5, &pod("Running"));
    let [Action::SetStatus(status)] = due.actions.as_slice() else { panic!("{due:?}") };
    assert_eq!((&status["phase"], &status["podIP"]), (&json!("Failed"), &json!("1")));
    assert_eq!(
        status["conditions"],
        json!([{"type": "Initialized"}, {"type": "Ready", "status": "False", "lastTransitionTime": "now"}])
    );
    assert_eq!(at(6, &pod("Failed")), Plan::default());
    assert_eq!(at(7, &pod("Running")).retry_after, Some(Duration::from_secs(5)), "the delay begins again");
}

#[test]
fn other_objects_and_those_being_deleted_do_not_match() {
    let stages = stages(FAILING);
    assert_eq!(stages.find(Kind::Pod, &pod("Running")), Some(0));
    assert_eq!(stages.find(Kind::Node, &pod("Running")), None);
    let mut other = pod("Running");
    other["metadata"]["labels"]["app"] = json!("web");
    assert_eq!(stages.find(Kind::Pod, &other), None);
    let mut of_job = pod("Running");
    of_job["metadata"]["ownerReferences"] = json!([{"kind": "ReplicaSet"}, {"kind": "Job"}]);
    assert_eq!(stages.find(Kind::Pod, &of_job), None);
    let mut deleting = pod("Running");
    deleting["metadata"]["deletionTimestamp"] = json!("t");
    assert_eq!(stages.find(Kind::Pod, &deleting), None);
    let expression = "\n    - {key: .metadata.deletionTimestamp, operator: Exists}";
    let with_deletion = FAILING.replace("matchExpressions:", &format!("matchExpressions:{expression}"));
    assert_eq!(self::stages(&with_deletion).find(Kind::Pod, &deleting), Some(0));
}

#[test]
fn mistakes_are_named() {
    for (from, to, problem) in [
        ("kind: Pod", "kind: Foo", "stage \"fail\": resourceRef: Foo of v1 has no stages"),
        ("operator: In", "operator: Exists", "selector: .status.phase: In and NotIn need values"),
        (
            "pilothouse.dev/v1alpha1",
            "kwok.x-k8s.io/v1alpha1",
            "is not known; write Stage of pilothouse.dev/v1alpha1",
        ),
        ("5000", "99999999999999", "delay: at most"),
        ("status:\n", "statusTemplate:\n", "statusTemplate"),
    ] {
        let error = FAILING.replace(from, to).parse::<Stages>().expect_err(to).to_string();
        assert!(error.contains(problem), "{error}");
    }
}
