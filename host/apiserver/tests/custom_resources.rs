//! CRDs and custom resources.

mod api;

use api::{Api, names};
use serde_json::{Value, json};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const FOOS: &str = "/apis/example.com/v1/namespaces/default/foos";

fn version(name: &str, storage: bool) -> Value {
    json!({
        "name": name, "served": true, "storage": storage,
        "subresources": {
            "status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.replicas"}],
        "selectableFields": [{"jsonPath": ".spec.color"}],
        "schema": {"openAPIV3Schema": {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "replicas": {"type": "integer", "minimum": 0, "default": 1}, "color": {"type": "string"},
                    },
                },
                "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
            },
        }},
    })
}

fn crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "foos", "kind": "Foo", "shortNames": ["fo"]},
            "versions": [version("v1", true), version("v2", false)],
        },
    })
}

fn foo(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": name}, "spec": spec})
}

async fn with_crd() -> Api {
    let api = Api::new();
    api.post(CRDS, &crd()).await.ok();
    api
}

#[tokio::test]
async fn crd_is_established_and_served_once_created() {
    let api = Api::new();
    api.get(FOOS).await.is_page_not_found();
    let created = api.post(CRDS, &crd()).await.ok();
    let conditions = created["status"]["conditions"].as_array().expect("conditions");
    for kind in ["NamesAccepted", "Established"] {
        assert!(conditions.iter().any(|c| c["type"] == kind && c["status"] == "True"), "{conditions:?}");
    }
    assert_eq!(created["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(created["spec"]["names"]["listKind"], "FooList");
    assert_eq!(names(&api.get(FOOS).await.ok()), [""; 0]);
    let resources = api.get("/apis/example.com/v1").await.ok();
    let served: Vec<&str> = resources["resources"]
        .as_array()
        .expect("resources")
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    assert_eq!(served, ["foos", "foos/status", "foos/scale"]);
}

#[tokio::test]
async fn custom_resources_are_defaulted_pruned_and_validated() {
    let api = with_crd().await;
    let created = api.post(FOOS, &foo("a", &json!({"unknown": 1}))).await;
    assert_eq!(created.warnings, ["299 - \"unknown field \\\"spec.unknown\\\"\""]);
    assert_eq!(created.ok()["spec"], json!({"replicas": 1}));
    let invalid = api.post(FOOS, &foo("b", &json!({"replicas": -1}))).await.fails(422, "Invalid");
    assert_eq!(invalid["details"]["causes"][0]["field"], "spec.replicas");
    assert!(
        invalid["message"]
            .as_str()
            .is_some_and(|text| text.starts_with("Foo.example.com \"b\" is invalid: "))
    );
    let untyped = json!({"metadata": {"name": "c"}});
    api.post(FOOS, &untyped).await.fails(400, "BadRequest");
}

#[tokio::test]
async fn metadata_of_a_wrong_type_is_refused() {
    let api = with_crd().await;
    let created = api.post(FOOS, &foo("a", &json!({}))).await.ok();
    let before = "Foo in version \"v1\" cannot be handled as a Foo: json: cannot unmarshal";
    for (metadata, problem) in [
        (json!("text"), "string into Go value of type v1.ObjectMeta"),
        (
            json!({"name": "a", "labels": ["x"]}),
            "array into Go struct field ObjectMeta.labels of type map[string]string",
        ),
        (
            json!({"name": "a", "annotations": {"x": 1}}),
            "number into Go struct field ObjectMeta.annotations of type string",
        ),
        (
            json!({"name": "a", "finalizers": "x"}),
            "string into Go struct field ObjectMeta.finalizers of type []string",
        ),
    ] {
        let mut body = foo("a", &json!({"color": "red"}));
        body["metadata"] = metadata;
        for answer in [
            api.post(FOOS, &body).await,
            api.put(&format!("{FOOS}/a"), &body).await,
            api.put(&format!("{FOOS}/a/status"), &body).await,
        ] {
            assert_eq!(answer.fails(400, "BadRequest")["message"], format!("{before} {problem}"));
        }
    }
    let scale =
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": "text", "spec": {"replicas": 1}});
    let refused = api.put(&format!("{FOOS}/a/scale"), &scale).await.fails(400, "BadRequest");
    let message = "no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\"";
    assert_eq!(refused["message"], message, "as in kube-apiserver");
    api.merge(&format!("{FOOS}/a"), &json!({"metadata": {"labels": ["x"]}})).await.fails(422, "Invalid");
    assert_eq!(api.get(&format!("{FOOS}/a")).await.ok(), created);
}

#[tokio::test]
async fn list_items_of_custom_resources_have_kind_and_api_version() {
    let api = with_crd().await;
    api.post(FOOS, &foo("a", &json!({}))).await.ok();
    let list = api.get(FOOS).await.ok();
    assert_eq!(list["kind"], "FooList");
    assert_eq!(
        (&list["items"][0]["kind"], &list["items"][0]["apiVersion"]),
        (&json!("Foo"), &json!("example.com/v1"))
    );
}

#[tokio::test]
async fn all_versions_serve_the_same_objects() {
    let api = with_crd().await;
    api.post(FOOS, &foo("a", &json!({}))).await.ok();
    let newer = api.get("/apis/example.com/v2/namespaces/default/foos/a").await.ok();
    assert_eq!(newer["apiVersion"], "example.com/v2");
    let mut watch = api.watch("/apis/example.com/v2/foos").await;
    assert_eq!(watch.next().await.expect("an event")["object"]["apiVersion"], "example.com/v2");
    let groups = api.get("/apis/example.com").await.ok();
    assert_eq!(groups["preferredVersion"]["version"], "v2");
}

#[tokio::test]
async fn status_and_scale_are_subresources() {
    let api = with_crd().await;
    let mut with_status = foo("a", &json!({"replicas": 2}));
    with_status["status"] = json!({"replicas": 5});
    let created = api.post(FOOS, &with_status).await.ok();
    assert_eq!(created.get("status"), None, "a new object has no status");
    let status = json!({"status": {"replicas": 5}, "spec": {"replicas": 9}});
    let written = api.merge(&format!("{FOOS}/a/status"), &status).await.ok();
    assert_eq!((&written["spec"]["replicas"], &written["status"]["replicas"]), (&json!(2), &json!(5)));
    assert_eq!(written["metadata"]["generation"], 1);
    let scale = api.get(&format!("{FOOS}/a/scale")).await.ok();
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]["replicas"]), (&json!(2), &json!(5)));
    api.merge(&format!("{FOOS}/a/scale"), &json!({"spec": {"replicas": 3}})).await.ok();
    let scaled = api.get(&format!("{FOOS}/a")).await.ok();
    assert_eq!((&scaled["spec"]["replicas"], &scaled["metadata"]["generation"]), (&json!(3), &json!(2)));
}

