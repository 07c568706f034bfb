//! Live requests against a recording server: paths, grants and field managers.

use kube::client::Body;
use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::cache::own_writes::{CacheState, CacheStateReader};
use crate::client::fence::Fence;
use crate::config::current_grants::CurrentGrants;
use crate::config::sidecar::Sidecar;
use crate::guest_host::PluginServices;

/// A client that may write everything, and the requests that its server receives.
fn fixture() -> (LiveClient, Arc<Mutex<Vec<String>>>) {
    let got = Arc::<Mutex<Vec<String>>>::default();
    let recorded = Arc::clone(&got);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        recorded.lock().push(format!("{method} {path}"));
        let body = if method == Method::GET && path != "/api/v1" {
            json!({"resources": []})
        } else if method == Method::GET {
            json!({"resources": [
                {"name": "configmaps", "kind": "ConfigMap", "namespaced": true},
                {"name": "nodes", "kind": "Node", "namespaced": false},
                {"name": "pods", "kind": "Pod", "namespaced": true},
                {"name": "pods/eviction", "kind": "Eviction", "group": "policy", "version": "v1", "namespaced": true},
            ]})
        } else {
            json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7"}})
        };
        let response = http::Response::builder().body(Body::from(body.to_string().into_bytes()));
        async move { Ok::<_, std::convert::Infallible>(response.expect("a response")) }
    });
    let client = kube::Client::new(service, "default");
    let (server, plugin) = (ApiClient::new(client.clone()), PluginServices::for_test("live", client));
    let everything = crate::config::descriptor::Rule {
        api_groups: vec!["*".into()],
        resources: vec!["*".into()],
        verbs: vec!["*".into()],
        namespaces: Vec::new(),
    };
    let grants = WriteGrants::new(vec![everything], CurrentGrants::granting_writes(None));
    let discovery = Discovery::new(server.clone());
    let writer = Writer::new(server.clone(), discovery.clone(), Fence::default(), plugin);
    let client = LiveClient::new(server, discovery, grants, writer, "live".into());
    (client, got)
}

fn manifest(kind: &str, metadata: &serde_json::Value) -> String {
    json!({"apiVersion": "v1", "kind": kind, "metadata": metadata}).to_string()
}

#[tokio::test]
async fn a_namespaced_object_is_sent_only_to_its_own_namespace() {
    let (client, got) = fixture();
    for metadata in
        [json!({"name": "a"}), json!({"generateName": "a-"}), json!({"name": "a", "namespace": ""})]
    {
        for is_update in [false, true] {
            let manifest = manifest("ConfigMap", &metadata);
            let answer = match is_update {
                false => client.create(ReconcileContext::default(), manifest, "", None).await,
                true => client.update(ReconcileContext::default(), manifest, "", None).await,
            };
            let Err(ApiError::Invalid(causes)) = answer else { panic!("{metadata}: {:?}", answer.err()) };
            assert_eq!((causes.len(), causes[0].field.as_str()), (1, "metadata.namespace"));
            assert!(causes[0].message.contains("configmaps"), "{}", causes[0].message);
        }
    }
    assert_eq!(*got.lock(), ["GET /api/v1"], "nothing else was sent");
    got.lock().clear();

    let create = async |kind, metadata: serde_json::Value| {
        drop(client.create(ReconcileContext::default(), manifest(kind, &metadata), "", None).await);
    };
    create("ConfigMap", json!({"name": "a", "namespace": "n"})).await;
    create("ConfigMap", json!({"generateName": "a-", "namespace": "n"})).await;
    create("Node", json!({"name": "a"})).await;
    let sent = [
        "POST /api/v1/namespaces/n/configmaps",
        "POST /api/v1/namespaces/n/configmaps",
        "POST /api/v1/nodes",
    ];
    assert_eq!(*got.lock(), sent);
}

