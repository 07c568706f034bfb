//! Subresources of Pods, and what the server sets on new Pods and Nodes.

mod api;

use std::time::Duration;

use api::{Api, apps, core};
use pilothouse_apiserver::ApiServer;
use serde_json::{Value, json};

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
    })
}

/// Creates a Pod that runs and is ready.
async fn create_running(api: &Api, name: &str) {
    api.post(&core("pods"), &pod(name)).await.ok();
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    api.merge(&core(&format!("pods/{name}/status")), &status).await.ok();
}

/// Creates a budget that allows `allowed` disruptions.
async fn create_budget(api: &Api, allowed: u32) {
    let budget = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}});
    api.post(BUDGETS, &budget).await.ok();
    let status = json!({"status": {
        "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2,
    }});
    api.merge(&format!("{BUDGETS}/b/status"), &status).await.ok();
}

fn eviction(name: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}})
}

#[tokio::test]
async fn eviction_is_refused_with_429_once_the_budget_is_used_up() {
    let api = Api::new();
    create_budget(&api, 1).await;
    for name in ["p", "q"] {
        create_running(&api, name).await;
    }
    let evicted = api.post(&core("pods/p/eviction"), &eviction("p")).await;
    assert_eq!((evicted.code, &evicted.body["status"]), (201, &json!("Success")));
    api.get(&core("pods/p")).await.fails(404, "NotFound");
    let budget = api.get(&format!("{BUDGETS}/b")).await.ok();
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    assert!(budget["status"]["disruptedPods"]["p"].is_string());
    let refused = api.post(&core("pods/q/eviction"), &eviction("q")).await.fails(429, "TooManyRequests");
    assert_eq!(refused["message"], "Cannot evict pod as it would violate the pod's disruption budget.");
    assert_eq!(
        refused["details"]["causes"][0],
        json!({"reason": "DisruptionBudget", "message": "The disruption budget b does not allow evicting pods currently"})
    );
    api.get(&core("pods/q")).await.ok();
}

#[tokio::test]
async fn eviction_of_a_pending_pod_or_in_a_dry_run_does_not_count() {
    let api = Api::new();
    create_budget(&api, 1).await;
    create_running(&api, "p").await;
    api.post(&core("pods"), &pod("pending")).await.ok();
    api.post(&core("pods/p/eviction?dryRun=All"), &eviction("p")).await.ok();
    api.post(&core("pods/pending/eviction"), &eviction("pending")).await.ok();
    assert_eq!(api.get(&format!("{BUDGETS}/b")).await.ok()["status"]["disruptionsAllowed"], 1);
    api.get(&core("pods/p")).await.ok();
    api.get(&core("pods/pending")).await.fails(404, "NotFound");
    api.post(&core("pods/p/eviction"), &eviction("other")).await.fails(400, "BadRequest");
    api.post(&core("pods/none/eviction"), &eviction("none")).await.fails(404, "NotFound");
    api.get(&core("pods/p/eviction")).await.fails(405, "MethodNotAllowed");
}

#[tokio::test(start_paused = true)]
async fn pod_without_a_grace_period_stays_marked_for_the_pause_of_the_server() {
    let pause = Duration::from_millis(5);
    let api = Api { server: ApiServer::builder().pod_removal_pause(pause).build() };
    for name in ["a", "b", "c"] {
        api.post(&core("pods"), &pod(name)).await.ok();
    }
    let paths = ["a", "b", "c"].map(|name| core(&format!("pods/{name}")));
    let others = async {
        tokio::time::sleep(pause / 2).await;
        let marked = api.get(&paths[0]).await.ok();
        assert!(marked["metadata"]["deletionTimestamp"].is_string(), "{marked}");
        // Another request removes `b` first, and a third one changes `c`.
        api.delete(&paths[1], &json!({"gracePeriodSeconds": 0})).await.ok();
        api.get(&paths[1]).await.fails(404, "NotFound");
        api.merge(&paths[2], &json!({"metadata": {"labels": {"app": "b"}}})).await.ok();
    };
    let none = Value::Null;
    let (a, b, c, ()) = tokio::join!(
        api.delete(&paths[0], &none),
        api.delete(&paths[1], &none),
        api.delete(&paths[2], &none),
        others
    );
    let deleted =
        |answer: Value| (answer["metadata"]["deletionTimestamp"].is_string(), answer["kind"].clone());
    assert_eq!(deleted(a.ok()), (true, json!("Pod")));
    assert_eq!(deleted(b.ok()), (true, json!("Pod")));
    assert_eq!(deleted(c.ok()), (true, json!("Pod")));
    for path in &paths {
        api.get(path).await.fails(404, "NotFound");
    }
}

