//! Runs cases.

use std::time::Duration;

use futures::StreamExt;
use http::Request;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use crate::canonical::Canonical;
use crate::case::{Case, Step, Variables};
use crate::target::{self, Response, Target};
use crate::{kubectl, template};

/// How many cases run at the same time.
const CONCURRENT: usize = 6;
/// How often a step with `until` is repeated, and after which time.
const REPETITIONS: u32 = 400;
const INTERVAL: Duration = Duration::from_millis(50);

/// Runs all cases. Cases of a group run at the same time, groups one after the other: the cases of `discovery` must not see others' CRDs.
pub(crate) async fn run_all(cases: &[Case], target: &Target) -> Vec<Vec<Value>> {
    let mut answers = Vec::new();
    let mut groups: Vec<&[Case]> = cases.chunk_by(|a, b| a.group == b.group).collect();
    groups.sort_by_key(|group| group[0].group != "discovery");
    for group in groups {
        let runs = group.iter().map(|case| async move { (case.name.clone(), run(case, target).await) });
        let runs: Vec<(String, Vec<Value>)> =
            futures::stream::iter(runs).buffered(CONCURRENT).collect().await;
        answers.extend(runs);
    }
    // The order of the cases, again.
    let position = |name: &str| cases.iter().position(|case| case.name == name);
    answers.sort_by_key(|(name, _)| position(name));
    answers.into_iter().map(|(_, answers)| answers).collect()
}

/// Runs one case in a new namespace. Returns the comparable answers of its steps.
pub(crate) async fn run(case: &Case, target: &Target) -> Vec<Value> {
    let client = target.client();
    let namespace = Step {
        request: Some("POST /api/v1/namespaces".into()),
        body: Some(json!({"metadata": {"name": case.namespace()}})),
        ..Step::default()
    };
    let mut variables = case.variables.clone();
    for step in [&namespace].into_iter().chain(&case.setup) {
        let response = request(case, &client, step, &mut variables).await;
        assert!(
            response.code < 300 || step.until == Some(response.code),
            "{}: {:?}: {} {}",
            case.name,
            step.request,
            response.code,
            response.value()
        );
    }
    let mut canonical = Canonical::new();
    let mut answers = Vec::new();
    for step in &case.steps {
        answers.push(if step.kubectl.is_some() {
            kubectl::run(step, &variables, target.kubeconfig(), &mut canonical).await
        } else {
            let response = request(case, &client, step, &mut variables).await;
            canonical.response(&response)
        });
    }
    answers
}

async fn request(case: &Case, client: &Client, step: &Step, variables: &mut Variables) -> Response {
    let line = step.request.as_deref().unwrap_or_else(|| panic!("{}: a step has no request", case.name));
    let line = template::text(line, variables);
    let mut response = target::send(client, create_request(&line, step, variables)).await;
    let mut repetitions = 0;
    while step.until.is_some_and(|code| code != response.code) && repetitions < REPETITIONS {
        tokio::time::sleep(INTERVAL).await;
        response = target::send(client, create_request(&line, step, variables)).await;
        repetitions += 1;
    }
    let body = response.value();
    for (name, pointer) in &step.save {
        match body.pointer(pointer) {
            Some(value) => drop(variables.insert(name.clone(), value.clone())),
            // A missing value is a difference of the answers, which is reported. Random scripts have a value to begin with.
            None => drop(variables.entry(name.clone()).or_insert_with(|| "missing".into())),
        }
    }
    response
}

fn create_request(line: &str, step: &Step, variables: &Variables) -> Request<Body> {
    let (method, path) = line.split_once(' ').unwrap_or_else(|| panic!("not `METHOD PATH`: {line}"));
    let content_type = step.content_type.as_deref().map(|name| template::text(name, variables));
    let content_type = match content_type.as_deref() {
        None => "application/json",
        Some("merge") => "application/merge-patch+json",
        Some("json") => "application/json-patch+json",
        Some("strategic") => "application/strategic-merge-patch+json",
        Some("apply") => "application/apply-patch+yaml",
        Some(other) => other,
    };
    let body = match (&step.body, &step.text) {
        (Some(body), _) => template::value(body, variables).to_string(),
        (None, Some(text)) => template::text(text, variables),
        (None, None) => String::new(),
    };
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("accept", step.accept.as_deref().unwrap_or("application/json"))
        .header("user-agent", "conformance/1");
    if !body.is_empty() {
        request = request.header("content-type", content_type);
    }
    request.body(body.into_bytes().into()).unwrap_or_else(|error| panic!("{line}: {error}"))
}
