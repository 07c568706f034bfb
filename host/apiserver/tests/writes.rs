//! Create, update and delete.

mod api;

use api::{Api, apps, core, version};
use bytes::Bytes;
use http::Method;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;

fn deployment(name: &str, replicas: u32) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    })
}

#[tokio::test]
async fn server_sets_the_metadata_of_a_new_object() {
    let api = Api::new();
    let sent = json!({"metadata": {"generateName": "x-", "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z"}});
    let created = api.post(&core("configmaps"), &sent).await;
    assert_eq!(created.code, 201);
    let metadata = &created.body["metadata"];
    assert!(metadata["name"].as_str().is_some_and(|name| name.len() == 7 && name.starts_with("x-")));
    assert_ne!(metadata["uid"], "mine");
    assert_ne!(metadata["creationTimestamp"], "2001-01-01T00:00:00Z");
    assert_eq!(metadata["namespace"], "default");
}

#[tokio::test]
async fn invalid_creations_are_rejected_as_in_kubernetes() {
    let api = Api::new();
    let body = json!({"metadata": {"name": "a"}});
    api.post(&core("configmaps"), &body).await.ok();
    let taken = api.post(&core("configmaps"), &body).await.fails(409, "AlreadyExists");
    assert_eq!(taken["message"], "configmaps \"a\" already exists");
    let nowhere = api.post("/api/v1/namespaces/nowhere/configmaps", &body).await.fails(404, "NotFound");
    assert_eq!(nowhere["message"], "namespaces \"nowhere\" not found");
    let bad = api
        .post(&core("configmaps"), &json!({"metadata": {"name": "Not_Valid"}}))
        .await
        .fails(422, "Invalid");
    assert_eq!(bad["details"]["causes"][0]["field"], "metadata.name");
    api.post(&core("configmaps"), &json!({})).await.fails(422, "Invalid");
    let elsewhere = json!({"metadata": {"name": "b", "namespace": "other"}});
    api.post(&core("configmaps"), &elsewhere).await.fails(400, "BadRequest");
    let versioned =
        api.post(&core("configmaps"), &json!({"metadata": {"name": "b", "resourceVersion": "7"}})).await;
    assert_eq!(versioned.body["message"], "resourceVersion should not be set on objects to be created");
    let invalid = json!({"metadata": {"name": "Not_Valid", "resourceVersion": "7"}});
    api.post(&core("configmaps"), &invalid).await.fails(422, "Invalid");
    let any = json!({"metadata": {"name": "any", "resourceVersion": "0"}});
    let created = api.post(&core("configmaps"), &any).await.ok();
    assert_ne!(created["metadata"]["resourceVersion"], "0");
    let kind = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "b"}});
    api.post(&core("configmaps"), &kind).await.fails(400, "BadRequest");
}

#[tokio::test]
async fn a_dry_run_creates_an_object_with_a_resource_version() {
    let api = Api::new();
    let body = json!({"metadata": {"name": "a", "resourceVersion": "7"}});
    let created = api.post(&core("configmaps?dryRun=All"), &body).await;
    assert_eq!((created.code, &created.body["metadata"]["resourceVersion"]), (201, &json!("7")));
    api.get(&core("configmaps/a")).await.fails(404, "NotFound");
}

#[tokio::test]
async fn malformed_bodies_are_rejected_with_the_reason() {
    let api = Api::new();
    let broken = Bytes::from_static(b"{\"metadata\": {\n \"name\" \"a\"}}");
    let body = api
        .send(Method::POST, &core("configmaps"), "application/json", broken)
        .await
        .fails(400, "BadRequest");
    assert!(
        body["message"].as_str().is_some_and(|text| text.contains("invalid character '\"' after object key")),
        "{body}"
    );
    api.send(Method::POST, &core("configmaps"), "text/plain", Bytes::from_static(b"x"))
        .await
        .fails(415, "UnsupportedMediaType");
    let yaml = Bytes::from_static(b"metadata:\n  name: from-yaml\ndata: {a: b}\n");
    let created = api.send(Method::POST, &core("configmaps"), "application/yaml", yaml).await.ok();
    assert_eq!(created["data"]["a"], "b");
    let large = Bytes::from(vec![b' '; 4 * 1024 * 1024]);
    let refused = api.send(Method::POST, &core("configmaps"), "application/json", large).await;
    assert_eq!(refused.code, 413);
}