#[tokio::test]
async fn binding_assigns_a_pod_to_a_node_once() {
    let api = Api::new();
    api.post(&core("pods"), &pod("p")).await.ok();
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    let bound = api.post(&core("pods/p/binding"), &binding).await;
    assert_eq!(bound.code, 201);
    let pod = api.get(&core("pods/p")).await.ok();
    assert_eq!((&pod["spec"]["nodeName"], &pod["metadata"]["generation"]), (&json!("n"), &json!(1)));
    assert_eq!(pod["status"]["conditions"][0]["type"], "PodScheduled");
    let again = api.post(&core("pods/p/binding"), &binding).await.fails(409, "Conflict");
    assert_eq!(
        again["message"],
        "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n\""
    );
    let nowhere = json!({"metadata": {"name": "p"}, "target": {}});
    api.post(&core("pods/p/binding"), &nowhere).await.fails(422, "Invalid");
    api.post(&core("pods/p/binding"), &json!({"target": {}})).await.fails(400, "BadRequest");
}

#[tokio::test]
async fn collection_of_bindings_assigns_the_pod_that_a_binding_names() {
    let api = Api::new();
    api.post(&core("pods"), &pod("p")).await.ok();
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    assert_eq!(api.post(&core("bindings"), &binding).await.code, 201);
    assert_eq!(api.get(&core("pods/p")).await.ok()["spec"]["nodeName"], "n");
    let unknown = json!({"metadata": {"name": "none"}, "target": {"kind": "Node", "name": "n"}});
    api.post(&core("bindings"), &unknown).await.fails(404, "NotFound");
    api.get(&core("bindings")).await.fails(405, "MethodNotAllowed");
}

#[tokio::test]
async fn pod_gets_the_zone_of_its_node() {
    let api = Api::new();
    let labels = json!({"topology.kubernetes.io/zone": "z", "other": "o"});
    api.post("/api/v1/nodes", &json!({"metadata": {"name": "n", "labels": labels}})).await.ok();
    api.post(&core("pods"), &pod("p")).await.ok();
    let binding =
        json!({"metadata": {"name": "p", "labels": {"b": "c"}}, "target": {"kind": "Node", "name": "n"}});
    assert_eq!(api.post(&core("pods/p/binding"), &binding).await.code, 201);
    let bound = api.get(&core("pods/p")).await.ok();
    let expected = json!({"app": "a", "b": "c", "topology.kubernetes.io/zone": "z"});
    assert_eq!(bound["metadata"]["labels"], expected);
    let mut assigned = pod("q");
    assigned["spec"]["nodeName"] = json!("n");
    let created = api.post(&core("pods"), &assigned).await.ok();
    assert_eq!(created["metadata"]["labels"], json!({"app": "a", "topology.kubernetes.io/zone": "z"}));
}

