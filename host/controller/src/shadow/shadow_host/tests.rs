use pilothouse_plugin::{GuestResult, HostCall, HostMemoryKind, Outcome, Rule, StubHost};

use super::*;
use crate::guest_host::{GuestHost, PluginServices};
use crate::shadow::script::Comparison;

const MAP: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n"}}"#;

fn watches() -> Arc<WatchNames> {
    Arc::new(WatchNames::for_test("maps", "secrets"))
}

/// Returns a host whose running version has created [`MAP`].
fn host() -> ShadowHost {
    let request = HostRequest::ClientCreate { manifest: MAP.to_owned(), subresource: String::new() };
    let object = Object::from_json(MAP).expect("an object");
    let create = HostCall { request, answer: HostAnswer::Object(Some(object)) };
    let host = ShadowHost::new(Arc::new(StubHost::new("{}")), watches());
    host.begin(ShadowScript::new(vec![create]));
    host
}

fn comparison(host: &ShadowHost) -> Comparison {
    let done = GuestResult::Reconcile(Ok(Outcome::Done));
    host.end().expect("a script").finish(&done, &done)
}

fn charge() -> HostMemoryCharge {
    HostMemory::default().charge(HostMemoryKind::OwnWrites, 0)
}

#[tokio::test]
async fn a_write_is_answered_as_in_the_running_version_and_not_sent() {
    let host = host();
    let created = host.client_create(&Call::Describe, MAP.to_owned(), "", charge()).await;
    assert_eq!(created.expect("the recorded answer").name(), "a");
    assert_eq!(comparison(&host), Comparison::Agrees);
}

#[tokio::test]
async fn a_differing_write_fails() {
    let host = host();
    let other = MAP.replace("\"a\"", "\"b\"");
    let created = host.client_create(&Call::Describe, other, "", charge()).await;
    assert!(matches!(created, Err(ApiError::Unavailable(_))), "{created:?}");
    assert!(matches!(comparison(&host), Comparison::Differs(_)));
}

#[tokio::test]
async fn a_read_that_fails_only_now_is_no_difference() {
    let host = host();
    let target = ObjectType { api_version: "v1".to_owned(), kind: "ConfigMap".to_owned() };
    // The stub has no API server.
    let read = host.client_get(&Call::Describe, &target, &ObjectKey::new("n", "a"), "").await;
    assert!(read.is_err());
    assert_eq!(comparison(&host), Comparison::Skipped);
}

#[test]
fn a_read_that_the_grants_of_the_running_version_refuse_is_no_difference() {
    for error in [ApiError::Forbidden("no role".to_owned()), ApiError::Denied(Rule::default())] {
        let host = host();
        host.skip_if_not_comparable::<()>(&Err(error));
        assert_eq!(comparison(&host), Comparison::Skipped);
    }
    let host = host();
    host.skip_if_not_comparable::<()>(&Err(ApiError::NotFound("a".to_owned())));
    assert!(matches!(comparison(&host), Comparison::Differs(_)), "the shadow has created nothing");
}

#[test]
fn a_shadow_can_queue_only_keys_of_its_target_watches() {
    let (host, call) = (host(), Call::Describe);
    let results = |watch: &str| {
        let key = ObjectKey::new("n", "a");
        [host.queue_add(&call, watch, key.clone()), host.queue_add_after(&call, watch, key, Duration::ZERO)]
    };
    assert_eq!(results("maps"), [Ok(()), Ok(())]);
    for result in results("secrets") {
        assert!(matches!(result, Err(Misuse::NotATarget { .. })), "{result:?}");
    }
    for result in results("pods") {
        assert!(matches!(result, Err(Misuse::UnknownWatch { .. })), "{result:?}");
    }
}

#[tokio::test]
async fn a_shadow_does_not_use_up_the_memory_of_the_running_version() {
    let server = pilothouse_apiserver::ApiServer::builder().build();
    let services = PluginServices::for_test("p", kube::Client::new(server.service(), "default"));
    let account = services.host_memory.clone();
    let host = ShadowHost::new(Arc::new(GuestHost::for_describe(services, "{}".into())), watches());
    let limit = account.limit();
    let (used, shadow) = (account.used(), host.host_memory());
    assert!(shadow.try_charge(HostMemoryKind::Handles, limit + 1).is_err(), "it has the same limit");
    let _charge = shadow.charge(HostMemoryKind::Handles, limit);
    assert_eq!((host.host_memory().used(), account.used()), (limit, used));
}

#[tokio::test]
async fn a_shadow_sends_nothing_and_queues_nothing() {
    let host = host();
    let (call, key) = (Call::Describe, ObjectKey::new("n", "a"));
    // The stub refuses these functions, as any host does while a plugin is described.
    assert!(host.running.queue_add(&call, "maps", key.clone()).is_err());
    assert_eq!(host.queue_add(&call, "maps", key.clone()), Ok(()));
    assert_eq!(host.queue_add_after(&call, "maps", key.clone(), Duration::ZERO), Ok(()));
    let target = ObjectType { api_version: "v1".to_owned(), kind: "ConfigMap".to_owned() };
    let merge = Patch { patch_type: pilothouse_plugin::PatchType::Merge, body: "{}".to_owned() };
    let propagation = pilothouse_plugin::Propagation::Background;
    let options = DeleteOptions { propagation, uid: None, resource_version: None };
    // The first write differs from the recorded one, so none has an answer.
    for result in [
        host.client_update(&call, MAP.to_owned(), "", charge()).await.map(drop),
        host.client_patch(&call, &target, &key, merge, "", charge()).await.map(drop),
        host.client_delete(&call, &target, &key, &options).await,
        host.client_create(&call, MAP.to_owned(), "", charge()).await.map(drop),
    ] {
        assert_eq!(result, Err(ended()));
    }
    host.end();
    assert_eq!(
        host.client_create(&call, MAP.to_owned(), "", charge()).await.map(drop),
        Err(ended()),
        "after its end"
    );
}
