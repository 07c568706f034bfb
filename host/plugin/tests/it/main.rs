//! Integration tests: guests of `tests/guests/` in the real sandbox, with a fake host that records its calls.

mod abi_mistakes;
mod aliases;
mod cache_reads;
mod compile_cache;
mod compilers;
mod corrupt_files;
mod describe_and_reconcile;
mod fake_host;
mod go_memory;
mod guest_faults;
mod http_hoards;
mod instance_pool;
mod isolation;
mod limits;
mod loading;
mod module_start;
mod observe_and_index;
mod recorded_calls;
mod released_contracts;
mod wasi_output;
mod writes;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use pilothouse_model::ObjectKey;
use pilothouse_plugin::{
    CompiledPlugin, Engine, EngineOptions, Failure, Instance, InstanceLimits, Outcome, Request,
};

use fake_host::FakeHost;

/// Reads the WebAssembly text of a guest.
fn wat_of(name: &str) -> String {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/guests").join(name).with_extension("wat");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the version of the contract in `wit/`, which the guests of `tests/guests/` name.
fn contract_version() -> &'static str {
    let types = include_str!("../../../../wit/types.wit");
    let (_, declaration) = types.split_once("\npackage pilothouse:controller@").expect("a package");
    declaration.split_once(';').expect("the end of the declaration").0
}

/// Returns the WebAssembly text of a guest, built against another version of the contract.
fn wat_built_against(name: &str, version: &str) -> String {
    wat_of(name).replace(&format!("@{}", contract_version()), &format!("@{version}"))
}

/// Assembles a guest to a core module.
fn module_of(name: &str) -> Vec<u8> {
    assemble(&wat_of(name))
}

fn assemble(wat: &str) -> Vec<u8> {
    wat::parse_str(wat).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the engine that all tests share, as all plugins do in the host.
fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(EngineOptions::default()).expect("an engine"))
}

async fn code_of(name: &str) -> CompiledPlugin {
    engine().load(module_of(name)).await.unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Loads a guest whose imports are not in the contract. `wit` has the packages of its imports and the world, in which `CONTRACT` stands for
/// the contract's version.
async fn code_with_world(name: &str, wit: &str, world: &str) -> CompiledPlugin {
    let mut resolve = wit_parser::Resolve::default();
    let (package, _) =
        resolve.push_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit")).expect("wit/ resolves");
    assert_eq!(resolve.packages[package].name.name, "controller");
    let mut sources = wit_parser::SourceMap::new();
    let wit = wit.replace("CONTRACT", contract_version());
    sources.push_str("world.wit", format!("package guest:all;\n{wit}"));
    let parsed = sources.parse().map_err(|(_, error)| error).expect("it parses");
    resolve.push_group(parsed).expect("it resolves");
    let world = resolve.worlds.iter().find(|(_, known)| known.name == world).expect("the world").0;
    let mut module = module_of(name);
    wit_component::embed_component_metadata(
        &mut module,
        &resolve,
        world,
        wit_component::StringEncoding::UTF8,
    )
    .expect("a section");
    engine().load(module).await.unwrap_or_else(|error| panic!("{name}: {error}"))
}

async fn instance_of(name: &str, host: &Arc<FakeHost>, limits: &InstanceLimits) -> Instance {
    code_of(name)
        .await
        .instantiate(host.clone(), limits)
        .await
        .unwrap_or_else(|fault| panic!("{name}: {fault}"))
}

/// Returns a request for the ConfigMap `default/NAME`.
fn request(name: &str) -> Request {
    Request {
        watch: "configmaps".into(),
        key: ObjectKey::new("default", name),
        reasons: vec![pilothouse_plugin::Reason::Updated, pilothouse_plugin::Reason::Retry],
        attempt: 0,
        extra: vec![("colour".to_owned(), "blue".to_owned())],
        event_at: None,
        host_context: None,
    }
}

/// Reconciles a ConfigMap in a new instance of `wish.wat`, which does what the ConfigMap's field `data.wish` says.
async fn wish(wish: &str) -> (Result<Outcome, Failure>, Arc<FakeHost>) {
    wish_with(wish, FakeHost::default(), &InstanceLimits::default()).await
}

async fn wish_with(
    wish: &str,
    host: FakeHost,
    limits: &InstanceLimits,
) -> (Result<Outcome, Failure>, Arc<FakeHost>) {
    let host = Arc::new(host);
    host.put_wish("a", wish);
    let mut instance = instance_of("wish", &host, limits).await;
    let answer = instance.reconcile(request("a")).await;
    (answer, host)
}

/// Returns the fault in an answer, and panics if there is none.
fn fault(answer: Result<Outcome, Failure>) -> pilothouse_plugin::Fault {
    match answer {
        Err(Failure::Fault(fault)) => fault,
        other => panic!("expected a fault, got {other:?}"),
    }
}
