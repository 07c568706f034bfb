//! A Go plugin that runs for long. Go's runtime has two faults as a component, which its SDK mends: an allocation for the host's answers may
//! start a garbage collection, which reads the clock, where the component model forbids calls; and what ends a collection gets no turn in
//! short calls, so that memory only grows. Without the first mend this fails after some thousands of calls, without the second after some ten
//! thousands.

use std::path::PathBuf;
use std::sync::Arc;

use pilothouse_plugin::{Limits, Outcome};

use crate::fake_host::FakeHost;
use crate::{engine, request};

const CALLS: usize = 400_000;
/// A new instance has less than 6 MiB.
const MEMORY: usize = 12 << 20;

fn go_plugin() -> Vec<u8> {
    let guests = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/target/guests");
    let path = PathBuf::from(guests).join("ttl-cleaner.wasm");
    std::fs::read(&path).unwrap_or_else(|error| {
        panic!("{}: {error}; run `cargo xtask build-guests ttl-cleaner`", path.display())
    })
}

#[tokio::test]
async fn a_go_plugin_runs_for_long_in_little_memory() {
    let code = engine().load(go_plugin()).await.unwrap_or_else(|error| panic!("{error}"));
    let host = Arc::new(FakeHost::default());
    host.put(
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default",
            "annotations":{"ttl":"24h"},"creationTimestamp":"2999-01-01T00:00:00Z"}}"#,
    );
    let mut instance =
        code.instantiate(host, &Limits::default()).await.unwrap_or_else(|fault| panic!("{fault}"));
    for call in 0..CALLS {
        let answer = instance.reconcile(request("a")).await;
        assert!(matches!(answer, Ok(Outcome::RequeueAfter(_))), "call {call}: {answer:?}");
        assert_eq!(instance.open_handles(), 0, "handles left behind by call {call}");
        assert!(instance.memory() <= MEMORY, "{} bytes of memory after {call} calls", instance.memory());
    }
}
