//! Results of `describe` and `reconcile`.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_plugin::{
    DescribeError, Exports, Failure, FaultKind, Form, InstanceLimits, MAX_MILLISECONDS, Outcome,
};

use crate::fake_host::FakeHost;
use crate::{code_of, contract_version, engine, fault, instance_of, module_of, request, wish};

#[tokio::test]
async fn describe_returns_the_descriptor_unchanged() {
    let code = code_of("done").await;
    let descriptor =
        code.describe(Arc::new(FakeHost::default()), &InstanceLimits::default()).await.expect("a descriptor");
    assert!(descriptor.starts_with(r#"{"apiVersion":"pilothouse.dev/v1alpha1","kind":"Plugin""#));
    assert!(descriptor.ends_with(r#""trigger":"self"}]}"#), "{descriptor}");
}

#[tokio::test]
async fn the_configuration_is_available_in_every_call_and_during_instantiation() {
    const CONFIG: &str = r#"{"colour":"blue"}"#;
    let host = Arc::new(FakeHost::with_config(CONFIG));
    // This guest reads the configuration by the import and ignores the argument of describe.
    let descriptor = code_of("config").await.describe(host.clone(), &InstanceLimits::default()).await;
    assert_eq!(descriptor.as_deref(), Ok(CONFIG));
    let mut instance = instance_of("config", &host, &InstanceLimits::default()).await;
    assert_eq!(instance.reconcile(request("a")).await, Ok(Outcome::Done));
    let lines: Vec<_> = host.lines().into_iter().map(|line| (line.call, line.message)).collect();
    let line = |call| (call, CONFIG.to_owned());
    assert_eq!(lines, [line("instantiation"), line("instantiation"), line("reconcile")]);
    let echoed = code_of("echo").await.describe(host, &InstanceLimits::default()).await;
    assert_eq!(echoed.as_deref(), Ok(CONFIG), "the argument is the same text");
}

#[tokio::test]
async fn an_error_of_describe_has_the_plugins_message() {
    // The first byte of the answer is the tag of the result; 1 means error.
    let refuses = crate::wat_of("done").replacen(r#""\00\00\00\00\00\04"#, r#""\01\00\00\00\00\04"#, 1);
    let code = engine().load(crate::assemble(&refuses)).await.expect("a plugin");
    let answer = code.describe(Arc::new(FakeHost::default()), &InstanceLimits::default()).await;
    assert!(matches!(answer, Err(DescribeError::Refused(text)) if text.contains("pilothouse.dev")));
}

#[tokio::test]
async fn a_compiled_plugin_has_the_metadata_of_its_file() {
    let module = module_of("index");
    let code = engine().load(module.clone()).await.expect("a plugin");
    assert_eq!(code.form(), Form::CoreModule);
    assert_eq!(code.size(), module.len());
    assert_eq!(code.exports(), Exports { reconcile: true, observe: false, index: true });
    assert_eq!(code.package_version(), contract_version());
    let cache = format!("pilothouse:controller/cache@{}", contract_version());
    assert!(code.imports().contains(&cache), "{:?}", code.imports());
    assert_eq!(code.digest().len(), 64);
    assert_eq!(code.digest(), engine().load(module).await.expect("a plugin").digest());
}

#[tokio::test]
async fn the_smallest_plugin_reconciles() {
    let host = Arc::new(FakeHost::default());
    let mut instance = instance_of("done", &host, &InstanceLimits::default()).await;
    for _ in 0..3 {
        assert_eq!(instance.reconcile(request("a")).await, Ok(Outcome::Done));
    }
    assert!(instance.is_usable());
}

#[tokio::test]
async fn an_object_is_read_through_its_handle() {
    let (answer, _) = wish("retry: \"quoted\" and äöü").await;
    assert_eq!(answer, Err(Failure::Retry("retry: \"quoted\" and äöü".to_owned())));
}

#[tokio::test]
async fn a_missing_object_is_none() {
    let host = Arc::new(FakeHost::default());
    let mut instance = instance_of("wish", &host, &InstanceLimits::default()).await;
    assert_eq!(instance.reconcile(request("nobody")).await, Ok(Outcome::Done));
}

#[tokio::test]
async fn requeue_after_is_capped_at_the_longest_duration() {
    let (answer, _) = wish("after").await;
    assert_eq!(answer, Ok(Outcome::RequeueAfter(Duration::from_millis(1500))));
    let (answer, _) = wish("most").await;
    assert_eq!(answer, Ok(Outcome::RequeueAfter(Duration::from_millis(MAX_MILLISECONDS.into()))));
}

#[tokio::test]
async fn retry_and_terminal_errors_are_distinct_and_leave_the_instance_usable() {
    let host = Arc::new(FakeHost::default());
    host.put_wish("a", "terminal: no such port");
    host.put_wish("b", "retry: not yet");
    let mut instance = instance_of("wish", &host, &InstanceLimits::default()).await;
    let terminal = Failure::Terminal("terminal: no such port".to_owned());
    assert_eq!(instance.reconcile(request("a")).await, Err(terminal));
    assert_eq!(instance.reconcile(request("b")).await, Err(Failure::Retry("retry: not yet".to_owned())));
    assert!(instance.is_usable());
    assert_eq!(instance.open_handles(), 0);
}

#[tokio::test]
async fn a_trap_names_the_functions_and_poisons_the_instance() {
    let host = Arc::new(FakeHost::default());
    host.put_wish("a", "panic");
    host.put_wish("b", "done");
    let mut instance = instance_of("wish", &host, &InstanceLimits::default()).await;
    let trap = fault(instance.reconcile(request("a")).await);
    let FaultKind::Trap { message, frames } = trap.kind() else { panic!("{trap}") };
    assert!(message.contains("unreachable"), "{message}");
    assert_eq!(frames[..2], ["inner", "reconcile"], "{frames:?}");
    assert_eq!(trap.to_string().lines().count(), 1);
    assert!(!instance.is_usable());
    assert_eq!(fault(instance.reconcile(request("b")).await).kind(), &FaultKind::Poisoned);
}

#[tokio::test]
async fn calling_a_missing_export_fails_and_leaves_the_instance_usable() {
    let host = Arc::new(FakeHost::default());
    let mut instance = instance_of("observer", &host, &InstanceLimits::default()).await;
    let missing = fault(instance.reconcile(request("a")).await);
    assert_eq!(missing.kind(), &FaultKind::NotExported("reconcile"));
    assert!(instance.is_usable());
}
