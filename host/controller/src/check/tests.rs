//! Checks without any API server, as in a build without the embedded one.

use pilothouse_plugin::EngineOptions;
use serde_json::{Value, json};

use super::*;

/// Checks a plugin with these watches and CRDs.
async fn check_without_a_server(watches: &Value, crds: &Value) -> CheckReport {
    check_in(None, watches, crds).await.expect("it loads")
}

/// Checks a plugin with these watches and CRDs against this cluster, if any.
async fn check_in(
    cluster: Option<kube::Client>,
    watches: &Value,
    crds: &Value,
) -> Result<CheckReport, CheckError> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("plugin.wasm");
    // The plugin's descriptor is its sidecar's `config`.
    let guest = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin/tests/guests/echo.wat");
    std::fs::write(&path, wat::parse_file(guest).expect("a module")).expect("written");
    let descriptor = json!({
        "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "watches": watches, "crds": crds,
        "writes": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"], "namespaces": ["shop"]}],
    });
    let sidecar = json!({"config": descriptor}).to_string();
    std::fs::write(path.with_extension("yaml"), sidecar).expect("written");
    let engine = Engine::new(EngineOptions::default()).expect("an engine");
    let servers = CheckServers {
        embedded: None,
        cluster,
        crds: Vec::new(),
        review_permissions: false,
        grant_crds: false,
        grants: GrantMode::Declared,
    };
    Box::pin(check(&engine, &path, servers)).await
}

fn unvalidated_crds(report: &CheckReport) -> Vec<&String> {
    report.warnings.iter().filter(|warning| warning.contains("not validated")).collect()
}

#[tokio::test]
async fn without_a_server_kinds_are_unverified_and_a_warning_names_the_crds() {
    let watches = json!([
        {"name": "things", "apiVersion": "example.com/v1", "kind": "Thing", "trigger": "self"},
        {"name": "maps", "apiVersion": "v1", "kind": "ConfigMap", "trigger": "self"},
    ]);
    // A server would refuse its scope.
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Nowhere", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true}]},
    });
    let report = check_without_a_server(&watches, &json!([crd])).await;
    assert_eq!(report.problems, Vec::<String>::new());
    let served: Vec<_> = report
        .watches
        .iter()
        .map(|checked| {
            (
                checked.watch.name.as_str(),
                checked.served,
                checked.watch.resource.as_deref(),
                checked.namespaced,
            )
        })
        .collect();
    assert_eq!(
        served,
        [
            ("things", Availability::ByOwnCrd, Some("things"), Some(false)),
            ("maps", Availability::Unverified, None, None)
        ]
    );
    let guesses: Vec<_> = report.permissions.iter().filter(|permission| permission.is_guess).collect();
    assert!(
        !guesses.is_empty() && guesses.iter().all(|permission| permission.resource == "configmaps"),
        "{guesses:?}"
    );
    let warnings = unvalidated_crds(&report);
    assert!(warnings.len() == 1 && warnings[0].contains("things.example.com"), "{:?}", report.warnings);
}

#[tokio::test]
async fn an_error_of_the_server_says_nothing_about_the_plugin() {
    let failing = tower::service_fn(async |_: http::Request<kube::client::Body>| {
        Ok::<_, std::convert::Infallible>(
            http::Response::builder().status(503).body(kube::client::Body::empty()).expect("a response"),
        )
    });
    let watches = json!([{"name": "maps", "apiVersion": "v1", "kind": "ConfigMap", "trigger": "self"}]);
    let failed = check_in(Some(kube::Client::new(failing, "default")), &watches, &json!([])).await;
    let Err(error @ CheckError::Server(_)) = failed else { panic!("{failed:?}") };
    assert!(error.to_string().ends_with("; check the server of the kubeconfig and the network"), "{error}");

    let unknown = json!([{"name": "maps", "apiVersion": "v1", "kind": "ConfigMap", "trigger": "nobody"}]);
    let refused = check_in(None, &unknown, &json!([])).await;
    assert!(matches!(refused, Err(CheckError::Refused(_))), "{refused:?}");
}

#[tokio::test]
async fn a_plugin_without_crds_is_not_warned_about_their_validation() {
    let watches = json!([{"name": "maps", "apiVersion": "v1", "kind": "ConfigMap", "trigger": "self"}]);
    let report = check_without_a_server(&watches, &json!([])).await;
    assert!(report.runs, "{:?}", report.problems);
    assert!(unvalidated_crds(&report).is_empty(), "{:?}", report.warnings);
}