#[tokio::test]
async fn custom_resources_have_no_strategic_merge_and_no_unconditional_put() {
    let api = with_crd().await;
    api.post(FOOS, &foo("a", &json!({}))).await.ok();
    let path = format!("{FOOS}/a");
    api.patch("strategic-merge-patch+json", &path, &json!({})).await.fails(415, "UnsupportedMediaType");
    let refused = api.put(&path, &foo("a", &json!({"replicas": 2}))).await.fails(422, "Invalid");
    assert_eq!(refused["details"]["causes"][0]["field"], "metadata.resourceVersion");
}

#[tokio::test]
async fn field_selector_supports_selectable_fields_of_the_crd() {
    let api = with_crd().await;
    api.post(FOOS, &foo("a", &json!({"color": "red"}))).await.ok();
    api.post(FOOS, &foo("b", &json!({"color": "blue"}))).await.ok();
    assert_eq!(names(&api.get(&format!("{FOOS}?fieldSelector=spec.color%3Dblue")).await.ok()), ["b"]);
    api.get(&format!("{FOOS}?fieldSelector=spec.replicas%3D1")).await.fails(400, "BadRequest");
}

#[tokio::test]
async fn openapi_has_the_selectable_fields_of_the_crd() {
    let api = with_crd().await;
    let root = FOOS.split("/namespaces/").next().expect("the path of the group");
    let document = api.get(&format!("/openapi/v3{root}")).await.ok();
    let schemas = document["components"]["schemas"].as_object().expect("schemas");
    for suffix in [".Foo", ".FooList"] {
        let (_, schema) = schemas.iter().find(|(name, _)| name.ends_with(suffix)).expect("a schema");
        assert_eq!(schema["x-kubernetes-selectable-fields"], json!([{"fieldPath": "spec.color"}]));
    }
}

