//! Requests that the plugin's grants do not allow.

use serde_json::json;

use super::*;
use crate::config::current_grants::SidecarGrants;
use crate::config::sidecar::Sidecar;

#[tokio::test]
async fn a_request_that_no_rule_covers_is_denied_and_not_sent() {
    let (all, got) = fixture();
    let key = ObjectKey::new("n", "a");
    let undeclared = "request denied: the descriptor's writes lack the rule {\"apiGroups\":[\"\"]";
    for (declared, granted, logged) in [
        (vec![], None, undeclared),
        (
            vec![rule("*", &["*"], &["*"], &[])],
            Some(vec![]),
            "request denied: grants.writes of live.yaml lacks the rule {",
        ),
        (vec![rule("apps", &["*"], &["*"], &[])], None, undeclared),
        (vec![rule("", &["*"], &["update"], &[])], None, undeclared),
        (vec![rule("", &["*"], &["*"], &["other"])], None, undeclared),
        (vec![rule("", &["configmaps/status"], &["*"], &[])], None, undeclared),
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
    let shop = rule("*", &["*"], &["*"], &["shop"]);
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
    let client = LiveClient {
        grants: WriteGrants::new(vec![rule("*", &["*"], &["*"], &[])], current_grants.clone()),
        ..client
    };
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
    let read = |text: &str| SidecarGrants::of(&Sidecar::parse(text).expect("a sidecar")).expect("patterns");
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