/// Each text of a guest would otherwise lead to another URL than that of a kind, before any check and with the host's rights.
#[tokio::test]
async fn text_of_a_guest_never_becomes_part_of_a_url() {
    let (client, got) = fixture();
    let target =
        |api_version: &str, kind: &str| ObjectType { api_version: api_version.into(), kind: kind.into() };
    let key = ObjectKey::new("n", "a");
    let fields = |error: ApiError| {
        let ApiError::Invalid(causes) = error else { panic!("{error}") };
        causes[0].field.clone()
    };
    for api_version in [
        "v1/namespaces/x/services/y/proxy/admin",
        "../api/v1/secrets",
        "apps/v1/deployments?watch=true",
        "v1?watch=true",
        "..",
        "",
        "apps/v1\nx",
    ] {
        let target = target(api_version, "ConfigMap");
        assert_eq!(
            fields(client.get(ReconcileContext::default(), &target, &key, "").await.expect_err(api_version)),
            "apiVersion"
        );
        let manifest = json!({"apiVersion": api_version, "kind": "A", "metadata": {"name": "a"}}).to_string();
        assert_eq!(
            fields(
                client.create(ReconcileContext::default(), manifest, "", None).await.expect_err(api_version)
            ),
            "apiVersion"
        );
    }
    let map = target("v1", "ConfigMap");
    assert_eq!(
        fields(
            client
                .get(ReconcileContext::default(), &target("v1", "Config/Map"), &key, "")
                .await
                .expect_err("kind")
        ),
        "kind"
    );
    assert_eq!(
        fields(client.get(ReconcileContext::default(), &map, &key, "../b").await.expect_err("subresource")),
        "subresource"
    );
    for (namespace, name, field) in
        [("a/b", "a", "metadata.namespace"), ("n", "..", "metadata.name"), ("n", "a/log", "metadata.name")]
    {
        let key = ObjectKey::new(namespace, name);
        let options =
            DeleteOptions { propagation: Propagation::Background, uid: None, resource_version: None };
        assert_eq!(
            fields(client.delete(ReconcileContext::default(), &map, &key, &options).await.expect_err(name)),
            field
        );
    }
    let list = ListOptions {
        namespace: "../..".into(),
        label_selector: String::new(),
        field_selector: String::new(),
        limit: 1,
        cursor: String::new(),
    };
    assert_eq!(
        fields(client.list(ReconcileContext::default(), &map, &list).await.expect_err("namespace")),
        "metadata.namespace"
    );
    assert!(got.lock().iter().all(|sent| sent == "GET /api/v1"), "{:?}", got.lock());
}

#[tokio::test]
async fn a_request_that_no_rule_covers_is_denied_and_not_sent() {
    let (all, got) = fixture();
    let rule =
        |group: &str, resource: &str, verb: &str, namespaces: &[&str]| crate::config::descriptor::Rule {
            api_groups: vec![group.into()],
            resources: vec![resource.into()],
            verbs: vec![verb.into()],
            namespaces: namespaces.iter().map(|&name| name.to_owned()).collect(),
        };
    let key = ObjectKey::new("n", "a");
    let undeclared = "request denied: the descriptor's writes lack the rule {\"apiGroups\":[\"\"]";
    for (declared, granted, logged) in [
        (vec![], None, undeclared),
        (
            vec![rule("*", "*", "*", &[])],
            Some(vec![]),
            "request denied: grants.writes of live.yaml lacks the rule {",
        ),
        (vec![rule("apps", "*", "*", &[])], None, undeclared),
        (vec![rule("", "*", "update", &[])], None, undeclared),
        (vec![rule("", "*", "*", &["other"])], None, undeclared),
        (vec![rule("", "configmaps/status", "*", &[])], None, undeclared),
    ] {
        let client = LiveClient {
            grants: WriteGrants::new(declared, CurrentGrants::granting_writes(granted)),
            ..fixture().0
        };
        let client = LiveClient {
            server: all.server.clone(),
            discovery: Discovery::new(all.server.clone()),
            ..client
        };
        let target = ObjectType { api_version: "v1".into(), kind: "ConfigMap".into() };
        let denied = client.get(ReconcileContext::default(), &target, &key, "").await.expect_err("denied");
        let ApiError::Denied(missing) = denied else { panic!("{denied}") };
        assert_eq!(missing.resources, ["configmaps"]);
        let manifest = manifest("ConfigMap", &json!({"name": "a", "namespace": "n"}));
        assert!(matches!(
            client.create(ReconcileContext::default(), manifest, "", None).await,
            Err(ApiError::Denied(_))
        ));
        let lines = client.writer.log().all().after(0, None);
        assert_eq!(lines.len(), 2, "a line for the get and one for the create: {lines:?}");
        assert!(lines.iter().all(|line| line.message.starts_with(logged)), "{lines:?}");
    }
    assert_eq!(*got.lock(), Vec::<String>::new());
}

