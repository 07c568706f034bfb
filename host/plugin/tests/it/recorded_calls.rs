//! What a recorder learns about guests.

use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_model::Object;
use pilothouse_plugin::{
    CallRecorder, GuestCall, GuestCallRecorder, GuestResult, HostCall, InstanceLimits, Outcome, Request,
    StubHost,
};

use crate::{code_of, request};

/// Writes a line for everything that it records.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl CallRecorder for Lines {
    fn begin(&self, call: GuestCall) -> Option<Box<dyn GuestCallRecorder>> {
        let is_describe = matches!(call, GuestCall::Describe { .. });
        self.0.lock().push(format!("begin {}", call.name()));
        (!is_describe).then(|| Box::new(self.clone()) as Box<dyn GuestCallRecorder>)
    }
}

impl GuestCallRecorder for Lines {
    fn host_call(&mut self, call: HostCall) {
        let (request, answer) = (&call.request, call.answer.to_json());
        self.0.lock().push(format!("{} {} = {answer}", request.function(), request.arguments()));
    }

    fn end(self: Box<Self>, result: GuestResult) {
        self.0.lock().push(format!("end {}", result.to_json()));
    }
}

fn host(lines: &Lines) -> StubHost {
    let map = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}}"#;
    let map = Object::from_json(map).expect("an object");
    StubHost::new("{}").repeatable().with_object(map).recorded_by(Arc::new(lines.clone()))
}

#[tokio::test]
async fn a_recorder_receives_every_call_of_a_reconcile_in_order() {
    let lines = Lines::default();
    let code = code_of("reads").await;
    let created = code.instantiate(Arc::new(host(&lines)), &InstanceLimits::default()).await;
    let mut instance = created.expect("an instance");
    let instantiated = lines.take();
    assert_eq!(instantiated.first().map(String::as_str), Some("begin instantiation"));
    assert_eq!(instantiated.last().map(String::as_str), Some("end \"ok\""));
    assert!(instantiated[1].starts_with("random {\"length\":16}"), "{instantiated:?}");

    assert_eq!(instance.reconcile(request("a")).await, Ok(Outcome::Done));
    let reconciled = lines.take();
    let names: Vec<_> = reconciled.iter().map(|line| line.split(' ').next().expect("a word")).collect();
    assert_eq!(names, ["begin", "cache.get", "log", "end"], "{reconciled:?}");
    assert!(
        reconciled[1].starts_with(r#"cache.get {"key":"default/a","watch":"configmaps"}"#),
        "{reconciled:?}"
    );
    assert!(reconciled[1].contains(r#"= {"object":{"apiVersion":"v1""#), "{reconciled:?}");
    assert_eq!(reconciled[3], "end \"done\"");
}

#[tokio::test]
async fn random_bytes_are_one_call() {
    let lines = Lines::default();
    let code = code_of("stderr").await;
    let created = code.instantiate(Arc::new(host(&lines)), &InstanceLimits::default()).await;
    let mut instance = created.expect("an instance");
    lines.take();
    let reconciled = instance.reconcile(Request { attempt: 2, ..request("a") }).await;
    assert_eq!(reconciled, Ok(Outcome::Done));
    let lines = lines.take();
    let random: Vec<_> = lines.iter().filter(|line| line.starts_with("random")).collect();
    assert!(random.len() == 1 && random[0].starts_with("random {\"length\":8}"), "{random:?}");
}

#[tokio::test]
async fn a_call_that_the_recorder_declines_is_not_recorded() {
    let lines = Lines::default();
    let code = code_of("reads").await;
    let described = code.describe(Arc::new(host(&lines)), &InstanceLimits::default()).await;
    assert!(described.is_ok(), "{described:?}");
    assert_eq!(lines.take().last().map(String::as_str), Some("begin describe"));
}

#[tokio::test]
async fn a_trap_ends_the_call_with_a_fault() {
    let lines = Lines::default();
    let code = code_of("trap").await;
    let created = code.instantiate(Arc::new(host(&lines)), &InstanceLimits::default()).await;
    assert!(created.expect("an instance").reconcile(request("a")).await.is_err());
    let lines = lines.take();
    let end = lines.last().expect("a line");
    assert!(end.starts_with(r#"end {"fault":"#), "{lines:?}");
}
