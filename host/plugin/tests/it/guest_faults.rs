//! Faults of guests, one at a time (`faulty.wat`), and the limit that stops each.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_plugin::{
    CompiledPlugin, Fault, FaultKind, Host, HostMemoryKind, InstanceLimits, LogSource, Outcome,
};

use crate::fake_host::FakeHost;
use crate::{assemble, engine, fault, request, wat_of};

/// Loads the guest with this fault in `reconcile`.
async fn faulty(reconcile: &str) -> CompiledPlugin {
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

fn host_with_memory(bytes: usize) -> Arc<FakeHost> {
    let host = FakeHost::default().with_host_memory(bytes);
    host.put_wish("a", &"x".repeat(2000));
    Arc::new(host)
}

/// Returns the fault of a `reconcile` with this fault in it.
async fn fault_of(reconcile: &str, limits: InstanceLimits) -> Fault {
    fault_with_host(&host(), reconcile, limits).await
}

async fn fault_with_host(host: &Arc<FakeHost>, reconcile: &str, limits: InstanceLimits) -> Fault {
    let code = faulty(reconcile).await;
    let mut instance =
        code.instantiate(host.clone(), &limits).await.unwrap_or_else(|fault| panic!("{fault}"));
    fault(instance.reconcile(request("a")).await)
}

#[tokio::test]
async fn growing_tables_traps_at_the_element_limit() {
    let fault =
        fault_of("$grows-table", InstanceLimits { table_elements: 5000, ..InstanceLimits::default() }).await;
    let FaultKind::TableElements { allowed: 5000, wanted } = fault.kind() else { panic!("{fault}") };
    assert_eq!(
        fault.to_string(),
        format!("reconcile exceeded limits.tableElements of 5000 by growing to {wanted}")
    );
}

#[tokio::test]
async fn a_component_of_too_many_instances_is_refused_with_the_limits_name() {
    let limits = InstanceLimits { instances: 1, ..InstanceLimits::default() };
    let refused = faulty("$nothing").await.instantiate(host(), &limits).await.expect_err("it has more");
    assert!(matches!(refused.kind(), FaultKind::Instances { allowed: 1, .. }), "{refused}");
    let text = refused.to_string();
    assert!(
        text.starts_with("instantiation exceeded limits.instances of 1: instance count too high at 2"),
        "{text}"
    );
}

#[tokio::test]
async fn too_large_arguments_and_answers_are_refused() {
    let limits = InstanceLimits { memory: 256 << 20, ..InstanceLimits::default() };
    for reconcile in ["$says-too-much", "$asks-too-much"] {
        let fault = fault_of(reconcile, limits.clone()).await;
        assert_eq!(fault.kind(), &FaultKind::MessageSize { allowed: 16 << 20 }, "{reconcile}: {fault}");
    }
}

#[tokio::test]
async fn an_object_larger_than_a_message_cannot_be_read_whole() {
    let fault =
        fault_of("$reads-too-much", InstanceLimits { message_size: 1 << 10, ..InstanceLimits::default() })
            .await;
    assert_eq!(fault.kind(), &FaultKind::MessageSize { allowed: 1 << 10 });
}

#[tokio::test]
async fn a_manifest_above_the_object_size_is_refused_before_it_is_sent() {
    let host = host();
    let code = faulty("$writes-too-much").await;
    let mut instance = code.instantiate(host.clone(), &InstanceLimits::default()).await.expect("an instance");
    let trap = fault(instance.reconcile(request("a")).await);
    assert!(matches!(trap.kind(), FaultKind::Trap { .. }), "{trap}");
    let message =
        "a manifest of 4000000 bytes exceeds limits.objectSize of 3 MiB: spread it over several objects";
    assert_eq!(host.messages(LogSource::Log), [message]);
    assert_eq!(host.calls(), Vec::<String>::new());
}

#[tokio::test]
async fn endless_reads_end_at_the_time_limit() {
    let limits =
        InstanceLimits { reconcile_timeout: Duration::from_millis(100), ..InstanceLimits::default() };
    let fault = fault_of("$storms-cache", limits).await;
    assert!(matches!(fault.kind(), FaultKind::Timeout { limit: "reconcileTimeout", .. }), "{fault}");
}

#[tokio::test]
async fn a_long_log_line_is_cut_with_a_note() {
    let host = host();
    let code = faulty("$floods-log").await;
    let limits = InstanceLimits { log_line_size: 10, ..InstanceLimits::default() };
    let mut instance = code.instantiate(host.clone(), &limits).await.expect("an instance");
    assert_eq!(instance.reconcile(request("a")).await, Ok(Outcome::Done));
    let last = host.messages(LogSource::Log).pop().expect("a line");
    assert_eq!(last, "a line of  … (cut at limits.logLineSize of 10 bytes)");
}

#[tokio::test]
async fn queueing_keys_ends_at_the_host_memory_limit() {
    let host = host_with_memory(100_000);
    let fault = fault_with_host(&host, "$queues-without-end", InstanceLimits::default()).await;
    let FaultKind::HostMemory(exceeded) = fault.kind() else { panic!("{fault}") };
    assert_eq!((exceeded.allowed, exceeded.kind), (100_000, HostMemoryKind::QueuedKeys));
    let text = fault.to_string();
    assert!(text.starts_with("reconcile exceeded limits.hostMemory of 100000 bytes"), "{text}");
}

#[tokio::test]
async fn keeping_objects_from_the_server_ends_at_the_host_memory_limit() {
    let host = host_with_memory(1 << 20);
    let fault = fault_with_host(&host, "$keeps-from-server", InstanceLimits::default()).await;
    let FaultKind::HostMemory(exceeded) = fault.kind() else { panic!("{fault}") };
    assert_eq!((exceeded.allowed, exceeded.kind), (1 << 20, HostMemoryKind::Handles));
}

#[tokio::test]
async fn keeping_handles_between_calls_ends_at_the_host_memory_limit() {
    let host = host_with_memory(1 << 20);
    let code = faulty("$keeps-from-cache").await;
    let mut instance = code.instantiate(host.clone(), &InstanceLimits::default()).await.expect("an instance");
    // 1,000 handles on a cached object of more than 2,000 bytes are free during the call and too much after it.
    let fault = fault(instance.reconcile(request("a")).await);
    let FaultKind::HostMemory(exceeded) = fault.kind() else { panic!("{fault}") };
    assert!(exceeded.wanted > 2_000_000, "{exceeded}");
    assert!(!instance.is_usable());
    drop(instance);
    assert_eq!(host.host_memory().used(), 0, "dropping the instance releases its charges");

    let host = host_with_memory(4 << 20);
    let mut instance = code.instantiate(host.clone(), &InstanceLimits::default()).await.expect("an instance");
    assert_eq!(instance.reconcile(request("a")).await, Ok(Outcome::Done));
    assert!(host.host_memory().used_by(HostMemoryKind::Handles) > 2_000_000);
}

#[tokio::test]
async fn too_long_arguments_are_refused() {
    for (reconcile, message) in [
        ("$queues-at-length", "queue.add takes keys of objects: a name has at most 253 bytes, not 100000"),
        ("$selects-at-length", "cache.list takes a label selector of at most 16384 bytes, not 100000"),
        ("$points-at-length", "object.field takes a pointer of at most 4096 bytes, not 100000"),
    ] {
        let fault = fault_of(reconcile, InstanceLimits::default()).await;
        assert!(matches!(fault.kind(), FaultKind::Misuse(_)), "{reconcile}: {fault}");
        assert_eq!(fault.to_string(), format!("reconcile trapped: {message}"), "{reconcile}");
    }
}

#[tokio::test]
async fn a_search_that_finds_nothing_ends_at_the_time_limit_and_lets_others_run() {
    for search in ["$selects-nothing", "$searches-objects", "$searches-keys", "$searches-values"] {
        let limits =
            InstanceLimits { reconcile_timeout: Duration::from_millis(100), ..InstanceLimits::default() };
        let host = FakeHost::default().endless();
        host.put_wish("a", "x");
        // The guest makes one call of the host, which would never return. The test has only one thread, so the other task runs only if the
        // search yields.
        let (mut turns, host) = (0_u32, Arc::new(host));
        let other_task = async {
            loop {
                turns += 1;
                tokio::task::yield_now().await;
            }
        };
        let fault = tokio::select! {
            biased;
            fault = fault_with_host(&host, search, limits) => fault,
            () = other_task => unreachable!("it never ends"),
        };
        assert!(
            matches!(fault.kind(), FaultKind::Timeout { limit: "reconcileTimeout", .. }),
            "{search}: {fault}"
        );
        assert!(turns > 0, "{search}");
    }
}

#[tokio::test]
async fn too_long_index_values_are_refused_and_leave_the_instance_usable() {
    let mut wat = wat_of("faulty").replace("$in-index", "$computes-at-length");
    for quiet in ["$in-describe", "$in-observe", "$in-reconcile"] {
        wat = wat.replace(quiet, "$nothing");
    }
    let code = engine().load(assemble(&wat)).await.expect("a plugin");
    let mut instance = code.instantiate(host(), &InstanceLimits::default()).await.expect("an instance");
    let object = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;
    let object = pilothouse_model::Object::from_json(object).expect("an object");
    let fault = instance.index_values("all", &object).await.expect_err("it is too long");
    assert_eq!(
        fault.to_string(),
        "index.values computed too large index values: one of 100000 bytes; at most 4096 are allowed"
    );
    assert!(instance.is_usable());
}