#[tokio::test]
async fn update_with_a_stale_resource_version_conflicts() {
    let api = Api::new();
    let created = api.post(&core("configmaps"), &json!({"metadata": {"name": "a"}})).await.ok();
    let mut first = created.clone();
    first["data"] = json!({"x": "1"});
    api.put(&core("configmaps/a"), &first).await.ok();
    first["data"] = json!({"x": "2"});
    let conflict = api.put(&core("configmaps/a"), &first).await.fails(409, "Conflict");
    assert_eq!(
        conflict["message"],
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to \
         the latest version and try again"
    );
    let unconditional = json!({"metadata": {"name": "a"}, "data": {"x": "3"}});
    assert_eq!(api.put(&core("configmaps/a"), &unconditional).await.ok()["data"]["x"], "3");
    let other = json!({"metadata": {"name": "a", "uid": "another"}});
    api.put(&core("configmaps/a"), &other).await.fails(409, "Conflict");
    api.put(&core("configmaps/none"), &json!({"metadata": {"name": "none"}})).await.fails(404, "NotFound");
    api.put(&core("configmaps/a"), &json!({"metadata": {"name": "b"}})).await.fails(400, "BadRequest");
}

#[tokio::test]
async fn update_without_changes_keeps_the_resource_version() {
    let api = Api::new();
    let created =
        api.post(&core("configmaps"), &json!({"metadata": {"name": "a"}, "data": {"x": "1"}})).await.ok();
    let again = api.put(&core("configmaps/a"), &created).await.ok();
    assert_eq!(version(&again), version(&created));
    let patched = api.merge(&core("configmaps/a"), &json!({"data": {"x": "1"}})).await.ok();
    assert_eq!(version(&patched), version(&created));
}

#[tokio::test]
async fn generation_increments_only_with_the_specification() {
    let api = Api::new();
    let generation = |object: &Value| object["metadata"]["generation"].as_i64();
    let created = api.post(&apps("deployments"), &deployment("d", 1)).await.ok();
    assert_eq!(generation(&created), Some(1));
    let labelled = api.merge(&apps("deployments/d"), &json!({"metadata": {"labels": {"x": "y"}}})).await.ok();
    assert_eq!(generation(&labelled), Some(1));
    let status = json!({"status": {"replicas": 1}});
    assert_eq!(generation(&api.merge(&apps("deployments/d/status"), &status).await.ok()), Some(1));
    let scaled = api.merge(&apps("deployments/d"), &json!({"spec": {"replicas": 2}})).await.ok();
    assert_eq!(generation(&scaled), Some(2));
}

#[tokio::test]
async fn specification_and_status_are_updated_separately() {
    let api = Api::new();
    api.post(&apps("deployments"), &deployment("d", 1)).await.ok();
    let both = json!({"spec": {"replicas": 5}, "status": {"replicas": 7}});
    let main = api.merge(&apps("deployments/d"), &both).await.ok();
    assert_eq!((&main["spec"]["replicas"], main["status"].get("replicas")), (&json!(5), None));
    let both =
        json!({"spec": {"replicas": 9}, "status": {"replicas": 7}, "metadata": {"labels": {"no": "x"}}});
    let status = api.merge(&apps("deployments/d/status"), &both).await.ok();
    assert_eq!((&status["spec"]["replicas"], &status["status"]["replicas"]), (&json!(5), &json!(7)));
    assert_eq!(status["metadata"].get("labels"), None);
}

