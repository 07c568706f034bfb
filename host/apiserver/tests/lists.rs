//! Lists: resource versions, pages, selectors and representations.

mod api;

use api::{Api, core, names, version};
use serde_json::json;

async fn with_config_maps(count: usize) -> Api {
    let api = Api::new();
    for index in 0..count {
        let body = json!({"metadata": {"name": format!("c{index}"), "labels": {"n": index.to_string()}}});
        api.post(&core("configmaps"), &body).await.ok();
    }
    api
}

#[tokio::test]
async fn list_items_of_built_in_kinds_have_no_kind_but_single_objects_do() {
    let api = with_config_maps(1).await;
    let list = api.get(&core("configmaps")).await.ok();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("ConfigMapList"), &json!("v1")));
    assert_eq!((list["items"][0].get("kind"), list["items"][0].get("apiVersion")), (None, None));
    let one = api.get(&core("configmaps/c0")).await.ok();
    assert_eq!((&one["kind"], &one["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
}

#[tokio::test]
async fn all_pages_show_the_state_of_the_first_page() {
    let api = with_config_maps(5).await;
    let first = api.get(&core("configmaps?limit=2")).await.ok();
    assert_eq!(names(&first), ["c0", "c1"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    api.delete(&core("configmaps/c3"), &json!(null)).await.ok();
    api.post(&core("configmaps"), &json!({"metadata": {"name": "c2a"}})).await.ok();
    let token = first["metadata"]["continue"].as_str().expect("a token");
    let second = api.get(&core(&format!("configmaps?limit=10&continue={token}"))).await.ok();
    assert_eq!(names(&second), ["c2", "c3", "c4"]);
    assert_eq!(version(&second), version(&first));
    assert_eq!(second["metadata"].get("continue"), None);
}

#[tokio::test]
async fn expired_continue_token_gets_410_with_an_inconsistent_token() {
    let api = with_config_maps(4).await;
    let first = api.get(&core("configmaps?limit=2")).await.ok();
    let token = first["metadata"]["continue"].as_str().expect("a token");
    api.post(&core("configmaps"), &json!({"metadata": {"name": "c9"}})).await.ok();
    api.server.compact("", "configmaps");
    let gone = api.get(&core(&format!("configmaps?limit=2&continue={token}"))).await.fails(410, "Expired");
    let token = gone["metadata"]["continue"].as_str().expect("another token");
    let rest = api.get(&core(&format!("configmaps?continue={token}"))).await.ok();
    assert_eq!(names(&rest), ["c2", "c3", "c9"]);
}

#[tokio::test]
async fn resource_version_is_exact_or_a_minimum_as_requested() {
    let api = with_config_maps(1).await;
    let before = version(&api.get(&core("configmaps")).await.ok());
    api.post(&core("configmaps"), &json!({"metadata": {"name": "later"}})).await.ok();
    let exact =
        api.get(&core(&format!("configmaps?resourceVersion={before}&resourceVersionMatch=Exact"))).await.ok();
    assert_eq!((names(&exact), version(&exact)), (vec!["c0".to_owned()], before.clone()));
    let newer = api.get(&core(&format!("configmaps?resourceVersion={before}"))).await.ok();
    assert_eq!(names(&newer), ["c0", "later"]);
    api.server.compact("", "configmaps");
    let path = core(&format!("configmaps?resourceVersion={before}&resourceVersionMatch=Exact"));
    api.get(&path).await.fails(410, "Expired");
}

#[tokio::test]
async fn future_resource_version_is_answered_with_timeout_and_cause() {
    let api = Api::new();
    let body = api.get(&core("configmaps?resourceVersion=99999")).await.fails(504, "Timeout");
    assert_eq!(body["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    assert!(body["message"].as_str().is_some_and(|text| text.contains("Too large resource version: 99999")));
}

#[tokio::test]
async fn limit_is_ignored_for_resource_version_0() {
    let api = with_config_maps(3).await;
    let list = api.get(&core("configmaps?resourceVersion=0&limit=1")).await.ok();
    assert_eq!(names(&list).len(), 3);
}

#[tokio::test]
async fn label_and_field_selectors_filter_lists() {
    let api = with_config_maps(3).await;
    assert_eq!(names(&api.get(&core("configmaps?labelSelector=n+in+(0,2)")).await.ok()), ["c0", "c2"]);
    assert_eq!(names(&api.get(&core("configmaps?fieldSelector=metadata.name%3Dc1")).await.ok()), ["c1"]);
    let refused = api.get(&core("configmaps?fieldSelector=data.x%3Dc1")).await.fails(400, "BadRequest");
    let message = "\"data.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"";
    assert_eq!(refused["message"], message);
    api.get(&core("configmaps?labelSelector=%3D%3D")).await.fails(400, "BadRequest");

    let pod = |name: &str, node: &str| {
        json!({
            "metadata": {"name": name}, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
        })
    };
    api.post(&core("pods"), &pod("a", "n1")).await.ok();
    api.post(&core("pods"), &pod("b", "n2")).await.ok();
    assert_eq!(names(&api.get("/api/v1/pods?fieldSelector=spec.nodeName%3Dn2").await.ok()), ["b"]);
    assert_eq!(names(&api.get("/api/v1/pods?fieldSelector=status.phase!%3DPending").await.ok()).len(), 0);
}

#[tokio::test]
async fn lists_are_restricted_to_the_namespace() {
    let api = with_config_maps(1).await;
    api.post("/api/v1/namespaces/kube-system/configmaps", &json!({"metadata": {"name": "x"}})).await.ok();
    assert_eq!(names(&api.get(&core("configmaps")).await.ok()), ["c0"]);
    assert_eq!(names(&api.get("/api/v1/configmaps").await.ok()), ["c0", "x"]);
}

#[tokio::test]
async fn lists_are_served_as_tables_or_as_metadata() {
    let api = with_config_maps(2).await;
    let (table, _) = api.get_as(&core("configmaps"), "application/json;as=Table;v=v1;g=meta.k8s.io").await;
    assert_eq!(table.body["kind"], "Table");
    assert_eq!(table.body["columnDefinitions"][0]["name"], "Name");
    assert_eq!(table.body["rows"][1]["cells"][0], "c1");
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let (list, _) = api.get_as(&core("configmaps"), accept).await;
    assert_eq!(list.body["kind"], "PartialObjectMetadataList");
    assert_eq!(list.body["items"][0]["metadata"]["name"], "c0");
    let (refused, _) = api.get_as(&core("configmaps"), "application/json;as=Other;g=meta.k8s.io;v=v1").await;
    assert_eq!(refused.code, 406);
}

#[tokio::test]
async fn tables_and_metadata_have_the_version_that_the_client_asks_for() {
    let api = with_config_maps(1).await;
    let get = async |path: &str, form: &str| {
        let accept = format!("application/json;as={form};g=meta.k8s.io;v=v1beta1");
        api.get_as(&core(path), &accept).await.0.ok()
    };
    let beta = "meta.k8s.io/v1beta1";
    for path in ["configmaps", "configmaps/c0"] {
        let table = get(path, "Table").await;
        assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!(beta)), "{path}");
        let row = &table["rows"][0]["object"];
        assert_eq!((&row["kind"], &row["apiVersion"]), (&json!("PartialObjectMetadata"), &json!(beta)));
    }
    let whole = get("configmaps?includeObject=Object", "Table").await;
    assert_eq!(whole["rows"][0]["object"]["apiVersion"], "v1");
    let list = get("configmaps", "PartialObjectMetadataList").await;
    assert_eq!((&list["apiVersion"], &list["items"][0]["apiVersion"]), (&json!(beta), &json!(beta)));
    assert_eq!(get("configmaps/c0", "PartialObjectMetadata").await["apiVersion"], beta);
}

#[tokio::test]
async fn list_sent_in_chunks_is_one_json_document() {
    let api = Api::new();
    let value = "x".repeat(3000);
    for index in 0..200 {
        let body = json!({"metadata": {"name": format!("c{index:03}")}, "data": {"value": value}});
        api.post(&core("configmaps"), &body).await.ok();
    }
    let list = api.get(&core("configmaps")).await.ok();
    assert_eq!(names(&list).len(), 200);
    assert_eq!(list["items"][199]["data"]["value"], json!(value));
}