#[tokio::test]
async fn each_missing_rule_is_logged_once_and_at_most_16_of_them() {
    let client = LiveClient {
        grants: WriteGrants::new(Vec::new(), CurrentGrants::granting_writes(None)),
        ..fixture().0
    };
    let key = ObjectKey::new("n", "a");
    for round in 1..=2 {
        for kind in 0..20 {
            let target = ObjectType { api_version: "v1".into(), kind: format!("Kind{kind}") };
            let denied =
                client.get(ReconcileContext::default(), &target, &key, "").await.expect_err("denied");
            assert!(matches!(denied, ApiError::Denied(_)), "round {round}: {denied}");
        }
    }
    let lines = client.writer.log().all().after(0, None);
    assert_eq!(lines.len(), super::MAX_LOGGED_DENIALS, "{lines:?}");
}

#[tokio::test]
async fn a_namespace_in_a_request_does_not_grant_a_cluster_scoped_object() {
    let (client, got) = fixture();
    let shop = crate::config::descriptor::Rule {
        api_groups: vec!["*".into()],
        resources: vec!["*".into()],
        verbs: vec!["*".into()],
        namespaces: vec!["shop".into()],
    };
    let client =
        LiveClient { grants: WriteGrants::new(vec![shop], CurrentGrants::granting_writes(None)), ..client };
    let nodes = ObjectType { api_version: "v1".into(), kind: "Node".into() };
    let delete = DeleteOptions { propagation: Propagation::Background, uid: None, resource_version: None };
    let patch = || Patch { patch_type: PatchType::Merge, body: "{}".into() };
    let list = |namespace: &str| ListOptions {
        namespace: namespace.into(),
        label_selector: String::new(),
        field_selector: String::new(),
        limit: 1,
        cursor: String::new(),
    };
    let is_invalid = |error: ApiError| matches!(&error, ApiError::Invalid(causes) if causes[0].field == "metadata.namespace");
    let within = ObjectKey::new("shop", "a");
    assert!(is_invalid(client.get(ReconcileContext::default(), &nodes, &within, "").await.expect_err("get")));
    assert!(is_invalid(
        client.get(ReconcileContext::default(), &nodes, &within, "status").await.expect_err("get status")
    ));
    assert!(is_invalid(
        client.list(ReconcileContext::default(), &nodes, &list("shop")).await.expect_err("list")
    ));
    assert!(is_invalid(
        client.delete(ReconcileContext::default(), &nodes, &within, &delete).await.expect_err("delete")
    ));
    assert!(is_invalid(
        client
            .patch(ReconcileContext::default(), &nodes, &within, patch(), "", None)
            .await
            .expect_err("patch")
    ));
    let node = || manifest("Node", &json!({"name": "a", "namespace": "shop"}));
    assert!(is_invalid(
        client.create(ReconcileContext::default(), node(), "", None).await.expect_err("create")
    ));
    assert!(is_invalid(
        client.update(ReconcileContext::default(), node(), "", None).await.expect_err("update")
    ));
    let cluster = ObjectKey::cluster("a");
    assert!(matches!(
        client.get(ReconcileContext::default(), &nodes, &cluster, "").await,
        Err(ApiError::Denied(_))
    ));
    assert!(matches!(
        client.list(ReconcileContext::default(), &nodes, &list("")).await,
        Err(ApiError::Denied(_))
    ));
    let maps = ObjectType { api_version: "v1".into(), kind: "ConfigMap".into() };
    assert!(
        matches!(client.list(ReconcileContext::default(), &maps, &list("")).await, Err(ApiError::Denied(_))),
        "all namespaces"
    );
    assert_eq!(*got.lock(), ["GET /api/v1"]);
    let answer = client.delete(ReconcileContext::default(), &maps, &within, &delete).await;
    assert!(answer.is_ok(), "{:?}", answer.err());
}

