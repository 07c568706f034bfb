//! A long run of a Go plugin, whose memory must not grow.
//!
//! Go's runtime has two problems in a component, which the SDK works around. An allocation for the host's answers may start a garbage
//! collection, which reads the clock, but the component model forbids calls there. And the goroutine that finishes a collection is not
//! scheduled during short calls, so that memory only grows. Without the first workaround this test fails after thousands of calls, without
//! the second after tens of thousands.

use std::path::PathBuf;
use std::sync::Arc;

use pilothouse_plugin::{InstanceLimits, Outcome};

use crate::fake_host::FakeHost;
use crate::{engine, request};

const CALLS: usize = 400_000;
/// Maximum linear memory, in bytes. A new instance has less than 6 MiB.
const MAX_MEMORY: usize = 12 << 20;

fn go_plugin() -> Vec<u8> {
    let guests = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/target/guests");
    let path = PathBuf::from(guests).join("ttl-cleaner.wasm");
    std::fs::read(&path).unwrap_or_else(|error| {
        panic!("{}: {error}; run `cargo xtask build-guests ttl-cleaner`", path.display())
    })
}

#[tokio::test]
async fn the_memory_of_a_go_plugin_does_not_grow() {
    let code = engine().load(go_plugin()).await.unwrap_or_else(|error| panic!("{error}"));
    let host = Arc::new(FakeHost::default());
    host.put(
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default",
            "annotations":{"ttl":"24h"},"creationTimestamp":"2999-01-01T00:00:00Z"}}"#,
    );
    let mut instance =
        code.instantiate(host, &InstanceLimits::default()).await.unwrap_or_else(|fault| panic!("{fault}"));
    for call in 0..CALLS {
        let answer = instance.reconcile(request("a")).await;
        assert!(matches!(answer, Ok(Outcome::RequeueAfter(_))), "call {call}: {answer:?}");
        assert_eq!(instance.open_handles(), 0, "handles left behind by call {call}");
        assert!(instance.memory() <= MAX_MEMORY, "{} bytes of memory after {call} calls", instance.memory());
    }
}
