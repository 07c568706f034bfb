//! What of the plugin needs no host runs natively: `cargo test`.

use serde_json::json;

use super::*;

fn foo(replicas: Option<i32>) -> Foo {
    let mut foo = Foo::new("example", FooSpec { deployment_name: "example-web".into(), replicas });
    foo.metadata.namespace = Some("default".into());
    foo.metadata.uid = Some("foo-uid".into());
    foo
}

#[test]
fn the_descriptor_declares_what_the_code_uses() {
    let plugin = serde_json::to_value(Controller::describe(&Config::default()).unwrap()).unwrap();
    assert_eq!(plugin["watches"][0]["trigger"], json!("self"));
    assert_eq!(plugin["watches"][1]["trigger"], json!({"owner": {"watch": "foos"}}));
    assert_eq!(plugin["writes"][1]["resources"], json!(["foos/status"]));
}

#[test]
fn a_new_deployment_is_controlled_by_its_foo_and_selects_its_own_pods() {
    let deployment = new_deployment(&foo(None));
    assert!(is_controlled_by(&deployment, &foo(None)));
    assert_eq!(deployment.spec.replicas, Some(1));
    assert_eq!(deployment.spec.selector.match_labels, deployment.spec.template.metadata.unwrap().labels);
}

#[test]
fn changed_replicas_are_repaired_and_nothing_else_is_touched() {
    let wanted = new_deployment(&foo(Some(2)));
    let mut deployment = wanted.clone();
    deployment.spec.replicas = Some(7);
    repair(&mut deployment, &foo(Some(2)));
    assert_eq!(deployment, wanted);
}