/// A plugin cannot keep a revoked right by failing to load, because its code is not involved.
#[tokio::test]
async fn a_revoked_grant_affects_an_existing_client() {
    let (client, got) = fixture();
    let current_grants = CurrentGrants::granting_writes(None);
    let rule = crate::config::descriptor::Rule {
        api_groups: vec!["*".into()],
        resources: vec!["*".into()],
        verbs: vec!["*".into()],
        namespaces: Vec::new(),
    };
    let client = LiveClient { grants: WriteGrants::new(vec![rule], current_grants.clone()), ..client };
    let create = async || {
        client
            .create(
                ReconcileContext::default(),
                manifest("ConfigMap", &json!({"name": "a", "namespace": "n"})),
                "",
                None,
            )
            .await
    };
    assert!(create().await.is_ok());
    let name = crate::PluginName::of_file(std::path::Path::new("live.wasm")).expect("a name");
    let read = |text: &str| {
        crate::config::current_grants::SidecarGrants::of(&Sidecar::parse(text).expect("a sidecar"))
            .expect("patterns")
    };
    current_grants.begin_load().allow(read("grants: {writes: []}"), &name, None);
    assert!(matches!(create().await, Err(ApiError::Denied(_))));
    current_grants.begin_load().allow(read(""), &name, None);
    assert!(create().await.is_ok());
    current_grants.begin_load().revoke_all("the sidecar is torn".into(), None);
    assert!(matches!(create().await, Err(ApiError::Denied(_))));
    assert_eq!(got.lock().iter().filter(|sent| sent.starts_with("POST")).count(), 2);
}

#[tokio::test]
async fn a_plugin_applies_under_its_own_name_or_one_below_it() {
    let (client, got) = fixture();
    let maps = ObjectType { api_version: "v1".into(), kind: "ConfigMap".into() };
    let apply = async |manager: Option<&str>| {
        let patch_type = PatchType::Apply { field_manager: manager.map(str::to_owned), force: true };
        let patch = Patch { patch_type, body: "{}".into() };
        client.patch(ReconcileContext::default(), &maps, &ObjectKey::new("n", "a"), patch, "", None).await
    };
    let long = format!("live/{}", "x".repeat(124));
    for other in ["pilothouse-crds", "kubectl", "liver", "live-2", "Live", "live/\n", "other/live", &long] {
        let error = apply(Some(other)).await.expect_err(other);
        assert!(matches!(&error, ApiError::Invalid(causes) if causes[0].field == "fieldManager"), "{error}");
    }
    assert_eq!(*got.lock(), ["GET /api/v1"]);
    for own in [None, Some("live"), Some("live/status")] {
        assert!(apply(own).await.is_ok(), "{own:?}");
    }
}

#[tokio::test]
async fn an_apply_that_may_create_the_object_needs_the_verb_create() {
    let rule = |verbs: &[&str]| crate::config::descriptor::Rule {
        api_groups: vec![String::new()],
        resources: vec!["configmaps".into(), "configmaps/status".into()],
        verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        namespaces: Vec::new(),
    };
    let maps = ObjectType { api_version: "v1".into(), kind: "ConfigMap".into() };
    for (verbs, patch_type, subresource, denied) in [
        (&["patch"][..], PatchType::Apply { field_manager: None, force: true }, "", true),
        (&["patch", "create"], PatchType::Apply { field_manager: None, force: true }, "", false),
        (&["patch"], PatchType::Apply { field_manager: None, force: true }, "status", false),
        (&["patch"], PatchType::Merge, "", false),
    ] {
        let (client, got) = fixture();
        let grants = WriteGrants::new(vec![rule(verbs)], CurrentGrants::granting_writes(None));
        let client = LiveClient { grants, ..client };
        let patch = Patch { patch_type, body: "{}".into() };
        let key = ObjectKey::new("n", "a");
        let result = client.patch(ReconcileContext::default(), &maps, &key, patch, subresource, None).await;
        let is_sent = got.lock().iter().any(|request| request.starts_with("PATCH"));
        assert_eq!((result.is_err(), is_sent), (denied, !denied), "{verbs:?} {subresource:?}");
        if let Err(error) = result {
            assert!(matches!(&error, ApiError::Denied(missing) if missing.verbs == ["create"]), "{error}");
        }
    }
}

