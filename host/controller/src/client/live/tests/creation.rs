//! Writes that may create an object although their verb is not `create`.

use serde_json::json;

use super::*;
use crate::cache::own_writes::{CacheState, CacheStateReader};

#[tokio::test]
async fn an_apply_that_may_create_the_object_needs_the_verb_create() {
    let rule = |verbs| rule("", &["configmaps", "configmaps/status"], verbs, &[]);
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
    let server = kube::Client::new(embedded.service(), "default");
    let rule = rule("coordination.k8s.io", &["leases"], verbs, &[]);
    let (client, plugin) = client_with_rules(server.clone(), vec![rule]);
    let server = ApiClient::new(server);
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
    (client, server, cache, created)
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