#[tokio::test]
async fn deleting_a_crd_deletes_its_objects_and_ends_their_watches() {
    let api = with_crd().await;
    api.post(FOOS, &foo("a", &json!({}))).await.ok();
    let mut watch = api.watch(FOOS).await;
    assert_eq!(watch.next_summary().await, "ADDED a");
    api.delete(&format!("{CRDS}/foos.example.com"), &json!(null)).await.ok();
    assert_eq!(watch.next_summary().await, "DELETED a");
    assert_eq!(watch.next().await, None);
    api.get(FOOS).await.is_page_not_found();
    api.get(&format!("{CRDS}/foos.example.com")).await.fails(404, "NotFound");
    api.post(CRDS, &crd()).await.ok();
    assert_eq!(names(&api.get(FOOS).await.ok()), [""; 0], "a new CRD starts with nothing");
}

#[tokio::test]
async fn crd_deletion_waits_for_objects_with_finalizers() {
    let api = with_crd().await;
    let mut held = foo("a", &json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    api.post(FOOS, &held).await.ok();
    let deleting = api.delete(&format!("{CRDS}/foos.example.com"), &json!(null)).await.ok();
    assert!(deleting["metadata"]["deletionTimestamp"].is_string());
    api.post(FOOS, &foo("b", &json!({}))).await.fails(405, "MethodNotAllowed");
    assert!(api.get(&format!("{FOOS}/a")).await.ok()["metadata"]["deletionTimestamp"].is_string());
    api.merge(&format!("{FOOS}/a"), &json!({"metadata": {"finalizers": null}})).await.ok();
    api.get(&format!("{CRDS}/foos.example.com")).await.fails(404, "NotFound");
    api.get(FOOS).await.is_page_not_found();
}

#[tokio::test]
async fn invalid_crd_is_rejected_with_all_causes() {
    let api = Api::new();
    let mut bad = crd();
    bad["metadata"]["name"] = json!("other.example.com");
    bad["spec"]["versions"][0]["storage"] = json!(false);
    bad["spec"]["versions"][1]["schema"] = json!(null);
    let refused = api.post(CRDS, &bad).await.fails(422, "Invalid");
    let fields: Vec<&str> = refused["details"]["causes"]
        .as_array()
        .expect("causes")
        .iter()
        .filter_map(|c| c["field"].as_str())
        .collect();
    for field in ["metadata.name", "spec.versions", "spec.versions[1].schema.openAPIV3Schema"] {
        assert!(fields.contains(&field), "{field} is not among {fields:?}");
    }
}

#[tokio::test]
async fn crd_cannot_change_scope_or_drop_a_stored_version() {
    let api = with_crd().await;
    let path = format!("{CRDS}/foos.example.com");
    api.merge(&path, &json!({"spec": {"scope": "Cluster"}})).await.fails(422, "Invalid");
    let only_second = json!({"spec": {"versions": [version("v2", true)]}});
    let refused = api.merge(&path, &only_second).await.fails(422, "Invalid");
    assert!(
        refused["message"].as_str().is_some_and(|text| text.contains("missing from spec.versions")),
        "{refused}"
    );
    let third =
        json!({"spec": {"versions": [version("v1", false), version("v2", false), version("v3", true)]}});
    let changed = api.merge(&path, &third).await.ok();
    assert_eq!(changed["status"]["storedVersions"], json!(["v1", "v3"]));
    api.get("/apis/example.com/v3/foos").await.ok();
}

#[tokio::test]
async fn crd_with_conflicting_names_is_not_established() {
    let api = with_crd().await;
    let mut conflicting = crd();
    conflicting["metadata"]["name"] = json!("foozes.example.com");
    conflicting["spec"]["names"] = json!({"plural": "foozes", "kind": "Foo"});
    let created = api.post(CRDS, &conflicting).await.ok();
    let conditions = created["status"]["conditions"].as_array().expect("conditions");
    assert!(conditions.iter().any(|c| c["type"] == "NamesAccepted" && c["reason"] == "ListKindConflict"));
    assert!(conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "False"));
    api.get("/apis/example.com/v1/foozes").await.fails(404, "NotFound");
    api.delete(&format!("{CRDS}/foos.example.com"), &json!(null)).await.ok();
    api.get("/apis/example.com/v1/foozes").await.ok();
}

