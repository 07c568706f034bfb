//! `faulty.wat`: one fault at a time, and the limit that it meets.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_plugin::{Code, Fault, FaultKind, Limits, LogSource, Outcome};

use crate::fake_host::FakeHost;
use crate::{assemble, engine, fault, request, wat_of};

/// The guest with a fault in `reconcile`.
async fn faulty(reconcile: &str) -> Code {
    let mut wat = wat_of("faulty").replace("$in-reconcile", reconcile);
    for quiet in ["$in-describe", "$in-observe", "$in-index"] {
        wat = wat.replace(quiet, "$nothing");
    }
    engine().load(assemble(&wat)).await.unwrap_or_else(|error| panic!("{reconcile}: {error}"))
}

fn host() -> Arc<FakeHost> {
    let host = FakeHost::default();
    host.put_wish("a", &"x".repeat(2000));
    Arc::new(host)
}

async fn exceeded(reconcile: &str, limits: Limits) -> Fault {
    let mut instance =
        faulty(reconcile).await.instantiate(host(), &limits).await.unwrap_or_else(|fault| panic!("{fault}"));
    fault(instance.reconcile(request("a")).await)
}

#[tokio::test]
async fn tables_without_end_end_at_the_element_limit() {
    let fault = exceeded("$grows-table", Limits { table_elements: 5000, ..Limits::default() }).await;
    let FaultKind::TableElements { allowed: 5000, wanted } = fault.kind() else { panic!("{fault}") };
    assert_eq!(
        fault.to_string(),
        format!("reconcile exceeded limits.tableElements of 5000 by growing to {wanted}")
    );
}

#[tokio::test]
async fn a_component_of_too_many_parts_is_refused_by_the_limits_name() {
    let limits = Limits { instances: 1, ..Limits::default() };
    let refused = faulty("$nothing").await.instantiate(host(), &limits).await.expect_err("it has more");
    assert!(matches!(refused.kind(), FaultKind::Instances { allowed: 1, .. }), "{refused}");
    let text = refused.to_string();
    assert!(
        text.starts_with("instantiation exceeded limits.instances of 1: instance count too high at 2"),
        "{text}"
    );
}

#[tokio::test]
async fn a_hundred_megabytes_pass_neither_way() {
    let limits = Limits { memory: 256 << 20, ..Limits::default() };
    for way in ["$says-too-much", "$asks-too-much"] {
        let fault = exceeded(way, limits.clone()).await;
        assert_eq!(fault.kind(), &FaultKind::MessageSize { allowed: 16 << 20 }, "{way}: {fault}");
    }
}

#[tokio::test]
async fn an_object_that_is_larger_than_a_message_cannot_be_read_whole() {
    let fault = exceeded("$reads-too-much", Limits { message_size: 1 << 10, ..Limits::default() }).await;
    assert_eq!(fault.kind(), &FaultKind::MessageSize { allowed: 1 << 10 });
}

#[tokio::test]
async fn a_manifest_above_the_object_size_is_refused_before_it_is_sent() {
    let host = host();
    let code = faulty("$writes-too-much").await;
    let mut instance = code.instantiate(host.clone(), &Limits::default()).await.expect("an instance");
    let trap = fault(instance.reconcile(request("a")).await);
    assert!(matches!(trap.kind(), FaultKind::Trap { .. }), "{trap}");
    let said =
        "a manifest of 4000000 bytes exceeds limits.objectSize of 3 MiB: spread it over several objects";
    assert_eq!(host.messages(LogSource::Log), [said]);
    assert_eq!(host.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn a_storm_of_reads_ends_at_the_time_limit() {
    let limits = Limits { reconcile_timeout: Duration::from_millis(100), ..Limits::default() };
    let fault = exceeded("$storms-cache", limits).await;
    assert!(matches!(fault.kind(), FaultKind::Timeout { limit: "reconcileTimeout", .. }), "{fault}");
}

#[tokio::test]
async fn a_long_log_line_is_cut_and_says_so() {
    let host = host();
    let code = faulty("$floods-log").await;
    let limits = Limits { log_line_size: 10, ..Limits::default() };
    let mut instance = code.instantiate(host.clone(), &limits).await.expect("an instance");
    assert_eq!(instance.reconcile(request("a")).await, Ok(Outcome::Done));
    let last = host.messages(LogSource::Log).pop().expect("a line");
    assert_eq!(last, "a line of  … (cut at limits.logLineSize of 10 bytes)");
}