#[tokio::test]
async fn ephemeral_containers_and_resources_change_by_their_subresources() {
    let api = Api::new();
    api.post(&core("pods"), &pod("p")).await.ok();
    let debug = json!({"spec": {"ephemeralContainers": [{"name": "debug", "image": "d"}], "nodeName": "n"}});
    let path = core("pods/p/ephemeralcontainers");
    let changed = api.patch("strategic-merge-patch+json", &path, &debug).await.ok();
    assert_eq!(changed["spec"]["ephemeralContainers"][0]["name"], "debug");
    assert_eq!(changed["spec"].get("nodeName"), None);
    api.merge(&path, &json!({"spec": {"ephemeralContainers": null}})).await.fails(422, "Invalid");
    let more = json!({"spec": {"containers": [{"name": "c", "image": "other", "resources": {"requests": {"cpu": "2"}}}]}});
    let resized = api.patch("strategic-merge-patch+json", &core("pods/p/resize"), &more).await.ok();
    let container = &resized["spec"]["containers"][0];
    assert_eq!((&container["resources"]["requests"]["cpu"], &container["image"]), (&json!("2"), &json!("i")));
    let none = json!({"spec": {"containers": [{"name": "c", "resources": null}]}});
    api.get(&core("pods/p/resize")).await.ok();
    let refused = api.patch("strategic-merge-patch+json", &core("pods/p"), &none).await.fails(422, "Invalid");
    assert_eq!(refused["details"]["causes"][0]["field"], "spec");
}

#[tokio::test]
async fn new_pod_has_no_ephemeral_containers_and_no_node_before_its_gates_are_gone() {
    let api = Api::new();
    let mut gated = pod("p");
    gated["spec"]["schedulingGates"] = json!([{"name": "g"}]);
    let mut invalid = gated.clone();
    invalid["spec"]["nodeName"] = json!("n");
    invalid["spec"]["ephemeralContainers"] = json!([{"name": "e", "image": "i"}]);
    let refused = api.post(&core("pods"), &invalid).await.fails(422, "Invalid");
    let causes: Vec<_> = refused["details"]["causes"].as_array().into_iter().flatten().collect();
    assert_eq!(causes.len(), 2, "{causes:#?}");
    assert_eq!(causes[0]["field"], "spec.ephemeralContainers");
    assert_eq!(causes[0]["message"], "Forbidden: cannot be set on create");
    assert_eq!(causes[1]["field"], "spec.nodeName");
    let created = api.post(&core("pods"), &gated).await.ok();
    let condition = &created["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"], &condition["reason"]),
        (&json!("PodScheduled"), &json!("False"), &json!("SchedulingGated"))
    );
    let template = json!({"metadata": {"name": "r"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "ephemeralContainers": [{"name": "e", "image": "i"}],
        }},
    }});
    let refused = api.post(&apps("replicasets"), &template).await.fails(422, "Invalid");
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.template.spec.ephemeralContainers");
}

#[tokio::test]
async fn pod_is_not_resized_beyond_its_node() {
    let api = Api::new();
    let mut running = pod("p");
    running["spec"]["nodeName"] = json!("n");
    running["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    api.post(&core("pods"), &running).await.ok();
    let resize = async |cpu: &str| {
        let more = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}});
        api.patch("strategic-merge-patch+json", &core("pods/p/resize"), &more).await
    };
    let refused = resize("2").await.fails(403, "Forbidden");
    assert_eq!(refused["message"], "pods \"p\" is forbidden: node \"n\" not found");
    let node = json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4"}}});
    api.post("/api/v1/nodes", &node).await.ok();
    resize("4").await.ok();
    let refused = resize("9").await.fails(403, "Forbidden");
    let problem = "node didn't have enough allocatable resources: cpu, requested: 9000, allocatable: 4000";
    assert_eq!(refused["message"], format!("pods \"p\" is forbidden: {problem}"));
    assert_eq!(refused["details"]["causes"], json!([{"reason": "NodeCapacity"}]));
}

#[tokio::test]
async fn status_keeps_the_class_of_the_pod() {
    let api = Api::new();
    let mut sent = api.post(&core("pods"), &pod("p")).await.ok();
    sent["status"] = json!({"phase": "Running"});
    let stored = api.put(&core("pods/p/status"), &sent).await.ok();
    assert_eq!(stored["status"], json!({"phase": "Running", "qosClass": "Burstable"}));
    let other = json!({"status": {"qosClass": "Guaranteed"}});
    let refused = api.merge(&core("pods/p/status"), &other).await.fails(422, "Invalid");
    assert_eq!(
        refused["details"]["causes"][0]["message"],
        "Invalid value: \"Guaranteed\": field is immutable"
    );
}

