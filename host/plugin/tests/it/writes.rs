//! Writes: requests to the API server, the queue, Events and metrics.

use std::sync::Arc;
use std::task::Poll;

use pilothouse_plugin::{ApiError, Failure, FaultKind, HostMemoryKind, InstanceLimits, LogSource, Outcome};

use crate::fake_host::{FakeHost, Server};
use crate::{fault, instance_of, request, wish, wish_with};

#[tokio::test]
async fn a_write_reaches_the_host_and_its_result_the_guest() {
    let host = Arc::new(FakeHost::default());
    let manifest = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}"#;
    host.put_wish("a", &format!("c{manifest}"));
    let mut instance = instance_of("wish", &host, &InstanceLimits::default()).await;
    assert_eq!(instance.reconcile(request("a")).await, Ok(Outcome::Done));
    assert_eq!(host.calls(), [format!("reconcile: create {manifest}")]);
    // Both the object read and the one created were handles, and both are closed.
    assert_eq!(instance.open_handles(), 0);
}

#[tokio::test]
async fn an_error_of_the_server_is_passed_to_the_guest() {
    let server = Server::Refuses(ApiError::Forbidden("not yours".to_owned()));
    let host = FakeHost::with_server(server);
    let (answer, _) = wish_with("create", host, &InstanceLimits::default()).await;
    assert_eq!(answer, Err(Failure::Retry("not yours".to_owned())));
}

#[tokio::test]
async fn a_delete_passes_its_type_key_and_options() {
    let (answer, host) = wish("erase").await;
    assert_eq!(answer, Ok(Outcome::Done));
    assert_eq!(
        host.calls(),
        [
            "reconcile: delete v1 ConfigMap default/a DeleteOptions { propagation: Background, uid: None, resource_version: None }"
        ]
    );
}

#[tokio::test]
async fn reads_updates_and_patches_pass_their_arguments() {
    let (answer, host) = wish("get").await;
    assert_eq!(answer, Ok(Outcome::Done));
    assert_eq!(
        host.calls(),
        [
            "reconcile: get v1 ConfigMap default/a",
            "reconcile: list ConfigMap in default, at most 500",
            "reconcile: create get",
            "reconcile: patch ConfigMap default/a status Apply { field_manager: None, force: true } get",
        ]
    );
}

#[tokio::test]
async fn queue_metric_and_event_reach_the_host() {
    let (answer, host) = wish("queued_total").await;
    assert_eq!(answer, Ok(Outcome::Done));
    assert_eq!(
        host.calls(),
        [
            "reconcile: queue configmaps default/a after 2s",
            "reconcile: Counter queued_total 2",
            "reconcile: event default/a true queued_total",
        ]
    );
}

#[tokio::test]
async fn an_invalid_metric_is_dropped_with_one_warning() {
    let host = Arc::new(FakeHost::default());
    host.put_wish("a", "queued-total");
    let mut instance = instance_of("wish", &host, &InstanceLimits::default()).await;
    for _ in 0..3 {
        assert_eq!(instance.reconcile(request("a")).await, Ok(Outcome::Done));
    }
    assert!(!host.calls().iter().any(|call| call.contains("Counter")));
    let warnings = host.messages(LogSource::Host);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with(r#"metric "queued-total" dropped: its name must match"#), "{warnings:?}");
}

/// Both writes wait at the same time, as behind a rate limiter, so each must be charged before it waits.
#[tokio::test]
async fn writes_that_wait_are_charged_before_they_are_sent() {
    let host = FakeHost::with_server(Server::Hangs(Arc::new(()))).with_host_memory(1_500);
    let host = Arc::new(host);
    host.put_wish("a", &format!("c{}", "x".repeat(1_000)));
    let mut first = instance_of("wish", &host, &InstanceLimits::default()).await;
    let mut second = instance_of("wish", &host, &InstanceLimits::default()).await;
    let mut waiting = Box::pin(first.reconcile(request("a")));
    let is_waiting =
        std::future::poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_pending())).await;
    assert!(is_waiting, "the server does not answer");
    assert_eq!(host.host_memory.used_by(HostMemoryKind::OwnWrites), 1_000);
    let refused = fault(second.reconcile(request("a")).await);
    let FaultKind::HostMemory(exceeded) = refused.kind() else { panic!("{refused}") };
    assert_eq!((exceeded.kind, exceeded.wanted), (HostMemoryKind::OwnWrites, 2_000));
    drop(waiting);
    assert_eq!(host.host_memory.used(), 0);
}
