//! `observe` and `index.values`.

use std::sync::Arc;

use pilothouse_model::{Notification, Object};
use pilothouse_plugin::{
    DescribeError, Failure, FaultKind, InstanceLimits, LogLevel, LogSource, Misuse, Observation,
};

use crate::fake_host::FakeHost;
use crate::{assemble, engine, instance_of, wat_of};

fn object(name: &str, version: &str) -> Object {
    Object::from_json(format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"default","resourceVersion":"{version}"}}}}"#
    ))
    .expect("a valid object")
}

fn observation(notification: Notification) -> Observation {
    Observation { watch: "configmaps".into(), notification }
}

#[tokio::test]
async fn a_batch_is_delivered_in_order_with_its_objects() {
    let host = Arc::new(FakeHost::default());
    let mut instance = instance_of("observer", &host, &InstanceLimits::default()).await;
    let batch = [
        observation(Notification::Added { object: object("a", "1"), initial: true }),
        observation(Notification::Updated { old: object("b", "1"), new: object("b", "2") }),
        observation(Notification::Deleted { last: object("c", "1"), final_state_unknown: true }),
    ];
    for _ in 0..2 {
        assert_eq!(instance.observe(&batch).await, Ok(()));
    }
    let lines: Vec<_> = host.lines().into_iter().map(|line| (line.call, line.level, line.message)).collect();
    let once = [
        ("observe", LogLevel::Info, "a".to_owned()),
        ("observe", LogLevel::Debug, "\"a\"".to_owned()),
        ("observe", LogLevel::Info, "b".to_owned()),
        ("observe", LogLevel::Debug, "\"b\"".to_owned()),
        ("observe", LogLevel::Warn, "c".to_owned()),
    ];
    assert_eq!(lines, [once.clone(), once].concat());
    assert_eq!(instance.open_handles(), 0);
}

#[tokio::test]
async fn a_trap_in_observe_is_a_fault_of_that_call() {
    let host = Arc::new(FakeHost::default());
    let mut instance = instance_of("observer", &host, &InstanceLimits::default()).await;
    let poison = observation(Notification::Added { object: object("poison", "1"), initial: false });
    let Err(Failure::Fault(fault)) = instance.observe(&[poison]).await else { panic!("it traps") };
    assert_eq!(fault.call(), "observe");
    assert!(!instance.is_usable());
    assert_eq!(host.messages(LogSource::Log), ["poison"]);
}

#[tokio::test]
async fn index_values_have_no_duplicates() {
    let host = Arc::new(FakeHost::default());
    let mut instance = instance_of("index", &host, &InstanceLimits::default()).await;
    for name in ["a", "b"] {
        let values = instance.index_values("names", &object(name, "1")).await.expect("values");
        assert_eq!(values, ["ConfigMap", name]);
    }
    assert_eq!(instance.open_handles(), 0);
}

#[tokio::test]
async fn index_values_may_not_read_the_cache() {
    let host = Arc::new(FakeHost::default());
    let mut instance = instance_of("index", &host, &InstanceLimits::default()).await;
    let fault = instance.index_values("others", &object("a", "1")).await.expect_err("it asks the cache");
    let expected = Misuse::UnavailableInCall { function: "cache.has-synced", call: "index.values" };
    assert_eq!(fault.kind(), &FaultKind::Misuse(expected));
    assert_eq!(
        fault.to_string(),
        "index.values trapped: cache.has-synced isn't available during index.values"
    );
}

#[tokio::test]
async fn describe_may_not_read_the_cache() {
    let has_synced =
        "(result i32)\n    (drop (call $has-synced (i32.const 0) (i32.const 0)))\n    (i32.const 16))";
    let text = wat_of("index").replacen("(result i32)\n    (i32.const 16))", has_synced, 1);
    let code = engine().load(assemble(&text)).await.expect("a plugin");
    let answer = code.describe(Arc::new(FakeHost::default()), &InstanceLimits::default()).await;
    let Err(DescribeError::Fault(fault)) = answer else { panic!("{answer:?}") };
    let expected = Misuse::UnavailableInCall { function: "cache.has-synced", call: "describe" };
    assert_eq!(fault.kind(), &FaultKind::Misuse(expected));
}
