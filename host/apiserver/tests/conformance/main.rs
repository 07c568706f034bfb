//! Conformance: the answers of the embedded server beside those of kube-apiserver.
//!
//! The cases are scripts of requests in `cases`. `recorded` has the answers of kube-apiserver, which `cargo xtask conformance --record` writes.
//! `differences.yaml` lists the expected differences. See docs/embedded-server.md.

mod canonical;
mod case;
mod compare;
mod expected;
mod kubectl;
mod random;
mod recording;
mod run;
mod shrink;
mod target;
mod template;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::case::Case;
use crate::compare::Difference;
use crate::expected::ExpectedDifferences;
use crate::recording::Recording;
use crate::target::Target;

/// The group whose cases run kubectl.
const KUBECTL: &str = "kubectl";
/// How many expected differences there may be. Lower it with every difference that is removed.
const MOST_DIFFERENCES: usize = 76;
/// How many unexpected differences are printed.
const PRINTED: usize = 20;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance").join(name)
}

fn expected_differences() -> ExpectedDifferences {
    ExpectedDifferences::read(&folder("differences.yaml"))
}

/// Panics if the answers have other differences than the expected ones.
fn check(cases: &[Case], expected: &Recording, actual: &[Vec<Value>]) {
    let mut found: Vec<Difference> = Vec::new();
    for (case, actual) in cases.iter().zip(actual) {
        let expected = expected.get(&case.name).map(Vec::as_slice).unwrap_or_default();
        found.extend(compare::answers(&case.name, expected, actual));
    }
    let ran: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    let problems = expected_differences().problems(&found, &ran);
    let requests: usize = actual.iter().map(Vec::len).sum();
    println!(
        "conformance: {} cases, {requests} steps, {} differences, {} problems",
        cases.len(),
        found.len(),
        problems.len()
    );
    let is_kubectl = cases.iter().all(|case| case.group == KUBECTL);
    let kind = if is_kubectl { KUBECTL } else { "http" };
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("conformance-problems-{kind}.txt"));
    std::fs::write(&file, problems.join("\n")).expect("the problems are written");
    let printed = problems.iter().take(PRINTED).cloned().collect::<Vec<_>>().join("\n");
    assert!(problems.is_empty(), "{} problems, all in {}:\n{printed}", problems.len(), file.display());
}

/// Returns the cases of a run: all, or those whose name contains the value of `PILOTHOUSE_CONFORMANCE_ONLY`.
fn cases(has_kubectl: impl Fn(bool) -> bool) -> Vec<Case> {
    let only = std::env::var("PILOTHOUSE_CONFORMANCE_ONLY").unwrap_or_default();
    let mut cases = case::read_all(&folder("cases"));
    cases.retain(|case| has_kubectl(case.group == KUBECTL) && case.name.contains(&only));
    cases
}

#[tokio::test(start_paused = true)]
async fn answers_are_those_recorded_from_kube_apiserver() {
    let cases = cases(|is_kubectl| !is_kubectl);
    let actual = run::run_all(&cases, &Target::Embedded).await;
    check(&cases, &recording::read_all(&folder("recorded")), &actual);
}

#[tokio::test]
async fn kubectl_prints_what_was_recorded_with_kube_apiserver() {
    let recorded = std::fs::read_to_string(folder("recorded/kubectl-version")).unwrap_or_default();
    let installed = kubectl::version().await.unwrap_or_else(|| "not installed".into());
    if recorded.trim() != installed {
        eprintln!(
            "SKIPPED: the answers were recorded with kubectl {}, and kubectl here is {installed}",
            recorded.trim()
        );
        return;
    }
    let cases = cases(|is_kubectl| is_kubectl);
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("conformance");
    std::fs::create_dir_all(&directory).expect("a folder");
    let (target, _stop) = Target::listening(&directory).await;
    let actual = run::run_all(&cases, &target).await;
    check(&cases, &recording::read_all(&folder("recorded")), &actual);
}

#[test]
fn cases_and_differences_fit_together() {
    let cases = case::read_all(&folder("cases"));
    assert!(cases.len() >= 400, "there are only {} cases", cases.len());
    let commands = cases.iter().flat_map(|case| &case.steps).filter(|step| step.kubectl.is_some()).count();
    assert!(commands >= 100, "there are only {commands} commands of kubectl");
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    let recorded = recording::read_all(&folder("recorded"));
    let missing: Vec<_> = names.iter().filter(|name| !recorded.contains_key(**name)).collect();
    assert!(missing.is_empty(), "no recorded answers: {missing:?}; run `cargo xtask conformance --record`");
    let differences = expected_differences();
    assert!(differences.unknown_cases(&names).is_empty(), "{:?}", differences.unknown_cases(&names));
    assert!(differences.len() <= MOST_DIFFERENCES, "the list of expected differences may only shrink");
}

