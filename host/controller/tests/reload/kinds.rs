//! A CRD that is deleted and created again with another scope and plural name while a plugin watches its kind.

use http::Method;
use serde_json::{Value, json};

use crate::guest;
use crate::stage::Stage;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GROUP: &str = "/apis/example.com/v1";

fn crd(plural: &str, scope: &str) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": scope,
            "names": {"plural": plural, "singular": plural.trim_end_matches('s'), "kind": "Foo", "listKind": "FooList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}

fn foo(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": name}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_whose_scope_changes_is_watched_in_the_new_scope() {
    let stage = Stage::start(|_| {});
    let json = "application/json";
    stage.request(Method::POST, CRDS, json, &crd("foos", "Namespaced")).await;
    stage.install(&guest::watching_foos());
    stage.until("the version to run", |status| status.generation == 1).await;
    stage.request(Method::POST, &format!("{GROUP}/namespaces/default/foos"), json, &foo("one")).await;
    stage.wait("the first record", || stage.log.len() == 2).await;
    stage.request(Method::DELETE, &format!("{CRDS}/foos.example.com"), json, &json!({})).await;
    stage.request(Method::POST, CRDS, json, &crd("wholefoos", "Cluster")).await;
    stage.until("a version for the new scope", |status| status.generation == 2).await;
    stage.request(Method::POST, &format!("{GROUP}/wholefoos"), json, &foo("two")).await;
    let is_recorded = || stage.log.read(|records| records.iter().any(|record| record.name == "two"));
    stage.wait("the record of the cluster's object", is_recorded).await;
    stage.end().await;
}
