//! Where a request goes: the target that its text names, and nothing else.

use serde_json::json;

use super::*;

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

/// Against the embedded server, whose discovery names `serviceaccounts/token`.
#[tokio::test]
async fn a_token_request_is_sent_to_its_service_account() {
    let embedded = pilothouse_apiserver::ApiServer::builder().build();
    let server = kube::Client::new(embedded.service(), "default");
    let token = rule("", &["serviceaccounts/token", "serviceaccounts"], &["create"], &["default"]);
    let reviews = rule("authorization.k8s.io", &["selfsubjectaccessreviews"], &["create"], &[]);
    let (client, plugin) = client_with_rules(server, vec![token, reviews]);
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
    assert_eq!(plugin.metrics.unknown_writes.get(), 0);
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