#[tokio::test]
async fn scale_reads_and_writes_replicas() {
    let api = Api::new();
    api.post(&apps("deployments"), &deployment("d", 3)).await.ok();
    let mut scale = api.get(&apps("deployments/d/scale")).await.ok();
    assert_eq!((&scale["kind"], &scale["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]["selector"]), (&json!(3), &json!("a=b")));
    scale["spec"]["replicas"] = json!(4);
    api.put(&apps("deployments/d/scale"), &scale).await.ok();
    let deployment = api.get(&apps("deployments/d")).await.ok();
    assert_eq!(
        (&deployment["spec"]["replicas"], &deployment["metadata"]["generation"]),
        (&json!(4), &json!(2))
    );
    scale["spec"]["replicas"] = json!(5);
    api.put(&apps("deployments/d/scale"), &scale).await.fails(409, "Conflict");
    let patched = api.merge(&apps("deployments/d/scale"), &json!({"spec": {"replicas": 6}})).await.ok();
    assert_eq!(patched["spec"]["replicas"], 6);
    api.merge(&apps("deployments/d/scale"), &json!({"spec": {"replicas": -1}})).await.fails(422, "Invalid");
}

#[tokio::test]
async fn object_is_removed_with_its_last_finalizer() {
    let api = Api::new();
    let body = json!({"metadata": {"name": "a", "finalizers": ["example.com/x", "example.com/y"]}});
    let created = api.post(&core("configmaps"), &body).await.ok();
    let mut watch = api.watch(&core(&format!("configmaps?resourceVersion={}", version(&created)))).await;
    let deleting = api.delete(&core("configmaps/a"), &json!(null)).await.ok();
    assert!(deleting["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(deleting["metadata"]["deletionGracePeriodSeconds"], 0);
    let again = api.delete(&core("configmaps/a"), &json!(null)).await.ok();
    assert_eq!(version(&again), version(&deleting), "a second deletion changes nothing");
    let more = json!({"metadata": {"finalizers": ["example.com/x", "example.com/z"]}});
    api.merge(&core("configmaps/a"), &more).await.fails(422, "Invalid");
    api.merge(&core("configmaps/a"), &json!({"metadata": {"finalizers": ["example.com/y"]}})).await.ok();
    api.merge(&core("configmaps/a"), &json!({"metadata": {"finalizers": null}})).await.ok();
    api.get(&core("configmaps/a")).await.fails(404, "NotFound");
    for expected in ["MODIFIED a", "MODIFIED a", "DELETED a"] {
        assert_eq!(watch.next_summary().await, expected);
    }
}

#[tokio::test]
async fn deletion_checks_preconditions_and_returns_a_status() {
    let api = Api::new();
    let created = api.post(&core("configmaps"), &json!({"metadata": {"name": "a"}})).await.ok();
    let wrong = json!({"preconditions": {"uid": "another"}});
    let conflict = api.delete(&core("configmaps/a"), &wrong).await.fails(409, "Conflict");
    assert!(
        conflict["message"]
            .as_str()
            .is_some_and(|text| text.contains("the UID in the precondition (another)"))
    );
    api.delete(&core("configmaps/a"), &json!({"preconditions": {"resourceVersion": "1"}}))
        .await
        .fails(409, "Conflict");
    let right = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": created["metadata"]["uid"]}});
    let status = api.delete(&core("configmaps/a"), &right).await.ok();
    assert_eq!((&status["kind"], &status["status"]), (&json!("Status"), &json!("Success")));
    assert_eq!(status["details"]["uid"], created["metadata"]["uid"]);
    api.delete(&core("configmaps/a"), &json!(null)).await.fails(404, "NotFound");
}

#[tokio::test]
async fn delete_collection_honours_the_selector() {
    let api = Api::new();
    for (name, label) in [("a", "1"), ("b", "2"), ("c", "1")] {
        api.post(&core("configmaps"), &json!({"metadata": {"name": name, "labels": {"l": label}}}))
            .await
            .ok();
    }
    api.delete(&core("configmaps?labelSelector=l%3D1"), &json!(null)).await.ok();
    assert_eq!(api::names(&api.get(&core("configmaps")).await.ok()), ["b"]);
}

#[tokio::test]
async fn dry_run_changes_nothing() {
    let api = Api::new();
    let before = api.server.revision();
    let body = json!({"metadata": {"name": "a"}, "data": {"x": "1"}});
    let shown = api.post(&core("configmaps?dryRun=All"), &body).await.ok();
    assert!(shown["metadata"]["uid"].is_string() && shown["metadata"].get("resourceVersion").is_none());
    api.get(&core("configmaps/a")).await.fails(404, "NotFound");
    assert_eq!(api.server.revision(), before);
    api.post(&core("configmaps"), &body).await.ok();
    let shown = api.merge(&core("configmaps/a?dryRun=All"), &json!({"data": {"x": "2"}})).await.ok();
    assert_eq!(shown["data"]["x"], "2");
    api.delete(&core("configmaps/a?dryRun=All"), &json!(null)).await.ok();
    assert_eq!(api.get(&core("configmaps/a")).await.ok()["data"]["x"], "1");
    api.post(&core("configmaps?dryRun=Some"), &body).await.fails(422, "Invalid");
}

#[tokio::test]
async fn unknown_fields_are_rejected_warned_about_or_dropped() {
    let api = Api::new();
    let body = |name: &str| json!({"metadata": {"name": name}, "dada": {"x": "1"}});
    let strict =
        api.post(&core("configmaps?fieldValidation=Strict"), &body("a")).await.fails(400, "BadRequest");
    assert!(strict["message"].as_str().is_some_and(|text| text.contains("unknown field \"dada\"")));
    let warned = api.post(&core("configmaps"), &body("b")).await;
    assert_eq!(warned.warnings, ["299 - \"unknown field \\\"dada\\\"\""]);
    assert_eq!(warned.ok().get("dada"), None);
    let ignored = api.post(&core("configmaps?fieldValidation=Ignore"), &body("c")).await;
    assert!(ignored.warnings.is_empty() && ignored.code == 201);
}

#[tokio::test]
async fn strategies_set_fields_of_secrets_leases_services_and_namespaces() {
    let api = Api::new();
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"a": "hello"}});
    let secret = api.post(&core("secrets"), &secret).await.ok();
    assert_eq!((&secret["data"]["a"], &secret["type"]), (&json!("aGVsbG8="), &json!("Opaque")));
    assert_eq!(secret.get("stringData"), None);
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}});
    assert_eq!(api.put(&format!("{leases}/l"), &lease).await.code, 201, "a PUT creates a lease");
    api.put(&format!("{leases}/l"), &lease).await.fails(422, "Invalid");
    let service = json!({"metadata": {"name": "w"}, "spec": {"ports": [{"port": 80}]}});
    let service = api.post(&core("services"), &service).await.ok();
    assert_eq!(
        (&service["spec"]["type"], &service["spec"]["clusterIPs"][0]),
        (&json!("ClusterIP"), &service["spec"]["clusterIP"])
    );
    let namespace = api.post("/api/v1/namespaces", &json!({"metadata": {"name": "n"}})).await.ok();
    assert_eq!(
        (&namespace["status"]["phase"], &namespace["spec"]["finalizers"][0]),
        (&json!("Active"), &json!("kubernetes"))
    );
    assert_eq!(namespace["metadata"]["labels"]["kubernetes.io/metadata.name"], "n");
}

