//! Isolation of guests: WASI gives them clocks, randomness and the log, but no files, network, environment or arguments.

use std::sync::Arc;

use pilothouse_plugin::{Failure, FaultKind, Instance, InstanceLimits, LogSource, Outcome};

use crate::fake_host::FakeHost;
use crate::{code_with_world, fault, instance_of, request};

/// The part of WASI's sockets that the guest imports, and a resource type that it exports. `CONTRACT` stands for the contract's version.
const WIT: &str = r"
package mine:types@0.1.0 {
  interface things { resource thing; }
}
package wasi:sockets@0.2.0 {
  interface network {
    resource network;
    enum error-code {
      unknown, access-denied, not-supported, invalid-argument, out-of-memory, timeout, concurrency-conflict, not-in-progress,
      would-block, invalid-state, new-socket-limit, address-not-bindable, address-in-use, remote-unreachable, connection-refused,
      connection-reset, connection-aborted, datagram-too-large, name-unresolvable, temporary-resolver-failure,
      permanent-resolver-failure
    }
    enum ip-address-family { ipv4, ipv6 }
    type ipv4-address = tuple<u8, u8, u8, u8>;
    type ipv6-address = tuple<u16, u16, u16, u16, u16, u16, u16, u16>;
    record ipv4-socket-address { port: u16, address: ipv4-address }
    record ipv6-socket-address { port: u16, flow-info: u32, address: ipv6-address, scope-id: u32 }
    variant ip-socket-address { ipv4(ipv4-socket-address), ipv6(ipv6-socket-address) }
  }
  interface instance-network { use network.{network}; instance-network: func() -> network; }
  interface tcp {
    use network.{network, error-code, ip-socket-address};
    resource tcp-socket {
      start-connect: func(network: borrow<network>, remote-address: ip-socket-address) -> result<_, error-code>;
    }
  }
  interface tcp-create-socket {
    use network.{error-code, ip-address-family};
    use tcp.{tcp-socket};
    create-tcp-socket: func(address-family: ip-address-family) -> result<tcp-socket, error-code>;
  }
  interface udp {
    use network.{network, error-code, ip-socket-address};
    resource udp-socket {
      start-bind: func(network: borrow<network>, local-address: ip-socket-address) -> result<_, error-code>;
    }
  }
  interface udp-create-socket {
    use network.{error-code, ip-address-family};
    use udp.{udp-socket};
    create-udp-socket: func(address-family: ip-address-family) -> result<udp-socket, error-code>;
  }
  interface ip-name-lookup {
    use network.{network, error-code};
    resource resolve-address-stream;
    resolve-addresses: func(network: borrow<network>, name: string) -> result<resolve-address-stream, error-code>;
  }
}
package guest:outside {
  world outside {
    include pilothouse:controller/reconciler@CONTRACT;
    import wasi:sockets/instance-network@0.2.0;
    import wasi:sockets/tcp@0.2.0;
    import wasi:sockets/tcp-create-socket@0.2.0;
    import wasi:sockets/udp@0.2.0;
    import wasi:sockets/udp-create-socket@0.2.0;
    import wasi:sockets/ip-name-lookup@0.2.0;
    export mine:types/things@0.1.0;
  }
}
";

async fn sockets(limits: &InstanceLimits) -> (Instance, Arc<FakeHost>) {
    let code = code_with_world("sockets", WIT, "outside").await;
    let host = Arc::new(FakeHost::default());
    let instance = code.instantiate(host.clone(), limits).await.unwrap_or_else(|fault| panic!("{fault}"));
    (instance, host)
}

#[tokio::test]
async fn there_is_no_network() {
    let (mut instance, host) = sockets(&InstanceLimits::default()).await;
    assert_eq!(instance.reconcile(request("a")).await, Ok(Outcome::Done));
    // 01 is access-denied, 20 permanent-resolver-failure.
    assert_eq!(host.messages(LogSource::Log), ["tcp  01", "udp  01", "name 20"]);
}

#[tokio::test]
async fn handles_of_a_guests_own_types_are_counted() {
    let (mut instance, _) = sockets(&InstanceLimits { handles: 500, ..InstanceLimits::default() }).await;
    assert_eq!(fault(instance.reconcile(request("m")).await).kind(), &FaultKind::Handles { allowed: 500 });
}

#[tokio::test(start_paused = true)]
async fn there_are_no_files_variables_or_arguments_and_sleeping_and_exiting_have_an_end() {
    let host = Arc::new(FakeHost::default());
    let mut instance = instance_of("outside", &host, &InstanceLimits::default()).await;
    let slept = fault(instance.reconcile(request("a")).await);
    // The computing time is real time, which may be above zero on a loaded machine.
    let slept = slept.to_string();
    let (before, after) = slept.split_once("computed for ").expect("the computing time");
    assert_eq!(before, "reconcile exceeded limits.reconcileTimeout of 30s (");
    assert!(after.ends_with(", then waited in wasi:io/poll)"), "{slept}");
    // The error number 08 is a bad descriptor; read, environ and args log a count.
    let lines =
        ["prestat 08", "open    08", "unlink  08", "read    00", "environ 00", "args    00", "clock   08"];
    assert_eq!(host.messages(LogSource::Log), lines);

    let mut instance = instance_of("outside", &host, &InstanceLimits::default()).await;
    let exited = fault(instance.reconcile(pilothouse_plugin::Request { attempt: 1, ..request("a") }).await);
    assert_eq!(exited.to_string(), "reconcile exited with code 1: a plugin must return, not exit");
    let answer = instance.reconcile(request("a")).await;
    assert!(matches!(answer, Err(Failure::Fault(fault)) if fault.kind() == &FaultKind::Poisoned));
}
