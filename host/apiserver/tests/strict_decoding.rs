//! `fieldValidation`: what is said about unknown and duplicate fields.

mod api;

use std::fmt::Write as _;

use api::{Answer, Api, apps, core};
use http::Method;
use serde_json::{Value, json};

const CUSTOM: &str = "/apis/strict.example.com/v1/namespaces/default/jobs";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// What strict decoding says about a request.
struct Expected<'a> {
    /// The error of `fieldValidation=Strict`, from "strict decoding error: " on, if it is not that of all warnings.
    error: Option<&'a str>,
    warnings: &'a [&'a str],
}

/// Sends a request with each `fieldValidation`, and asserts the errors and warnings.
async fn check(
    api: &Api,
    method: Method,
    path: &str,
    content_type: &str,
    body: &str,
    expected: Expected<'_>,
) {
    let separator = if path.contains('?') { '&' } else { '?' };
    let send = async |validation: &str| {
        let path = format!("{path}{separator}fieldValidation={validation}");
        api.send(method.clone(), &path, content_type, body.to_owned().into()).await
    };
    let quoted = |text: &&str| format!("299 - \"{}\"", text.replace('"', "\\\""));
    let refused = send("Strict").await;
    let joined = format!("strict decoding error: {}", expected.warnings.join(", "));
    let message = refused.body["message"].as_str().expect("a message");
    assert!(message.ends_with(expected.error.unwrap_or(&joined)), "{message}");
    assert_eq!(refused.warnings, [""; 0]);
    assert!(matches!(refused.code, 400 | 422), "{refused:?}");
    let ignored = send("Ignore&dryRun=All").await;
    assert_eq!((&ignored.warnings[..], ignored.code < 300), (&[][..], true), "{ignored:?}");
    for validation in ["Warn&dryRun=All", "", "Warn"] {
        let warned = send(validation).await;
        let expected: Vec<String> = expected.warnings.iter().map(quoted).collect();
        assert_eq!((warned.warnings, warned.code < 300), (expected, true), "{:#}", warned.body);
        if method == Method::POST && validation.is_empty() {
            return;
        }
    }
}

fn all<'a>(warnings: &'a [&'a str]) -> Expected<'a> {
    Expected { error: None, warnings }
}

const DEPLOYMENT: &str = r#"{
  "apiVersion": "apps/v1", "kind": "Deployment",
  "metadata": {"name": "first", "name": "web", "other": 1},
  "spec": {
    "zeta": 1, "twice": 1, "twice": 2, "paused": true, "paused": false,
    "selector": {"matchLabels": {"app": "web"}},
    "template": {
      "metadata": {"labels": {"app": "web"}},
      "spec": {"containers": [{"name": "c", "image": "i", "alpha": 1, "imagePullPolicy": "Always", "imagePullPolicy": "Never"}]}
    }
  }
}"#;

const DEPLOYMENT_YAML: &str = "apiVersion: apps/v1
kind: Deployment
metadata:
  name: first
  name: web
  other: 1
spec:
  zeta: 1
  twice: 1
  twice: 2
  paused: true
  paused: false
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: c
        image: i
        alpha: 1
        imagePullPolicy: Always
        imagePullPolicy: Never
";