#[tokio::test]
async fn pod_specification_is_immutable_except_as_in_kubernetes() {
    let api = Api::new();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
    let created = api.post(&core("pods"), &pod).await.ok();
    api.put(&core("pods/p"), &created).await.ok();
    let image = json!({"spec": {"containers": [{"name": "c", "image": "i:2"}], "activeDeadlineSeconds": 60}});
    let patched = api.patch("strategic-merge-patch+json", &core("pods/p"), &image).await.ok();
    assert_eq!(patched["spec"]["containers"][0]["image"], "i:2");
    api.merge(&core("pods/p"), &json!({"metadata": {"labels": {"a": "b"}}})).await.ok();
    let policy = json!({"spec": {"restartPolicy": "Never"}});
    let refused = api.merge(&core("pods/p"), &policy).await.fails(422, "Invalid");
    let cause = &refused["details"]["causes"][0];
    assert_eq!((&cause["field"], &cause["reason"]), (&json!("spec"), &json!("FieldValueForbidden")));
    let message = refused["message"].as_str().expect("text");
    assert!(message.contains("Forbidden: pod updates may not change fields other than"), "{message}");
    assert!(message.ends_with("changed: spec.restartPolicy"), "{message}");
}

#[tokio::test]
async fn events_are_served_in_two_groups() {
    let api = Api::new();
    let event = json!({
        "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "R", "message": "m", "type": "Normal",
    });
    api.post(&core("events"), &event).await.ok();
    let path = "/apis/events.k8s.io/v1/namespaces/default/events";
    let mut newer = api.get(&format!("{path}/e")).await.ok();
    assert_eq!((&newer["note"], &newer["regarding"]["name"]), (&json!("m"), &json!("p")));
    assert_eq!(newer["apiVersion"], "events.k8s.io/v1");
    newer["note"] = json!("changed");
    let refused = api.put(&format!("{path}/e"), &newer).await.fails(422, "Invalid");
    assert_eq!(refused["details"]["causes"][0]["field"], "message");
    newer["note"] = json!("m");
    newer["series"] = json!({"count": 2, "lastObservedTime": "2024-01-01T00:00:00.000000Z"});
    api.put(&format!("{path}/e"), &newer).await.ok();
    let mut older = api.get(&core("events/e")).await.ok();
    assert_eq!(older["series"]["count"], 2);
    older["message"] = json!("changed");
    api.put(&core("events/e"), &older).await.ok();
    let selected = api.get(&format!("{path}?fieldSelector=regarding.name%3Dp")).await.ok();
    assert_eq!(selected["items"][0]["note"], "changed");
}

