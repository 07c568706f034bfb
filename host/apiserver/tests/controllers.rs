//! Garbage collection, namespaces, Pods, and the selection and timing of the built-in controllers, in tokio's paused time.

mod api;

use api::{Answer, Api, apps, core};
use pilothouse_apiserver::{ApiServer, ControllerOptions, Controllers};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

fn start() -> (Api, DropGuard) {
    let server = ApiServer::builder().build();
    let shutdown = CancellationToken::new();
    let _controllers = server.run_controllers(shutdown.clone());
    (Api { server }, shutdown.drop_guard())
}

fn gone(answer: &Answer) -> bool {
    answer.code == 404
}

/// Creates a ConfigMap with owners. The flag is `blockOwnerDeletion`: a foreground deletion of the owner waits for it.
async fn dependent(api: &Api, name: &str, owners: &[(&Value, bool)]) -> Value {
    let references: Vec<Value> = owners
        .iter()
        .map(|(owner, blocking)| {
            json!({
                "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"], "blockOwnerDeletion": blocking,
            })
        })
        .collect();
    let body = json!({"metadata": {"name": name, "ownerReferences": references}});
    api.post(&core("configmaps"), &body).await.ok()
}

#[tokio::test(start_paused = true)]
async fn deleting_an_owner_deletes_its_dependents_recursively() {
    let (api, _running) = start();
    let owner = dependent(&api, "owner", &[]).await;
    let child = dependent(&api, "child", &[(&owner, false)]).await;
    dependent(&api, "grandchild", &[(&child, false)]).await;
    let bystander = dependent(&api, "bystander", &[]).await;
    api.delete(&core("configmaps/owner"), &json!({"propagationPolicy": "Background"})).await.ok();
    api.until(&core("configmaps/grandchild"), gone).await;
    assert_eq!(api.get(&core("configmaps/bystander")).await.ok(), bystander);
}

