//! Parsing objects, their metadata, transforms and errors.

pub(super) mod support;

use super::*;

const POD: &str = r#"{"metadata":{"name":"web","namespace":"shop","uid":"u-1","resourceVersion":"42","generation":3,
"labels":{"app":"web","a\"b":"c"},"annotations":{"note":"tab\there"},"managedFields":[{"manager":"x"}],
"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-1","uid":"u-0","controller":true}],
"finalizers":["example.com/hold"]},"spec":{"containers":[{"name":"one"},{"name":"t\u00e9"}],"a/b":{"m~n":7}},"status":{}}"#;

fn pod() -> Object {
    let options = ParseOptions {
        api_version: "v1",
        kind: "Pod",
        transform: &Transform::standard(),
        ..ParseOptions::default()
    };
    Object::parse(POD.as_bytes(), &options).expect("a well-formed pod")
}

#[test]
fn metadata_is_found_in_the_text() {
    let pod = pod();
    assert_eq!((pod.api_version(), pod.kind()), ("v1", "Pod"));
    assert_eq!((pod.namespace(), pod.name(), pod.uid()), ("shop", "web", "u-1"));
    assert_eq!((pod.resource_version(), pod.generation()), ("42", 3));
    assert_eq!(pod.label("app").as_deref(), Some("web"));
    assert_eq!(pod.label("a\"b").as_deref(), Some("c"));
    assert_eq!(pod.label("nothing"), None);
    assert_eq!(pod.labels().count(), 2);
    assert_eq!(pod.annotation("note").as_deref(), Some("tab\there"));
    assert_eq!(pod.finalizers(), ["example.com/hold"]);
    assert_eq!(pod.deletion_timestamp(), None);
    let owner = pod.controller().expect("a controlling owner");
    assert_eq!((owner.group(), &*owner.kind, &*owner.name), ("apps", "ReplicaSet", "web-1"));
}

#[test]
fn a_list_item_and_a_watch_event_have_the_same_bytes() {
    let with_type = format!(r#"{{"kind":"Pod","apiVersion":"v1",{}"#, &POD[1..]);
    let from_watch = Object::parse(
        with_type.as_bytes(),
        &ParseOptions {
            api_version: "v1",
            kind: "Pod",
            transform: &Transform::standard(),
            ..ParseOptions::default()
        },
    )
    .expect("a well-formed pod");
    assert_eq!(from_watch.json(), pod().json());
    assert!(from_watch.json().starts_with(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web""#));
}

#[test]
fn transforms_drop_managed_fields_and_unwanted_members() {
    assert!(!pod().json().contains("managedFields"));
    let metadata_only = Transform { projection: Projection::Metadata, ..Transform::standard() };
    let options =
        ParseOptions { api_version: "v1", kind: "Pod", transform: &metadata_only, ..ParseOptions::default() };
    let object = Object::parse(POD.as_bytes(), &options).expect("a pod");
    assert_eq!(object.field("/spec"), None);
    assert_eq!(object.label("app").as_deref(), Some("web"));

    let kept = Transform { keep: vec!["status".into()], ..Transform::default() };
    let options =
        ParseOptions { api_version: "v1", kind: "Pod", transform: &kept, ..ParseOptions::default() };
    let object = Object::parse(POD.as_bytes(), &options).expect("a pod");
    assert_eq!((object.field("/spec"), object.field("/status")), (None, Some("{}")));
}

#[test]
fn last_applied_is_dropped_and_other_annotations_stay() {
    let transform = Transform { drop_last_applied: true, ..Transform::default() };
    let options = ParseOptions {
        api_version: "v1",
        kind: "ConfigMap",
        transform: &transform,
        ..ParseOptions::default()
    };
    let parse = |annotations: &str| {
        let text = format!(r#"{{"metadata":{{"name":"a","annotations":{annotations}}},"data":{{}}}}"#);
        Object::parse(text.as_bytes(), &options).expect("a config map")
    };
    let object = parse(r#"{"kubectl.kubernetes.io/last-applied-configuration":"{}","x":"y"}"#);
    assert_eq!(object.annotations().count(), 1);
    assert_eq!(object.annotation("x").as_deref(), Some("y"));
    let object = parse(r#"{"kubectl.kubernetes.io/last-applied-configuration":"{}"}"#);
    assert_eq!(object.field("/metadata/annotations"), None);
}

#[test]
fn pointers_reach_members_and_elements() {
    let pod = pod();
    assert_eq!(pod.field("/spec/containers/0/name"), Some(r#""one""#));
    assert_eq!(pod.text("/spec/containers/1/name").as_deref(), Some("té"));
    assert_eq!(pod.field("/spec/a~1b/m~0n"), Some("7"));
    assert_eq!(pod.text("/spec/a~1b/m~0n").as_deref(), Some("7"));
    for absent in
        ["/spec/containers/2", "/spec/containers/00", "/spec/x", "spec", "/spec/a~2", "/metadata/name/x"]
    {
        assert_eq!(pod.field(absent), None, "{absent}");
    }
    assert_eq!(pod.field(""), Some(pod.json()));
}

#[test]
fn an_error_is_a_single_line_whatever_it_quotes() {
    let text =
        "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\",\"labels\":{\"b\":\n\t1}}}";
    let error = Object::from_json(text).expect_err("a label that is a number").to_string();
    assert_eq!(error, r#"metadata.labels is not a map of strings: {"b":  1}"#);
}

#[test]
fn malformed_objects_are_refused_with_the_reason() {
    let error = |text: &str| Object::from_json(text).expect_err(text).to_string();
    assert!(error("").contains("not a well-formed JSON object"));
    assert!(error("[]").contains("a JSON object"));
    assert!(error(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}"#).contains("EOF"));
    assert!(
        error(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"x":nul}}"#)
            .contains("column")
    );
    assert!(error(r#"{"apiVersion":"v1","kind":"Pod","metadata":{}}"#).contains("no metadata.name"));
    assert!(
        error(r#"{"apiVersion":"v1","metadata":{"name":"a"}}"#).contains(r#"the object "a" has no kind"#)
    );
    assert!(
        error(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":1}}"#)
            .contains("metadata.name is not a string: 1")
    );
    assert!(
        error(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"x":1}}}"#)
            .contains("a map of strings")
    );
    assert!(
        error(r#"{"apiVersion":"v1","apiVersion":"v2","kind":"Pod","metadata":{"name":"a"}}"#)
            .contains("twice")
    );
}

#[test]
fn invalid_utf8_is_refused() {
    let error = Object::from_json(b"{\"kind\":\"\xff\"}").expect_err("not UTF-8");
    assert!(matches!(error, ObjectError::Utf8(_)));
}