/// Compares with the server of a kubeconfig, which is running and empty. `cargo xtask conformance` starts one.
#[tokio::test]
#[ignore = "needs a kube-apiserver: cargo xtask conformance"]
async fn answers_are_those_of_a_running_kube_apiserver() {
    let kubeconfig = std::env::var_os("PILOTHOUSE_CONFORMANCE_KUBECONFIG").expect("a kubeconfig");
    let real = Target::of_kubeconfig(Path::new(&kubeconfig)).await;
    let is_recording = std::env::var_os("PILOTHOUSE_CONFORMANCE_RECORD").is_some();
    let version = kubectl::version().await;
    let mut cases = cases(|is_kubectl| !is_kubectl || version.is_some());
    if is_recording {
        // The random scripts are recorded by another test.
        cases.retain(|case| case.group != random::GROUP);
    }
    let answers = run::run_all(&cases, &real).await;
    if is_recording {
        recording::write(&folder("recorded"), &cases, &answers);
        if let Some(version) = version {
            std::fs::write(folder("recorded/kubectl-version"), format!("{version}\n"))
                .expect("the version is written");
        }
        return;
    }
    let expected: Recording = cases.iter().map(|case| case.name.clone()).zip(answers).collect();
    let (kubectl, http): (Vec<Case>, Vec<Case>) = cases.into_iter().partition(|case| case.group == KUBECTL);
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("conformance-live");
    std::fs::create_dir_all(&directory).expect("a folder");
    let (listening, _stop) = Target::listening(&directory).await;
    let mut actual = run::run_all(&http, &Target::Embedded).await;
    actual.extend(run::run_all(&kubectl, &listening).await);
    let cases: Vec<Case> = http.into_iter().chain(kubectl).collect();
    check(&cases, &expected, &actual);
}

#[tokio::test(start_paused = true)]
async fn live_scripts_run_on_the_embedded_server_without_internal_errors() {
    let scripts: Vec<Case> = (0..12).map(random::live::script).collect();
    for (script, answers) in scripts.iter().zip(run::run_all(&scripts, &Target::Embedded).await) {
        for (index, answer) in answers.iter().enumerate() {
            assert_ne!(answer["body"]["reason"], "InternalError", "{} {}: {answer}", script.name, index + 1);
        }
    }
}

/// Runs random scripts on the server of a kubeconfig and on embedded servers: those of the kind that is recorded, then those with more
/// operations. A script with a difference is shrunk and printed.
#[tokio::test]
#[ignore = "needs a kube-apiserver: cargo xtask conformance"]
async fn random_scripts_have_the_answers_of_a_running_kube_apiserver() {
    let kubeconfig = std::env::var_os("PILOTHOUSE_CONFORMANCE_KUBECONFIG").expect("a kubeconfig");
    let real = Target::of_kubeconfig(Path::new(&kubeconfig)).await;
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().map_or(default, |value| value.parse().expect("a number"))
    };
    let first = number("PILOTHOUSE_CONFORMANCE_SEED", 0);
    let count = number("PILOTHOUSE_CONFORMANCE_SCRIPTS", 50);
    let scripts: Vec<Case> = (first..first + count).map(random::script).collect();
    if std::env::var_os("PILOTHOUSE_CONFORMANCE_RECORD").is_some() {
        case::write(&folder("cases/random.yaml"), &scripts);
        let answers = run::run_all(&scripts, &real).await;
        recording::write(&folder("recorded"), &scripts, &answers);
        return;
    }
    let live: Vec<Case> = (first..first + count).map(random::live::script).collect();
    let mut failures = Vec::new();
    for script in scripts.iter().chain(&live) {
        if let Some(failure) = shrink::smallest_failure(script, &real).await {
            failures.push(failure);
        }
    }
    let count = scripts.len() + live.len();
    println!("conformance: {count} random scripts, {} differ", failures.len());
    assert!(failures.is_empty(), "{} of {count} scripts differ:\n{}", failures.len(), failures.join("\n"));
}
