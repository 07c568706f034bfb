//! What guests print and do through WASI preview 1, and print through WASI 0.2.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pilothouse_plugin::{CompiledPlugin, FaultKind, InstanceLimits, LogLevel, LogSource, Outcome, Request};

use crate::fake_host::FakeHost;
use crate::{assemble, engine, fault, instance_of, request, wat_of};

#[tokio::test]
async fn a_module_for_preview_1_has_clocks_and_randomness_and_nothing_else() {
    let host = Arc::new(FakeHost::default());
    let mut instance = instance_of("stderr", &host, &InstanceLimits::default()).await;
    assert_eq!(instance.reconcile(Request { attempt: 2, ..request("a") }).await, Ok(Outcome::Done));
    assert_eq!(host.messages(LogSource::Stdout), ["out 1", "out 2"]);
}

#[tokio::test]
async fn a_module_without_a_component_type_can_import_standard_output_by_name() {
    let imports = r#"(module
  (import "wasi:cli/stdout@0.2.6" "get-stdout" (func $stdout (result i32)))
  (import "wasi:io/streams@0.2.6" "[method]output-stream.blocking-write-and-flush" (func $write (param i32 i32 i32 i32)))
  (import "wasi:io/streams@0.2.6" "[resource-drop]output-stream" (func $drop (param i32)))
  (data (i32.const 512) "by name\n")"#;
    let print = "(local $stream i32)
    (local.set $stream (call $stdout))
    (call $write (local.get $stream) (i32.const 512) (i32.const 8) (i32.const 768))
    (call $drop (local.get $stream))
    (call $reset)";
    let wat = wat_of("done").replacen("(module", imports, 1).replace("    (call $reset)", print);
    let code = engine().load(assemble(&wat)).await.unwrap_or_else(|error| panic!("{error}"));
    let host = Arc::new(FakeHost::default());
    let mut instance = code.instantiate(host.clone(), &InstanceLimits::default()).await.expect("an instance");
    assert_eq!(instance.reconcile(request("a")).await, Ok(Outcome::Done));
    assert_eq!(host.messages(LogSource::Stdout), ["by name"]);
}

/// Returns a guest that writes this many line breaks to standard output in one call.
async fn writer_of_line_breaks(count: usize) -> CompiledPlugin {
    let imports = r#"(module
  (import "wasi:cli/stdout@0.2.6" "get-stdout" (func $stdout (result i32)))
  (import "wasi:io/streams@0.2.6" "[method]output-stream.write" (func $write (param i32 i32 i32 i32)))
  (import "wasi:io/streams@0.2.6" "[resource-drop]output-stream" (func $drop (param i32)))"#;
    let print = format!(
        "(local $stream i32)
    (drop (memory.grow (i32.const 2)))
    (memory.fill (i32.const 65536) (i32.const 10) (i32.const {count}))
    (local.set $stream (call $stdout))
    (call $write (local.get $stream) (i32.const 65536) (i32.const {count}) (i32.const 768))
    (call $drop (local.get $stream))
    (call $reset)"
    );
    let wat = wat_of("done").replacen("(module", imports, 1).replace("    (call $reset)", &print);
    engine().load(assemble(&wat)).await.unwrap_or_else(|error| panic!("{error}"))
}

#[tokio::test]
async fn lines_after_a_dropped_line_of_the_same_write_are_only_counted() {
    let code = writer_of_line_breaks(64 << 10).await;
    let host = Arc::new(FakeHost::default().allowing_lines(10));
    let mut instance = code.instantiate(host.clone(), &InstanceLimits::default()).await.expect("an instance");
    assert_eq!(instance.reconcile(request("a")).await, Ok(Outcome::Done));
    assert_eq!(host.lines().len(), 11);
    assert_eq!(host.dropped_lines.load(Ordering::Relaxed), (64 << 10) - 11);
}

#[tokio::test]
async fn a_write_of_more_than_the_stream_permits_traps() {
    let code = writer_of_line_breaks((64 << 10) + 1).await;
    let host = Arc::new(FakeHost::default());
    let mut instance = code.instantiate(host.clone(), &InstanceLimits::default()).await.expect("an instance");
    let trap = fault(instance.reconcile(request("a")).await);
    assert!(trap.to_string().contains("output-stream.write"), "{trap}");
    assert_eq!(host.lines(), []);
}

#[tokio::test]
async fn lines_of_standard_error_are_logged_and_part_of_the_fault() {
    let host = Arc::new(FakeHost::default());
    let mut instance = instance_of("stderr", &host, &InstanceLimits::default()).await;
    let trap = fault(instance.reconcile(request("a")).await);
    // The second line has no line end; the end of the call completes it.
    assert_eq!(trap.last_lines(), ["thread panicked at src/lib.rs:7:5:", "no such luck"]);
    let expected =
        "reconcile trapped; its last lines: thread panicked at src/lib.rs:7:5: | no such luck; wasm trap: ";
    assert!(trap.to_string().starts_with(expected), "{trap}");
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