#[tokio::test]
async fn autoscalers_are_served_in_two_versions() {
    let api = Api::new();
    let path =
        |version: &str| format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers");
    let body = json!({
        "metadata": {"name": "h"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
            "minReplicas": 1, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50,
        },
    });
    let created = api.post(&path("v1"), &body).await.ok();
    assert_eq!((&created["apiVersion"], &created["spec"]), (&json!("autoscaling/v1"), &body["spec"]));
    let one = |version: &str| format!("{}/h", path(version));
    let v2 = api.get(&one("v2")).await.ok();
    assert_eq!(v2["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 50);
    assert_eq!(v2["spec"].get("targetCPUUtilizationPercentage"), None);
    api.merge(&one("v1"), &json!({"spec": {"targetCPUUtilizationPercentage": 70}})).await.ok();
    assert_eq!(
        api.get(&one("v2")).await.ok()["spec"]["metrics"],
        json!([{"type": "Resource", "resource": {
            "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70},
        }}])
    );
    let before = api.server.revision();
    let unchanged = api.get(&one("v1")).await.ok();
    api.put(&one("v1"), &unchanged).await.ok();
    assert_eq!(api.server.revision(), before, "a round trip through v1 changes nothing");
    let status = json!({"status": {"currentReplicas": 2, "desiredReplicas": 3, "currentCPUUtilizationPercentage": 90}});
    api.merge(&format!("{}/status", one("v1")), &status).await.ok();
    let v2 = api.get(&one("v2")).await.ok();
    assert_eq!(v2["status"]["currentMetrics"][0]["resource"]["current"]["averageUtilization"], 90);
    let listed = api.get(&path("v1")).await.ok();
    assert_eq!(listed["items"][0]["spec"]["targetCPUUtilizationPercentage"], 70);
}

#[tokio::test]
async fn reviews_are_answered_but_not_stored() {
    let api = Api::new();
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let answer = api.post(path, &review).await;
    assert_eq!((answer.code, &answer.body["status"]["allowed"]), (201, &json!(true)));
    api.get(path).await.fails(405, "MethodNotAllowed");
}

#[tokio::test]
async fn container_subresources_are_rejected_with_the_reason() {
    let api = Api::new();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    api.post(&core("pods"), &pod).await.ok();
    for subresource in ["log", "exec", "attach", "portforward"] {
        let refused = api.get(&core(&format!("pods/p/{subresource}"))).await.fails(400, "BadRequest");
        let wanted =
            format!("the embedded API server runs no containers: pods/{subresource} isn't available");
        assert!(refused["message"].as_str().is_some_and(|text| text.starts_with(&wanted)), "{refused}");
    }
    let missing = api.get(&core("pods/q/log")).await.fails(404, "NotFound");
    assert_eq!(missing["message"], "pods \"q\" not found");
    api.get(&core("configmaps/p/log")).await.fails(404, "NotFound");
}

#[tokio::test]
async fn token_request_issues_a_jwt_for_the_service_account() {
    let api = Api::new();
    api.post(&core("serviceaccounts"), &json!({"metadata": {"name": "a"}})).await.ok();
    let path = core("serviceaccounts/a/token");
    let asked = json!({"spec": {"audiences": ["me"], "expirationSeconds": 600}});
    let answer = api.post(&path, &asked).await;
    assert_eq!(answer.code, 201);
    let body = answer.body;
    assert_eq!((&body["kind"], &body["spec"]["expirationSeconds"]), (&json!("TokenRequest"), &json!(600)));
    let token = body["status"]["token"].as_str().expect("a token");
    let claims = token.split('.').nth(1).expect("claims").replace('-', "+").replace('_', "/");
    let padded = format!("{claims}{}", "=".repeat((4 - claims.len() % 4) % 4));
    let bytes: k8s_openapi::ByteString = serde_json::from_value(json!(padded)).expect("base64");
    let claims: Value = serde_json::from_slice(&bytes.0).expect("JSON");
    assert_eq!((&claims["sub"], &claims["aud"]), (&json!("system:serviceaccount:default:a"), &json!(["me"])));
    assert_eq!(claims["exp"].as_i64().zip(claims["iat"].as_i64()).map(|(end, start)| end - start), Some(600));
    assert!(body["status"]["expirationTimestamp"].is_string());
    api.post(&path, &json!({"spec": {"expirationSeconds": 1}})).await.fails(422, "Invalid");
    api.post(&core("serviceaccounts/b/token"), &asked).await.fails(404, "NotFound");
    api.get(&path).await.fails(405, "MethodNotAllowed");
}

#[tokio::test]
async fn yaml_is_served_to_clients_that_prefer_it() {
    let api = Api::new();
    api.post(&core("configmaps"), &json!({"metadata": {"name": "a"}, "data": {"k": "yes"}})).await.ok();
    let read = async |path: &str| {
        let request = http::Request::get(path).header("accept", "application/yaml");
        let request = request.body(Full::<Bytes>::default()).expect("a request");
        let Ok(response) = api.server.service().oneshot(request).await;
        let code = response.status().as_u16();
        let kind = response.headers()["content-type"].to_str().expect("text").to_owned();
        let Ok(body) = response.into_body().collect().await;
        let value: Value = serde_saphyr::from_slice(&body.to_bytes()).expect("YAML");
        (code, kind, value)
    };
    let (code, kind, value) = read(&core("configmaps/a")).await;
    assert_eq!((code, kind.as_str(), &value["data"]["k"]), (200, "application/yaml", &json!("yes")));
    let (_, _, list) = read(&core("configmaps")).await;
    assert_eq!(list["items"][0]["metadata"]["name"], "a");
    let (code, _, status) = read(&core("configmaps/none")).await;
    assert_eq!((code, &status["reason"]), (404, &json!("NotFound")));
    let (code, _, _) = read(&core("configmaps?watch=true")).await;
    assert_eq!(code, 406);
}

#[tokio::test]
async fn addresses_and_node_ports_of_services_are_unique() {
    let api = Api::new();
    let service = |name: &str, spec: Value| {
        let mut service = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
        for (field, value) in spec.as_object().into_iter().flatten() {
            service["spec"][field] = value.clone();
        }
        service
    };
    let a = api.post(&core("services"), &service("a", json!({"type": "NodePort"}))).await.ok();
    let (ip, port) = (a["spec"]["clusterIP"].clone(), a["spec"]["ports"][0]["nodePort"].clone());
    let b = api.post(&core("services"), &service("b", json!({"type": "NodePort"}))).await.ok();
    assert!(b["spec"]["clusterIP"] != ip && b["spec"]["ports"][0]["nodePort"] != port);
    let taken =
        api.post(&core("services"), &service("c", json!({"clusterIP": ip}))).await.fails(422, "Invalid");
    assert_eq!(taken["details"]["causes"][0]["field"], "spec.clusterIPs");
    let ports = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
    let taken = api.post(&core("services"), &service("c", ports)).await.fails(422, "Invalid");
    assert_eq!(taken["details"]["causes"][0]["field"], "spec.ports[0].nodePort");
    let updated = api.put(&core("services/a"), &service("a", json!({"type": "NodePort"}))).await.ok();
    assert_eq!((&updated["spec"]["clusterIP"], &updated["spec"]["ports"][0]["nodePort"]), (&ip, &port));
    let moved = service("a", json!({"clusterIP": "10.96.9.9"}));
    api.merge(&core("services/a"), &moved).await.fails(422, "Invalid");
}

#[tokio::test]
async fn status_update_of_a_built_in_kind_changes_annotations() {
    let api = Api::new();
    api.post(&apps("deployments"), &deployment("d", 1)).await.ok();
    let metadata = json!({"annotations": {"a": "b"}, "labels": {"no": "x"}});
    let patch = json!({"metadata": metadata, "status": {"replicas": 1}});
    let written = api.merge(&apps("deployments/d/status"), &patch).await.ok();
    assert_eq!(written["metadata"]["annotations"], json!({"a": "b"}));
    assert_eq!(written["metadata"].get("labels"), None);
    assert!(written["metadata"]["managedFields"].is_array());
}

#[tokio::test]
async fn workloads_need_containers_and_cron_jobs_a_valid_schedule() {
    let api = Api::new();
    let mut bare = deployment("d", 1);
    bare["spec"]["template"].as_object_mut().expect("a template").remove("spec");
    let refused = api.post(&apps("deployments"), &bare).await.fails(422, "Invalid");
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.template.spec.containers");
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let job = json!({
        "metadata": {"name": "j"}, "spec": {"schedule": "bad", "jobTemplate": {"spec": {"template": template}}},
    });
    let path = "/apis/batch/v1/namespaces/default/cronjobs";
    let refused = api.post(path, &job).await.fails(422, "Invalid");
    assert_eq!(
        refused["message"],
        "CronJob.batch \"j\" is invalid: spec.schedule: Invalid value: \"bad\": expected exactly 5 fields, found 1: [bad]"
    );
}

#[tokio::test]
async fn a_dry_run_of_a_deletion_that_removes_finalizers_answers_with_an_empty_object() {
    let api = Api::new();
    let body = json!({"metadata": {"name": "a", "finalizers": ["foregroundDeletion"]}});
    api.post(&core("configmaps"), &body).await.ok();
    let options = json!({"propagationPolicy": "Background", "dryRun": ["All"]});
    let shown = api.delete(&core("configmaps/a"), &options).await.ok();
    assert_eq!(shown, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}));
    let kept = api.get(&core("configmaps/a")).await.ok();
    assert_eq!(kept["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    let options = json!({"propagationPolicy": "Background"});
    let status = api.delete(&core("configmaps/a"), &options).await.ok();
    assert_eq!(status["kind"], "Status");
}

#[tokio::test]
async fn nobody_manages_what_an_update_allocates_for_a_service() {
    let api = Api::new();
    let external = json!({
        "metadata": {"name": "a"}, "spec": {"type": "ExternalName", "externalName": "example.com", "ports": [{"port": 80}]},
    });
    api.post(&core("services"), &external).await.ok();
    let patch = json!({"spec": {"type": "NodePort", "externalName": null}});
    let service = api.merge(&core("services/a?fieldManager=two"), &patch).await.ok();
    assert!(service["spec"]["clusterIP"].is_string() && service["spec"]["ports"][0]["nodePort"].is_number());
    let managers = service["metadata"]["managedFields"].as_array().expect("managers");
    let two = managers.iter().find(|entry| entry["manager"] == "two").expect("the second manager");
    // The other two are defaults of the type, which are set before.
    let owned =
        json!({"f:spec": {"f:externalTrafficPolicy": {}, "f:internalTrafficPolicy": {}, "f:type": {}}});
    assert_eq!(two["fieldsV1"], owned, "{two}");
}

#[tokio::test]
async fn equal_owner_references_are_stored_once_with_a_warning() {
    let api = Api::new();
    let owner = |name: &str| json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": name});
    let map = |owners: Value| json!({"metadata": {"name": "a", "ownerReferences": owners}});
    let owners = |object: &Value| object["metadata"]["ownerReferences"].clone();
    let once = json!([owner("x")]);
    let created = api.post(&core("configmaps"), &map(json!([owner("x"), owner("x")]))).await;
    assert_eq!(created.warnings.len(), 1, "{created:?}");
    assert!(created.warnings[0].contains("contains duplicate entries; API server dedups"), "{created:?}");
    assert!(created.warnings[0].contains("duplicate UID(s) observed: x"), "{created:?}");
    assert_eq!(owners(&created.ok()), once);
    let updated = api.put(&core("configmaps/a"), &map(json!([owner("x"), owner("x")]))).await;
    assert_eq!((updated.warnings.len(), owners(&updated.body)), (1, once.clone()));
    let add = json!([{"op": "add", "path": "/metadata/ownerReferences/-", "value": owner("x")}]);
    let patched = api.patch("json-patch+json", &core("configmaps/a"), &add).await;
    assert!(
        patched.warnings[0].contains("duplicate entries after mutating admission happens"),
        "{patched:?}"
    );
    assert_eq!(owners(&patched.ok()), once);
    let two = json!([owner("x"), owner("y")]);
    let different = api.put(&core("configmaps/a"), &map(two.clone())).await;
    assert_eq!((different.warnings.len(), owners(&different.body)), (0, two));
}

#[tokio::test]
async fn the_version_of_a_core_object_may_begin_with_a_slash() {
    let api = Api::new();
    let map = json!({"apiVersion": "/v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let created = api.post(&core("configmaps"), &map).await.ok();
    assert_eq!(created["apiVersion"], "v1");
}