#[tokio::test]
async fn fields_of_a_built_in_kind_are_reported_in_the_order_of_the_text() {
    let api = Api::new();
    let json = [
        r#"duplicate field "metadata.name""#,
        r#"unknown field "metadata.other""#,
        r#"unknown field "spec.zeta""#,
        r#"unknown field "spec.twice""#,
        r#"duplicate field "spec.paused""#,
        r#"unknown field "spec.template.spec.containers[0].alpha""#,
        r#"duplicate field "spec.template.spec.containers[0].imagePullPolicy""#,
    ];
    let yaml = [
        r#"line 5: key "name" already set in map"#,
        r#"line 10: key "twice" already set in map"#,
        r#"line 12: key "paused" already set in map"#,
        r#"line 22: key "imagePullPolicy" already set in map"#,
        r#"unknown field "metadata.other""#,
        r#"unknown field "spec.template.spec.containers[0].alpha""#,
        r#"unknown field "spec.twice""#,
        r#"unknown field "spec.zeta""#,
    ];
    let yaml_error = format!(
        "strict decoding error: yaml: unmarshal errors:\n  {}, {}",
        yaml[..4].join("\n  "),
        yaml[4..].join(", ")
    );
    let of_yaml = || Expected { error: Some(&yaml_error), warnings: &yaml };
    let (collection, web) = (apps("deployments"), apps("deployments/web"));
    check(&api, Method::POST, &collection, "application/json", DEPLOYMENT, all(&json)).await;
    check(&api, Method::PUT, &web, "application/json", DEPLOYMENT, all(&json)).await;
    check(&api, Method::PUT, &web, "application/yaml", DEPLOYMENT_YAML, of_yaml()).await;
    api.delete(&web, &Value::Null).await.ok();
    check(&api, Method::POST, &collection, "application/yaml", DEPLOYMENT_YAML, of_yaml()).await;
}

#[tokio::test]
async fn strict_errors_come_before_those_of_the_name_and_of_a_missing_object() {
    let api = Api::new();
    let path = apps("deployments/other?fieldValidation=Strict");
    let refused = api.send(Method::PUT, &path, "application/json", DEPLOYMENT.into()).await;
    let message = refused.fails(400, "BadRequest")["message"].to_string();
    assert!(message.contains("strict decoding error: duplicate field"), "{message}");
    let path = apps("deployments/other");
    let refused = api.send(Method::PUT, &path, "application/json", DEPLOYMENT.into()).await;
    assert_eq!((refused.code, refused.warnings.len()), (400, 7), "{refused:?}");
}

#[tokio::test]
async fn patches_report_their_duplicate_members_before_the_unknown_fields_of_the_result() {
    let api = Api::new();
    let valid = json!({"metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    }});
    let web = apps("deployments/web");
    api.post(&apps("deployments"), &valid).await.ok();
    let patch = r#"{"spec": {
        "zeta": 1, "twice": 1, "twice": 2, "paused": true, "paused": false,
        "template": {"spec": {"containers": [
            {"name": "c", "image": "i", "alpha": 1, "imagePullPolicy": "Always", "imagePullPolicy": "Never"}
        ]}}
    }}"#;
    let reported = [
        r#"duplicate field "spec.twice""#,
        r#"duplicate field "spec.paused""#,
        r#"duplicate field "spec.template.spec.containers[0].imagePullPolicy""#,
        r#"unknown field "spec.template.spec.containers[0].alpha""#,
        r#"unknown field "spec.twice""#,
        r#"unknown field "spec.zeta""#,
    ];
    for kind in [MERGE_PATCH, STRATEGIC_PATCH] {
        check(&api, Method::PATCH, &web, kind, patch, all(&reported)).await;
    }
    let only_duplicates = r#"{"spec": {"paused": true, "paused": false}}"#;
    for kind in [MERGE_PATCH, STRATEGIC_PATCH] {
        let reported = [r#"duplicate field "spec.paused""#];
        check(&api, Method::PATCH, &web, kind, only_duplicates, all(&reported)).await;
    }
    let operations = r#"[
        {"op": "add", "path": "/spec/zeta", "value": 1, "foo": "bar"},
        {"op": "add", "path": "/spec/b", "path": "/spec/alpha", "value": {"c": 1, "c": 2}},
        {"op": "add", "path": "/spec/paused", "value": true},
        {"op": "add", "path": "/spec/paused", "value": false}
    ]"#;
    let reported = [
        r#"json patch unknown field "[0].foo""#,
        r#"json patch duplicate field "[1].path""#,
        r#"json patch duplicate field "[1].value.c""#,
        r#"unknown field "spec.alpha""#,
        r#"unknown field "spec.zeta""#,
    ];
    check(&api, Method::PATCH, &web, JSON_PATCH, operations, all(&reported)).await;
}