#[tokio::test]
async fn discovery_lists_the_subresources_of_pods() {
    let api = Api::new();
    let resources = api.get("/api/v1").await.ok();
    let resources = resources["resources"].as_array().expect("resources");
    let find = |name: &str| resources.iter().find(|one| one["name"] == name).expect("a subresource");
    let eviction = find("pods/eviction");
    assert_eq!((&eviction["group"], &eviction["kind"]), (&json!("policy"), &json!("Eviction")));
    assert_eq!(find("pods/binding")["verbs"], json!(["create"]));
    assert_eq!(find("pods/resize")["kind"], "Pod");
    find("pods/ephemeralcontainers");
}

#[tokio::test]
async fn new_pod_gets_priority_and_tolerations_that_no_manager_owns() {
    let api = Api::new();
    let class = json!({"metadata": {"name": "high"}, "value": 9});
    api.post("/apis/scheduling.k8s.io/v1/priorityclasses", &class).await.ok();
    let mut named = pod("p");
    named["spec"]["priorityClassName"] = json!("high");
    let created = api.post(&core("pods"), &named).await.ok();
    let spec = &created["spec"];
    assert_eq!((&spec["priority"], &spec["preemptionPolicy"]), (&json!(9), &json!("PreemptLowerPriority")));
    assert_eq!(spec["tolerations"][1]["key"], "node.kubernetes.io/unreachable");
    let owned = created["metadata"]["managedFields"].to_string();
    assert!(owned.contains("f:priorityClassName") && !owned.contains("f:tolerations"), "{owned}");
    let mut sent = created.clone();
    for field in ["priority", "preemptionPolicy", "tolerations"] {
        sent["spec"].as_object_mut().expect("a specification").remove(field);
    }
    assert_eq!(api.put(&core("pods/p"), &sent).await.ok()["spec"], created["spec"]);
    named["metadata"]["name"] = json!("q");
    named["spec"]["priorityClassName"] = json!("missing");
    let refused = api.post(&core("pods"), &named).await.fails(403, "Forbidden");
    assert_eq!(refused["message"], "pods \"q\" is forbidden: no PriorityClass with name missing was found");
    let mut unnamed = pod("q");
    unnamed["metadata"] = json!({"generateName": "web-"});
    unnamed["spec"]["priorityClassName"] = json!("missing");
    let refused = api.post(&core("pods"), &unnamed).await.fails(403, "Forbidden");
    assert_eq!(
        refused["message"],
        "pods \"web-\" is forbidden: no PriorityClass with name missing was found"
    );
    assert_eq!(refused["details"]["name"], "web-");
}

