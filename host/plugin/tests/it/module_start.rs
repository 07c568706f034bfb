//! What runs when a core module starts.

use std::sync::Arc;

use pilothouse_plugin::{InstanceLimits, Outcome};

use crate::fake_host::FakeHost;
use crate::{assemble, engine, request, wat_of};

const CONFIG: &str = r#"{"colour":"blue"}"#;

/// Starts `config.wat` with another start code, reconciles once, and returns the calls in which it logged.
async fn calls_with_log_lines(start: &str) -> Vec<&'static str> {
    const INITIALIZE: &str = "(func (export \"_initialize\") (call $say))";
    let wat = wat_of("config");
    assert!(wat.contains(INITIALIZE));
    let code = engine().load(assemble(&wat.replace(INITIALIZE, start))).await;
    let code = code.unwrap_or_else(|error| panic!("{start}: {error}"));
    let host = Arc::new(FakeHost::with_config(CONFIG));
    let mut instance = code
        .instantiate(host.clone(), &InstanceLimits::default())
        .await
        .unwrap_or_else(|fault| panic!("{start}: {fault}"));
    assert_eq!(instance.reconcile(request("a")).await, Ok(Outcome::Done));
    let lines = host.lines();
    assert!(lines.iter().all(|line| line.message == CONFIG), "{start}");
    lines.into_iter().map(|line| line.call).collect()
}

#[tokio::test]
async fn a_start_function_can_call_imports() {
    let calls = calls_with_log_lines("(func $main (call $say)) (start $main)").await;
    assert_eq!(calls, ["instantiation", "reconcile"]);
}

#[tokio::test]
async fn a_start_function_runs_before_initialize() {
    let start = "(global $started (mut i32) (i32.const 0))
        (func $main (call $say) (global.set $started (i32.const 1)))
        (func (export \"_initialize\") (if (i32.eqz (global.get $started)) (then unreachable)) (call $say))
        (start $main)";
    assert_eq!(calls_with_log_lines(start).await, ["instantiation", "instantiation", "reconcile"]);
}
