//! What guests print and do through WASI preview 1.

use std::sync::Arc;

use pilothouse_plugin::{FaultKind, InstanceLimits, LogLevel, LogSource, Outcome, Request};

use crate::fake_host::FakeHost;
use crate::{fault, instance_of, request};

#[tokio::test]
async fn a_module_for_preview_1_has_clocks_and_randomness_and_nothing_else() {
    let host = Arc::new(FakeHost::default());
    let mut instance = instance_of("stderr", &host, &InstanceLimits::default()).await;
    assert_eq!(instance.reconcile(Request { attempt: 2, ..request("a") }).await, Ok(Outcome::Done));
    assert_eq!(host.messages(LogSource::Stdout), ["out 1", "out 2"]);
}

#[tokio::test]
async fn lines_of_standard_error_are_logged_and_part_of_the_fault() {
    let host = Arc::new(FakeHost::default());
    let mut instance = instance_of("stderr", &host, &InstanceLimits::default()).await;
    let trap = fault(instance.reconcile(request("a")).await);
    // The second line has no line end; the end of the call completes it.
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
async fn exiting_is_a_fault() {
    let host = Arc::new(FakeHost::default());
    let mut instance = instance_of("stderr", &host, &InstanceLimits::default()).await;
    let exit = fault(instance.reconcile(Request { attempt: 1, ..request("a") }).await);
    // The guest exits with 3. The adapter from preview 1 to 0.2 passes on only success or failure.
    assert_eq!(exit.kind(), &FaultKind::Exit(1));
}

#[tokio::test]
async fn error_lines_of_the_log_are_part_of_the_fault() {
    let host = Arc::new(FakeHost::default());
    let mut instance = instance_of("trap", &host, &InstanceLimits::default()).await;
    let trap = fault(instance.reconcile(request("a")).await);
    assert_eq!(trap.last_lines(), ["no such luck at=:7"]);
}