#[tokio::test]
async fn fields_of_a_review_are_reported() {
    let api = Api::new();
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let body = r#"{"spec": {"resourceAttributes": {"verb": "get", "verb": "list", "resource": "pods"}, "other": 1}}"#;
    let reported = [r#"duplicate field "spec.resourceAttributes.verb""#, r#"unknown field "spec.other""#];
    check(&api, Method::POST, path, "application/json", body, all(&reported)).await;
    let answer = api.send(Method::POST, path, "application/json", body.into()).await.ok();
    assert_eq!(answer["spec"], json!({"resourceAttributes": {"verb": "list", "resource": "pods"}}));
}

#[tokio::test]
async fn fields_of_a_scale_are_reported() {
    let api = Api::new();
    let deployment = json!({"metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    }});
    api.post(&apps("deployments"), &deployment).await.ok();
    let scale = apps("deployments/web/scale");
    let body = r#"{"metadata": {"name": "web", "name": "web"}, "spec": {"replicas": 1, "other": 1}}"#;
    let reported = [r#"duplicate field "metadata.name""#, r#"unknown field "spec.other""#];
    check(&api, Method::PUT, &scale, "application/json", body, all(&reported)).await;
    let patch = r#"{"spec": {"replicas": 1, "replicas": 2, "other": 1}}"#;
    let reported = [r#"duplicate field "spec.replicas""#, r#"unknown field "spec.other""#];
    check(&api, Method::PATCH, &scale, MERGE_PATCH, patch, all(&reported)).await;
}

#[tokio::test]
async fn warnings_about_a_patch_need_an_object_that_can_be_decoded() {
    let api = Api::new();
    let patch = r#"{"data": {"a": "1", "a": "2"}}"#;
    let missing = api.send(Method::PATCH, &core("configmaps/a"), MERGE_PATCH, patch.into()).await;
    assert_eq!((missing.code, missing.warnings.len()), (404, 0));
    api.post(&core("configmaps"), &json!({"metadata": {"name": "a"}})).await.ok();
    let patch = r#"{"data": {"a": 1, "a": 2}}"#;
    let refused = api.send(Method::PATCH, &core("configmaps/a"), MERGE_PATCH, patch.into()).await;
    assert_eq!((refused.code, refused.warnings.len()), (422, 0), "{refused:?}");
    let patch = r#"{"data": {"/": "1", "/": "2"}}"#;
    let refused = api.send(Method::PATCH, &core("configmaps/a"), MERGE_PATCH, patch.into()).await;
    assert_eq!((refused.code, refused.warnings.len()), (422, 1), "{refused:?}");
}

const APPLIED: &str = "apiVersion: API_VERSION
kind: KIND
metadata:
  name: web
spec:
  paused: true
  paused: false
";

fn applied(api_version: &str, kind: &str) -> String {
    APPLIED.replace("API_VERSION", api_version).replace("KIND", kind)
}

/// Asserts what is said about an applied configuration with a duplicate key. `conflicting` is the manager of another value of the field.
async fn check_applied(api: &Api, path: &str, body: &str, conflicting: &str) {
    let path_as = |manager: &str| format!("{path}?fieldManager={manager}");
    let error = "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line 7: key \"paused\" \
                 already set in map";
    let warnings = ["line 7: key \"paused\" already set in map"];
    let expected = Expected { error: Some(error), warnings: &warnings };
    check(api, Method::PATCH, &path_as("manager"), APPLY, body, expected).await;
    let other = body.replace("paused: false", "paused: true");
    let path = path_as(conflicting);
    let conflict: Answer = api.send(Method::PATCH, &path, APPLY, other.into()).await;
    assert_eq!((conflict.code, conflict.warnings.len()), (409, 0), "{conflict:?}");
}

#[tokio::test]
async fn applied_configurations_report_their_duplicate_keys() {
    let api = Api::new();
    let body = applied("apps/v1", "Deployment")
        + "  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i}]}
";
    check_applied(&api, &apps("deployments/web"), &body, "other").await;
}

fn crd(is_preserving: bool) -> Value {
    let embedded = json!({
        "type": "object", "x-kubernetes-embedded-resource": true, "properties": {"metadata": {"type": "object"}},
    });
    let port =
        json!({"type": "object", "properties": {"number": {"type": "integer"}, "name": {"type": "string"}}});
    let mut spec = json!({"type": "object", "properties": {
        "known": {"type": "string"}, "embedded": embedded, "paused": {"type": "boolean"},
        "ports": {"type": "array", "items": port},
    }});
    if is_preserving {
        spec["x-kubernetes-preserve-unknown-fields"] = json!(true);
    }
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({
        "metadata": {"name": "jobs.strict.example.com"},
        "spec": {
            "group": "strict.example.com", "scope": "Namespaced",
            "names": {"plural": "jobs", "singular": "job", "kind": "Job"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

async fn with_crd(is_preserving: bool) -> Api {
    let api = Api::new();
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd(is_preserving)).await.ok();
    api
}

const JOB: &str = r#"{
  "apiVersion": "strict.example.com/v1", "kind": "Job",
  "metadata": {"name": "first", "name": "web", "other": 1},
  "spec": {
    "zeta": 1, "twice": 1, "twice": 2, "known": "a", "known": "b",
    "ports": [{"number": 1, "number": 2, "alpha": 1}],
    "embedded": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "beta": 1}}
  }
}"#;

const JOB_YAML: &str = "apiVersion: strict.example.com/v1
kind: Job
metadata:
  name: first
  name: web
  other: 1
spec:
  zeta: 1
  twice: 1
  twice: 2
  known: a
  known: b
  ports:
  - number: 1
    number: 2
    alpha: 1
  embedded:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: a, beta: 1}
";

#[tokio::test]
async fn fields_of_a_custom_resource_are_reported_after_the_duplicate_members() {
    for is_preserving in [false, true] {
        let api = with_crd(is_preserving).await;
        let unknown: Vec<&str> = [
            (true, r#"unknown field "metadata.other""#),
            (true, r#"unknown field "spec.ports[0].alpha""#),
            (false, r#"unknown field "spec.twice""#),
            (false, r#"unknown field "spec.zeta""#),
            (true, r#"unknown field "spec.embedded.metadata.beta""#),
        ]
        .into_iter()
        .filter_map(|(is_always, text)| (is_always || !is_preserving).then_some(text))
        .collect();
        let duplicates = ["metadata.name", "spec.twice", "spec.known", "spec.ports[0].number"];
        let duplicates = duplicates.map(|path| format!("duplicate field \"{path}\""));
        let json: Vec<&str> = duplicates.iter().map(String::as_str).chain(unknown.iter().copied()).collect();
        let lines = [(5, "name"), (10, "twice"), (12, "known"), (15, "number")];
        let lines = lines.map(|(line, key)| format!("line {line}: key \"{key}\" already set in map"));
        let yaml: Vec<&str> = lines.iter().map(String::as_str).chain(unknown.iter().copied()).collect();
        let yaml_error = format!(
            "strict decoding error: yaml: unmarshal errors:\n  {}, {}",
            lines.join("\n  "),
            unknown.join(", ")
        );
        let of_yaml = || Expected { error: Some(&yaml_error), warnings: &yaml };
        let web = format!("{CUSTOM}/web");
        check(&api, Method::POST, CUSTOM, "application/json", JOB, all(&json)).await;
        api.delete(&web, &Value::Null).await.ok();
        check(&api, Method::POST, CUSTOM, "application/yaml", JOB_YAML, of_yaml()).await;
        let version = api::version(&api.get(&web).await.ok());
        let versioned = format!("\"resourceVersion\": \"{version}\", \"other\"");
        let body = JOB.replace("\"other\"", &versioned);
        check(&api, Method::PUT, &web, "application/json", &body, all(&json)).await;
    }
}

#[tokio::test]
async fn patches_of_custom_resources_report_duplicates_and_unknown_fields() {
    for is_preserving in [false, true] {
        let api = with_crd(is_preserving).await;
        let web = format!("{CUSTOM}/web");
        let valid = json!({
            "apiVersion": "strict.example.com/v1", "kind": "Job", "metadata": {"name": "web"},
            "spec": {"ports": [{"number": 1}]},
        });
        api.post(CUSTOM, &valid).await.ok();
        let unknown = if is_preserving { 1 } else { 3 };
        let merge = r#"{"spec": {"zeta": 1, "twice": 1, "twice": 2, "ports": [{"number": 1, "number": 2, "alpha": 1}]}}"#;
        let reported = [
            r#"duplicate field "spec.twice""#,
            r#"duplicate field "spec.ports[0].number""#,
            r#"unknown field "spec.ports[0].alpha""#,
            r#"unknown field "spec.twice""#,
            r#"unknown field "spec.zeta""#,
        ];
        check(&api, Method::PATCH, &web, MERGE_PATCH, merge, all(&reported[..2 + unknown])).await;
        let operations = r#"[
            {"op": "add", "path": "/spec/zeta", "value": 1, "foo": "bar"},
            {"op": "add", "path": "/spec/b", "path": "/spec/twice", "value": 1},
            {"op": "add", "path": "/spec/ports/0/alpha", "value": 1}
        ]"#;
        let reported = [
            r#"json patch unknown field "[0].foo""#,
            r#"json patch duplicate field "[1].path""#,
            r#"unknown field "spec.ports[0].alpha""#,
            r#"unknown field "spec.twice""#,
            r#"unknown field "spec.zeta""#,
        ];
        check(&api, Method::PATCH, &web, JSON_PATCH, operations, all(&reported[..2 + unknown])).await;
        api.delete(&web, &Value::Null).await.ok();
        check_applied(&api, &web, &applied("strict.example.com/v1", "Job"), "other").await;
    }
}

#[tokio::test]
async fn duplicate_members_of_json_are_rejected_or_warned_about() {
    let api = Api::new();
    let send = async |name: &str, validation: &str| {
        let body =
            format!(r#"{{"metadata": {{"name": "{name}"}}, "data": {{"a": "1", "a": "2"}}, "other": 1}}"#);
        let path = core(&format!("configmaps?fieldValidation={validation}"));
        api.send(Method::POST, &path, "application/json", body.into()).await
    };
    let refused = send("a", "Strict").await.fails(400, "BadRequest");
    assert_eq!(
        refused["message"],
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: duplicate field \
         \"data.a\", unknown field \"other\""
    );
    let warned = send("b", "Warn").await;
    assert_eq!(
        warned.warnings,
        [r#"299 - "duplicate field \"data.a\"""#, r#"299 - "unknown field \"other\"""#]
    );
    assert_eq!(warned.ok()["data"]["a"], "2");
    assert_eq!(send("c", "Ignore").await.warnings, [""; 0]);
    let created_by_put = r#"{"metadata": {"name": "e"}, "subsets": [], "subsets": []}"#;
    let path = core("endpoints/e?fieldValidation=Warn");
    let created = api.send(Method::PUT, &path, "application/json", created_by_put.into()).await;
    assert_eq!(created.code, 201);
    assert!(created.warnings.iter().any(|warning| warning.contains("duplicate field")), "{created:?}");
}

#[tokio::test]
async fn a_wrong_type_is_the_only_error() {
    let api = Api::new();
    for validation in ["Strict", "Warn"] {
        let body = r#"{"metadata": {"name": "a"}, "data": {"a": 1, "a": 2}, "other": 1}"#;
        let path = core(&format!("configmaps?fieldValidation={validation}"));
        let answer = api.send(Method::POST, &path, "application/json", body.into()).await;
        assert_eq!(answer.warnings, [""; 0]);
        assert_eq!(
            answer.fails(400, "BadRequest")["message"],
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
        );
    }
}

#[tokio::test]
async fn at_most_100_fields_of_a_built_in_kind_are_reported() {
    let api = Api::new();
    let mut body = r#"{"metadata": {"name": "a"}"#.to_owned();
    (0..300).for_each(|number| write!(body, r#", "f{number:03}": 1"#).expect("a String takes it"));
    body.push('}');
    let path = core("configmaps?fieldValidation=Strict");
    let refused = api.send(Method::POST, &path, "application/json", body.into()).await;
    let message = refused.fails(400, "BadRequest")["message"].to_string();
    assert_eq!(message.matches("unknown field").count(), 100);
    assert!(message.contains("f099") && !message.contains("f100"), "{message}");
}
