//! Guests of `tests/guests/` in the real sandbox, before a host that only remembers what it is asked.

mod answers;
mod caching;
mod fake_host;
mod faulty;
mod limits;
mod loading;
mod long_run;
mod mutation;
mod observing;
mod outside;
mod pooling;
mod reading;
mod speaking;
mod writing;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use pilothouse_model::ObjectKey;
use pilothouse_plugin::{Code, Engine, EngineOptions, Failure, Instance, Limits, Outcome, Request};

use fake_host::FakeHost;

/// The text of a guest.
fn wat_of(name: &str) -> String {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/guests").join(name).with_extension("wat");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A guest as a core module.
fn module_of(name: &str) -> Vec<u8> {
    assemble(&wat_of(name))
}

fn assemble(wat: &str) -> Vec<u8> {
    wat::parse_str(wat).unwrap_or_else(|error| panic!("{error}"))
}

/// One engine for all tests, as in the host.
fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(EngineOptions::default()).expect("an engine"))
}

async fn code_of(name: &str) -> Code {
    engine().load(module_of(name)).await.unwrap_or_else(|error| panic!("{name}: {error}"))
}

async fn instance_of(name: &str, host: &Arc<FakeHost>, limits: &Limits) -> Instance {
    code_of(name)
        .await
        .instantiate(host.clone(), limits)
        .await
        .unwrap_or_else(|fault| panic!("{name}: {fault}"))
}

/// Work on the ConfigMap `default/NAME`.
fn request(name: &str) -> Request {
    Request {
        watch: "configmaps".into(),
        key: ObjectKey::new("default", name),
        reasons: vec![pilothouse_plugin::Reason::Updated, pilothouse_plugin::Reason::Retry],
        attempt: 0,
        extra: vec![("colour".to_owned(), "blue".to_owned())],
    }
}

/// Reconciles a ConfigMap with this wish in a new instance of `wish.wat`.
async fn wish(wish: &str) -> (Result<Outcome, Failure>, Arc<FakeHost>) {
    wish_with(wish, FakeHost::default(), &Limits::default()).await
}

async fn wish_with(wish: &str, host: FakeHost, limits: &Limits) -> (Result<Outcome, Failure>, Arc<FakeHost>) {
    let host = Arc::new(host);
    host.put_wish("a", wish);
    let mut instance = instance_of("wish", &host, limits).await;
    let answer = instance.reconcile(request("a")).await;
    (answer, host)
}

/// The fault in an answer.
fn fault(answer: Result<Outcome, Failure>) -> pilothouse_plugin::Fault {
    match answer {
        Err(Failure::Fault(fault)) => fault,
        other => panic!("expected a fault, got {other:?}"),
    }
}
