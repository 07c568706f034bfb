//! Unit tests, which run natively against an in-memory host.

use pilothouse_sdk::serde_json::json;
use pilothouse_sdk::testing::Host;
use pilothouse_sdk::{ApiError, ObjectKey, testing};

use super::*;

fn mk_foo(replicas: Option<i32>) -> Foo {
    let mut foo = Foo::new("example", FooSpec { deployment_name: "example-web".into(), replicas });
    foo.metadata.namespace = Some("default".into());
    foo
}

fn foo_key() -> ObjectKey {
    ObjectKey::new("default", "example")
}

fn deployment_key() -> ObjectKey {
    ObjectKey::new("default", "example-web")
}

/// A host with a Foo that was reconciled once.
fn synced(replicas: Option<i32>) -> Host<SampleController> {
    let host = Host::new();
    host.put(&mk_foo(replicas));
    assert_eq!(host.reconcile(FOOS, &foo_key()).unwrap(), Outcome::Done);
    host
}

fn deployment(host: &Host<SampleController>) -> Deployment {
    host.get(&deployment_key()).expect("the Deployment exists")
}

#[test]
fn the_descriptor_declares_what_the_code_uses() {
    let host = Host::<SampleController>::new();
    let document = host.descriptor();
    assert_eq!(document["watches"][0]["trigger"], json!("self"));
    assert_eq!(document["watches"][0]["predicate"], json!("generationChanged()"));
    assert_eq!(document["watches"][1]["trigger"], json!({"owner": {"watch": "foos"}}));
    let version = &document["crds"][0]["spec"]["versions"][0];
    assert_eq!(version["subresources"], json!({"status": {}}));
    let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
    assert_eq!(spec["required"], json!(["deploymentName"]));
    assert_eq!(
        (&spec["properties"]["replicas"]["minimum"], &spec["properties"]["replicas"]["maximum"]),
        (&json!(1.0), &json!(10.0))
    );
}

#[test]
fn a_foo_gets_a_deployment_that_it_controls() {
    let host = synced(None);
    let foo: Foo = host.get(&foo_key()).unwrap();
    let deployment = deployment(&host);
    assert!(is_controlled_by(&deployment, &foo));
    assert_eq!(deployment.spec.replicas, Some(1));
    assert_eq!(deployment.spec.selector.match_labels, deployment.spec.template.metadata.unwrap().labels);
    assert_eq!(foo.status.unwrap().available_replicas, 0);
}

#[test]
fn a_second_reconcile_writes_nothing_and_records_no_event() {
    let host = synced(Some(2));
    assert_eq!(host.writes().len(), 2, "{:?}", host.writes());
    host.reconcile(FOOS, &foo_key()).unwrap();
    assert_eq!(host.writes().len(), 2, "{:?}", host.writes());
    let reasons: Vec<_> = host.events().into_iter().map(|event| event.reason).collect();
    assert_eq!(reasons, ["Synced"]);
}

#[test]
fn changed_replicas_and_image_are_reverted_and_other_fields_are_kept() {
    let host = synced(Some(2));
    let desired = deployment(&host).spec;
    let mut drifted = deployment(&host);
    drifted.spec.replicas = Some(7);
    drifted.spec.paused = Some(true);
    drifted.spec.template.spec.as_mut().unwrap().containers[0].image = Some("nginx:0.1".into());
    host.put(&drifted);
    host.reconcile(FOOS, &foo_key()).unwrap();
    assert_eq!(deployment(&host).spec, DeploymentSpec { paused: Some(true), ..desired });
}

#[test]
fn without_replicas_in_the_foo_another_controller_may_set_them() {
    let host = synced(None);
    let mut scaled = deployment(&host);
    scaled.spec.replicas = Some(7);
    host.put(&scaled);
    host.reconcile(FOOS, &foo_key()).unwrap();
    assert_eq!(deployment(&host).spec.replicas, Some(7));
}

#[test]
fn the_status_follows_the_deployments_status() {
    let host = synced(None);
    let mut available = deployment(&host);
    available.status.get_or_insert_default().available_replicas = Some(1);
    host.put(&available);
    host.reconcile(FOOS, &foo_key()).unwrap();
    let foo: Foo = host.get(&foo_key()).unwrap();
    assert_eq!(foo.status.unwrap().available_replicas, 1);
}

#[test]
fn a_deployment_of_another_owner_is_not_changed() {
    let host = Host::<SampleController>::new();
    host.put(&mk_foo(None));
    let mut theirs = new_deployment(&host.get(&foo_key()).unwrap());
    theirs.metadata.owner_references = None;
    host.put(&theirs);
    let error = host.reconcile(FOOS, &foo_key()).unwrap_err();
    assert!(error.to_string().contains("already exists and is not managed by Foo default/example"));
    assert!(!error.is_terminal() && host.writes().is_empty());
    assert_eq!(host.events()[0].reason, "ErrResourceExists");
}

#[test]
fn a_failed_write_is_retried() {
    let host = Host::<SampleController>::new();
    host.put(&mk_foo(None));
    let failure = testing::Failure::new(ApiError::Unavailable("connection refused".into()));
    host.fail(failure.verb(Verb::Create).kind("Deployment"));
    let error = host.reconcile(FOOS, &foo_key()).unwrap_err();
    assert_eq!((error.to_string().as_str(), error.is_terminal()), ("unavailable: connection refused", false));
    assert_eq!(host.reconcile(FOOS, &foo_key()).unwrap(), Outcome::Done);
}

#[test]
fn a_deleted_foo_needs_nothing() {
    let host = Host::<SampleController>::new();
    assert_eq!(host.reconcile(FOOS, &foo_key()).unwrap(), Outcome::Done);
    assert!(host.writes().is_empty());
}
