//! Limits of a guest, and the faults of exceeding them.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_plugin::{Failure, FaultKind, InstanceLimits, Outcome};

use crate::fake_host::{FakeHost, Server};
use crate::{fault, instance_of, request, wish, wish_with};

#[tokio::test]
async fn an_endless_loop_yields_and_ends_at_the_time_limit() {
    let host = Arc::new(FakeHost::default());
    let limits =
        InstanceLimits { reconcile_timeout: Duration::from_millis(100), ..InstanceLimits::default() };
    let mut instance = instance_of("loop", &host, &limits).await;
    // The test has only one thread, so the other task runs only if the guest yields.
    let mut turns = 0_u32;
    let other_task = async {
        loop {
            turns += 1;
            tokio::task::yield_now().await;
        }
    };
    let answer = tokio::select! {
        biased;
        answer = instance.reconcile(request("a")) => answer,
        () = other_task => unreachable!("it never ends"),
    };
    let timeout = fault(answer);
    assert!(timeout.is_timeout(), "{timeout}");
    let FaultKind::Timeout { limit, allowed, computing, waiting_in } = timeout.kind() else {
        panic!("{timeout}")
    };
    assert_eq!((*limit, *allowed, waiting_in), ("reconcileTimeout", limits.reconcile_timeout, &None));
    assert!(*computing > Duration::ZERO, "{computing:?}");
    // The guest is always polled first, so the other task ran when the guest yielded.
    assert!(turns > 0, "{turns}");
    assert!(!instance.is_usable());
}

#[tokio::test(start_paused = true)]
async fn an_endless_loop_ends_by_its_cpu_time_while_the_clock_is_paused() {
    let host = Arc::new(FakeHost::default());
    let limits = InstanceLimits { reconcile_timeout: Duration::from_millis(50), ..InstanceLimits::default() };
    let mut instance = instance_of("loop", &host, &limits).await;
    let timeout = fault(instance.reconcile(request("a")).await);
    assert!(timeout.to_string().contains("limits.reconcileTimeout of 50ms"), "{timeout}");
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_server_ends_at_the_time_limit_and_drops_the_request() {
    let guard = Arc::new(());
    let host = FakeHost::with_server(Server::Hangs(guard.clone()));
    let (answer, _) = wish_with("create", host, &InstanceLimits::default()).await;
    let timeout = fault(answer);
    let FaultKind::Timeout { waiting_in, allowed, .. } = timeout.kind() else { panic!("{timeout}") };
    assert_eq!(waiting_in.as_deref(), Some("client.create"));
    assert_eq!(*allowed, Duration::from_secs(30));
    assert_eq!(Arc::strong_count(&guard), 1, "the host is dropped, and with it the request");
}

#[tokio::test]
async fn growing_memory_traps_at_the_memory_limit() {
    let host = Arc::new(FakeHost::default());
    let limits = InstanceLimits { memory: 1 << 20, ..InstanceLimits::default() };
    let mut instance = instance_of("grow", &host, &limits).await;
    let exceeded = fault(instance.reconcile(request("a")).await);
    assert_eq!(exceeded.kind(), &FaultKind::Memory { allowed: 1 << 20, wanted: (1 << 20) + 65_536 });
    assert_eq!(exceeded.to_string(), "reconcile exceeded limits.memory of 1 MiB by growing to 1088 KiB");
    assert_eq!(instance.memory(), 1 << 20);
}

#[tokio::test]
async fn a_module_that_starts_above_the_memory_limit_is_refused_with_the_limits_name() {
    let host = Arc::new(FakeHost::default());
    let limits = InstanceLimits { memory: 1 << 10, ..InstanceLimits::default() };
    let code = crate::code_of("done").await;
    let exceeded = code.instantiate(host, &limits).await.expect_err("too little memory");
    assert!(matches!(exceeded.kind(), FaultKind::Memory { allowed: 1024, .. }), "{exceeded}");
    assert!(exceeded.to_string().starts_with("instantiation exceeded limits.memory"), "{exceeded}");
}

#[tokio::test]
async fn endless_recursion_overflows_the_stack_and_names_the_functions() {
    let (answer, _) = wish("stack").await;
    let exceeded = fault(answer);
    let expected = "reconcile exceeded its stack of 512 KiB in recurse < recurse < recurse: call less deeply";
    assert_eq!(exceeded.to_string(), expected);
}

#[tokio::test]
async fn opening_handles_traps_at_the_handle_limit() {
    let (answer, _) =
        wish_with("open", FakeHost::default(), &InstanceLimits { handles: 50, ..InstanceLimits::default() })
            .await;
    assert_eq!(fault(answer).kind(), &FaultKind::Handles { allowed: 50 });
}

#[tokio::test]
async fn an_instance_that_leaks_handles_is_unusable_before_it_fails() {
    let host = Arc::new(FakeHost::default());
    host.put_wish("a", "keep");
    let limits = InstanceLimits { handles: 10, ..InstanceLimits::default() };
    let mut instance = instance_of("wish", &host, &limits).await;
    let mut calls = 0;
    while instance.is_usable() {
        assert_eq!(instance.reconcile(request("a")).await, Ok(Outcome::Done));
        calls += 1;
    }
    assert_eq!((calls, instance.open_handles()), (6, 6));
}

#[tokio::test]
async fn a_message_above_the_limit_is_refused_with_the_limits_name() {
    let (answer, host) = wish("huge").await;
    let exceeded = fault(answer);
    assert_eq!(exceeded.kind(), &FaultKind::MessageSize { allowed: 16 << 20 });
    assert!(exceeded.to_string().contains("limits.messageSize of 16 MiB"), "{exceeded}");
    assert_eq!(host.lines(), []);
}

#[tokio::test]
async fn text_that_is_not_utf8_or_outside_of_memory_traps() {
    for wish_text in ["bad", "x: outside"] {
        let (answer, host) = wish(wish_text).await;
        let trap = fault(answer);
        assert!(matches!(trap.kind(), FaultKind::Trap { .. }), "{wish_text}: {trap}");
        assert_eq!(host.lines(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_call_poisons_the_instance() {
    let host = FakeHost::with_server(Server::Hangs(Arc::new(())));
    let host = Arc::new(host);
    host.put_wish("a", "create");
    let mut instance = instance_of("wish", &host, &InstanceLimits::default()).await;
    let abandoned = tokio::time::timeout(Duration::from_secs(1), instance.reconcile(request("a"))).await;
    assert!(abandoned.is_err());
    assert!(!instance.is_usable());
    let answer = instance.reconcile(request("a")).await;
    assert!(matches!(answer, Err(Failure::Fault(fault)) if fault.kind() == &FaultKind::Poisoned));
}
