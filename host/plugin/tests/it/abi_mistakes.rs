//! Messages about mistakes in the canonical ABI, which a guest makes that was written without an SDK.

use std::sync::Arc;

use pilothouse_plugin::{Fault, FaultKind, InstanceLimits};

use crate::fake_host::FakeHost;
use crate::{assemble, engine, fault, request, wat_of};

/// Returns the fault of a `reconcile` of the guest, with a replacement in its text.
async fn fault_when(guest: &str, from: &str, to: &str) -> Fault {
    let wat = wat_of(guest);
    assert!(wat.contains(from), "{from}");
    fault_of(&wat.replace(from, to)).await
}

async fn fault_of(wat: &str) -> Fault {
    let code = engine().load(assemble(wat)).await.unwrap_or_else(|error| panic!("{error}"));
    let host = Arc::new(FakeHost::default());
    let mut instance = code.instantiate(host, &InstanceLimits::default()).await.expect("an instance");
    fault(instance.reconcile(request("a")).await)
}

/// Returns the fault of a `reconcile` that makes this call.
async fn fault_of_call(call: &str) -> Fault {
    fault_when("config", "(call $say)\n    (global.set $next", &format!("{call}\n    (global.set $next"))
        .await
}

#[tokio::test]
async fn a_bad_argument_is_reported_with_the_import() {
    for (call, problem) in [
        (
            "(call $log (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 3) (i32.const 1))",
            "list pointer is not aligned",
        ),
        ("(call $log (i32.const 9) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))", "discriminant"),
        (
            "(i32.store8 (i32.const 512) (i32.const 255)) (call $log (i32.const 1) (i32.const 512) (i32.const 1) (i32.const 0) (i32.const 0))",
            "utf-8",
        ),
        ("(call $log (i32.const 1) (i32.const -16) (i32.const 8) (i32.const 0) (i32.const 0))", "bounds"),
    ] {
        let fault = fault_of_call(call).await;
        let text = fault.to_string();
        assert!(text.starts_with("reconcile trapped: in the import log.log: "), "{text}");
        assert!(text.contains(problem), "{text}");
        let FaultKind::Trap { frames, .. } = fault.kind() else { panic!("{text}") };
        assert!(!frames.is_empty(), "the guest's frames are known: {text}");
    }
}

#[tokio::test]
async fn a_bad_address_for_a_result_is_reported_with_the_import() {
    let text = fault_of_call("(call $config (i32.const 21))").await.to_string();
    assert!(text.starts_with("reconcile trapped: in the import config.get: pointer not aligned"), "{text}");
}

#[tokio::test]
async fn a_handle_that_is_not_open_is_reported() {
    let import = "(import \"pilothouse:controller/objects@0.1.1\" \"[resource-drop]object\" (func $drop-object (param i32)))";
    let wat = wat_of("config").replacen("(module", &format!("(module {import}"), 1);
    let wat = wat.replace(
        "(call $say)\n    (global.set $next",
        "(call $drop-object (i32.const 77))\n    (global.set $next",
    );
    let text = fault_of(&wat).await.to_string();
    assert!(
        text.contains("an import was given a handle that is not open: unknown handle index 77"),
        "{text}"
    );
}

#[tokio::test]
async fn a_bad_result_is_reported_as_the_calls_result() {
    for (address, problem) in [("49", "not aligned"), ("-64", "out of bounds")] {
        let result = format!("(i32.const {address}))\n)");
        let text = fault_when("config", "(i32.const 48))\n)", &result).await.to_string();
        assert!(text.starts_with("reconcile trapped: the result is invalid: "), "{text}");
        assert!(text.contains(problem), "{text}");
    }
}

#[tokio::test]
async fn a_bad_address_of_the_allocator_is_reported() {
    let text = fault_when("done", "(local.get $address))\n", "(i32.const -8))\n").await.to_string();
    assert!(text.starts_with("reconcile trapped: cabi_realloc returned a bad address"), "{text}");
}