#[tokio::test]
async fn server_side_apply_merges_custom_resources_by_manager() {
    let api = with_crd().await;
    let path = |manager: &str| format!("{FOOS}/a?fieldManager={manager}");
    api.apply(&path("one"), &foo("a", &json!({"color": "red"}))).await.ok();
    let both = api.apply(&path("two"), &foo("a", &json!({"replicas": 3}))).await.ok();
    assert_eq!(both["spec"], json!({"color": "red", "replicas": 3}));
    let less = api.apply(&path("two"), &foo("a", &json!({}))).await.ok();
    assert_eq!(less["spec"], json!({"color": "red", "replicas": 1}), "the default is back");
}

#[tokio::test]
async fn missing_crd_field_is_reported_once() {
    let api = Api::new();
    for field in ["group", "scope", "names/plural", "names/kind"] {
        let mut body = crd();
        let pointer = format!("/spec/{field}");
        let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
        body.pointer_mut(parent).and_then(Value::as_object_mut).expect("an object").remove(name);
        let refused = api.post(CRDS, &body).await.fails(422, "Invalid");
        let at = format!("spec.{}", field.replace('/', "."));
        let causes = refused["details"]["causes"].as_array().expect("causes").iter();
        let matching =
            causes.filter(|cause| cause["field"] == at.as_str() && cause["reason"] == "FieldValueRequired");
        assert_eq!(matching.count(), 1, "{at}: {refused:#}");
    }
}

#[tokio::test]
async fn watch_from_before_a_crd_was_recreated_gets_410() {
    let api = with_crd().await;
    let created = api.post(FOOS, &foo("a", &json!({}))).await.ok();
    let old = api::version(&created);
    api.delete(&format!("{CRDS}/foos.example.com"), &json!(null)).await.ok();
    let gone = api.get(&format!("{CRDS}/foos.example.com")).await;
    assert_eq!(gone.code, 404, "{:#}", gone.body);
    api.post(CRDS, &crd()).await.ok();
    let event = api.watch(&format!("{FOOS}?resourceVersion={old}")).await.next().await.expect("an event");
    assert_eq!(
        (&event["type"], &event["object"]["code"]),
        (&json!("ERROR"), &json!(410)),
        "the deletion of a is not in the history"
    );
}

#[tokio::test]
async fn an_object_whose_rules_cost_too_much_is_rejected() {
    let all: String = (0..9).map(|level| format!("[0,1,2,3,4,5,6,7,8,9].all(v{level}, ")).collect();
    let mut costly = crd();
    let spec = &mut costly["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["x-kubernetes-validations"] = json!([{"rule": format!("{all}true{}", ")".repeat(9))}]);
    let api = Api::new();
    api.post(CRDS, &costly).await.ok();
    let refused = api.post(FOOS, &foo("a", &json!({}))).await.fails(422, "Invalid");
    let message = refused["message"].as_str().expect("a message");
    assert!(message.contains("cost limit exceeded"), "{message}");
}

