//! What a guest can make the host hold through WASI's HTTP without sending a request.

use std::sync::Arc;

use pilothouse_plugin::{FaultKind, HostMemoryKind, Instance, InstanceLimits, LogSource, Outcome, Request};

use crate::fake_host::FakeHost;
use crate::{code_with_world, fault, request};

/// The part of WASI's HTTP that the guest imports. `CONTRACT` stands for the contract's version.
const WIT: &str = r"
package wasi:io@0.2.0 {
  interface error { resource error; }
  interface streams {
    use error.{error};
    variant stream-error { last-operation-failed(error), closed }
    resource output-stream {
      check-write: func() -> result<u64, stream-error>;
      write: func(contents: list<u8>) -> result<_, stream-error>;
    }
  }
}
package wasi:http@0.2.0 {
  interface types {
    use wasi:io/streams@0.2.0.{output-stream};
    variant method { get, head, post, put, delete, connect, options, trace, patch, other(string) }
    variant scheme { HTTP, HTTPS, other(string) }
    variant header-error { invalid-syntax, forbidden, immutable }
    resource fields {
      constructor();
      append: func(name: string, value: list<u8>) -> result<_, header-error>;
    }
    resource outgoing-body {
      write: func() -> result<output-stream>;
    }
    resource outgoing-request {
      constructor(headers: fields);
      body: func() -> result<outgoing-body>;
      set-method: func(method: method) -> result;
      set-path-with-query: func(path-with-query: option<string>) -> result;
      set-authority: func(authority: option<string>) -> result;
      set-scheme: func(scheme: option<scheme>) -> result;
    }
  }
}
package guest:hoard {
  world hoard {
    include pilothouse:controller/reconciler@CONTRACT;
    import wasi:http/types@0.2.0;
    import wasi:io/streams@0.2.0;
  }
}
";

async fn hoarder(limits: &InstanceLimits) -> (Instance, Arc<FakeHost>) {
    let code = code_with_world("http_hoard", WIT, "hoard").await;
    let host = Arc::new(FakeHost::default().with_host_memory(64 << 20));
    let instance = code.instantiate(host.clone(), limits).await.unwrap_or_else(|fault| panic!("{fault}"));
    (instance, host)
}

/// A request to create `number` resources, or one with a text of that length.
fn hoard(what: &str, number: u32) -> Request {
    Request { attempt: number, ..request(what) }
}

#[tokio::test]
async fn texts_of_a_request_are_bounded_before_it_is_sent() {
    for (what, allowed) in [("method", 256), ("path", 16 << 10), ("authority", 1 << 10), ("scheme", 64)] {
        let (mut instance, host) = hoarder(&InstanceLimits::default()).await;
        assert_eq!(instance.reconcile(hoard(what, allowed)).await, Ok(Outcome::Done));
        assert_eq!(instance.reconcile(hoard(what, allowed + 1)).await, Ok(Outcome::Done));
        // 0 is success, 1 an error that the guest can handle.
        assert_eq!(host.messages(LogSource::Log), ["0", "1"], "{what}");
    }
}

#[tokio::test]
async fn fields_are_bounded() {
    let (mut instance, host) = hoarder(&InstanceLimits::default()).await;
    assert_eq!(instance.reconcile(hoard("fields", 16_000)).await, Ok(Outcome::Done));
    assert_eq!(host.messages(LogSource::Log), ["0"]);
    let exceeded = fault(instance.reconcile(hoard("fields", 16 << 10)).await);
    assert!(exceeded.to_string().contains("total size of fields exceeds limit"), "{exceeded}");
}

#[tokio::test]
async fn the_number_of_wasi_resources_is_bounded_whatever_the_limit_of_handles_is() {
    let limits = InstanceLimits { handles: 100_000, ..InstanceLimits::default() };
    let (mut instance, _) = hoarder(&limits).await;
    let exceeded = fault(instance.reconcile(hoard("empty", 2_000)).await);
    assert_eq!(exceeded.kind(), &FaultKind::WasiResources { allowed: 1_024 });
    assert_eq!(
        exceeded.to_string(),
        "reconcile exceeded 1024 resources of WASI: drop streams, pollables and HTTP messages that are no longer needed"
    );
}

#[tokio::test]
async fn an_instance_that_keeps_wasi_resources_is_replaced() {
    let (mut instance, _) = hoarder(&InstanceLimits::default()).await;
    assert_eq!(instance.reconcile(hoard("empty", 500)).await, Ok(Outcome::Done));
    assert!(instance.is_usable());
    assert_eq!(instance.reconcile(hoard("empty", 100)).await, Ok(Outcome::Done));
    assert!(!instance.is_usable());
}

#[tokio::test]
async fn http_messages_are_charged_to_the_host_memory_until_the_instance_is_dropped() {
    for (what, number, at_least) in [("kept", 100, 800_000), ("bodies", 100, 3_200_000)] {
        let (mut instance, host) = hoarder(&InstanceLimits::default()).await;
        assert_eq!(instance.reconcile(hoard(what, number)).await, Ok(Outcome::Done));
        let used = host.host_memory.used_by(HostMemoryKind::HttpMessages);
        assert!((at_least..2 * at_least).contains(&used), "{what}: {used}");
        drop(instance);
        assert_eq!(host.host_memory.used(), 0, "{what}");
    }
}

#[tokio::test]
async fn http_messages_beyond_the_host_memory_end_the_call_while_they_are_created() {
    for what in ["kept", "bodies"] {
        let (mut instance, host) = hoarder(&InstanceLimits::default()).await;
        host.host_memory.set_limit(1 << 20);
        let exceeded = fault(instance.reconcile(hoard(what, u32::MAX)).await);
        let FaultKind::HostMemory(problem) = exceeded.kind() else { panic!("{what}: {exceeded}") };
        assert_eq!(problem.kind, HostMemoryKind::HttpMessages, "{exceeded}");
        assert!(problem.wanted < (1 << 20) + (256 << 10), "{what}: {exceeded}");
    }
}