#[tokio::test]
async fn new_pod_gets_the_amounts_of_a_limit_range_and_is_forbidden_beyond_its_bounds() {
    let api = Api::new();
    let limits = json!([
        {"type": "Container", "default": {"memory": "1Gi"}, "max": {"memory": "2Gi"}},
        {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}},
    ]);
    api.post(&core("limitranges"), &json!({"metadata": {"name": "l"}, "spec": {"limits": limits}}))
        .await
        .ok();
    let created = api.post(&core("pods"), &pod("p")).await.ok();
    let resources = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}});
    assert_eq!(created["spec"]["containers"][0]["resources"], resources);
    assert_eq!(
        (created["spec"].get("initContainers"), &created["status"]["qosClass"]),
        (None, &json!("Burstable"))
    );
    assert_eq!(
        created["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: memory request for container c; memory limit for container c"
    );
    let mut large = pod("q");
    large["spec"]["containers"][0]["resources"]["limits"] = json!({"memory": "3Gi"});
    let refused = api.post(&core("pods"), &large).await.fails(403, "Forbidden");
    assert_eq!(
        refused["message"],
        "pods \"q\" is forbidden: maximum memory usage per Container is 2Gi, but limit is 3Gi"
    );
    large["spec"]["containers"][0]["resources"] = json!({"requests": {"memory": "2Gi"}});
    api.post(&core("pods"), &large).await.fails(422, "Invalid");
    let claim = json!({"metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}});
    api.post(&core("persistentvolumeclaims"), &claim).await.fails(403, "Forbidden");
}

#[tokio::test]
async fn runtime_class_must_exist_and_is_applied_to_a_new_pod() {
    let api = Api::new();
    let mut sandboxed = pod("p");
    sandboxed["spec"]["runtimeClassName"] = "sandbox".into();
    let refused = api.post(&core("pods"), &sandboxed).await.fails(403, "Forbidden");
    assert_eq!(
        refused["message"],
        "pods \"p\" is forbidden: pod rejected: RuntimeClass \"sandbox\" not found"
    );
    let class = json!({"metadata": {"name": "sandbox"}, "handler": "h", "overhead": {"podFixed": {"cpu": "250m"}},
                       "scheduling": {"nodeSelector": {"sandbox": "yes"}}});
    api.post("/apis/node.k8s.io/v1/runtimeclasses", &class).await.ok();
    let created = api.post(&core("pods"), &sandboxed).await.ok();
    assert_eq!(created["spec"]["overhead"], json!({"cpu": "250m"}));
    assert_eq!(created["spec"]["nodeSelector"], json!({"sandbox": "yes"}));
}

#[tokio::test]
async fn new_claims_and_ingresses_get_the_default_class() {
    let api = Api::new();
    let default = |annotation: &str| json!({"name": "d", "annotations": {annotation: "true"}});
    let storage =
        json!({"metadata": default("storageclass.kubernetes.io/is-default-class"), "provisioner": "p"});
    api.post("/apis/storage.k8s.io/v1/storageclasses", &storage).await.ok();
    let ingress_class = json!({"metadata": default("ingressclass.kubernetes.io/is-default-class"), "spec": {"controller": "a.b/c"}});
    api.post("/apis/networking.k8s.io/v1/ingressclasses", &ingress_class).await.ok();
    let claim = json!({"metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}});
    let created = api.post(&core("persistentvolumeclaims"), &claim).await.ok();
    assert_eq!(created["spec"]["storageClassName"], "d");
    let bound = json!({"status": {"phase": "Bound"}});
    api.merge(&core("persistentvolumeclaims/c/status"), &bound).await.ok();
    let larger = json!({"spec": {"resources": {"requests": {"storage": "4Gi"}}}});
    api.merge(&core("persistentvolumeclaims/c"), &larger).await.fails(403, "Forbidden");
    let allowed = json!({"allowVolumeExpansion": true});
    api.merge("/apis/storage.k8s.io/v1/storageclasses/d", &allowed).await.ok();
    api.merge(&core("persistentvolumeclaims/c"), &larger).await.ok();
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    let ingress = json!({"metadata": {"name": "i"}, "spec": {"defaultBackend": backend}});
    let created = api.post("/apis/networking.k8s.io/v1/namespaces/default/ingresses", &ingress).await.ok();
    assert_eq!(created["spec"]["ingressClassName"], "d");
}

#[tokio::test]
async fn new_node_has_a_specification_with_the_taint_of_nodes_that_are_not_ready() {
    let api = Api::new();
    let node = api.post("/api/v1/nodes", &json!({"metadata": {"name": "n"}})).await.ok();
    assert_eq!(
        node["spec"],
        json!({"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]})
    );
    assert!(!node["metadata"]["managedFields"].to_string().contains("f:spec"), "{node}");
}

#[tokio::test]
async fn a_status_with_a_deletion_timestamp_does_not_delete_the_pod() {
    let api = Api::new();
    let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let mut pod = api.post(&core("pods"), &pod).await.ok();
    pod["metadata"]["deletionTimestamp"] = json!("2020-01-01T00:00:00Z");
    pod["status"]["message"] = json!("m");
    let updated = api.put(&core("pods/a/status"), &pod).await.ok();
    assert_eq!(updated["status"]["message"], "m");
    assert_eq!(updated["metadata"].get("deletionTimestamp"), None);
}