#[tokio::test]
async fn rules_and_patterns_of_a_crd_are_bounded_together() {
    let api = Api::new();
    let with_properties = |properties: serde_json::Map<String, Value>| {
        let mut crd = crd();
        let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        schema["properties"]["spec"] = json!({"type": "object", "properties": properties});
        crd
    };
    let name = |number: usize| format!("p{number}");
    let rule = format!("self != '{}'", "a".repeat(8000));
    let ruled = (0..40).map(|number| {
        (name(number), json!({"type": "string", "x-kubernetes-validations": [{"rule": rule}]}))
    });
    let refused = api.post(CRDS, &with_properties(ruled.collect())).await.fails(422, "Invalid");
    let message = refused["message"].as_str().expect("a message");
    assert!(message.contains("x-kubernetes-validations have") && message.contains("262144"), "{message}");

    let patterned = |count: usize, pattern: &dyn Fn(usize) -> String| {
        let properties =
            (0..count).map(|number| (name(number), json!({"type": "string", "pattern": pattern(number)})));
        with_properties(properties.collect())
    };
    let many = patterned(1025, &|number| format!("^a{number}$"));
    let refused = api.post(CRDS, &many).await.fails(422, "Invalid");
    assert!(refused["message"].as_str().is_some_and(|text| text.contains("too large together")));
    api.post(CRDS, &patterned(2000, &|_| "^a$".to_owned())).await.ok();
}

/// With the flag `i`, every code point of a class is visited before any limit of the compiled size counts.
#[tokio::test]
async fn the_work_to_compile_the_patterns_of_a_crd_is_bounded() {
    let api = Api::new();
    let with_fields = |fields: Vec<Value>| {
        let mut crd = crd();
        let fields: serde_json::Map<_, _> =
            fields.into_iter().enumerate().map(|(number, field)| (format!("p{number}"), field)).collect();
        let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        schema["properties"]["spec"] = json!({"type": "object", "properties": fields});
        crd
    };
    let wide = r"[\x01-\u{10ffff}]";
    let patterned = |count: usize, pattern: &str| -> Vec<_> {
        (0..count)
            .map(|number| json!({"type": "string", "pattern": format!("{number}(?i){pattern}")}))
            .collect()
    };
    api.post(CRDS, &with_fields(patterned(5, wide))).await.ok();
    for fields in [
        patterned(40, wide),
        // One pattern, too much work by itself.
        patterned(1, &wide.repeat(40)),
        (0..40)
            .map(|number| {
                let rule = format!(r"self.matches('{number}(?i)[\\x01-\\u{{10ffff}}]')");
                json!({"type": "string", "maxLength": 10, "x-kubernetes-validations": [{"rule": rule}]})
            })
            .collect(),
    ] {
        let refused = api.post(CRDS, &with_fields(fields)).await.fails(422, "Invalid");
        let message = refused["message"].as_str().expect("a message");
        assert!(message.contains("too large together"), "{message}");
    }
    let long = "a".repeat((16 << 10) + 1);
    let refused = api.post(CRDS, &with_fields(patterned(1, &long))).await.fails(422, "Invalid");
    assert!(refused["message"].as_str().is_some_and(|text| text.contains("at most 16384 bytes")));
}

/// Replaces the fields of `spec` in the schema of both versions.
async fn set_fields(api: &Api, fields: [&Value; 2]) {
    let path = format!("{CRDS}/foos.example.com");
    let mut crd = api.get(&path).await.ok();
    for (position, fields) in fields.into_iter().enumerate() {
        crd["spec"]["versions"][position]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] =
            fields.clone();
        crd["spec"]["versions"][position]["selectableFields"] = json!([]);
        crd["spec"]["versions"][position]["subresources"] = json!({"status": {}});
    }
    api.put(&path, &crd).await.ok();
}