#[tokio::test(start_paused = true)]
async fn dependent_stays_until_its_last_owner_is_deleted() {
    let (api, _running) = start();
    let first = dependent(&api, "first", &[]).await;
    let second = dependent(&api, "second", &[]).await;
    dependent(&api, "child", &[(&first, false), (&second, false)]).await;
    api.delete(&core("configmaps/first"), &json!(null)).await.ok();
    let child = api
        .until(&core("configmaps/child"), |answer| {
            answer.body["metadata"]["ownerReferences"].as_array().is_some_and(|list| list.len() == 1)
        })
        .await;
    assert_eq!(child.ok()["metadata"]["ownerReferences"][0]["name"], "second");
    api.delete(&core("configmaps/second"), &json!(null)).await.ok();
    api.until(&core("configmaps/child"), gone).await;
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_removes_the_owner_last() {
    let (api, _running) = start();
    let owner = dependent(&api, "owner", &[]).await;
    let child = json!({"metadata": {
        "name": "child", "finalizers": ["example.com/hold"],
        "ownerReferences": [{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": true,
        }],
    }});
    api.post(&core("configmaps"), &child).await.ok();
    let deleting =
        api.delete(&core("configmaps/owner"), &json!({"propagationPolicy": "Foreground"})).await.ok();
    assert_eq!(deleting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    api.until(&core("configmaps/child"), |answer| answer.body["metadata"]["deletionTimestamp"].is_string())
        .await;
    assert_eq!(api.get(&core("configmaps/owner")).await.code, 200, "the child is still there");
    api.merge(&core("configmaps/child"), &json!({"metadata": {"finalizers": null}})).await.ok();
    api.until(&core("configmaps/owner"), gone).await;
}

#[tokio::test(start_paused = true)]
async fn orphan_deletion_keeps_dependents_without_owner_references() {
    let (api, _running) = start();
    let owner = dependent(&api, "owner", &[]).await;
    dependent(&api, "child", &[(&owner, true)]).await;
    api.delete(&core("configmaps/owner"), &json!({"propagationPolicy": "Orphan"})).await.ok();
    api.until(&core("configmaps/owner"), gone).await;
    let child = api.get(&core("configmaps/child")).await.ok();
    assert_eq!(child["metadata"].get("ownerReferences"), None);
}

#[tokio::test(start_paused = true)]
async fn dependent_of_an_unknown_uid_is_deleted() {
    let (api, _running) = start();
    let mut owner = dependent(&api, "owner", &[]).await;
    owner["metadata"]["uid"] = json!("11111111-2222-3333-4444-555555555555");
    dependent(&api, "child", &[(&owner, false)]).await;
    api.until(&core("configmaps/child"), gone).await;
    assert_eq!(api.get(&core("configmaps/owner")).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn dependent_of_an_unserved_kind_stays() {
    let (api, _running) = start();
    let owner =
        json!({"apiVersion": "example.com/v1", "kind": "Nothing", "metadata": {"name": "x", "uid": "u"}});
    dependent(&api, "child", &[(&owner, false)]).await;
    let other = dependent(&api, "other", &[]).await;
    dependent(&api, "other-child", &[(&other, false)]).await;
    api.delete(&core("configmaps/other"), &json!(null)).await.ok();
    api.until(&core("configmaps/other-child"), gone).await;
    assert_eq!(api.get(&core("configmaps/child")).await.code, 200);
}

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const FOOS: &str = "/apis/example.com/v1/namespaces/default/foos";

async fn create_crd(api: &Api) {
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let crd = json!({
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    api.post(CRDS, &crd).await.ok();
}

fn foo(metadata: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": metadata})
}

#[tokio::test(start_paused = true)]
async fn deleting_a_crd_deletes_the_dependents_of_its_objects() {
    let (api, _running) = start();
    create_crd(&api).await;
    let owner = api.post(FOOS, &foo(&json!({"name": "owner"}))).await.ok();
    dependent(&api, "child", &[(&owner, false)]).await;
    // The controllers have observed the owner once they have deleted another one's dependent.
    let other = dependent(&api, "other", &[]).await;
    dependent(&api, "other-child", &[(&other, false)]).await;
    api.delete(&core("configmaps/other"), &json!(null)).await.ok();
    api.until(&core("configmaps/other-child"), gone).await;
    assert_eq!(api.get(&core("configmaps/child")).await.code, 200);
    api.delete(&format!("{CRDS}/foos.example.com"), &json!(null)).await.ok();
    api.until(&core("configmaps/child"), gone).await;
}

#[tokio::test(start_paused = true)]
async fn namespace_ends_when_its_last_object_goes_together_with_its_crd() {
    let (api, _running) = start();
    create_crd(&api).await;
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": "n"}})).await.ok();
    let foos = "/apis/example.com/v1/namespaces/n/foos";
    let held = foo(&json!({"name": "held", "finalizers": ["example.com/hold"]}));
    api.post(foos, &held).await.ok();
    api.delete("/api/v1/namespaces/n", &json!(null)).await.ok();
    let remains = |answer: &Answer| answer.body["status"]["conditions"].is_array();
    api.until("/api/v1/namespaces/n", remains).await.ok();
    api.delete(&format!("{CRDS}/foos.example.com"), &json!(null)).await.ok();
    api.merge(&format!("{foos}/held"), &json!({"metadata": {"finalizers": null}})).await.ok();
    api.until(&format!("{CRDS}/foos.example.com"), gone).await;
    api.until("/api/v1/namespaces/n", gone).await;
}

#[tokio::test(start_paused = true)]
async fn deleting_a_namespace_deletes_its_content() {
    let (api, _running) = start();
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": "n"}})).await.ok();
    api.until("/api/v1/namespaces/n/serviceaccounts/default", |answer| answer.code == 200).await;
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    api.post("/api/v1/namespaces/n/configmaps", &held).await.ok();
    api.post("/api/v1/namespaces/n/secrets", &json!({"metadata": {"name": "s"}})).await.ok();
    let deleting = api.delete("/api/v1/namespaces/n", &json!(null)).await.ok();
    assert_eq!(deleting["status"]["phase"], "Terminating");
    api.until("/api/v1/namespaces/n/secrets/s", gone).await;
    let late = api.post("/api/v1/namespaces/n/configmaps", &json!({"metadata": {"name": "late"}})).await;
    assert_eq!(late.fails(403, "Forbidden")["details"]["causes"][0]["reason"], "NamespaceTerminating");
    assert_eq!(api.get("/api/v1/namespaces/n").await.code, 200, "an object with a finalizer remains");
    let has_conditions = |answer: &Answer| answer.body["status"]["conditions"].is_array();
    let waiting = api.until("/api/v1/namespaces/n", has_conditions).await.ok();
    let message = |kind: &str| {
        let conditions = waiting["status"]["conditions"].as_array().expect("conditions").iter();
        let mut found = conditions.filter(|one| one["type"] == kind && one["status"] == "True");
        found.next().unwrap_or_else(|| panic!("{kind} is not true: {waiting:#}"))["message"].clone()
    };
    assert_eq!(
        message("NamespaceContentRemaining"),
        "Some resources are remaining: configmaps. has 1 resource instances"
    );
    let finalizers = message("NamespaceFinalizersRemaining");
    assert!(
        finalizers.as_str().is_some_and(|text| text.ends_with("in 1 resource instances")),
        "{finalizers}"
    );
    let settled = api.server.revision();
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!(api.server.revision(), settled, "conditions are written only when they change");
    api.merge("/api/v1/namespaces/n/configmaps/held", &json!({"metadata": {"finalizers": null}})).await.ok();
    api.until("/api/v1/namespaces/n", gone).await;
    api.delete("/api/v1/namespaces/default", &json!(null)).await.fails(403, "Forbidden");
}

#[tokio::test(start_paused = true)]
async fn deployment_becomes_available_in_each_generation() {
    let (api, _running) = start();
    let body = json!({
        "metadata": {"name": "d"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    });
    api.post(&apps("deployments"), &body).await.ok();
    let is_available = |generation: u64, replicas: u64| {
        move |answer: &Answer| {
            let status = &answer.body["status"];
            status["observedGeneration"] == generation && status["availableReplicas"] == replicas
        }
    };
    api.until(&apps("deployments/d"), is_available(1, 2)).await.ok();
    api.merge(&apps("deployments/d"), &json!({"spec": {"replicas": 5}})).await.ok();
    let second = api.until(&apps("deployments/d"), is_available(2, 5)).await.ok();
    assert_eq!(second["status"]["readyReplicas"], 5);
    let conditions = second["status"]["conditions"].as_array().expect("conditions");
    assert!(conditions.iter().any(|c| c["type"] == "Available" && c["status"] == "True"));
}

#[tokio::test(start_paused = true)]
async fn simulated_kubelet_completes_the_deletion_of_a_scheduled_pod() {
    let (api, running) = start();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    api.post(&core("pods"), &pod).await.ok();
    api.delete(&core("pods/p"), &json!(null)).await.ok();
    api.until(&core("pods/p"), gone).await;
    drop(running);
    tokio::task::yield_now().await;
    api.post(&core("pods"), &pod).await.ok();
    let deleting = api.delete(&core("pods/p"), &json!(null)).await.ok();
    assert_eq!(deleting["metadata"]["deletionGracePeriodSeconds"], 30, "no kubelet runs");
    api.delete(&core("pods/p"), &json!({"gracePeriodSeconds": 0})).await.ok();
    api.get(&core("pods/p")).await.fails(404, "NotFound");
}

#[tokio::test(start_paused = true)]
async fn pod_runs_on_the_simulated_node_unless_it_has_a_node_of_somebody_else() {
    let (api, _running) = start();
    let containers = json!([{"name": "c", "image": "i"}]);
    let created = api
        .post(&core("pods"), &json!({"metadata": {"name": "p"}, "spec": {"containers": containers}}))
        .await
        .ok();
    assert_eq!(
        (&created["status"]["phase"], &created["spec"]["nodeName"]),
        (&json!("Pending"), &json!(null))
    );
    let other = json!({"metadata": {"name": "q"}, "spec": {"nodeName": "west", "containers": containers}});
    api.post(&core("pods"), &other).await.ok();
    let running = api.until(&core("pods/p"), |answer| answer.body["status"]["phase"] == "Running").await.ok();
    assert_eq!(running["spec"]["nodeName"], "simulated-node");
    assert_eq!(running["status"]["containerStatuses"][0]["ready"], true);
    let waiting = api.get(&core("pods/q")).await.ok();
    assert_eq!(waiting["status"]["phase"], "Pending", "a test plays the kubelet of this Node");
    let written = json!({"status": {"phase": "Failed"}});
    api.merge(&core("pods/q/status"), &written).await.ok();
    api.delete(&core("pods/q"), &json!(null)).await.ok();
    api.get(&core("pods/q")).await.fails(404, "NotFound");
    api.delete(&core("pods/p"), &json!(null)).await.ok();
    api.until(&core("pods/p"), gone).await;
}

#[tokio::test(start_paused = true)]
async fn client_can_write_back_what_it_created() {
    let (api, _running) = start();
    let body = json!({
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    });
    let mut created = api.post(&apps("deployments"), &body).await.ok();
    // As long as a slow client takes.
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    created["metadata"]["labels"] = json!({"changed": "yes"});
    api.put(&apps("deployments/d"), &created).await.ok();
    let is_ready = |answer: &Answer| answer.body["status"]["readyReplicas"] == 1;
    let settled = api.until(&apps("deployments/d"), is_ready).await.ok();
    let managers = settled["metadata"]["managedFields"].as_array().expect("managers").iter();
    let of_status: Vec<_> = managers.filter(|entry| !entry["fieldsV1"]["f:status"].is_null()).collect();
    let [entry] = of_status.as_slice() else { panic!("{of_status:?}") };
    assert_eq!(
        (&entry["manager"], &entry["subresource"]),
        (&json!("kube-controller-manager"), &json!("status"))
    );
    assert_eq!(entry["fieldsV1"].get("f:spec"), None);
}

#[tokio::test(start_paused = true)]
async fn without_controllers_the_server_is_a_bare_api_server() {
    let server = ApiServer::builder().build();
    let shutdown = CancellationToken::new();
    let options = ControllerOptions::default().with_controllers(Controllers::none());
    let _controllers = server.run_controllers_with(options, shutdown.clone());
    let (api, _running) = (Api { server }, shutdown.drop_guard());
    let owner = dependent(&api, "owner", &[]).await;
    dependent(&api, "child", &[(&owner, true)]).await;
    api.delete(&core("configmaps/owner"), &json!(null)).await.ok();
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": "n"}})).await.ok();
    api.delete("/api/v1/namespaces/n", &json!(null)).await.ok();
    let settled = api.server.revision();
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!(api.server.revision(), settled, "nothing runs");
    api.get(&core("configmaps/child")).await.ok();
    let mut namespace = api.get("/api/v1/namespaces/n").await.ok();
    assert_eq!(namespace["status"]["phase"], "Terminating");
    api.get("/api/v1/namespaces/n/serviceaccounts/default").await.fails(404, "NotFound");
    assert_eq!(api::names(&api.get("/api/v1/nodes").await.ok()), [""; 0]);
    namespace["spec"]["finalizers"] = json!([]);
    api.put("/api/v1/namespaces/n/finalize", &namespace).await.ok();
    api.get("/api/v1/namespaces/n").await.fails(404, "NotFound");
}

#[tokio::test(start_paused = true)]
async fn watch_from_version_0_sees_the_deletion_of_a_crd() {
    let (api, _running) = start();
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let crd = json!({
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    api.post(crds, &crd).await.ok();
    api.delete(&format!("{crds}/foos.example.com"), &json!(null)).await.ok();
    let mut watch = api.watch(&format!("{crds}?resourceVersion=0")).await;
    assert_eq!(watch.next_summary().await, "ADDED foos.example.com");
    assert_eq!(watch.next_summary().await, "DELETED foos.example.com");
    api.get("/apis/example.com/v1/namespaces/default/foos").await.is_page_not_found();
}

#[tokio::test]
async fn every_server_has_the_service_of_its_api_and_the_administrators_role() {
    let api = Api::new();
    let service = api.get(&core("services/kubernetes")).await.ok();
    assert_eq!(
        (&service["spec"]["clusterIP"], &service["spec"]["ports"][0]["port"]),
        (&json!("10.96.0.1"), &json!(443))
    );
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = api.get(&format!("{rbac}/clusterroles/cluster-admin")).await.ok();
    assert_eq!(role["rules"][0]["verbs"], json!(["*"]));
    api.get(&format!("{rbac}/clusterrolebindings/cluster-admin")).await.ok();
}

/// More objects than one step of a controller handles.
const MANY: usize = 600;

#[tokio::test(start_paused = true)]
async fn many_dependents_are_collected_in_several_steps() {
    let (api, _running) = start();
    for policy in ["Foreground", "Orphan"] {
        let owner = dependent(&api, "owner", &[]).await;
        for number in 0..MANY {
            dependent(&api, &format!("child-{number}"), &[(&owner, true)]).await;
        }
        api.delete(&core("configmaps/owner"), &json!({"propagationPolicy": policy})).await.ok();
        api.until(&core("configmaps/owner"), gone).await;
        let left = api.get(&core("configmaps")).await.ok();
        let children: Vec<&Value> = left["items"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|item| item["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("child-")))
            .collect();
        if policy == "Foreground" {
            assert!(children.is_empty(), "{} children are left", children.len());
        } else {
            assert_eq!(children.len(), MANY);
            assert!(children.iter().all(|child| child["metadata"]["ownerReferences"].is_null()));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn namespace_with_many_objects_is_deleted() {
    let (api, _running) = start();
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": "full"}})).await.ok();
    for number in 0..MANY {
        let body = json!({"metadata": {"name": format!("c{number}")}});
        api.post("/api/v1/namespaces/full/configmaps", &body).await.ok();
    }
    api.delete("/api/v1/namespaces/full", &json!(null)).await.ok();
    api.until("/api/v1/namespaces/full", gone).await;
    let left = api.get("/api/v1/configmaps?fieldSelector=metadata.namespace%3Dfull").await.ok();
    assert_eq!(left["items"].as_array().map(Vec::len), Some(0));
}