/// A cache that has this object, whatever became of it.
struct StaleCache(Object);

impl CacheStateReader for StaleCache {
    fn state(&self, key: &ObjectKey) -> Option<CacheState> {
        let object = (key == self.0.key()).then(|| self.0.clone());
        Some(CacheState { object, version: "1".to_owned(), listed_after: None })
    }

    fn is_selective(&self) -> bool {
        false
    }
}

/// Creates a Lease on the embedded server, and deletes it. Returns a client with these verbs that knows the Lease, and the server.
async fn client_that_knows_a_deleted_lease(
    verbs: &[&str],
) -> (LiveClient, ApiClient, Arc<StaleCache>, Object) {
    let embedded = pilothouse_apiserver::ApiServer::builder().build();
    let client = kube::Client::new(embedded.service(), "default");
    let (server, plugin) = (ApiClient::new(client.clone()), PluginServices::for_test("live", client));
    let leases = ResourceType {
        group: "coordination.k8s.io".into(),
        version: "v1".into(),
        kind: "Lease".into(),
        plural: "leases".into(),
        namespaced: true,
    };
    let payload = Payload::json(lease(&json!({"name": "l", "namespace": "default"})));
    let created = server.request(Method::POST, &leases.url_path(Some("default")), Some(payload)).await;
    let created = parse_object(&created.expect("created"), &leases).expect("an object");
    server.request(Method::DELETE, LEASE_PATH, None).await.expect("deleted");
    let cache = Arc::new(StaleCache(created.clone()));
    let weak: std::sync::Weak<StaleCache> = Arc::downgrade(&cache);
    plugin.writes.for_resource(&leases).add_cache(weak);
    let rule = crate::config::descriptor::Rule {
        api_groups: vec!["coordination.k8s.io".into()],
        resources: vec!["leases".into()],
        verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        namespaces: Vec::new(),
    };
    let grants = WriteGrants::new(vec![rule], CurrentGrants::granting_writes(None));
    let discovery = Discovery::new(server.clone());
    let writer = Writer::new(server.clone(), discovery.clone(), Fence::default(), plugin);
    (LiveClient::new(server.clone(), discovery, grants, writer, "live".into()), server, cache, created)
}

const LEASE_PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";

fn lease(metadata: &serde_json::Value) -> String {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}).to_string()
}

/// The API server creates a Lease by a PUT, whatever resource version that has.
#[tokio::test]
async fn an_update_that_may_create_the_object_needs_the_verb_create() {
    for (verbs, name, version, uid, denied) in [
        (&["update"][..], "l", "1", "", false),
        (&["update"], "l", "1", "u", false),
        (&["update"], "unknown", "1", "", true),
        (&["update"], "unknown", "1", "u", false),
        (&["update", "create"], "unknown", "", "", false),
        (&["update", "create"], "l", "1", "", false),
    ] {
        let (client, server, _cache, _) = client_that_knows_a_deleted_lease(verbs).await;
        let mut metadata = json!({"name": name, "namespace": "default", "resourceVersion": version});
        if !uid.is_empty() {
            metadata["uid"] = uid.into();
        }
        let result = client.update(ReconcileContext::default(), lease(&metadata), "", None).await;
        let path = LEASE_PATH.trim_end_matches('l').to_owned() + name;
        let exists = server.get(&path).await.expect("an answer").is_some();
        assert_eq!(exists, verbs.contains(&"create"), "{verbs:?} {metadata}");
        match result {
            Ok(_) => assert!(exists),
            Err(ApiError::Denied(missing)) => assert!(denied && missing.verbs == ["create"], "{metadata}"),
            Err(error) => assert!(!denied && matches!(error, ApiError::Conflict { .. }), "{error}"),
        }
    }
}