#[tokio::test]
async fn objects_that_are_older_than_the_schema_are_pruned_and_defaulted_when_read() {
    let api = with_crd().await;
    let with_color = json!({"replicas": {"type": "integer"}, "color": {"type": "string"}});
    let without = json!({"replicas": {"type": "integer"}, "size": {"type": "string", "default": "small"}});
    api.post(FOOS, &foo("a", &json!({"replicas": 2, "color": "red"}))).await.ok();
    let path = format!("{FOOS}/a");
    let before = api.get(&path).await.ok();
    let pruned = json!({"replicas": 2, "size": "small"});
    set_fields(&api, [&without, &without]).await;
    assert_eq!(api.get(&path).await.ok()["spec"], pruned);
    assert_eq!(api.get(FOOS).await.ok()["items"][0]["spec"], pruned);
    let mut watch = api.watch("/apis/example.com/v1/foos").await;
    assert_eq!(watch.next().await.expect("an event")["object"]["spec"], pruned);

    // A read does not change what is stored.
    set_fields(&api, [&with_color, &with_color]).await;
    let again = api.get(&path).await.ok();
    assert_eq!(again["spec"], json!({"replicas": 2, "color": "red"}));
    assert_eq!(again["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);

    // A write does, also one without a change.
    set_fields(&api, [&without, &without]).await;
    let written = api.merge(&path, &json!({})).await.ok();
    assert_ne!(written["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    assert_eq!(
        api.merge(&path, &json!({})).await.ok()["metadata"],
        written["metadata"],
        "nothing is outdated"
    );
    set_fields(&api, [&with_color, &with_color]).await;
    assert_eq!(api.get(&path).await.ok()["spec"], json!({"replicas": 2}));
}

#[tokio::test]
async fn a_field_that_the_storage_version_lacks_is_not_stored() {
    let api = with_crd().await;
    let (storage, served) = (
        json!({"replicas": {"type": "integer", "default": 1}, "old": {"type": "string"}}),
        json!({"replicas": {"type": "integer"}, "color": {"type": "string"}}),
    );
    set_fields(&api, [&storage, &served]).await;
    let mut object = foo("a", &json!({"color": "red"}));
    object["apiVersion"] = json!("example.com/v2");
    let created = api.post("/apis/example.com/v2/namespaces/default/foos", &object).await.ok();
    assert_eq!(created["spec"], json!({"replicas": 1}));
    api.merge(&format!("{FOOS}/a"), &json!({"spec": {"old": "x"}})).await.ok();
    let read = api.get("/apis/example.com/v2/namespaces/default/foos/a").await.ok();
    assert_eq!(read["spec"], json!({"replicas": 1}), "the served version has no such field");
    assert_eq!(api.get(&format!("{FOOS}/a")).await.ok()["spec"], json!({"replicas": 1, "old": "x"}));
}

#[tokio::test]
async fn default_of_the_status_is_set_on_a_new_object() {
    let api = Api::new();
    let mut crd = crd();
    let status = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"];
    status["default"] = json!({"replicas": 7});
    api.post(CRDS, &crd).await.ok();
    let mut sent = foo("a", &json!({}));
    sent["status"] = json!({"replicas": 1});
    let created = api.post(FOOS, &sent).await.ok();
    assert_eq!(created["status"], json!({"replicas": 7}));
    assert!(!created["metadata"]["managedFields"].to_string().contains("f:status"), "{created}");
}

#[tokio::test]
async fn crd_without_a_served_version_is_accepted_and_its_objects_end_with_it() {
    let api = with_crd().await;
    api.post(FOOS, &foo("a", &json!({}))).await.ok();
    let mut unserved = api.get(&format!("{CRDS}/foos.example.com")).await.ok();
    for index in [0, 1] {
        unserved["spec"]["versions"][index]["served"] = json!(false);
    }
    api.put(&format!("{CRDS}/foos.example.com"), &unserved).await.ok();
    api.get(FOOS).await.is_page_not_found();
    api.delete(&format!("{CRDS}/foos.example.com"), &json!(null)).await.ok();
    api.post(CRDS, &crd()).await.ok();
    assert_eq!(names(&api.get(FOOS).await.ok()), [""; 0]);
}

#[tokio::test]
async fn crd_of_a_protected_group_has_the_condition_of_its_approval() {
    let api = Api::new();
    let mut protected = crd();
    protected["metadata"]["name"] = json!("foos.example.k8s.io");
    protected["spec"]["group"] = json!("example.k8s.io");
    let refused = api.post(CRDS, &protected).await.fails(422, "Invalid");
    assert_eq!(refused["details"]["causes"][0]["field"], "metadata.annotations[api-approved.kubernetes.io]");
    protected["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "unapproved, for a test"});
    let created = api.post(CRDS, &protected).await.ok();
    let condition = &created["status"]["conditions"][2];
    assert_eq!(
        (&condition["type"], &condition["status"], &condition["reason"]),
        (&json!("KubernetesAPIApprovalPolicyConformant"), &json!("False"), &json!("UnapprovedAnnotation"))
    );
}

#[tokio::test]
async fn apply_fails_while_a_manager_has_a_version_without_a_field_of_the_object() {
    let api = Api::new();
    let mut definition = crd();
    definition["spec"]["versions"] = json!([version("v1", true)]);
    api.post(CRDS, &definition).await.ok();
    let path =
        |version: &str| format!("/apis/example.com/{version}/namespaces/default/foos/a?fieldManager=old");
    let config = |version: &str| {
        json!({
            "apiVersion": format!("example.com/{version}"), "kind": "Foo", "metadata": {"name": "a"}, "spec": {"color": "red"}
        })
    };
    api.apply(&path("v1"), &config("v1")).await.ok();
    let mut newer = version("v2", true);
    newer["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"] =
        json!({"type": "string", "default": "small"});
    let mut older = version("v1", false);
    older["served"] = json!(false);
    let versions = json!({"spec": {"versions": [older, newer]}});
    api.merge(&format!("{CRDS}/foos.example.com"), &versions).await.ok();
    let refused = api.apply(&path("v2"), &config("v2")).await;
    assert_eq!(
        (refused.code, &refused.body["message"]),
        (500, &json!(".spec.size: field not declared in schema"))
    );
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    let updated = api.merge(&path("v2"), &labelled).await.ok();
    assert_eq!(updated["metadata"].get("managedFields"), None, "nothing else can express the fields");
    api.apply(&path("v2"), &config("v2")).await.ok();
}

#[tokio::test]
async fn applied_null_is_refused_unless_the_schema_allows_it() {
    let api = Api::new();
    let mut crd = crd();
    let inner = |nullable: bool| json!({"type": "object", "nullable": nullable, "properties": {"a": {"type": "string"}}});
    let with_default = json!({"type": "string", "default": "d"});
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] =
        json!({"strict": inner(false), "nullable": inner(true), "defaulted": with_default});
    api.post(CRDS, &crd).await.ok();
    let path = format!("{FOOS}/a?fieldManager=m");
    let with = |spec: Value| foo("a", &spec);
    for field in ["strict", "nullable"] {
        api.apply(&path, &with(json!({(field): {"a": "1"}}))).await.ok();
    }
    let refused = api.apply(&path, &with(json!({"strict": null}))).await.fails(422, "Invalid");
    let message = refused["message"].as_str().expect("text");
    assert!(message.contains(r#"spec.strict in body must be of type object: "null""#), "{message}");
    let applied = api.apply(&path, &with(json!({"nullable": null, "defaulted": null}))).await.ok();
    assert_eq!(applied["spec"], json!({"nullable": null, "defaulted": "d"}));
    let new = api.apply(&format!("{FOOS}/b?fieldManager=m"), &foo("b", &json!({"strict": null}))).await;
    new.fails(422, "Invalid");
    // In contrast to that of an apply, the null of another write counts as absent.
    let created = api.post(FOOS, &foo("c", &json!({"strict": null}))).await.ok();
    assert_eq!(created["spec"], json!({"defaulted": "d"}));
}

#[tokio::test]
async fn empty_list_as_a_default_is_kept() {
    let api = Api::new();
    let mut crd = crd();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] = json!({
        "list": {"type": "array", "items": {"type": "string"}, "default": []},
    });
    api.post(CRDS, &crd).await.ok();
    assert_eq!(api.post(FOOS, &foo("a", &json!({}))).await.ok()["spec"], json!({"list": []}));
}

#[tokio::test]
async fn crd_with_a_malformed_ca_bundle_is_not_established() {
    let api = Api::new();
    let mut crd = crd();
    let conversion = |bundle: &str| {
        json!({
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {"url": "https://127.0.0.1:1/convert", "caBundle": bundle},
                "conversionReviewVersions": ["v1"],
            },
        })
    };
    crd["spec"]["conversion"] = conversion("Cg==");
    let created = api.post(CRDS, &crd).await.ok();
    let established = |crd: &Value| {
        let conditions = crd["status"]["conditions"].as_array().expect("conditions").clone();
        let found = conditions.into_iter().find(|condition| condition["type"] == "Established");
        let found = found.expect("a condition");
        (found["status"].clone(), found["reason"].clone())
    };
    assert_eq!(established(&created), (json!("False"), json!("InvalidCABundle")));
    api.get(FOOS).await.is_page_not_found();
    let path = format!("{CRDS}/foos.example.com");
    let repaired = api.merge(&path, &json!({"spec": {"conversion": conversion("")}})).await.ok();
    assert_eq!(established(&repaired), (json!("True"), json!("InitialNamesAccepted")));
    let refused = api.merge(&path, &json!({"spec": {"conversion": conversion("Cg==")}})).await;
    let refused = refused.fails(422, "Invalid");
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.conversion.webhookClientConfig.caBundle");
}

#[tokio::test]
async fn namespaced_resources_are_written_in_a_namespace_only() {
    let api = with_crd().await;
    api.post("/apis/example.com/v1/foos", &foo("a", &json!({}))).await.fails(404, "NotFound");
    api.delete("/apis/example.com/v1/foos", &Value::Null).await.fails(404, "NotFound");
    api.get("/apis/example.com/v1/foos").await.ok();
    api.delete("/api/v1/configmaps", &Value::Null).await.fails(405, "MethodNotAllowed");
}

#[tokio::test]
async fn default_warning_of_a_deprecated_version_names_the_newest_one() {
    let api = Api::new();
    let mut crd = crd();
    let deprecated = |name: &str| {
        let mut version = version(name, false);
        version["deprecated"] = json!(true);
        version
    };
    let mut unserved = version("v3", false);
    unserved["served"] = json!(false);
    crd["spec"]["versions"] = json!([
        deprecated("v1alpha1"),
        version("v1beta1", false),
        version("v1beta2", true),
        deprecated("v2"),
        unserved,
    ]);
    api.post(CRDS, &crd).await.ok();
    let path = |version: &str| format!("/apis/example.com/{version}/namespaces/default/foos");
    let old = api.get(&path("v1alpha1")).await.warnings;
    assert_eq!(old, [r#"299 - "example.com/v1alpha1 Foo is deprecated; use example.com/v1beta2 Foo""#]);
    let new = api.get(&path("v2")).await.warnings;
    assert_eq!(new, [r#"299 - "example.com/v2 Foo is deprecated""#]);
}

#[tokio::test]
async fn watches_end_when_the_definition_of_their_resource_changes() {
    let api = with_crd().await;
    let mut watch = api.watch(FOOS).await;
    let path = format!("{CRDS}/foos.example.com");
    api.merge(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await.ok();
    api.post(FOOS, &foo("a", &json!({}))).await.ok();
    assert_eq!(watch.next().await.expect("an event")["type"], "ADDED");
    api.merge(&path, &json!({"spec": {"names": {"categories": ["all"]}}})).await.ok();
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn finalizers_without_a_domain_are_warned_about_once() {
    let api = with_crd().await;
    let mut object = foo("a", &json!({}));
    object["metadata"]["finalizers"] = json!(["b.example.com", "a", "c/d", "a"]);
    object["metadata"]["resourceVersion"] = json!("no number");
    let created = api.post(FOOS, &object).await;
    let warning = |name: &str, path: &str| {
        format!(
            "299 - \"metadata.finalizers: \\\"{name}\\\": prefer a domain-qualified finalizer name{path} to avoid accidental \
             conflicts with other finalizer writers\""
        )
    };
    assert_eq!(created.warnings, [warning("a", ""), warning("b.example.com", " including a path (/)")]);
    created.ok();
    let finalizers = json!({"metadata": {"finalizers": ["a", "e"]}});
    let updated = api.merge(&format!("{FOOS}/a"), &finalizers).await;
    assert_eq!(updated.warnings, [warning("e", "")]);
    let mut versioned = foo("b", &json!({}));
    versioned["metadata"]["resourceVersion"] = json!("7");
    assert_eq!(api.post(FOOS, &versioned).await.code, 500);
}
