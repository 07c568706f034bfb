//! Unit tests of the parts that need no host; they run natively.

use pilothouse_sdk::serde_json::{self, json};

use super::*;

fn mk_foo(replicas: Option<i32>) -> Foo {
    let mut foo = Foo::new("example", FooSpec { deployment_name: "example-web".into(), replicas });
    foo.metadata.namespace = Some("default".into());
    foo.metadata.uid = Some("foo-uid".into());
    foo
}

#[test]
fn the_descriptor_declares_what_the_code_uses() {
    let plugin = SampleController::describe(&Config::default()).unwrap();
    let document = serde_json::to_value(plugin).unwrap();
    assert_eq!(document["watches"][0]["trigger"], json!("self"));
    assert_eq!(document["watches"][0]["predicate"], json!("generationChanged()"));
    assert_eq!(document["watches"][1]["trigger"], json!({"owner": {"watch": "foos"}}));
    assert_eq!(document["writes"][1]["resources"], json!(["foos/status"]));
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
fn a_new_deployment_is_controlled_by_its_foo_and_selects_its_pods() {
    let deployment = new_deployment(&mk_foo(None));
    assert!(is_controlled_by(&deployment, &mk_foo(None)));
    let spec = deployment.spec;
    assert_eq!(spec.replicas, Some(1));
    assert_eq!(spec.selector.match_labels, spec.template.metadata.unwrap().labels);
}

#[test]
fn changed_replicas_and_image_are_reverted_and_other_fields_are_kept() {
    let mut deployment = new_deployment(&mk_foo(Some(2)));
    let desired = deployment.clone();
    let spec = &mut deployment.spec;
    spec.replicas = Some(7);
    spec.template.spec.as_mut().unwrap().containers[0].image = Some("nginx:0.1".into());
    set_desired_state(&mut deployment, &mk_foo(Some(2)));
    assert_eq!(deployment, desired);

    deployment.spec.replicas = Some(7);
    set_desired_state(&mut deployment, &mk_foo(None));
    let replicas = deployment.spec.replicas;
    assert_eq!(
        replicas,
        Some(7),
        "without spec.replicas another controller, such as an autoscaler, may set them"
    );
}