#[tokio::test]
async fn an_apply_does_not_create_an_object_again_that_was_just_deleted() {
    let leases = ObjectType { api_version: "coordination.k8s.io/v1".into(), kind: "Lease".into() };
    let yaml = || "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: l}}".to_owned();
    for (verbs, body, is_created) in [
        (&["patch"][..], lease(&json!({"name": "l"})), false),
        (&["patch"], yaml(), false),
        (&["patch", "create"], yaml(), true),
    ] {
        let (client, server, _cache, lease) = client_that_knows_a_deleted_lease(verbs).await;
        let patch_type = PatchType::Apply { field_manager: None, force: true };
        let patch = Patch { patch_type, body: body.clone() };
        let result = client.patch(ReconcileContext::default(), &leases, lease.key(), patch, "", None).await;
        let exists = server.get(LEASE_PATH).await.expect("an answer").is_some();
        assert_eq!((result.is_ok(), exists), (is_created, is_created), "{verbs:?} {body}");
        if let Err(error) = result {
            let is_json = serde_json::from_str::<serde_json::Value>(&body).is_ok();
            let is_denied = matches!(&error, ApiError::Denied(missing) if missing.verbs == ["create"]);
            assert!(if is_json { matches!(error, ApiError::Conflict { .. }) } else { is_denied }, "{error}");
        }
    }
}

/// Against the embedded server, whose discovery names `serviceaccounts/token`.
#[tokio::test]
async fn a_token_request_is_sent_to_its_service_account() {
    let embedded = pilothouse_apiserver::ApiServer::builder().build();
    let (server, plugin) = {
        let client = kube::Client::new(embedded.service(), "default");
        (ApiClient::new(client.clone()), PluginServices::for_test("live", client))
    };
    let token = crate::config::descriptor::Rule {
        api_groups: vec!["".into()],
        resources: vec!["serviceaccounts/token".into(), "serviceaccounts".into()],
        verbs: vec!["create".into()],
        namespaces: vec!["default".into()],
    };
    let reviews = crate::config::descriptor::Rule {
        api_groups: vec!["authorization.k8s.io".into()],
        resources: vec!["selfsubjectaccessreviews".into()],
        verbs: vec!["create".into()],
        namespaces: vec![],
    };
    let grants = WriteGrants::new(vec![token, reviews], CurrentGrants::granting_writes(None));
    let discovery = Discovery::new(server.clone());
    let unknown = Arc::clone(&plugin.metrics);
    let writer = Writer::new(server.clone(), discovery.clone(), Fence::default(), plugin);
    let client = LiveClient::new(server, discovery, grants, writer, "live".into());
    let create = async |manifest: serde_json::Value, subresource: &str| {
        client.create(ReconcileContext::default(), manifest.to_string(), subresource, None).await
    };
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "default"}});
    assert!(matches!(create(account, "").await, Ok(WriteOutcome::Object(..))));
    let metadata = json!({"name": "robot", "namespace": "default"});
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": metadata, "spec": {}});
    let answer = create(request, "token").await;
    let Ok(WriteOutcome::Response(resource, object)) = answer else { panic!("{:?}", answer.err()) };
    assert_eq!((resource.plural.as_str(), object.kind()), ("serviceaccounts", "TokenRequest"));
    assert!(object.field("/status/token").is_some());
    let spec = json!({"resourceAttributes": {"verb": "get", "resource": "pods"}});
    let review =
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec});
    let answer = create(review, "").await;
    let Ok(WriteOutcome::Response(_, object)) = answer else { panic!("{:?}", answer.err()) };
    assert_eq!(object.field("/status/allowed"), Some("true"));
    assert_eq!(unknown.unknown_writes.get(), 0);
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": "default"}});
    assert!(matches!(create(eviction, "eviction").await, Err(ApiError::Denied(_) | ApiError::NotFound(_))));
}

#[tokio::test]
async fn an_eviction_is_sent_to_its_pod() {
    let (client, got) = fixture();
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": "n"}});
    assert!(client.create(ReconcileContext::default(), eviction.to_string(), "eviction", None).await.is_ok());
    let sent = ["GET /apis/policy/v1", "GET /api/v1", "POST /api/v1/namespaces/n/pods/p/eviction"];
    assert_eq!(*got.lock(), sent);
}

#[test]
fn a_list_with_null_items_is_empty_and_one_without_items_is_invalid() {
    let null: List<'_> = serde_json::from_str(r#"{"items":null}"#).expect("a list");
    assert!(null.items.is_empty());
    assert!(serde_json::from_str::<List<'_>>(r#"{"metadata":{}}"#).is_err());
}
