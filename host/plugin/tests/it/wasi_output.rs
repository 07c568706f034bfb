//! WASI: what a guest prints, and what it finds.

use std::sync::Arc;

use pilothouse_plugin::{FaultKind, Limits, LogLevel, LogSource, Outcome, Request};

use crate::fake_host::FakeHost;
use crate::{fault, instance_of, request};

#[tokio::test]
async fn a_module_for_preview_1_finds_clocks_and_randomness_and_nothing_else() {
    let host = Arc::new(FakeHost::default());
    let mut instance = instance_of("stderr", &host, &Limits::default()).await;
    assert_eq!(instance.reconcile(Request { attempt: 2, ..request("a") }).await, Ok(Outcome::Done));
    assert_eq!(host.messages(LogSource::Stdout), ["out 1", "out 2"]);
}

#[tokio::test]
async fn lines_of_standard_error_are_logged_and_go_with_the_fault() {
    let host = Arc::new(FakeHost::default());
    let mut instance = instance_of("stderr", &host, &Limits::default()).await;
    let trap = fault(instance.reconcile(request("a")).await);
    // The second line has no line end: the trap ends it.
    assert_eq!(trap.last_lines(), ["thread panicked at src/lib.rs:7:5:", "no such luck"]);
    assert!(
        trap.to_string().ends_with("its last lines: thread panicked at src/lib.rs:7:5: | no such luck"),
        "{trap}"
    );
    assert_eq!(trap.to_string().lines().count(), 1);
    let lines = host.lines();
    let stderr: Vec<_> = lines.iter().filter(|line| line.source == LogSource::Stderr).collect();
    assert_eq!(stderr.len(), 2);
    assert!(stderr.iter().all(|line| line.level == LogLevel::Warn && line.call == "reconcile"));
}

#[tokio::test]
async fn a_guest_that_exits_is_told_not_to() {
    let host = Arc::new(FakeHost::default());
    let mut instance = instance_of("stderr", &host, &Limits::default()).await;
    let exit = fault(instance.reconcile(Request { attempt: 1, ..request("a") }).await);
    // Preview 1 has codes, the adapter for 0.2 knows success and failure only.
    assert_eq!(exit.kind(), &FaultKind::Exit(1));
}

#[tokio::test]
async fn errors_in_the_log_go_with_the_fault_too() {
    let host = Arc::new(FakeHost::default());
    let mut instance = instance_of("trap", &host, &Limits::default()).await;
    let trap = fault(instance.reconcile(request("a")).await);
    assert_eq!(trap.last_lines(), ["no such luck at=:7"]);
}
